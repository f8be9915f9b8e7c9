"""Pictures and animations of a motion, from a ray tracer that needs neither GPU nor display."""

from sim.render.files import write_gif, write_mp4, write_png
from sim.render.fit import Outermost, fit_camera, link_boxes
from sim.render.frames import grid_offsets, iterate_frames, render_frames
from sim.render.occlusion import AmbientOcclusion
from sim.render.renderer import Renderer, Survey
from sim.render.view import Camera, Marker, Trail, view_of

__all__ = [
    "AmbientOcclusion",
    "Camera",
    "Marker",
    "Outermost",
    "Renderer",
    "Survey",
    "Trail",
    "fit_camera",
    "grid_offsets",
    "iterate_frames",
    "link_boxes",
    "render_frames",
    "view_of",
    "write_gif",
    "write_mp4",
    "write_png",
]
