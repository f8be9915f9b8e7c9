"""Several joints between the same two bodies, for links without mass, as MuJoCo and Newton have them."""

import numpy as np

from sim.model.checks import require_flags
from sim.model.model import Model
from sim.model.poses import IDENTITY, compose, inverse
from warp_kernels import types as codes


class Series:
    """Joints in series: which bodies they join, and where their frames are in these.

    MuJoCo's convention: joints between the same two bodies follow each other from the parent to the child, and their
    frames coincide if all coordinates are zero.

    Attributes:
        body: for each link the link whose body it belongs to [num_links]: itself, or the last link of its series.
    """

    def __init__(self, model: Model, massless_bodies: bool):
        """Find the series of a model; with ``massless_bodies`` there are none."""
        require_flags("write_usd", massless_bodies=massless_bodies)
        self._model = model
        self.body = np.arange(model.num_links)
        for link, carried in ({} if massless_bodies else _next_links(model)).items():
            self.body[link] = self.body[carried]

    def is_inner(self, link: int) -> bool:
        """Return whether a link has no body of its own."""
        return bool(self.body[link] != link)

    def is_shared(self, link: int) -> bool:
        """Return whether the joint of a link is one of several between two bodies."""
        return bool((self.body == self.body[link]).sum() > 1)

    def roots(self) -> set[int]:
        """Return the root links of trees with a series."""
        inner = np.flatnonzero(self.body != np.arange(len(self.body)))
        starts = np.asarray(self._model.tree_link_start)
        return {int(starts[starts <= link].max()) for link in inner}

    def parent(self, link: int) -> int:
        """Return the body that the joint of a link is fixed to, -1 for the world."""
        above = int(self._model.link_parent[link])
        while above >= 0 and self.is_inner(above):
            above = int(self._model.link_parent[above])
        return above

    def frames(self, link: int) -> tuple[np.ndarray, np.ndarray]:
        """Return the poses of a link's joint frame in the parent body and in the child body [7].

        All frames of a series are at the child's origin, where its hinges are: the point of a slide doesn't matter.
        """
        placement = self._model.parameters["joint_placement"]
        before, after = placement[link], IDENTITY
        above = int(self._model.link_parent[link])
        while above >= 0 and self.is_inner(above):
            before, above = compose(placement[above], before), int(self._model.link_parent[above])
        if not self.is_inner(link):
            return before, after
        for below in range(link + 1, int(self.body[link]) + 1):
            after = compose(after, placement[below])
        origin = compose(before, after)[:3]
        return np.concatenate([origin, before[3:]]), np.concatenate([np.zeros(3), inverse(after)[3:]])


def _next_links(model: Model) -> dict[int, int]:
    """Return the links without a body of their own, each after the only link that it carries, and with it.

    These are links without mass and contents between hinges and slides. Newton moves all slides of two bodies before
    their hinges, about one point; links of other series remain bodies.
    """
    children: dict[int, list[int]] = {}
    for link, parent in enumerate(model.link_parent.tolist()):
        children.setdefault(parent, []).append(link)
    equalities = model.equalities
    occupied = {
        *(geometry.link for geometry in model.geometries),
        *(camera.link for camera in model.cameras), *(light.link for light in model.lights),
        *(frame.link for frame in model.frames if frame.link >= 0 and frame.name != model.link_names[frame.link]),
        *equalities.anchor_link_a.tolist(), *equalities.anchor_link_b.tolist(), *model.drag_boxes.link.tolist(),
    }  # fmt: skip
    empty = (model.parameters["mass"] == 0.0) & ~model.parameters["inertia"].any(axis=(1, 2))
    found: dict[int, int] = {}
    for link in reversed(np.flatnonzero(empty).tolist()):
        carried = children.get(link, [])
        if link in occupied or len(carried) != 1 or not _follows(model, link, carried[0]):
            continue
        if carried[0] in found or not empty[carried[0]]:
            found[link] = carried[0]
    return found


def _follows(model: Model, link: int, other: int) -> bool:
    """Return whether the joints of a link and of the one that it carries can be in series."""
    kinds = [int(model.joint_type[each]) for each in (link, other)]
    if any(kind not in (codes.REVOLUTE, codes.PRISMATIC) for kind in kinds):
        return False
    if any(model.link_names[each] in model.kinematic_links for each in (link, other)):
        return False
    if any(model.prescribed[model.dofs_of(each)].any() for each in (link, other)):
        return False
    apart = model.parameters["joint_placement"][other][:3].any()
    return kinds[0] == codes.PRISMATIC or (kinds[1] == codes.REVOLUTE and not apart)
