"""Terrain against closed forms, its seeds, and what rests on it."""

import numpy as np
import pytest

import sim
from scenes import quadruped
from sim.terrain import Rough, Slope, Stairs, Stones, Tile
from tests.errors import raises_naming

KINDS = [Stairs(), Stairs(down=True), Slope(), Slope(down=True), Rough(), Stones()]
SIZE = 6.0


def one(kind: sim.terrain.Kind, **options: float) -> sim.terrain.Terrain:
    return sim.terrain.generate([kind], size=SIZE, **options)


def random_points(count: int = 2000) -> np.ndarray:
    return np.random.default_rng(3).uniform(-0.5 * SIZE, 0.5 * SIZE, (count, 2))


@pytest.mark.parametrize("down", [False, True])
@pytest.mark.parametrize(("tread", "platform"), [(0.3, 2.0), (0.37, 1.1), (0.5, 4.9)])
def test_stairs(down: bool, tread: float, platform: float) -> None:
    ground = one(Stairs(rise=0.12, tread=tread, platform=platform, down=down))
    points = random_points()
    away = np.abs(points).max(axis=1)
    count = int((SIZE - platform) / (2 * tread) + 1e-9)
    level = np.clip(np.floor((0.5 * platform + count * tread - away) / tread), 0, count)
    np.testing.assert_allclose(ground.height(points), (-0.12 if down else 0.12) * level, atol=1e-12)
    assert ground.origins[0, 0].tolist() == pytest.approx([0.0, 0.0, (-0.12 if down else 0.12) * count])


@pytest.mark.parametrize("down", [False, True])
def test_slope(down: bool) -> None:
    ground = one(Slope(grade=0.3, platform=1.5, down=down))
    points = 0.1 * np.random.default_rng(5).integers(-29, 30, (500, 2))  # where the grid has its points
    expected = 0.3 * (0.5 * SIZE - np.maximum(np.abs(points).max(axis=1), 0.75))
    np.testing.assert_allclose(ground.height(points), -expected if down else expected, atol=1e-12)
    sides = random_points()
    sides = sides[np.abs(np.abs(sides[:, 0]) - np.abs(sides[:, 1])) > 0.11]  # without the edges of the pyramid
    sides = sides[np.abs(np.abs(sides).max(axis=1) - 0.75) > 0.11]
    expected = 0.3 * (0.5 * SIZE - np.maximum(np.abs(sides).max(axis=1), 0.75))
    np.testing.assert_allclose(ground.height(sides), -expected if down else expected, atol=1e-12)
    assert ground.origins[0, 0, 2] == pytest.approx((-0.3 if down else 0.3) * 2.25)


def test_rough_ground_is_within_its_amplitude_and_interpolated() -> None:
    ground = one(Rough(amplitude=0.07, scale=0.5, step=0.01, platform=1.0), border=0.0)
    coarse = ground.heights[::5, ::5]
    assert 0.05 < np.abs(coarse).max() <= 0.07
    assert abs(coarse[1:-1, 1:-1].std() / 0.07 - 1 / np.sqrt(3)) < 0.1  # even distribution, cut to multiples of 0.01
    np.testing.assert_allclose(coarse / 0.01, np.round(coarse / 0.01), atol=1e-9)
    np.testing.assert_allclose(ground.heights[::5, 2], 0.6 * coarse[:, 0] + 0.4 * coarse[:, 1], atol=1e-12)
    near = np.stack(np.meshgrid(*[np.linspace(-0.5, 0.5, 41)] * 2), axis=-1)
    assert ground.height(near).max() <= ground.origins[0, 0, 2] <= 0.07


def test_no_gap_between_stones_is_wider_than_said() -> None:
    ground = one(Stones(width=0.4, gap=0.2, unevenness=0.05, depth=0.8), spacing=0.1)
    fine = np.arange(-2.99, 3.0, 0.02)
    top = ground.height(np.stack(np.meshgrid(fine, fine), axis=-1))
    pit = top < -0.5
    assert np.unique(top[pit]).tolist() == [-0.8]
    assert 0.2 < pit.mean() < 0.5
    assert np.abs(top[~pit]).max() <= 0.05
    rows = pit[~pit.all(axis=1)]  # between rows of stones, a line is all pit but for the border and the platform
    runs = [len(run) for row in rows for run in "".join("01"[int(cell)] for cell in row).split("0") if run]
    between = [run for run in runs if run < 75]
    assert max(between) <= 10
    assert np.abs(ground.boxes[:, :2]).max() + 0.05 <= 0.5 * SIZE


def test_one_seed_makes_one_terrain() -> None:
    first, same = (sim.terrain.generate(KINDS, levels=3, size=SIZE, seed=4) for _ in range(2))
    other = sim.terrain.generate(KINDS, levels=3, size=SIZE, seed=5)
    for name in ("heights", "boxes", "origins"):
        np.testing.assert_array_equal(getattr(first, name), getattr(same, name))
    assert not np.array_equal(first.heights, other.heights)
    assert not np.array_equal(first.boxes, other.boxes)
    fewer = sim.terrain.generate(KINDS[:5], levels=3, size=SIZE, seed=4)
    np.testing.assert_array_equal(fewer.origins[:, :, 2], first.origins[:, :5, 2])


def test_levels_get_harder_along_x() -> None:
    ground = sim.terrain.generate([Slope(grade=(0.1, 0.5), platform=2.0), Rough()], levels=5, size=SIZE)
    np.testing.assert_allclose(ground.origins[:, 0, 2], 2.0 * np.linspace(0.1, 0.5, 5))
    np.testing.assert_allclose(ground.origins[:, 0, 0], SIZE * np.arange(-2, 3))
    np.testing.assert_allclose(ground.origins[0, :, 1], [-3.0, 3.0])
    assert np.isneginf(ground.height([(100.0, 0.0), (0.0, -7.01)])).all()
    assert ground.height((15.9, 6.9)) == 0.0  # the border


