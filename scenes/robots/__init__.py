"""Hand-written robot files. They are a package so that installations include them."""
