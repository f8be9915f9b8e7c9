"""The public names of :mod:`sim.importers.untrusted`."""

from sim.importers.untrusted import Limits as Limits
from sim.importers.untrusted import ReadingProcess as ReadingProcess
