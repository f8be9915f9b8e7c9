"""``python -m backswing``: the command line, see :mod:`sim.cli.main`."""

import sys

from sim.cli.main import main

sys.exit(main())
