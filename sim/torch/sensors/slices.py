"""Which numbers of a reading are a sensor's, and why a sensor has none."""

from collections.abc import Collection

from sim.errors import ModelError


class Slices(dict[str, slice]):
    """Where the numbers of each sensor are in a reading; asked for another sensor, it raises what that one lacks.

    Args:
        known: names of the model's sensors.
        measured: those that the simulator can read.
    """

    def __init__(self, known: Collection[str], measured: Collection[str]):
        super().__init__()
        self.known, self.measured = known, measured

    def __missing__(self, name: str) -> slice:
        raise self.why_not(name)

    def why_not(self, name: str) -> ModelError:
        """What stands against reading a sensor that isn't read."""
        if name not in self.known:
            return ModelError(f"Sensors: there is no sensor '{name}'; the model has {', '.join(self.known) or 'none'}")
        if name not in self.measured:
            return ModelError(
                f"Sensors: sensor '{name}' measures contacts or forces; give the simulator contact_sensors=['{name}']"
            )
        return ModelError(f"Sensors: sensor '{name}' is not read; add it to names, which are {', '.join(self)}")
