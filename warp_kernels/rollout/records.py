"""Records of a rollout: its arrays that steps read and write, by name, and their slots in the pointer table.

The fields of :class:`Records` are the only declaration: the table has an address for each of them in this order, zero
for an array that isn't given.
"""

from dataclasses import dataclass, fields
from operator import attrgetter
from types import SimpleNamespace
from typing import Generic, TypeVar

Array = TypeVar("Array")


@dataclass(eq=False)
class StateArrays(Generic[Array]):
    """Arrays of one state, or of several with one more leading dimension.

    Attributes:
        q: coordinates [num_worlds, nq].
        qd: velocities [num_worlds, nv].
        impulse: with a warm start, impulses of the constraints [num_worlds, max_constraints, 3].
        key: with a warm start, keys of these constraints [num_worlds, max_constraints, 4].
        act: states of actuators [num_worlds, na].
        q_low: low words of positions [num_worlds, n], see :mod:`warp_kernels.kinematics.low_words`.
        broken: 1 for equality constraints that are broken, otherwise 0 [num_worlds, n].
    """

    q: Array
    qd: Array
    impulse: Array | None = None
    key: Array | None = None
    act: Array | None = None
    q_low: Array | None = None
    broken: Array | None = None


@dataclass(eq=False, init=False)
class Records(StateArrays[Array]):
    """Records of a rollout. It is constructed with the stored states, and gets the others one by one.

    Attributes:
        q_between: coordinates between two stored states, which each interval reuses; likewise the rest of a state.
        tau: joint forces [steps, num_worlds, nv].
        control: inputs of the actuators [steps, num_worlds, nu].
        kinematic_qd: velocities of the kinematic joints in each step [steps, num_worlds, nk].
        bad_state: index of each world's first bad state, -1 for none [num_worlds].
        contact_force: readings of the contact sensors [steps, num_worlds, sensors, 3].
        stages: velocities of the stages of Runge-Kutta steps, except for the last
            [steps x KEPT_STAGES, num_worlds, nv].
        solved: velocities that MuJoCo's law finds before an integrator makes of them those of the next state
            [steps, num_worlds, nv].
        q_bar: the loss's direct derivative in ``q``; likewise ``qd_bar``, ``impulse_bar``, ``act_bar``,
            ``contact_force_bar``, ``solved_bar``.
        tau_bar: gradient in ``tau``; likewise ``control_bar``, ``kinematic_qd_bar``.
        norms: norms of the adjoints of q and qd [steps + 1, num_worlds, 2].
        left_out: not negative for worlds without gradients [num_worlds].
        state_rows: derivatives of a single step, see :mod:`warp_kernels.linearise`; likewise ``tau_rows``,
            ``control_rows``.
        active: equality constraints that are on in each step [steps, num_worlds, n].
        fingerprint: hash of the states and inputs of each world [num_worlds].
    """

    q_between: Array | None = None
    qd_between: Array | None = None
    impulse_between: Array | None = None
    key_between: Array | None = None
    act_between: Array | None = None
    q_low_between: Array | None = None
    broken_between: Array | None = None
    tau: Array | None = None
    control: Array | None = None
    kinematic_qd: Array | None = None
    bad_state: Array | None = None
    contact_force: Array | None = None
    stages: Array | None = None
    solved: Array | None = None
    q_bar: Array | None = None
    qd_bar: Array | None = None
    impulse_bar: Array | None = None
    act_bar: Array | None = None
    contact_force_bar: Array | None = None
    solved_bar: Array | None = None
    tau_bar: Array | None = None
    control_bar: Array | None = None
    kinematic_qd_bar: Array | None = None
    norms: Array | None = None
    left_out: Array | None = None
    state_rows: Array | None = None
    tau_rows: Array | None = None
    control_rows: Array | None = None
    active: Array | None = None
    fingerprint: Array | None = None


STATE = tuple(each.name for each in fields(StateArrays))
SLOTS = {each.name: slot for slot, each in enumerate(fields(Records))}
SLOT = SimpleNamespace(**SLOTS)
TABLE_SIZE = len(SLOTS)
# From the slot of a stored state's array to that of the states between two stored ones.
BETWEEN = SLOT.q_between - SLOT.q
# The arrays of a state in the order of STATE, None for those that it doesn't have.
state_arrays = attrgetter(*STATE)


def addresses(records: Records[Array]) -> dict[int, int]:
    """Return the entries of the pointer table by slot; those of arrays that aren't given or are empty are zero."""
    given = vars(records).items()  # without unset ones
    return {SLOTS[name]: array.ptr for name, array in given if array is not None and array.size}
