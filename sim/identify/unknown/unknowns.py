"""Unknown quantities of a model, by name: map from a search's free numbers to the model's parameters."""

import re
from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import torch

from sim.arrays.device_values import unused_entries
from sim.errors import ModelError
from sim.identify.regressor import dof_names
from sim.identify.unknown.blocks import BODY, MASSLESS, Block, Bodies, Numbers, Target, Vector
from sim.identify.unknown.priors import InertialPrior, LogNormal, Normal, Prior, require_prior
from sim.model.checks import names_in, require_type
from sim.model.joint_types import JOINT_TYPES
from sim.model.model import Model
from sim.model.parameters import NOT_NEGATIVE, PARAMETERS
from sim.simulation.stepping.collision import may_touch

OF_LINKS = ("mass", "com", "inertial")
OF_GEOMETRIES = (
    "friction", "friction_across", "restitution", "torsional_friction", "rolling_friction", "contact_stiffness",
    "contact_damping",
)  # fmt: skip
OF_PAIRS = ("friction", "friction_across", "torsional_friction", "rolling_friction", "rolling_friction_across")
OF_JOINTS = ("damping", "friction_loss", "armature", "stiffness", "rest_position", "torque_offset")
OF_ACTUATORS = (
    "gear", "kp", "kd", "gain", "offset", "time_constant", "delay", "ki", "resistance", "stall_force", "no_load_speed",
    "muscle_peak_force", "muscle_fibre_length", "muscle_slack_length",
)  # fmt: skip
QUANTITIES = dict.fromkeys([*OF_LINKS, *OF_JOINTS, *OF_GEOMETRIES, *OF_PAIRS, *OF_ACTUATORS])
# These need a positive first guess: at zero the simulator drops their constraints, and there is no derivative.
NO_SLOPE_AT_ZERO = (
    "friction_loss", "torsional_friction", "rolling_friction", "pair_torsional_friction", "pair_rolling_friction",
)  # fmt: skip
# Values of the parameters that a model doesn't store.
TORQUE_OFFSET = "torque_offset"


class UnknownSet(Protocol):
    """Unknowns of a search: free numbers, and the parameters that they determine.

    Attributes:
        names: names of the reported numbers [m].
        units: their units [m].
        start: free numbers at the start of a search [p].
        lower, upper: their bounds [p].
        scale: typical size of their changes [p].
        touched: names of the parameters that depend on them.
    """

    @property
    def names(self) -> tuple[str, ...]:  # noqa: D102
        ...

    @property
    def units(self) -> tuple[str, ...]:  # noqa: D102
        ...

    @property
    def start(self) -> torch.Tensor:  # noqa: D102
        ...

    @property
    def lower(self) -> np.ndarray:  # noqa: D102
        ...

    @property
    def upper(self) -> np.ndarray:  # noqa: D102
        ...

    @property
    def scale(self) -> np.ndarray:  # noqa: D102
        ...

    @property
    def touched(self) -> tuple[str, ...]:  # noqa: D102
        ...

    def parameters(self, x: torch.Tensor) -> dict[str, torch.Tensor]:
        """Return whole parameters [..., n, ...] for free numbers [..., p]."""
        ...

    def readings(self, x: torch.Tensor) -> torch.Tensor:
        """Return the reported numbers [..., m], for free numbers [..., p]."""
        ...

    def prior_deviations(self, x: torch.Tensor) -> torch.Tensor:
        """Return deviations from the priors, in standard deviations [..., k]."""
        ...


