"""Constraints that are switched on and off in each world: suction, grippers that lock, couplings that engage."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.spatial.transform import Rotation

from sim.arrays.device_model import DeviceModel
from sim.dynamics.kinematics import forward_kinematics, tendon_lengths
from sim.errors import ModelError
from sim.model.checks import UNREADABLE, names_in, require_type
from sim.model.parameters import number_of_dims
from sim.model.tendons.tendons import Tendons
from sim.simulation.simulator import Simulator
from sim.simulation.state import State


def attach(simulator: Simulator, state: State, names: str | Sequence[str], worlds: npt.ArrayLike | None = None) -> None:
    """Switch constraints on, each where its links are: suction, or a gripper that locks.

    A point or weld constraint holds the links as they are in the state: its frame in the second link moves to where
    that of the first one is. The offset of coupled joints becomes that of their coordinates, and that of coupled
    tendons that of their lengths. To switch a constraint on as it was, set the parameter ``anchor_active``,
    ``coupling_active`` or ``tendon_coupling_active`` instead.

    These are parameters of the simulator, which the next steps and rollouts use; each trajectory keeps its own.
    ``active`` of :meth:`sim.Simulator.rollout` switches constraints within a rollout. ``state`` is copied to the host.

    Args:
        simulator: its model has constraints that switch, see :meth:`sim.ModelBuilder.add_weld_constraint`.
        state: state of its worlds.
        names: names of point and weld constraints, of joints that follow others, or of couplings of tendons.
        worlds: worlds to switch, as a mask [num_worlds] or as indices [k]. Default: all worlds.

    Raises:
        ModelError: for an unknown name, a model whose constraints don't switch, wrong worlds, and a constraint that is
            broken in the state.

    Example:
        >>> import sim
        >>> scene = sim.ModelBuilder()
        >>> cup = scene.add_sphere(radius=0.05, mass=1.0, position=(0, 0, 1), name="cup")
        >>> box = scene.add_box(half_extents=(0.1, 0.1, 0.1), mass=0.5, position=(0, 0, 0.8), name="box")
        >>> _ = scene.add_weld_constraint("suction", "cup", "box", active=False)
        >>> simulator = sim.Simulator(scene.finalize(), dt=0.01, num_worlds=2, device="cpu")
        >>> sim.attach(simulator, simulator.initial_state(), "suction", worlds=[1])
        >>> simulator.parameters["anchor_active"].tolist()
        [[0.0], [1.0]]
    """
    require_type("attach: simulator", simulator, Simulator, "a sim.Simulator")
    require_type("attach: state", state, State, "a sim.State")
    model, q = simulator.model, state.q.numpy().astype(np.float64)
    anchors, couplings, ties = _found(simulator, "attach", names)
    values = _switched(simulator, (anchors, couplings, ties), worlds, 1.0)
    chosen = values.pop("chosen")
    _refuse_broken(simulator, state, names, chosen)
    if anchors:
        device_model = DeviceModel(model, "cpu", simulator.num_worlds, simulator.engine.parameters.all_numbers())
        poses = forward_kinematics(device_model, q).numpy().astype(np.float64)
        values["anchor_b"] = _per_world(simulator, "anchor_b")
        anchor_a = _per_world(simulator, "anchor_a")
        for row in anchors:
            link_a, link_b = model.equalities.anchor_link_a[row], model.equalities.anchor_link_b[row]
            held = _placed(poses[:, link_a], anchor_a[:, row]) if link_a >= 0 else anchor_a[:, row]
            seen = _seen_from(poses[:, link_b], held) if link_b >= 0 else held
            values["anchor_b"][chosen, row] = seen[chosen]
    if couplings:
        values["coupling_offset"] = _per_world(simulator, "coupling_offset")
        ratio = _per_world(simulator, "coupling_ratio")
        for row in couplings:
            dof, other = model.equalities.coupling_dof[row], model.equalities.coupling_other[row]
            offset = q[:, model.dof_q[dof]] - ratio[:, row] * q[:, model.dof_q[other]]
            values["coupling_offset"][chosen, row] = offset[chosen]
    if ties:
        values["tendon_polynomial"] = _per_world(simulator, "tendon_polynomial")
        parameters = {name: _per_world(simulator, name) for name in simulator.parameters}
        for world in np.flatnonzero(chosen):
            own = {name: value[world] for name, value in parameters.items()}
            lengths = tendon_lengths(replace(model, dtype="float64", parameters=own), q[world])
            for row in ties:
                values["tendon_polynomial"][world, row, 0] += _tie_error(model.tendons, own, row, lengths)
    simulator.parameters.update(values)


def _refuse_broken(simulator: Simulator, state: State, names: str | Sequence[str], chosen: np.ndarray) -> None:
    """Raise ModelError for a constraint that is broken in a chosen world of the state."""
    if state.broken is None:
        return
    order, broken = list(simulator.model.switch_names), state.broken.numpy()[chosen] > 0.5
    for name in [names] if isinstance(names, str) else names:
        if broken[:, order.index(name)].any():
            raise ModelError(f"attach: '{name}' is broken in the state; clear its entry of state.broken first")


def detach(simulator: Simulator, names: str | Sequence[str], worlds: npt.ArrayLike | None = None) -> None:
    """Switch constraints off, see :func:`attach`.

    Args:
        simulator: its model has constraints that switch.
        names: names of point and weld constraints, of joints that follow others, or of couplings of tendons.
        worlds: worlds to switch, as a mask [num_worlds] or as indices [k]. Default: all worlds.

    Raises:
        ModelError: for an unknown name, a model whose constraints don't switch, and wrong worlds.

    Example:
        >>> import sim
        >>> scene = sim.ModelBuilder()
        >>> lamp = scene.add_sphere(radius=0.05, mass=1.0, position=(0, 0, 1), name="lamp")
        >>> _ = scene.add_point_constraint("hook", "lamp", "world", active=True)
        >>> simulator = sim.Simulator(scene.finalize(), dt=0.01, device="cpu")
        >>> sim.detach(simulator, "hook")
        >>> simulator.parameters["anchor_active"].tolist()
        [[0.0]]
    """
    require_type("detach: simulator", simulator, Simulator, "a sim.Simulator")
    values = _switched(simulator, _found(simulator, "detach", names), worlds, 0.0)
    del values["chosen"]
    simulator.parameters.update(values)


# Parameters that switch points and welds, coupled joints, and couplings of tendons.
SWITCHES = ("anchor_active", "coupling_active", "tendon_coupling_active")


def _found(simulator: Simulator, where: str, names: str | Sequence[str]) -> tuple[list[int], list[int], list[int]]:
    """Return the rows of the anchors, of the couplings and of the couplings of tendons with these names."""
    model = simulator.model
    if not model.switches:
        raise ModelError(f"{where}: no constraint of the model switches; add one with active=True or active=False")
    every = model.equalities.anchor_names, model.equalities.coupling_names, model.tendons.coupling_names
    found: tuple[list[int], list[int], list[int]] = ([], [], [])
    for name in [names] if isinstance(names, str) else names_in(f"{where}: names", names):
        kind = next((kind for kind, known in enumerate(every) if name in known), None)
        if kind is None:
            raise ModelError(f"{where}: no constraint '{name}'; there are {', '.join(model.switch_names)}")
        found[kind].append(every[kind].index(name))
    return found


def _tie_error(tendons: Tendons, parameters: dict[str, np.ndarray], row: int, lengths: np.ndarray) -> float:
    """Return the difference between a tendon's length and that which its coupling demands."""
    polynomial, (first, second) = parameters["tendon_polynomial"][row], tendons.coupling_reference[row]
    other = tendons.coupling_other[row]
    followed = lengths[other] - second if other >= 0 else 0.0
    return float(lengths[tendons.coupling_tendon[row]] - first - np.polynomial.Polynomial(polynomial)(followed))


