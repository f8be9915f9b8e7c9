"""Arrays of a trajectory that are records of its rollout: their names, and their access."""

from typing import Any, Generic, Protocol, TypeVar, cast

from sim.arrays.host_memory import AnyArray, HostArray

# Arrays of a trajectory that have the same name as a record.
RECORDED = (
    "q",
    "qd",
    "tau",
    "control",
    "bad_state",
    "contact_force",
    "act",
    "stages",
    "solved",
    "kinematic_qd",
    "active",
    "q_low",
    "broken",
)
# Those that the caller gives.
INPUTS = ("tau", "control", "kinematic_qd", "active")


class HasRows(Protocol):
    """Trajectory, seen by its arrays."""

    _rows: dict[str, Any]


Rows = TypeVar("Rows")


class Recorded(Generic[Rows]):
    """Array of a trajectory, which becomes a Warp array when it is first read: that takes longer than a step."""

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    def __get__(self, trajectory: "HasRows | None", owner: type) -> Rows:
        if trajectory is None:
            return cast(Rows, self)  # of the class, as tools for documentation read it
        rows = trajectory._rows[self._name]
        if isinstance(rows, HostArray):
            rows = trajectory._rows[self._name] = rows.warp()
        return cast(Rows, rows)

    def __set__(self, trajectory: "HasRows", rows: AnyArray | None) -> None:
        trajectory._rows[self._name] = rows
