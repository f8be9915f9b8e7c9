"""Paths of the links on the stage."""

from pxr import Sdf, Usd, UsdGeom

from sim.model.model import Model
from sim.usd.annotations import keep, keep_text, keep_texts
from sim.usd.shapes import child_name, set_pose

RESERVED = ("PhysicsScene", "Static", "Marks", "Materials", "Camera", "Lights", "Joints", "Constraints", "Contacts")


def link_paths(model: Model) -> list[Sdf.Path]:
    """A path for each link: /World/part/link for robots, /World/link for loose bodies.

    No link is put under another one: a rigid body below a rigid body would move twice.
    """
    part_of = {link: part.name for part in model.parts if len(part.links) > 1 for link in part.links}
    world = Sdf.Path("/World")
    taken: dict[Sdf.Path, set[str]] = {world: set(RESERVED)}
    groups: dict[str, Sdf.Path] = {}
    paths = []
    for link in model.link_names:
        parent, name = world, link
        if link in part_of:
            part = part_of[link]
            if part not in groups:
                groups[part] = world.AppendChild(child_name(part, taken[world]))
                taken[groups[part]] = set()
            parent, name = groups[part], link.removeprefix(f"{part}/")
        paths.append(parent.AppendChild(child_name(name, taken[parent])))
    return paths


def add_frames(stage: Usd.Stage, model: Model, paths: list[Sdf.Path]) -> None:
    """Add named frames fixed to links, including links that were merged into others, as empty Xforms.

    Those of the world are annotations of the default prim.
    """
    still = [frame for frame in model.frames if frame.link < 0]
    keep_texts(stage.GetDefaultPrim(), "world_frames", [frame.name for frame in still])
    if still:
        keep(stage.GetDefaultPrim(), "world_frame_poses", [frame.placement for frame in still])
    for frame in model.frames:
        if frame.link >= 0 and frame.name != model.link_names[frame.link]:
            parent = paths[frame.link]
            taken = {child.GetName() for child in stage.GetPrimAtPath(parent).GetChildren()}
            xform = UsdGeom.Xform.Define(stage, parent.AppendChild(child_name(frame.name.rsplit("/", 1)[-1], taken)))
            set_pose(xform, frame.placement)
            keep_text(xform.GetPrim(), "frame", frame.name)
