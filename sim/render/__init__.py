"""Pictures and animations of a motion: a ray tracer that needs no GPU and no display."""

from sim.render.gif import write_gif, write_png
from sim.render.renderer import Renderer, iterate_frames, render_frames
from sim.render.view import Camera, Marker, Trail, fit_camera

__all__ = [
    "Camera",
    "Marker",
    "Renderer",
    "Trail",
    "fit_camera",
    "iterate_frames",
    "render_frames",
    "write_gif",
    "write_png",
]