def _switched(
    simulator: Simulator, rows: tuple[list[int], ...], worlds: npt.ArrayLike | None, active: float
) -> dict[str, Any]:
    """Return the switches of all worlds after a change, and the mask ``chosen`` of the changed worlds."""
    chosen = np.zeros(simulator.num_worlds, dtype=bool)
    try:
        chosen[... if worlds is None else np.asarray(worlds)] = True
    except (IndexError, *UNREADABLE) as error:
        raise ModelError(f"worlds: {error}") from None
    values: dict[str, Any] = {"chosen": chosen}
    for name, of_kind in zip(SWITCHES, rows, strict=True):
        if of_kind:
            values[name] = _per_world(simulator, name)
            values[name][np.ix_(np.flatnonzero(chosen), np.array(of_kind))] = active
    return values


def _per_world(simulator: Simulator, name: str) -> np.ndarray:
    """Return a copy of a parameter [num_worlds, n, ...]."""
    value = simulator.parameters[name]
    shared = value.ndim == number_of_dims(name)
    return np.repeat(value[None], simulator.num_worlds, axis=0) if shared else value


def _placed(poses: np.ndarray, frames: np.ndarray) -> np.ndarray:
    """Return frames in links [n, 7] as poses in the world, for poses of the links [n, 7]."""
    turn = Rotation.from_quat(poses[:, 3:])
    return np.hstack([poses[:, :3] + turn.apply(frames[:, :3]), (turn * Rotation.from_quat(frames[:, 3:])).as_quat()])


def _seen_from(poses: np.ndarray, frames: np.ndarray) -> np.ndarray:
    """Return poses in the world [n, 7] as frames in links, for poses of the links [n, 7]."""
    back = Rotation.from_quat(poses[:, 3:]).inv()
    return np.hstack([back.apply(frames[:, :3] - poses[:, :3]), (back * Rotation.from_quat(frames[:, 3:])).as_quat()])
