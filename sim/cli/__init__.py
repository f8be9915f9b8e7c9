"""The command line, with one file per command; each has ``add_arguments`` and ``run``."""
