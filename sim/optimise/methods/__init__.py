"""Methods that solve a problem, and what they share."""
