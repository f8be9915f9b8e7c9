"""The constraints of a step: their rows, the Delassus matrix, projected Gauss-Seidel, and the way back through all of it."""
