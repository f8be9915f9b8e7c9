"""Tendons of a model: their degrees of freedom and links, and their lengths in the initial configuration."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from sim.errors import ModelError
from sim.model.compile.bodies import Body, Homes
from sim.model.compile.constraints import initial_poses
from sim.model.compile.dofs import DofLayout
from sim.model.joint_types import is_scalar
from sim.model.poses import compose
from sim.model.specs import IDENTITY_QUATERNION, Vector
from sim.model.tendons.tendons import (
    ANY_SIDE,
    TendonCouplingSpec,
    Tendons,
    TendonSpec,
    TendonWrap,
    lengths_of,
    path_points,
)


def lay_out_tendons(
    specs: Sequence[TendonSpec],
    couplings: Sequence[TendonCouplingSpec],
    home: Homes,
    bodies: list[Body],
    layout: DofLayout,
) -> tuple[Tendons, dict[str, np.ndarray]]:
    """Return the tendons of a model, and their parameters by name; no parameters without tendons.

    Raises:
        ModelError: naming the tendon: an unknown joint or link, a joint without exactly one degree of freedom, points
            none of which moves.
    """
    joints = {body.joint.name: number for number, body in enumerate(bodies)}
    terms = [[_dof(spec, joint, joints, bodies, layout) for joint in spec.coefficients] for spec in specs]
    runs = _Runs(home)
    for spec in specs:
        runs.add(spec, layout)
    segments = [segment for run in runs.segments for segment in run]
    numbers = {spec.name: number for number, spec in enumerate(specs)}
    wraps = [wrap for wrap, _ in runs.wraps]
    sides = [(ANY_SIDE, np.zeros(3)) if wrap.side is None else runs.placed(wrap.side) for wrap in wraps]
    carried = [runs.carried(wrap) for wrap in wraps]
    tendons = Tendons(
        names=tuple(numbers),
        term_start=_starts(terms),
        term_dof=np.array([dof for dofs in terms for dof in dofs], dtype=np.int32),
        point_link=np.array([link for link, _ in runs.points], dtype=np.int32),
        segment_start=_starts(runs.segments),
        segment_ends=np.array([runs.resolved(ends) for ends, _, _ in segments], dtype=np.int32).reshape(-1, 2),
        segment_wrap=np.array([wrap for _, wrap, _ in segments], dtype=np.int32),
        segment_share=np.array([1.0 / divisor for _, _, divisor in segments], dtype=np.float64),
        wrap_link=np.array([link for link, _, _ in carried], dtype=np.int32),
        wrap_is_cylinder=np.array([wrap.axis is not None for wrap in wraps], dtype=np.int32),
        wrap_ends=np.array([ends for _, ends in runs.wraps], dtype=np.int32).reshape(-1, 2),
        wrap_side_link=np.array([link for link, _ in sides], dtype=np.int32),
        wrap_side=np.array([point for _, point in sides], dtype=np.float64).reshape(-1, 3),
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
    of_paths = {
        "tendon_point": np.array([point for _, point in runs.points]).reshape(-1, 3),
        "tendon_wrap_centre": np.array([centre for _, centre, _ in carried]).reshape(-1, 3),
        "tendon_wrap_axis": np.array([axis for _, _, axis in carried]).reshape(-1, 3),
        "tendon_wrap_radius": np.array([wrap.radius for wrap in wraps], dtype=np.float64),
    }
    lengths = _initial_lengths(tendons, coefficients, of_paths, bodies, layout)
    for row, coupling in enumerate(couplings):
        other = tendons.coupling_other[row]
        initial = (lengths[numbers[coupling.tendon]], lengths[other] if other >= 0 else 0.0)
        tendons.coupling_reference[row] = initial if coupling.reference is None else coupling.reference
    rest = [(length, length) if spec.rest is None else spec.rest for spec, length in zip(specs, lengths, strict=True)]
    return tendons, {
        "tendon_coefficient": coefficients,
        **of_paths,
        "tendon_stiffness": np.array([spec.stiffness for spec in specs]),
        "tendon_damping": np.array([spec.damping for spec in specs]),
        "tendon_stiffness_polynomial": np.array([spec.stiffness_polynomial for spec in specs]),
        "tendon_damping_polynomial": np.array([spec.damping_polynomial for spec in specs]),
        "tendon_armature": np.array([spec.armature for spec in specs]),
        "tendon_rest_lower": np.array([lower for lower, _ in rest]),
        "tendon_rest_upper": np.array([upper for _, upper in rest]),
        "tendon_friction_loss": np.array([spec.friction_loss for spec in specs]),
        "tendon_lower_limit": np.array([spec.lower for spec in specs]),
        "tendon_upper_limit": np.array([spec.upper for spec in specs]),
        "tendon_limit_margin": np.array([spec.limit_margin for spec in specs]),
        "tendon_polynomial": np.array([coupling.polynomial for coupling in couplings]).reshape(-1, 5),
        **_force_ranges(specs),
    }


def _force_ranges(specs: Sequence[TendonSpec]) -> dict[str, np.ndarray]:
    """Return the ranges of the sums of actuators' forces, if a tendon has one; infinite for the others."""
    if all(spec.force_range is None for spec in specs):
        return {}
    ranges = np.array([spec.force_range or (-np.inf, np.inf) for spec in specs])
    return {"tendon_force_lower": ranges[:, 0].copy(), "tendon_force_upper": ranges[:, 1].copy()}


