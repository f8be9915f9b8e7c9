"""Renders a still of a USD file with Blender's path tracer, Cycles, using the camera, lights and materials of the file.

blender --background --python docs/blender_still.py -- scene.usdc still.png
python docs/blender_still.py scene.usdc still.png          # with the package bpy instead of Blender
"""

import argparse
import math
import os
import sys

import bpy

bpy.utils.expose_bundled_modules()  # Blender's own USD
from pxr import Usd, UsdLux  # noqa: E402

parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("scene", help="a .usda, .usdc, .usd or .usdz file")
parser.add_argument("still", help="the .png file to write")
parser.add_argument("--frame", type=int, help="time code (default: the first)")
parser.add_argument("--width", type=int, default=1280, help="width of the picture [pixels] (default 1280)")
parser.add_argument("--height", type=int, default=960, help="height of the picture [pixels] (default 960)")
parser.add_argument("--samples", type=int, default=64, help="paths per pixel (default 64)")
parser.add_argument("--plain", action="store_true", help="colours as they are, bright ones cut off")
given = parser.parse_args(sys.argv[sys.argv.index("--") + 1 :] if "--" in sys.argv else None)

bpy.ops.wm.read_factory_settings(use_empty=True)
scene = bpy.context.scene
scene.world = bpy.data.worlds.new("World")  # needed by the dome light
bpy.ops.wm.usd_import(filepath=given.scene)

# Blender 5.0 reads a sun four times as bright and twice as wide as it is.
stage = Usd.Stage.Open(given.scene)
for prim in stage.Traverse():
    light = UsdLux.DistantLight(prim)
    if light and prim.GetName() in bpy.data.objects:
        sun = bpy.data.objects[prim.GetName()].data
        sun.angle = math.radians(light.GetAngleAttr().Get())
        sun.energy = light.GetIntensityAttr().Get() * 2.0 ** light.GetExposureAttr().Get()
        if not light.GetNormalizeAttr().Get():
            sun.energy *= math.pi * math.sin(sun.angle / 2.0) ** 2

cameras = [thing for thing in bpy.data.objects if thing.type == "CAMERA"]
if not cameras:
    sys.exit(f"{given.scene} has no camera")
scene.camera = cameras[0]
scene.frame_set(scene.frame_start if given.frame is None else given.frame)
scene.render.engine = "CYCLES"
scene.cycles.samples = given.samples
scene.cycles.use_denoising = True
scene.render.resolution_x, scene.render.resolution_y = given.width, given.height
# True colours, with highlights compressed.
scene.view_settings.view_transform = "Standard" if given.plain else "Khronos PBR Neutral"
scene.view_settings.exposure = 0.0 if given.plain else -0.35
scene.render.image_settings.color_mode = "RGB"
scene.render.filepath = os.path.abspath(given.still)
bpy.ops.render.render(write_still=True)
