"""One step of some of the worlds: its working arrays, its launches and its adjoint, captured as graphs."""
