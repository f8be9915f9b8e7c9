"""Which bodies are near each other in a world of many: a grid of cells, in time that grows with the number of bodies."""
