"""Newton's method for the bodies of a world that press on each other, one island of them after the other."""
