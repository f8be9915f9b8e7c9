"""Newton's method on a lane group of several worlds at a time, in the vector registers of a processor."""