def test_rays_meet_the_height_that_it_tells() -> None:
    ground = sim.terrain.generate(KINDS, levels=2, size=SIZE, seed=1)
    scene = sim.ModelBuilder()
    ground.add_to(scene)
    model = scene.finalize("float64")
    points = np.random.default_rng(2).uniform((-6.0, -18.0), (6.0, 18.0), (3000, 2))
    origin = np.column_stack([points, np.full(len(points), 5.0)])
    hits = sim.cast_rays(model, np.zeros((1, 0)), origin[None], np.tile((0.0, 0.0, -1.0), (1, len(points), 1)))
    np.testing.assert_allclose(5.0 - hits.distance.numpy()[0], ground.height(points), atol=1e-9)


def test_balls_rest_where_robots_start() -> None:
    ground = sim.terrain.generate([*KINDS[:4], Stones()], levels=2, size=SIZE, seed=1)
    scene = sim.ModelBuilder()
    names = ground.add_to(scene, surface=sim.Surface(friction=0.8, group=2), rgba=(0.3, 0.3, 0.3, 1.0))
    for origin in ground.origins.reshape(-1, 3):
        scene.add_sphere(radius=0.1, mass=1.0, position=(origin[0], origin[1], origin[2] + 0.12))
    model = scene.finalize()
    added = [model.geometry(name) for name in names]
    assert {model.geometries[k].group for k in added} == {2}
    np.testing.assert_array_equal(model.parameters["friction"][added], 0.8)
    simulator = sim.Simulator(model, 0.005)
    state = simulator.initial_state()
    for _ in range(200):
        state = simulator.step(state)
    rest = state.q.numpy().reshape(-1, 7)[:, :3]
    np.testing.assert_allclose(rest[:, 2] - 0.1, ground.origins[..., 2].ravel(), atol=1e-3)


def test_a_quadruped_stands_on_the_highest_step() -> None:
    ground = one(Stairs(rise=0.15, platform=1.0))
    scene = sim.ModelBuilder()
    ground.add_to(scene, surface=sim.Surface(friction=0.8))
    scene.add_urdf(quadruped.QUADRUPED_URDF, floating_base=True)
    for joint in quadruped.joint_names():
        scene.add_actuator(joint, "position", gains=sim.Gains(kp=100.0, kd=2.0))
    model = scene.finalize()
    q0 = model.q0.copy()
    q0[:3], q0[7:] = ground.origins[0, 0] + (0.0, 0.0, quadruped.standing_height()), quadruped.standing_legs()
    simulator = sim.Simulator(model, 0.005)
    state = simulator.state(q0[None], np.zeros((1, model.nv)))
    end = simulator.rollout(state, control=np.tile(q0[7:], (200, 1, 1))).q.numpy()[-1, 0]
    assert end[2] - ground.origins[0, 0, 2] == pytest.approx(quadruped.standing_height(), abs=0.03)
    assert np.abs(end[3:6]).max() < 0.05


class Bump:
    """A kind of one's own: its border may be off the ground."""

    def __init__(self, border: float):
        self.border = border

    def tile(self, difficulty: float, size: float, spacing: float, rng: np.random.Generator) -> Tile:
        heights = np.full((round(size / spacing) + 1,) * 2, self.border)
        heights[20:40, 20:40] = difficulty
        return Tile(heights, height=difficulty)


def test_a_kind_of_ones_own() -> None:
    assert one(Bump(0.0)).height((0.0, 0.0)) == 1.0
    with raises_naming("Bump", "z = 0"):
        one(Bump(0.1))


@pytest.mark.parametrize(
    ("kinds", "options", "message"),
    [
        ([], {}, "kinds is empty"),
        ([Rough(), Stairs], {}, r"class Stairs.*Stairs\(\)"),
        ([0.5], {}, "kinds.*0.5.*tile"),
        (Rough(), {}, "kinds.*list"),
        ([Rough()], {"levels": 0}, "levels is 0"),
        ([Rough()], {"seed": -1}, "seed is -1"),
        ([Rough()], {"size": 6.05}, "multiple of the spacing"),
        ([Rough()], {"size": np.nan}, "multiple of the spacing"),
        ([Rough()], {"size": 0.3}, "0.3 m has.* 4 cells"),
        ([Rough()], {"border": -1.0}, "border is -1.0"),
        ([Rough(amplitude=-0.1)], {}, "amplitude of Rough is -0.1"),
        ([Rough(amplitude=(0.1, np.inf))], {}, "amplitude of Rough"),
        ([Stairs(platform=5.9)], {}, "step of 0.3 m"),
        ([Stairs(tread=0.05, down=True)], {}, "tread of Stairs is 0.05"),
        ([Stairs(rise=(0.1, 0.2, 0.3))], {}, "rise of Stairs"),  # type: ignore[arg-type]
        ([Slope(platform=6.0)], {}, "platform of 6.0 m"),
        ([Stones(platform=5.0)], {}, "Stones: .*platform"),
        ([Stones(depth=0.04)], {}, "Stones: .*unevenness.*0.04"),
    ],
)
def test_what_is_refused(kinds: list, options: dict, message: str) -> None:
    with pytest.raises(sim.ModelError, match=message):
        sim.terrain.generate(kinds, **{"size": SIZE, **options})


def test_points_must_be_pairs() -> None:
    with raises_naming("[..., 2]"):
        one(Rough()).height([1.0, 2.0, 3.0])
