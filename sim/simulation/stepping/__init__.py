"""One step of some of the worlds: working arrays, launches and adjoint, captured as graphs."""
