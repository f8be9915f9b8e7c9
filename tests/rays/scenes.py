"""A scene with every shape, in this engine and in MuJoCo, and random rays through it."""

from pathlib import Path

import mujoco
import numpy as np
import trimesh

import sim

XML = """<mujoco>
<asset>
  <hfield name="hills" nrow="9" ncol="12" size="3 2.5 0.8 0.1" file="hills.png"/>
  <mesh name="stone" file="stone.obj"/>
</asset>
<worldbody>
  <geom name="floor" type="plane" size="0 0 1" pos="0 0 -1"/>
  <geom name="hills" type="hfield" hfield="hills"/>
  <body name="first" pos="0 0 2"><freejoint/>
    <geom name="sphere" type="sphere" size=".3" pos=".1 0 0"/>
    <geom name="capsule" type="capsule" size=".1 .3" pos=".8 0 0" euler="30 40 0"/>
    <geom name="stone" type="mesh" mesh="stone" pos="-.7 .2 .1" euler="10 70 20"/>
  </body>
  <body name="second" pos="0 1.5 2"><freejoint/>
    <geom name="box" type="box" size=".3 .2 .1" euler="10 20 30"/>
    <body name="third" pos=".9 0 0"><joint name="hinge" axis="1 0 0"/>
      <geom name="cylinder" type="cylinder" size=".2 .3" euler="40 20 30"/></body>
    <geom name="ellipsoid" type="ellipsoid" size=".2 .3 .4" pos="-.9 0 0" euler="40 20 30"/>
  </body>
</worldbody></mujoco>"""


def write_scene(folder: Path) -> Path:
    """The scene as a file of MuJoCo, with its mesh and its heights."""
    from PIL import Image

    rng = np.random.default_rng(5)
    Image.fromarray(rng.integers(0, 256, (9, 12), dtype=np.uint8)).save(folder / "hills.png")
    hull = trimesh.convex.convex_hull(0.4 * rng.normal(size=(30, 3)) * (1.0, 0.7, 0.5))
    hull.export(folder / "stone.obj")
    path = folder / "scene.xml"
    path.write_text(XML)
    return path


def both(folder: Path) -> tuple[sim.Model, mujoco.MjModel]:
    """The scene here in float64, and in MuJoCo."""
    path = write_scene(folder)
    builder = sim.ModelBuilder()
    builder.add_mjcf(path)
    return builder.finalize(dtype="float64"), mujoco.MjModel.from_xml_path(str(path))


def random_rays(model: sim.Model, worlds: int, rays: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Coordinates [worlds, nq], origins and directions [worlds, rays, 3], some of them along an axis."""
    rng = np.random.default_rng(seed)
    q = np.repeat(model.q0[None], worlds, axis=0) + 0.1 * rng.normal(size=(worlds, model.nq))
    for first in (3, 10):
        q[:, first : first + 4] = rng.normal(size=(worlds, 4))
    origin = rng.uniform((-2.5, -2.5, 0.0), (2.5, 2.5, 5.0), size=(worlds, rays, 3))
    direction = rng.normal(size=(worlds, rays, 3))
    direction[:, ::5] = -np.eye(3)[rng.integers(0, 3, (worlds, len(range(0, rays, 5))))]
    return q, origin, direction