def _dof(spec: TendonSpec, joint: str, joints: Mapping[str, int], bodies: list[Body], layout: DofLayout) -> int:
    if joint not in joints:
        raise ModelError(f"tendon '{spec.name}': no moving joint named '{joint}'")
    number = joints[joint]
    if not is_scalar(bodies[number].joint.type):
        raise ModelError(
            f"tendon '{spec.name}': only revolute and prismatic joints can be part of a fixed tendon, but '{joint}' is "
            "neither"
        )
    return int(layout.joint_qd_start[number])


@dataclass
class _Runs:
    """Points, wraps and segments of all tendons, while they are collected.

    Attributes:
        home: body and pose there of each named link.
        points: link, and position in it.
        wraps: wraps, with the points before and after each.
        segments: ends, wrap (-1 for none) and divisor of each segment of each tendon. An end is the index of a point,
            or -1 - 2 w - s for side s of wrap w until the number of points is known.
    """

    home: Homes
    points: list[tuple[int, np.ndarray]] = field(default_factory=list)
    wraps: list[tuple[TendonWrap, tuple[int, int]]] = field(default_factory=list)
    segments: list[list[tuple[tuple[int, int], int, float]]] = field(default_factory=list)

    def add(self, spec: TendonSpec, layout: DofLayout) -> None:
        """Add a tendon; raise ModelError naming it."""
        self.segments.append([])
        before = len(self.points)
        for divisor, run in spec.branches:
            self._add_branch(spec, divisor, run)
        links = [link for link, _ in self.points[before:]]
        links += [self.home[wrap.link][0] for wrap, ends in self.wraps if ends[0] >= before]
        if links and not any(link >= 0 and layout.link_tail_dof[link] >= 0 for link in links):
            raise ModelError(f"tendon '{spec.name}': none of its points moves; put one on a moving link")

    def _add_branch(self, spec: TendonSpec, divisor: float, run: list[tuple[str, np.ndarray] | TendonWrap]) -> None:
        last, between = -1, None
        for step in run:
            names = {step[0]} if isinstance(step, tuple) else {step.link, step.side[0] if step.side else step.link}
            if unknown := names - self.home.keys():
                raise ModelError(f"tendon '{spec.name}': unknown link '{unknown.pop()}'")
            if isinstance(step, TendonWrap):
                between = step
                continue
            at = len(self.points)
            self.points.append(self.placed(step))
            if between is not None:
                wrap = len(self.wraps)
                self.wraps.append((between, (last, at)))
                on, off = -1 - 2 * wrap, -2 - 2 * wrap
                self.segments[-1] += [((last, on), -1, divisor), ((on, off), wrap, divisor), ((off, at), -1, divisor)]
            elif last >= 0:
                self.segments[-1].append(((last, at), -1, divisor))
            last, between = at, None

    def placed(self, point: tuple[str, Vector]) -> tuple[int, np.ndarray]:
        """Return the body that a point belongs to, and its position there [3]."""
        number, base = self.home[point[0]]
        return number, compose(base, np.array([*point[1], *IDENTITY_QUATERNION]))[:3]

    def carried(self, wrap: TendonWrap) -> tuple[int, np.ndarray, np.ndarray]:
        """Return the body of a wrap, and its centre and axis there [3]; the axis is zero for a sphere."""
        centre = np.asarray(wrap.position, dtype=np.float64)
        link, placed = self.placed((wrap.link, centre))
        if wrap.axis is None:
            return link, placed, np.zeros(3)
        axis = np.asarray(wrap.axis, dtype=np.float64)
        _, tip = self.placed((wrap.link, centre + axis / np.linalg.norm(axis)))
        return link, placed, tip - placed

    def resolved(self, ends: tuple[int, int]) -> list[int]:
        """Return both ends as indices of points."""
        return [end if end >= 0 else len(self.points) - 1 - end for end in ends]


def _initial_lengths(
    tendons: Tendons, coefficients: np.ndarray, of_paths: Mapping[str, np.ndarray], bodies: list[Body],
    layout: DofLayout,
) -> np.ndarray:  # fmt: skip
    q0 = np.concatenate([np.zeros(0), *(body.joint.q0 for body in bodies)])
    poses = np.array(initial_poses(bodies) if len(tendons.point_link) else []).reshape(-1, 7)
    points = path_points(tendons, of_paths, poses)
    return lengths_of(tendons, coefficients, q0[layout.dof_q[tendons.term_dof]], *points)


def _starts(runs: Sequence[Sequence[object]]) -> np.ndarray:
    return np.cumsum([0, *(len(run) for run in runs)]).astype(np.int32)


def _number(name: str | None, numbers: Mapping[str, int]) -> int:
    return -1 if name is None else numbers[name]
