"""Tendons: which degrees of freedom and links they run over, and their lengths in the initial configuration."""

from collections.abc import Mapping, Sequence

import numpy as np

from sim.errors import ModelError
from sim.model.compile.bodies import Body, Homes
from sim.model.compile.constraints import initial_poses
from sim.model.compile.dofs import DofLayout
from sim.model.joint_types import is_scalar
from sim.model.poses import compose
from sim.model.specs import IDENTITY_QUATERNION
from sim.model.tendons.specs import TendonCouplingSpec, TendonSpec
from sim.model.tendons.tendons import Tendons


def lay_out_tendons(
    specs: Sequence[TendonSpec],
    couplings: Sequence[TendonCouplingSpec],
    home: Homes,
    bodies: list[Body],
    layout: DofLayout,
) -> tuple[Tendons, dict[str, np.ndarray]]:
    """The tendons of a model, and their parameters by name; no parameters where there is no tendon.

    Raises:
        ModelError: naming the tendon: an unknown joint or link, a joint without exactly one degree of freedom, points
            of which none moves.
    """
    joints = {body.joint.name: number for number, body in enumerate(bodies)}
    terms = [[_dof(spec, joint, joints, bodies, layout) for joint in spec.coefficients] for spec in specs]
    runs = [_place_points(spec, home, layout) for spec in specs]
    firsts = np.cumsum([0, *(len(links) for links, _, _ in runs)])
    segments = [
        [(int(first) + at, 1.0 / divisor) for at, divisor in starts]
        for first, (_, _, starts) in zip(firsts[:-1], runs, strict=True)
    ]
    numbers = {spec.name: number for number, spec in enumerate(specs)}
    points = np.array([point for _, placed, _ in runs for point in placed]).reshape(-1, 3)
    tendons = Tendons(
        names=tuple(numbers),
        term_start=_starts(terms),
        term_dof=np.array([dof for dofs in terms for dof in dofs], dtype=np.int32),
        point_link=np.array([link for links, _, _ in runs for link in links], dtype=np.int32),
        segment_start=_starts(segments),
        segment_point=np.array([at for run in segments for at, _ in run], dtype=np.int32),
        segment_share=np.array([share for run in segments for _, share in run], dtype=np.float64),
        limit_softness=tuple(spec.limit_softness for spec in specs),
        friction_softness=tuple(spec.friction_softness for spec in specs),
        coupling_names=tuple(spec.name for spec in couplings),
        coupling_tendon=np.array([numbers[spec.tendon] for spec in couplings], dtype=np.int32),
        coupling_other=np.array([_number(spec.other, numbers) for spec in couplings], dtype=np.int32),
        coupling_reference=np.zeros((len(couplings), 2)),
        coupling_softness=tuple(spec.softness for spec in couplings),
    )
    if not specs:
        return tendons, {}
    coefficients = np.array([value for spec in specs for value in spec.coefficients.values()], dtype=np.float64)
    lengths = _initial_lengths(tendons, coefficients, points, bodies, layout)
    for row, coupling in enumerate(couplings):
        other = tendons.coupling_other[row]
        initial = (lengths[numbers[coupling.tendon]], lengths[other] if other >= 0 else 0.0)
        tendons.coupling_reference[row] = initial if coupling.reference is None else coupling.reference
    rest = [(length, length) if spec.rest is None else spec.rest for spec, length in zip(specs, lengths, strict=True)]
    return tendons, {
        "tendon_coefficient": coefficients,
        "tendon_point": points,
        "tendon_stiffness": np.array([spec.stiffness for spec in specs]),
        "tendon_damping": np.array([spec.damping for spec in specs]),
        "tendon_rest_lower": np.array([lower for lower, _ in rest]),
        "tendon_rest_upper": np.array([upper for _, upper in rest]),
        "tendon_friction_loss": np.array([spec.friction_loss for spec in specs]),
        "tendon_lower_limit": np.array([spec.lower for spec in specs]),
        "tendon_upper_limit": np.array([spec.upper for spec in specs]),
        "tendon_limit_margin": np.array([spec.limit_margin for spec in specs]),
        "tendon_polynomial": np.array([coupling.polynomial for coupling in couplings]).reshape(-1, 5),
    }


def _dof(spec: TendonSpec, joint: str, joints: Mapping[str, int], bodies: list[Body], layout: DofLayout) -> int:
    if joint not in joints:
        raise ModelError(f"tendon '{spec.name}': there is no joint '{joint}' that moves")
    number = joints[joint]
    if not is_scalar(bodies[number].joint.type):
        raise ModelError(
            f"tendon '{spec.name}': only revolute and prismatic joints can be part of a fixed tendon, '{joint}' is "
            "neither"
        )
    return int(layout.joint_qd_start[number])


def _place_points(
    spec: TendonSpec, home: Homes, layout: DofLayout
) -> tuple[list[int], list[np.ndarray], list[tuple[int, float]]]:
    """Links and points of a tendon, and for each segment the point where it begins with the divisor of its pulley."""
    links: list[int] = []
    points: list[np.ndarray] = []
    starts: list[tuple[int, float]] = []
    for divisor, run in spec.branches:
        starts += [(len(links) + at, divisor) for at in range(len(run) - 1)]
        for link, point in run:
            if link not in home:
                raise ModelError(f"tendon '{spec.name}': unknown link '{link}'")
            number, base = home[link]
            links.append(number)
            points.append(compose(base, np.array([*point, *IDENTITY_QUATERNION]))[:3])
    if links and not any(link >= 0 and layout.link_tail_dof[link] >= 0 for link in links):
        raise ModelError(f"tendon '{spec.name}': none of its points moves")
    return links, points, starts


def _initial_lengths(
    tendons: Tendons, coefficients: np.ndarray, points: np.ndarray, bodies: list[Body], layout: DofLayout
) -> np.ndarray:
    q0 = np.concatenate([np.zeros(0), *(body.joint.q0 for body in bodies)])
    poses = initial_poses(bodies) if len(points) else []
    places = [
        compose(poses[link], np.array([*point, *IDENTITY_QUATERNION]))[:3] if link >= 0 else point
        for link, point in zip(tendons.point_link.tolist(), points, strict=True)
    ]
    lengths = np.zeros(len(tendons.names))
    for tendon in range(len(lengths)):
        for term in tendons.terms(tendon):
            lengths[tendon] += coefficients[term] * q0[layout.dof_q[tendons.term_dof[term]]]
        for segment in tendons.segments(tendon):
            at = int(tendons.segment_point[segment])
            lengths[tendon] += tendons.segment_share[segment] * np.linalg.norm(places[at + 1] - places[at])
    return lengths


def _starts(runs: Sequence[Sequence[object]]) -> np.ndarray:
    return np.cumsum([0, *(len(run) for run in runs)]).astype(np.int32)


def _number(name: str | None, numbers: Mapping[str, int]) -> int:
    return -1 if name is None else numbers[name]
