"""What each kind of constraint row is: its velocity, its bias, its softness, and their derivatives."""
