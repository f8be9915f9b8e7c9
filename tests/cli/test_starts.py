"""Start of a robot in the commands: on its feet, or with words about what overlaps."""

import itertools

import numpy as np
import pytest
from scipy.spatial.transform import Rotation

import sim
from scenes.quadruped import QUADRUPED_URDF
from sim.cli.main import main
from sim.dynamics.lowest_points import lowest_points

QUADRUPED = str(QUADRUPED_URDF)


def height(argv: list[str], tmp_path) -> float:
    """Height of the base at the start of a simulation."""
    out = tmp_path / "states.npz"
    assert main(["simulate", QUADRUPED, "--floating-base", "--steps", "1", "--out", str(out), *argv]) == 0
    return float(np.load(out)["q"][0, 0, 2])


@pytest.mark.parametrize("ground", [0.0, 0.3, -2.0])
def test_a_floating_base_stands_on_its_feet(ground, tmp_path, capsys):
    """Straight thighs and calves bent by 0.5: 0.213 (1 + cos 0.5) m down to the foot's centre."""
    expected = ground + 0.213 * (1.0 + np.cos(0.5)) + 0.02
    assert height(["--ground", str(ground)], tmp_path) == pytest.approx(expected, abs=1e-6)
    assert "overlap" not in capsys.readouterr().err
    assert height(["--ground", str(ground), "--base-height", "1.5"], tmp_path) == 1.5
    assert height(["--base-height", "-0.25"], tmp_path) == -0.25
    assert height([], tmp_path) == 0.0


@pytest.mark.parametrize("command", ["check", "simulate"])
def test_what_starts_in_the_ground_is_named_with_its_depth(command, tmp_path, capsys):
    more = ["--steps", "1", "--out", str(tmp_path / "x.npz")] if command == "simulate" else []
    assert main([command, QUADRUPED, "--floating-base", "--ground", "--base-height", "0.3", *more]) == 0
    lines = capsys.readouterr().err.splitlines()
    depth = 1000.0 * (0.213 * (1.0 + np.cos(0.5)) + 0.02 - 0.3)
    for leg in ("fl", "fr", "rl", "rr"):
        said = f"warning: 'ground' of 'world' and '{leg}_foot/collision_0' of '{leg}_calf' "
        assert any(line.startswith(said) and f" {depth:.3g} mm " in line for line in lines)


def test_a_height_needs_a_base_that_is_free(capsys):
    assert main(["check", QUADRUPED, "--base-height", "1"]) == 2
    assert "add --floating-base" in capsys.readouterr().err
    assert main(["check", QUADRUPED, "--floating-base", "--base-height", "nan"]) == 2
    assert "a finite height" in capsys.readouterr().err


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("shape", ["sphere", "capsule", "box", "cylinder", "ellipsoid", "convex"])
def test_the_lowest_point_of_a_shape(shape, seed):
    """Beside points that are spread over its surface."""
    rng = np.random.default_rng(seed)
    size = rng.uniform(0.05, 0.4, 3)
    pose = np.concatenate([rng.normal(size=3), rng.normal(size=4)])
    pose[3:] /= np.linalg.norm(pose[3:])
    sphere = rng.normal(size=(200_000, 3))
    sphere /= np.linalg.norm(sphere, axis=1)[:, None]
    corners = np.array(list(itertools.product((-1.0, 1.0), repeat=3)))
    end = np.sign(sphere[:, 2:]) * (0.0, 0.0, 1.0)
    ring = np.concatenate([sphere[:, :2] / np.linalg.norm(sphere[:, :2], axis=1)[:, None], end[:, 2:]], axis=1)
    points = {
        "sphere": size[0] * sphere,
        "capsule": size[0] * sphere + size[1] * end,
        "box": corners * size,
        "cylinder": ring * (size[0], size[0], size[1]),
        "ellipsoid": sphere * size,
        "convex": corners * size,
    }[shape]
    builder = sim.ModelBuilder()
    builder.add_link("body", mass=1.0, inertia=(1.0, 1.0, 1.0))
    builder.add_joint("root", "free", child="body", position=pose[:3], orientation=pose[3:])
    given = {"sphere": size[:1], "capsule": size[:2], "cylinder": size[:2]}.get(shape, size)
    hull = sim.model.geometries.Mesh(corners, sim.model.shapes.hulls.convex_hull(corners).faces)
    mesh = {"mesh": hull} if shape == "convex" else {}
    at = rng.normal(size=3)
    turn = Rotation.random(random_state=seed)
    builder.add_geometry("body", shape, size=given, position=at, orientation=turn.as_quat(), **mesh)
    (found,) = lowest_points(builder.finalize("float64")).values()
    world = Rotation.from_quat(pose[3:]).apply(turn.apply(points) + at) + pose[:3]
    assert found == pytest.approx(world[:, 2].min(), abs=2e-4)
    assert found <= world[:, 2].min() + 1e-12
