"""Points and balls on planes."""
