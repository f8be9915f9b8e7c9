"""Two geometries in many worlds at once: poses and sizes given directly, contacts detected and evaluated."""

import functools
from collections.abc import Iterable
from dataclasses import dataclass, field, replace

import numpy as np
import warp as wp
from scipy.spatial import ConvexHull
from scipy.spatial.transform import Rotation

import sim
import sim.simulation.stepping.workspace as workspace
from sim.arrays.allocation import fill, gradients_of
from sim.arrays.launch import active_tape, launch
from sim.model.geometries import Mesh
from sim.simulation.stepping.collision import CollisionModel
from warp_kernels import types as codes
from warp_kernels.collision.detect import detect_kernels
from warp_kernels.collision.evaluate import evaluate_kernels
from warp_kernels.collision.pairs import CLOSED_FORM, COLLISION_PAIRS, CONVEX_SHAPES, FAMILIES, ON_PLANE
from warp_kernels.collision.plane.adjoint import on_plane_adjoint_kernels
from warp_kernels.collision.structs import collision_structs
from warp_kernels.solver.structs import solver_structs

# The most contacts of each pair of types, by family.
CLOSED_PAIRS, CONVEX_PAIRS = (
    {types: most for types, (family, most) in COLLISION_PAIRS.items() if family in chosen}
    for chosen in ((ON_PLANE, CLOSED_FORM), (CONVEX_SHAPES,))
)
INPUTS = ("geometry_placement", "geometry_size", "friction", "restitution", "pose", "origin")
OUTPUTS = ("point", "frame", "distance", "friction", "restitution", "apart")
IDENTITY = np.array([0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 1.0])


def hull_mesh(points: np.ndarray) -> Mesh:
    """The convex hull of points: its vertices and outward triangles."""
    hull = ConvexHull(points)
    number = {old: new for new, old in enumerate(hull.vertices)}
    centre = points[hull.vertices].mean(0)
    faces = []
    for simplex in hull.simplices:
        a, b, c = points[simplex]
        flip = np.cross(b - a, c - a) @ (a - centre) < 0.0
        faces.append([number[v] for v in (simplex[::-1] if flip else simplex)])
    return Mesh(points[hull.vertices], np.array(faces))


def pebble(count: int = 24) -> Mesh:
    """A hull with no two vertices alike."""
    points = np.random.default_rng(7).normal(size=(count, 3))
    return hull_mesh(points / np.linalg.norm(points, axis=1)[:, None])


def random_quaternions(rng: np.random.Generator, count: int) -> np.ndarray:
    return Rotation.random(count, rng=rng).as_quat()


