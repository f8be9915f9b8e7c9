"""Newton's method on worlds of many trees, island by island."""