class Unknowns:
    """Unknown quantities by name; see :class:`UnknownSet` for their attributes.

    Args:
        model: the model.
        wanted: for each name, such as "mass of forearm", "damping of elbow", "friction of ground" or "inertial of
            payload", the prior (None: no prior). After "of" comes a link, joint, geometry or actuator. A link means all
            its colliding geometries, and "*" in a name matches everything that isn't named explicitly.

    Raises:
        ModelError: for a name that the model lacks, an unknown quantity, two names of the same numbers, a prior of the
            wrong type, and a first guess without a derivative.

    Example:
        >>> import numpy as np
        >>> import sim
        >>> from sim.identify import Unknowns
        >>> scene = sim.ModelBuilder()
        >>> _ = scene.add_link("bob", mass=2.0, com=(0, 0, -0.5), inertia=0.1 * np.eye(3))
        >>> _ = scene.add_joint("hinge", "revolute", child="bob", axis=(0, 1, 0))
        >>> model = scene.finalize("float64")
        >>> unknowns = Unknowns(model, ["mass of bob", "damping of *"])
        >>> unknowns.names, unknowns.units
        (('mass of bob', 'damping of hinge'), ('kg', 'N m s/rad'))
    """

    def __init__(self, model: Model, wanted: Mapping[str, Prior | None] | Sequence[str]):
        require_type("model", model, Model, "a sim.Model; for a robot give robot.model")
        named = names_in("unknowns", wanted)
        given = wanted if isinstance(wanted, Mapping) else dict.fromkeys(named)
        if not given:
            raise ModelError("no unknowns: name at least one, such as 'mass of forearm'")
        self.model = model
        self.blocks = _distinct(model, given)
        self.names = tuple(name for block in self.blocks for name, _ in block.labels)
        self.units = tuple(unit for block in self.blocks for _, unit in block.labels)
        self.start = torch.cat([block.start for block in self.blocks])
        self.lower = np.concatenate([np.full(len(block.start), block.lower) for block in self.blocks])
        self.upper = np.concatenate([np.full(len(block.start), block.upper) for block in self.blocks])
        self.scale = np.concatenate([block.scale for block in self.blocks])
        self.touched = tuple(dict.fromkeys(target.parameter for block in self.blocks for target in block.targets))

    def parameters(self, x: torch.Tensor) -> dict[str, torch.Tensor]:
        """Return the parameters, see :class:`UnknownSet`."""
        values = {}
        for name in self.touched:
            present = torch.from_numpy(_present(self.model, name)).to(x)
            values[name] = present.expand(*x.shape[:-1], *present.shape).clone()
        for block, part in self._parts(x):
            for target, value in zip(block.targets, block.values(part), strict=True):
                dim = x.dim() - 1
                for entry in target.entries:
                    values[target.parameter].select(dim, entry).copy_(value)
        return values

    def readings(self, x: torch.Tensor) -> torch.Tensor:
        """Return the reported numbers, see :class:`UnknownSet`."""
        return torch.cat([block.readings(part) for block, part in self._parts(x)], dim=-1)

    def prior_deviations(self, x: torch.Tensor) -> torch.Tensor:
        """Return deviations from the priors, see :class:`UnknownSet`."""
        found = [block.prior_deviations(part) for block, part in self._parts(x)]
        return torch.cat(found, dim=-1) if found else x[..., :0]

    def _parts(self, x: torch.Tensor) -> list[tuple[Block, torch.Tensor]]:
        return list(zip(self.blocks, x.split([len(block.start) for block in self.blocks], dim=-1), strict=True))


def _present(model: Model, name: str) -> np.ndarray:
    return np.zeros(model.nv) if name == TORQUE_OFFSET else model.parameters[name]