@dataclass
class Bench:
    """One pair of geometries in ``num_worlds`` worlds.

    Geometry number ``fixed`` belongs to the world, the others have a link each. Arrays of float64:
    placement and size [worlds, 2, ...], friction and restitution [worlds, 2], pose [links, worlds, 7],
    origin [trees, worlds, 3].
    """

    types: tuple[int, int]
    num_worlds: int
    fixed: int | None = None
    dtype: str = "float64"
    device: str = "cpu"
    mesh: Mesh | None = None
    lever_arrival: float = 0.0
    values: dict[str, np.ndarray] = field(default_factory=dict)

    def __post_init__(self):
        builder = sim.ModelBuilder()
        for number, kind in enumerate(self.types):
            link = "world" if number == self.fixed else f"link_{number}"
            if number != self.fixed:
                builder.add_link(link, mass=1.0, inertia=(1.0, 1.0, 1.0))
                builder.add_joint(f"{link}_free", "free", child=link)
            mesh = self.mesh if kind == codes.CONVEX else None
            builder.add_geometry(link, kind, size=(1.0, 1.0, 1.0), mesh=mesh)
        self.take(builder)

    def take(self, builder: sim.ModelBuilder) -> None:
        """Make the model of a body and what it touches, with both where they are built."""
        self.model = builder.finalize(self.dtype)
        self.collision = CollisionModel(self.model, self.device)
        n, links = self.num_worlds, self.model.num_links
        self.values = {
            "geometry_placement": np.tile(IDENTITY, (n, 2, 1)),
            "geometry_size": np.ones((n, 2, 3)),
            "friction": np.ones((n, 2)),
            "restitution": np.ones((n, 2)),
            "pose": np.tile(IDENTITY, (links, n, 1)),
            "origin": np.zeros((links, n, 3)),
        }

    def world_poses(self) -> tuple[np.ndarray, np.ndarray]:
        """World poses of both geometries, [worlds, 7] each."""
        result = []
        for geometry in range(2):
            placement = self.values["geometry_placement"][:, geometry]
            p, r = placement[:, :3], Rotation.from_quat(placement[:, 3:])
            link = self.model.geometries[geometry].link
            if link >= 0:
                pose = self.values["pose"][link]
                turn = Rotation.from_quat(pose[:, 3:])
                p, r = self.values["origin"][link] + pose[:, :3] + turn.apply(p), turn * r
            result.append(np.concatenate([p, r.as_quat()], axis=1))
        return result[0], result[1]

    def reference(self) -> np.ndarray:
        """World position to which the contact points are relative: the origin of the tree of b, or the only one."""
        return self.values["origin"][-1]

    def device_inputs(self, values: dict[str, np.ndarray] | None = None) -> dict[str, wp.array]:
        """The inputs as Warp arrays with gradients."""
        t = codes.warp_types(self.model.scalar)
        kinds = {"geometry_placement": t.transform, "geometry_size": t.vec3, "pose": t.transform, "origin": t.vec3}
        source = self.values if values is None else values
        return {
            name: wp.array(source[name], dtype=kinds.get(name, t.scalar), device=self.device, requires_grad=True)
            for name in INPUTS
        }

    def detect(
        self, margin: float, max_contacts: int = 4, velocity: np.ndarray | None = None, dt: float = 0.0
    ) -> "Slots":
        """Run the detection. velocity: of the links, angular first [links, worlds, 6]; None is rest."""
        slots = Slots.empty(max_contacts, self.num_worlds, self.device, self.dtype)
        self.fill(slots, margin, velocity, dt)
        return slots

    def fill(self, slots: "Slots", margin: float, velocity: np.ndarray | None = None, dt: float = 0.0) -> None:
        """Run the detection into slots of the caller's; arguments as for :meth:`detect`."""
        scalar = self.model.scalar
        spatial = codes.warp_types(scalar).spatial
        sources = (self.collision, self.device_inputs(), slots.arrays(), self.near_the_origin())
        named = {
            "velocity": self.at_rest() if velocity is None else wp.array(velocity, dtype=spatial, device=self.device),
            "candidate_bits": self.collision.all_candidates(self.num_worlds),
            "margin": scalar(margin),
            "dt": scalar(dt),
        }
        for family in FAMILIES:
            if family == FAMILIES[0] or self.collision.has_pairs(family):
                kernel, pairs = (
                    detect_kernels(scalar, self.collision.kernels_of(family)).detect,
                    self.collision.pairs[family],
                )
                launch(kernel, self.num_worlds, *sources, device=self.device, pairs=pairs, **named)

    def near_the_origin(self) -> dict[str, wp.array]:
        """Low words of positions: none."""
        vec3 = codes.warp_types(self.model.scalar).vec3
        return {"origin_low": wp.zeros((0, self.num_worlds), dtype=vec3, device=self.device)}

    def at_rest(self) -> wp.array:
        """Velocities of the links: none."""
        spatial = codes.warp_types(self.model.scalar).spatial
        return wp.zeros((self.model.num_links, self.num_worlds), dtype=spatial, device=self.device)

    def evaluate(self, slots: "Slots", values: dict[str, np.ndarray] | None = None) -> dict[str, np.ndarray]:
        """Run the evaluation: each output [slots, worlds, ...]; NaN where there is no contact."""
        return {name: array.numpy() for name, array in self._evaluate(slots, self.device_inputs(values)).items()}

    def gradient(self, slots: "Slots", cotangents: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        """Gradients of the inputs by the tape, for cotangents [slots, worlds, ...] of some outputs."""
        inputs = self.device_inputs()
        with wp.Tape() as tape:
            outputs = self._evaluate(slots, inputs)
        tape.backward(
            grads={
                outputs[name]: wp.array(value, dtype=outputs[name].dtype, device=self.device)
                for name, value in cotangents.items()
            }
        )
        return {name: array.grad.numpy() for name, array in inputs.items()}

    def _evaluate(self, slots: "Slots", inputs: dict[str, wp.array]) -> dict[str, wp.array]:
        t = codes.warp_types(self.model.scalar)
        shape = slots.pair.shape
        dtypes = (t.vec3, t.mat33, t.scalar, t.scalar, t.scalar, t.vec3)
        outputs = {
            name: wp.full(shape, float("nan"), dtype=dtype, device=self.device, requires_grad=True)
            for name, dtype in zip(OUTPUTS, dtypes, strict=True)
        }
        spring = wp.zeros((0, 0), dtype=t.vec2, device=self.device)
        contacts = fill(solver_structs(self.model.scalar).Contacts, spring=spring, **outputs)
        named: dict[str, object] = {f"contact_{name}": array for name, array in outputs.items()}
        named |= {"contacts": contacts, "contacts_bar": gradients_of(contacts)}
        if "height" not in inputs:
            named["height"] = wp.zeros((1, 0), dtype=self.model.scalar, device=self.device)
        # As a step does, which a rehearsal for a GPU changes.
        looping = workspace.loops_over_contacts(wp.get_device(self.device))
        threads = shape[1] if looping else shape
        for family in FAMILIES:
            if self.collision.has_pairs(family):
                named |= {
                    "pairs": self.collision.pairs[family],
                    "mujoco_pyramids": 0,
                    "pair_friction": self.collision.no_friction,
                    "lever_arrival": self.model.scalar(self.lever_arrival),
                }
                sources = (named, self.collision, inputs, slots.arrays(), self.near_the_origin())
                kernel = evaluate_kernels(self.model.scalar, self.collision.kernels_of(family), looping).evaluate
                launch(kernel, threads, *sources, device=self.device, record_tape=family != ON_PLANE)
                tape = active_tape()
                if tape is not None and family == ON_PLANE:
                    back = on_plane_adjoint_kernels(self.model.scalar, looping).evaluate_on_plane_adjoint
                    run_back = functools.partial(launch, back, threads, *sources, device=self.device)
                    tape.record_func(run_back, [])
        return outputs


@dataclass
class Slots:
    """What the detection writes."""

    pair: wp.array
    feature: wp.array
    count: wp.array
    overflow: wp.array
    details: tuple[wp.array, ...]

    @staticmethod
    def empty(max_contacts: int, num_worlds: int, device: str = "cpu", dtype: str = "float64") -> "Slots":
        pair, feature = (wp.full((max_contacts, num_worlds), -7, dtype=wp.int32, device=device) for _ in range(2))
        count, overflow = (wp.full(num_worlds, -7, dtype=wp.int32, device=device) for _ in range(2))
        t = codes.warp_types(codes.DTYPES[dtype])
        kinds = (wp.vec3i, wp.vec3i, t.vec3, t.scalar, wp.int32, t.spatial, t.spatial, t.scalar)
        details = tuple(wp.zeros((max_contacts, num_worlds), dtype=kind, device=device) for kind in kinds)
        return Slots(pair, feature, count, overflow, details)

    def arrays(self) -> dict[str, object]:
        """The arrays by the names that kernels have for them."""
        codes_a, codes_b, witness, time, lead, motion_a, motion_b, gap = self.details
        struct = collision_structs(gap.dtype).Slots
        found = {
            "pair": self.pair,
            "feature": self.feature,
            "codes_a": codes_a,
            "codes_b": codes_b,
            "witness": witness,
            "time": time,
            "lead": lead,
            "gap": gap,
        }
        return {
            **{f"slot_{name}": array for name, array in found.items()},
            "slots": fill(struct, **found),
            "slot_motion_a": motion_a,
            "slot_motion_b": motion_b,
            "contact_count": self.count,
            "contact_overflow": self.overflow,
        }

    def in_dtype(self, dtype: str) -> "Slots":
        """The same contacts for kernels of another precision; those of convex pairs lose their witnesses."""
        other = Slots.empty(*self.pair.shape, str(self.pair.device), dtype)
        return replace(other, pair=self.pair, feature=self.feature, count=self.count, overflow=self.overflow)

    def features(self, world: int) -> list[int]:
        """The features found in one world, in the order of their slots."""
        return self.feature.numpy()[: self.count.numpy()[world], world].tolist()


def scatter(bench: Bench, rng: np.random.Generator) -> None:
    """Draw origins, the placements of both geometries and the poses of links."""
    v, count = bench.values, bench.num_worlds
    v["origin"] = rng.normal(size=v["origin"].shape)
    v["geometry_placement"] = np.concatenate(
        [0.3 * rng.normal(size=(count, 2, 3)), random_quaternions(rng, 2 * count).reshape(-1, 2, 4)], axis=2
    )
    v["pose"] = np.stack(
        [np.concatenate([rng.normal(size=(count, 3)), random_quaternions(rng, count)], axis=1) for _ in v["pose"]]
    )


def assert_same_gradients(
    bench: Bench,
    slots: Slots,
    cotangents: dict[str, np.ndarray],
    expected: dict[str, dict[str, np.ndarray]],
    keys: Iterable[str],
    good: object = slice(None),
    atol: float = 1e-6,
) -> None:
    """Compare the gradient of each output in some inputs, in the worlds ``good``, with what is expected."""
    for name, cotangent in cotangents.items():
        found = bench.gradient(slots, {name: cotangent})
        for key in keys:
            world_axis = 1 if key in ("pose", "origin") else 0
            a, b = (np.moveaxis(value[key], world_axis, 0)[good] for value in (found, expected[name]))
            np.testing.assert_allclose(a, b, rtol=1e-6, atol=atol, err_msg=f"{name} in {key}")


def random_bench(types: tuple[int, int], num_worlds: int, seed: int, **options: object) -> Bench:
    """A pair at random poses from deep inside each other to well apart, with random sizes, placements and origins."""
    mesh = pebble() if codes.CONVEX in types else None
    bench = Bench(types, num_worlds, mesh=mesh, **options)  # type: ignore[arg-type]
    rng = np.random.default_rng(seed)
    v = bench.values
    for name in ("friction", "restitution"):
        v[name] = rng.uniform(0.1, 1.0, (num_worlds, 2))
    v["geometry_size"] = rng.uniform(0.1, 0.4, (num_worlds, 2, 3))
    scatter(bench, rng)
    # Move the last link so that the distances are of the order of the sizes.
    first, second = bench.world_poses()
    target = first[:, :3] + rng.normal(size=(num_worlds, 3)) * 0.35
    if types[0] == codes.PLANE:
        height = rng.uniform(-0.4, 0.8, num_worlds)
        across = rng.normal(size=(num_worlds, 3)) * (1.0, 1.0, 0.0) + height[:, None] * (0.0, 0.0, 1.0)
        target = first[:, :3] + Rotation.from_quat(first[:, 3:]).apply(across)
    side = -1.0 if bench.fixed == 1 else 1.0
    v["pose"][-1, :, :3] += side * (target - second[:, :3])
    return bench


def aligned_bench(types: tuple[int, int], num_worlds: int, seed: int, gaps: tuple[float, ...]) -> Bench:
    """A pair with parallel faces, edges and axes, exactly or but for a tilt of 1e-12 to 0.1 rad; some of equal size.

    The last link is put where the detection says that the distance is one of ``gaps``; that is for others to check.
    """
    bench = random_bench(types, num_worlds, seed)
    rng = np.random.default_rng(seed)
    v = bench.values
    v["geometry_placement"][:] = IDENTITY
    v["origin"][:] = v["origin"][:1]
    equal = rng.random(num_worlds) < 0.3
    v["geometry_size"][equal] = v["geometry_size"][equal][:, :1, :1]
    quarter_turns = Rotation.create_group("O")[rng.integers(24, size=num_worlds)]
    angle = 10.0 ** rng.uniform(-12, -1, (num_worlds, 1)) * (rng.random((num_worlds, 1)) < 0.7)
    turn = quarter_turns * Rotation.from_rotvec(angle * rng.normal(size=(num_worlds, 3)))
    base = Rotation.random(num_worlds, rng=rng)
    side = 0.1 * rng.normal(size=(num_worlds, 3)) * (rng.random((num_worlds, 3)) < 0.5)
    extent = v["geometry_size"].max(axis=2).sum(axis=1)
    side[np.arange(num_worlds), rng.integers(3, size=num_worlds)] = rng.uniform(-1.1, 1.1, num_worlds) * extent
    v["pose"][0] = np.concatenate([np.zeros((num_worlds, 3)), base.as_quat()], axis=1)
    v["pose"][1] = np.concatenate([base.apply(side), (base * turn).as_quat()], axis=1)
    for _ in range(2):
        out = bench.evaluate(bench.detect(10.0))
        shift = rng.choice(gaps, num_worlds) - out["distance"][0]
        v["pose"][1, :, :3] += shift[:, None] * out["frame"][0, :, 0]
    return bench
