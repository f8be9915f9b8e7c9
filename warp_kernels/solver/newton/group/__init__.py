"""Newton's method on a lane group: one world per SIMD lane of a CPU's vector registers."""
