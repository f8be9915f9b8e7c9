"""What Newton's method keeps of the worlds of a shard."""