def _blocks(model: Model, name: str, prior: Prior | None, taken: Set[tuple[str, int]] = frozenset()) -> list[Block]:
    """Return the unknowns of one name, several with a star, without parameters and entries that are taken."""
    quantity, _, pattern = name.partition(" of ")
    if not pattern:
        raise ModelError(f"unknown '{name}': expected a quantity and its owner, such as 'mass of forearm'")
    if quantity not in QUANTITIES:
        raise ModelError(f"unknown '{name}': no quantity '{quantity}'; known are {', '.join(QUANTITIES)}")
    kinds = _kinds(model, quantity)
    found = [
        (parameter, owner, entries)
        for parameter, owners in kinds
        for owner, entries in owners.items()
        if re.fullmatch(".*".join(map(re.escape, pattern.split("*"))), owner)
    ]
    if not found:
        owners = [owner for _, owners in kinds for owner in owners]
        ruled = ", or its pairs have their own" if quantity in OF_PAIRS and model.pair_frictions else ""
        raise ModelError(f"unknown '{name}': the model has {quantity} of {', '.join(owners) or 'nothing'}{ruled}")
    if "*" not in pattern:  # a link and its geometry may share a name; the first is enough
        found = found[:1]
    blocks, seen = [], set(taken)
    for parameter, owner, entries in found:
        numbers = {(each, k) for each in (BODY if parameter == "inertial" else (parameter,)) for k in entries}
        if seen.isdisjoint(numbers):  # a link has the entries of its geometries, which come first
            blocks.append(_block(model, quantity, parameter, owner, entries, prior))
            seen |= numbers
    return blocks


def _distinct(model: Model, wanted: Mapping[str, Prior | None]) -> list[Block]:
    """Return all unknowns, in the order of their names; a name with a star excludes entries that others name."""
    named = {name: _blocks(model, name, prior) for name, prior in wanted.items() if "*" not in name}
    taken = {number for blocks in named.values() for each in blocks for number in each.numbers}
    distinct: list[Block] = []
    seen: dict[tuple[str, int], str] = {}
    for name, prior in wanted.items():
        for block in named[name] if name in named else _blocks(model, name, prior, taken):
            asked = block.name if block.name == name else f"{block.name}' of '{name}"
            for number in block.numbers:
                other = seen.setdefault(number, asked)
                if other != asked:
                    raise ModelError(f"'{asked}' and '{other}' are the same numbers; remove one")
            distinct.append(block)
    return distinct


def _kinds(model: Model, quantity: str) -> list[tuple[str, dict[str, list[int]]]]:
    """Return the parameters that a quantity may mean, each with the entries of its owners."""
    if quantity in OF_LINKS:
        return [(quantity, {name: [link] for link, name in enumerate(model.link_names)})]
    if quantity in OF_ACTUATORS:
        parameter = f"actuator_{quantity}"
        used = ~unused_entries(parameter, model) if parameter in model.parameters else np.zeros(model.nu, dtype=bool)
        return [(parameter, {name: [k] for k, name in enumerate(model.actuator_names) if used[k]})]
    joints = {
        name: list(range(part.start, part.stop))
        for name in model.joint_names
        if (part := model.qd_slice(name)).stop > part.start
        and (quantity != "stiffness" or not unused_entries("stiffness", model)[part].any())
        # A rotation isn't one number.
        and (quantity != "rest_position" or model.dof_q[part.start] >= 0)
    }
    if quantity in OF_JOINTS:
        return [(quantity, joints)]
    pairs = [(f"pair_{quantity}", _pairs(model, f"pair_{quantity}"))] if quantity in OF_PAIRS else []
    if quantity not in OF_GEOMETRIES:
        return pairs
    shapes: dict[str, list[int]] = {}
    unused = _with_own_pairs(model) if quantity in OF_PAIRS else set[int]()
    colliding = [
        (k, geometry)
        for k, geometry in enumerate(model.geometries)
        if geometry.collides
        and (quantity != "friction_across" or geometry.friction_direction is not None)
        and k not in unused
    ]
    for k, geometry in colliding:
        shapes[geometry.name] = [k]
    for link, link_name in enumerate(model.link_names):
        own = [k for k, geometry in colliding if geometry.link == link]
        if own:
            shapes.setdefault(link_name, own)
    return [(quantity, shapes), *pairs, *([("friction_loss", joints)] if quantity == "friction" else [])]


def _pairs(model: Model, parameter: str) -> dict[str, list[int]]:
    """Return the pairs with their own friction that use a parameter, under both orders of their names."""
    used = ~unused_entries(parameter, model)
    names = [(model.geometries[pair.a].name, model.geometries[pair.b].name) for pair in model.pair_frictions]
    return {
        f"{first} and {second}": [k] for k, (a, b) in enumerate(names) if used[k] for first, second in ((a, b), (b, a))
    }


