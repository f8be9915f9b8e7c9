"""Slices of a reading by sensor, with reasons for missing ones."""

from collections.abc import Collection

from sim.errors import ModelError


class Slices(dict[str, slice]):
    """Slice of a reading for each sensor; a lookup of another sensor raises an error that says why it isn't read.

    Args:
        known: names of the model's sensors.
        measured: names of those that the simulator can read.
    """

    def __init__(self, known: Collection[str], measured: Collection[str]):
        super().__init__()
        self.known, self.measured = known, measured

    def __missing__(self, name: str) -> slice:
        raise self.why_not(name)

    def why_not(self, name: str) -> ModelError:
        """Return the reason why a sensor isn't read."""
        if name not in self.known:
            return ModelError(f"Sensors: unknown sensor '{name}'; the model has {', '.join(self.known) or 'none'}")
        if name not in self.measured:
            return ModelError(
                f"Sensors: sensor '{name}' measures contacts or forces; give the simulator contact_sensors=['{name}']"
            )
        return ModelError(f"Sensors: sensor '{name}' is not read; add it to names, which are {', '.join(self)}")
