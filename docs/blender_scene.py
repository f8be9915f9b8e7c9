"""A scene drawn by Backswing, and written for Blender: textures, rough and metallic surfaces, sun, sky and a lamp.

python docs/blender_scene.py out/blender
python docs/blender_still.py --plain --width 640 --height 480 \
    out/blender/scene.usda out/blender/blender.png
"""

import sys
from pathlib import Path

import numpy as np

import sim
from sim.render import AmbientOcclusion, Camera, render_frames, write_png
from sim.usd import write_usd

folder = Path(sys.argv[1])
folder.mkdir(parents=True, exist_ok=True)

fields = np.kron(np.indices((8, 8)).sum(axis=0) % 2, np.ones((16, 16), dtype=int))
checks = sim.Texture(np.array([[210, 180, 120], [90, 50, 30]], dtype=np.uint8)[fields])
scene = sim.ModelBuilder()
scene.add_geometry(
    "world", "box", size=(2, 2, 0.05), position=(0, 0, -0.05),
    rgba=(0.55, 0.55, 0.55, 1), material=sim.Material(roughness=0.9),
)  # fmt: skip
scene.add_box(
    half_extents=(0.25, 0.25, 0.25), mass=1, position=(-0.45, 0.2, 0.25),
    orientation=(0, 0, np.sin(0.3), np.cos(0.3)), rgba=(1, 1, 1, 1),
    material=sim.Material(roughness=0.7, texture=checks, repeat=(1, 1)),
)  # fmt: skip
for radius, position, rgba, material in (
    (0.25, (0.25, 0.35), (0.9, 0.6, 0.2, 1), sim.Material(roughness=0.25, metallic=1)),
    (0.18, (0.15, -0.35), (0.7, 0.1, 0.1, 1), sim.Material(roughness=0.2)),
    (0.15, (0.65, -0.1), (0.2, 0.35, 0.7, 1), sim.Material(roughness=0.9)),
):
    scene.add_sphere(radius=radius, mass=1, position=(*position, radius), rgba=rgba, material=material)
tilt = np.array([0.3, -0.35, 0, 1]) / np.linalg.norm([0.3, -0.35, 0, 1])
sun = sim.Light("directional", (1, 0.95, 0.85), size=(6,))
scene.add_light("sun", sun, orientation=tilt)
scene.add_light("sky", sim.Light("sky", (0.3, 0.34, 0.4)))
lamp = sim.Light("point", (0.5, 0.35, 0.2), size=(0.15,))
scene.add_light("lamp", lamp, position=(-1, -0.8, 1.2))
model = scene.finalize()

poses = sim.forward_kinematics(model, model.q0[None]).numpy()
camera = Camera((0.4, -2.3, 1.3), (0.05, 0, 0.15))
write_usd(folder / "scene.usda", model, poses, fps=30, camera=camera)
(picture,) = render_frames(model, poses, camera, exposure=1.0, shadow_rays=256, occlusion=AmbientOcclusion())
write_png(folder / "backswing.png", picture)