def _with_own_pairs(model: Model) -> set[int]:
    """Return the geometries whose own friction has no effect, since all their pairs have one of their own."""
    if not model.pair_frictions:
        return set()
    stated = {(pair.a, pair.b) for pair in model.pair_frictions}
    members = {k for pair in stated for k in pair}
    colliding = [k for k, geometry in enumerate(model.geometries) if geometry.collides]
    return {
        k
        for k in members
        if all((min(k, j), max(k, j)) in stated for j in colliding if j != k and may_touch(model, k, j))
    }


def _unit(model: Model, parameter: str, entries: Sequence[int]) -> str:
    """Return the unit of a parameter's entries; where turning and sliding entries differ, their common one."""
    unit = "N m or N" if parameter == TORQUE_OFFSET else PARAMETERS[parameter].unit
    of_turning, both, of_sliding = unit.partition(" or ")
    if not both:
        return unit.removeprefix("-")
    dofs = model.actuator_dof[entries] if parameter.startswith("actuator_") else entries
    turning = {_turns(model, int(dof)) for dof in dofs}
    return unit if len(turning) > 1 else of_turning if True in turning else of_sliding


def _turns(model: Model, dof: int) -> bool:
    """Return True for a degree of freedom that is an angle, not a length (tendons: -1)."""
    if dof < 0:
        return False
    link = int(model.dof_link[dof])
    kind = JOINT_TYPES[int(model.joint_type[link])]
    return kind.angular or (kind.quaternion is not None and dof - int(model.joint_qd_start[link]) >= kind.quaternion)


def _block(model: Model, quantity: str, parameter: str, owner: str, entries: list[int], prior: Prior | None) -> Block:
    name = f"{quantity} of {owner}"
    require_prior(name, prior)
    if isinstance(prior, InertialPrior) != (quantity == "inertial") and prior is not None:
        raise ModelError(
            f"'{name}': its prior is a {type(prior).__name__}; only 'inertial' takes an InertialPrior, and no other "
            "prior"
        )
    if quantity == "inertial":
        return Bodies.of(model, name, entries[0], prior)  # type: ignore[arg-type]
    present = _present(model, parameter)[entries]
    unit = _unit(model, parameter, entries)
    target = Target(parameter, tuple(entries))
    if quantity == "com":
        return Vector.of(name, target, torch.from_numpy(present[0]), unit, prior)
    if prior is None and np.ptp(present) > 0.0:
        raise ModelError(f"'{name}': its entries {present.tolist()} differ; give a prior as the first guess")
    start = float(present[0]) if prior is None else float(prior.start)  # type: ignore[union-attr]
    if quantity == "mass" and not start > 0.0:
        raise ModelError(f"'{name}': its first guess is {start:g} kg; a mass must be positive")
    if parameter in NO_SLOPE_AT_ZERO and start == 0.0:
        raise ModelError(f"'{name}': it is zero and has no derivative there; give a prior as the first guess")
    if not np.isfinite(start):
        raise ModelError(f"'{name}': it is {start}; give a prior as the first guess")
    lower = MASSLESS * start if quantity == "mass" else 0.0 if parameter in NOT_NEGATIVE else -np.inf
    return Numbers.of(name, target, start, unit, prior, lower, 1.0 if parameter == "restitution" else np.inf)


