"""Contact points of shapes."""
