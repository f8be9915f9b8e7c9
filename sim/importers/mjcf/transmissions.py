"""What actuators of an MJCF file act on, and which joints their forces reach."""

import numpy as np

from sim.importers.mjcf.notes import names_of
from sim.importers.mjcf.reader import Reader

# What actuators act on, by MuJoCo's name.
TRANSMISSIONS = {
    "mjTRN_JOINT": "joint", "mjTRN_JOINTINPARENT": "joint", "mjTRN_TENDON": "tendon", "mjTRN_SITE": "frame",
    "mjTRN_BODY": "adhesion",
}  # fmt: skip


def transmission_of(reader: Reader, actuator: int) -> str:
    """MuJoCo's name of what an actuator acts on."""
    return str(reader.file.mujoco.mjtTrn(int(reader.file.model.actuator_trntype[actuator])).name)


def limits_of_sums(reader: Reader) -> list[str]:
    """A note of the joints whose ``actuatorfrcrange`` doesn't mean what it does in MuJoCo; none where there are none.

    MuJoCo holds the sum of all actuators' forces on the joint within it. Here each actuator of the joint is.
    """
    model = reader.file.model
    own, reached = np.zeros(model.njnt, dtype=int), np.zeros(model.njnt, dtype=bool)
    for actuator in reader.actuators:
        if TRANSMISSIONS[transmission_of(reader, actuator)] == "joint":
            own[int(model.actuator_trnid[actuator, 0])] += 1
        else:
            reached[list(_reached(reader, actuator))] = True
    which = np.flatnonzero(model.jnt_actfrclimited.astype(bool) & ((own > 1) | reached))
    if not len(which):
        return []
    return [
        "left out: force limits of joints on the sum of several actuators, and on those of tendons, sites and bodies "
        f"({names_of(reader.file, 'joint', which)}); each actuator of such a joint alone is held within them"
    ]


def _reached(reader: Reader, actuator: int) -> set[int]:
    """The joints on which an actuator of a tendon, a site or a body may act."""
    model = reader.file.model
    kind = TRANSMISSIONS[transmission_of(reader, actuator)]
    driven, other = (int(each) for each in model.actuator_trnid[actuator])
    if kind == "adhesion":  # it pulls at whatever touches
        return set(range(model.njnt))
    if kind == "frame":
        bodies = [int(model.site_bodyid[driven]), 0 if other < 0 else int(model.site_bodyid[other])]
        return _between(reader, bodies)
    wraps, first = reader.file.mujoco.mjtWrap, int(model.tendon_adr[driven])
    parts = range(first, first + int(model.tendon_num[driven]))
    if model.wrap_type[first] == wraps.mjWRAP_JOINT:
        return {int(model.wrap_objid[part]) for part in parts}
    carriers = {int(wraps.mjWRAP_SITE): model.site_bodyid, int(wraps.mjWRAP_SPHERE): model.geom_bodyid,
                int(wraps.mjWRAP_CYLINDER): model.geom_bodyid}  # fmt: skip
    return _between(
        reader,
        [
            int(carriers[int(model.wrap_type[part])][model.wrap_objid[part]])
            for part in parts
            if int(model.wrap_type[part]) in carriers
        ],
    )


def _between(reader: Reader, bodies: list[int]) -> set[int]:
    """The joints that carry some of the bodies, but not all."""
    model, chains = reader.file.model, list[set[int]]()
    for body in bodies:
        chain = set[int]()
        while body > 0:
            first = int(model.body_jntadr[body])
            chain |= set(range(first, first + int(model.body_jntnum[body])))
            body = int(model.body_parentid[body])
        chains.append(chain)
    return chains[0].union(*chains[1:]) - chains[0].intersection(*chains[1:])