@dataclass(frozen=True)
class FunctionUnknowns:
    """Unknowns that a user's function maps to parameters; see :class:`UnknownSet`.

    Attributes:
        names: of the unknowns [p]; they are the free numbers themselves.
        units: their units [p].
        start: first guess [p], clipped to the bounds.
        lower, upper: bounds [p].
        function: from unknowns [..., p] to whole parameters [..., n, ...] by name, in PyTorch.
        priors: prior of each [p]; None without a prior.

    Example:
        >>> import numpy as np
        >>> import torch
        >>> import sim
        >>> from sim.identify import FunctionUnknowns
        >>> scene = sim.ModelBuilder()
        >>> _ = scene.add_link("bob", mass=2.0, com=(0, 0, -0.5), inertia=0.1 * np.eye(3))
        >>> _ = scene.add_joint("hinge", "revolute", child="bob", axis=(0, 1, 0))
        >>> model = scene.finalize("float64")
        >>> unknowns = FunctionUnknowns(  # one number for both damping and dry friction
        ...     names=("wear",), units=("",), start=torch.tensor([0.1], dtype=torch.float64),
        ...     lower=np.zeros(1), upper=np.ones(1),
        ...     function=lambda x: {"damping": x, "friction_loss": 0.1 * x},
        ... )
        >>> unknowns.names, sorted(unknowns.parameters(unknowns.start))
        (('wear',), ['damping', 'friction_loss'])
    """

    names: tuple[str, ...]
    units: tuple[str, ...]
    start: torch.Tensor
    lower: np.ndarray
    upper: np.ndarray
    function: "ParameterFunction"
    priors: tuple[Prior | None, ...] = ()

    def __post_init__(self) -> None:
        for name in ("lower", "upper"):
            object.__setattr__(self, name, np.asarray(getattr(self, name), dtype=np.float64))
        object.__setattr__(self, "start", torch.as_tensor(self.start, dtype=torch.float64, device="cpu"))
        shapes = {name: tuple(getattr(self, name).shape) for name in ("start", "lower", "upper")}
        count = len(self.names)
        if set(shapes.values()) != {(count,)} or len(self.units) != count:
            found = ", ".join(f"{name} {shape}" for name, shape in shapes.items())
            raise ModelError(f"FunctionUnknowns: {count} names and {len(self.units)} units, but {found}")
        if not (bool(self.start.isfinite().all()) and (self.lower < self.upper).all()):
            raise ModelError(
                f"FunctionUnknowns: start is {self.start.tolist()}, lower {self.lower.tolist()}, upper "
                f"{self.upper.tolist()}; start must be finite, and each lower below its upper"
            )
        if self.priors and len(self.priors) != len(self.names):
            raise ModelError(
                f"FunctionUnknowns: got {len(self.priors)} priors for {len(self.names)} names; give one, or None, for "
                "each name"
            )
        for name, prior in zip(self.names, self.priors, strict=False):
            require_prior(name, prior)
            if isinstance(prior, InertialPrior):
                raise ModelError(
                    f"FunctionUnknowns: '{name}' is a single number and can't have an InertialPrior; give a Normal or "
                    "LogNormal"
                )

    @property
    def scale(self) -> np.ndarray:
        """Typical size of their changes [p]."""
        size = self.start.abs().numpy()
        return np.where(size > 0.0, size, 1.0)

    @property
    def touched(self) -> tuple[str, ...]:
        """Names of the parameters that depend on them."""
        return tuple(self.function(self.start))

    def parameters(self, x: torch.Tensor) -> dict[str, torch.Tensor]:
        """Return the parameters, see :class:`UnknownSet`."""
        return self.function(x)

    def readings(self, x: torch.Tensor) -> torch.Tensor:
        """Return the reported numbers, see :class:`UnknownSet`."""
        return x

    def prior_deviations(self, x: torch.Tensor) -> torch.Tensor:
        """Return deviations from the priors, see :class:`UnknownSet`."""
        numbers = ((k, prior) for k, prior in enumerate(self.priors) if isinstance(prior, Normal | LogNormal))
        found = [prior.deviations(x[..., k]) for k, prior in numbers]
        return torch.stack(found, dim=-1) if found else x[..., :0]


class ParameterFunction(Protocol):
    """Function from unknowns [..., p] to whole parameters [..., n, ...] by name."""

    def __call__(self, x: torch.Tensor) -> dict[str, torch.Tensor]:
        """Return the parameters."""
        ...


__all__ = ["FunctionUnknowns", "UnknownSet", "Unknowns", "dof_names"]
