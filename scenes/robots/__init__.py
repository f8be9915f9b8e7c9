"""Hand-written robot files. A package, so that they are part of an installation."""
