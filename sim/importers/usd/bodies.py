"""Links, joints and constraints of a USD file."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from pxr import Sdf, Usd
from scipy.spatial.transform import Rotation

from sim.errors import ModelError
from sim.importers.usd.joints.chains import add_chain, add_inner_links
from sim.importers.usd.joints.coordinates import Step, coordinates
from sim.importers.usd.joints.dofs import actuators, damping_and_friction, dof_properties, is_kinematic, pose_spring
from sim.importers.usd.joints.forest import Forest
from sim.importers.usd.joints.loops import note_misfit
from sim.importers.usd.joints.reading import Joint
from sim.importers.usd.masses import all_masses
from sim.importers.usd.prims import Shape
from sim.importers.usd.reader import Reader, agreed_pose
from sim.importers.usd.schemas.actuators import agreed_actuators, mujoco_actuators
from sim.importers.usd.schemas.couplings import coupling
from sim.importers.usd.schemas.mujoco_scene import medium as mujoco_medium
from sim.importers.usd.schemas.mujoco_scene import mujoco_options
from sim.importers.usd.schemas.mujoco_tendons import add_mujoco_tendons
from sim.importers.usd.stage import Kind, moving_attributes
from sim.model.builder.properties import ACTUATOR_FIELDS, JOINT_FIELDS, DCMotor, Delay, in_groups
from sim.model.frames import StagePrim
from sim.model.joint_types import JOINT_TYPES
from sim.model.medium import LIGHTEST, inertia_box
from sim.model.model import ACTUATOR_KIND_NAMES, Keyframe, Part
from sim.model.poses import compose, inverse, is_identity
from sim.model.sensors.targets import attach_sensor
from sim.model.shapes.inertia import principal_moments
from sim.model.spec_checks import is_physical
from sim.model.specs import DYNAMICS_CODES, WORLD
from sim.model.tendons.muscles import MUSCLE_PARAMETERS, Muscle
from sim.usd.annotations import agreed, kept, kept_rows, kept_text, kept_texts
from sim.usd.cameras import camera_of, is_of_model
from sim.usd.parts import kept_keyframes, kept_mujoco_options, part_label
from sim.usd.physics.drives import Actuator, kept_further_actuators
from sim.usd.sensors import kept_sensors
from warp_kernels import types as codes

# Mass properties of a body without any
NOTHING = 0.0, np.zeros(3), np.zeros((3, 3))


def name_links(reader: Reader, trees: Forest) -> None:
    """Return the names stated in the file, or those of the prims; paths if these aren't unique."""
    plain = {body: kept_text(reader.scene.prim(body), "name") or body.name for body in trees.carriers}
    count = Counter(plain.values())
    for body, carrier in trees.carriers.items():
        own = plain[body] if count[plain[body]] == 1 else str(body).lstrip("/")
        label = reader.prefix + own
        reader.names[body] = f"{label}_link" if label == WORLD else label
        at = carrier.child_frame[:3] if carrier is not None else np.zeros(3)
        reader.link_in_body[body] = np.concatenate([at, [0.0, 0.0, 0.0, 1.0]])


def read_masses(reader: Reader, bodies: Iterable[Sdf.Path]) -> None:
    """Read the mass properties of the bodies."""

    def shapes(body: Sdf.Path) -> dict[Sdf.Path, list[Shape]]:
        return {path: reader.shapes[path] for path in reader.colliders.get(body, ())}

    reader.masses = all_masses(reader.scene, bodies, shapes)


def keep_prims(reader: Reader) -> None:
    """Keep the prim of each link, for a motion that is written over the file."""
    for body, name in reader.names.items():
        prim = StagePrim(
            str(reader.scene.path.resolve()), str(body), -1, inverse(reader.link_in_body[body]), reader.base,
            reader.scene.placed(reader.scene.prim(body))[0],
        )  # fmt: skip
        reader.builder.stage_prims.append((name, prim))


def add_links(reader: Reader, body: Sdf.Path, carrier: Joint | None) -> None:
    """Add the link of a body with its mass properties, after the massless links of a chain that carries it."""
    if carrier is not None:
        add_inner_links(reader, body, carrier)
    scene, name = reader.scene, reader.names[body]
    found = reader.masses[body]
    description = scene.bodies[body]
    if np.any(description.linearVelocity) or np.any(description.angularVelocity):
        scene.notes.append(f"prim '{body}': its initial velocity is ignored; set it in the state")
    if body in scene.kinematic and moving_attributes(scene.prim(body)):
        scene.notes.append(
            f"prim '{body}': the motion of this kinematic body is ignored; it starts at its first pose in the "
            f"file, and "
            "its velocity is an entry of qd"
        )
    if found is None:
        scene.notes.append(
            f"prim '{body}' has neither mass nor colliders: kinematics works, dynamics may be refused; give it a mass"
        )
    mass, com, inertia = found or NOTHING
    if not mass and not inertia.any():  # also if written from a model whose file has no inertial data for the link
        reader.add(body, reader.builder.add_link, name)
        return
    if not is_physical(inertia):
        scene.notes.append(f"prim '{body}': its inertia is unphysical; it is kept as in the file")
    reader.add(
        body, reader.builder.add_link, name, mass=mass, com=com - reader.link_in_body[body][:3], inertia=inertia,
        gravity_compensation=_gravity_compensation(reader, scene.prim(body)), allow_unphysical=True,
    )  # fmt: skip


def add_medium(reader: Reader, bodies: Iterable[Sdf.Path]) -> None:
    """Set the medium stored in the file, and add the drag boxes of its links."""
    scenes = reader.scene.of(Kind.Scene)
    medium = kept(reader.scene.prim(scenes[0].primPath), "medium", 5) if scenes else None
    if medium is None:
        _add_medium_of_mujoco(reader, bodies)
        return
    reader.builder.set_medium(float(medium[0]), float(medium[1]), medium[2:])
    for body in bodies:
        prim = reader.scene.prim(body)
        boxes = kept_rows(prim, "drag_boxes", 10)
        for row in boxes:
            reader.add(
                body, reader.builder.add_drag_box, reader.names[body], size=row[:3],
                position=row[3:6] - reader.link_in_body[body][:3], orientation=row[6:],
            )  # fmt: skip


def _add_medium_of_mujoco(reader: Reader, bodies: Iterable[Sdf.Path]) -> None:
    """Set the medium that a file states in MuJoCo's schema, and drag each body as the box of its inertia."""
    found = mujoco_medium(reader.scene)
    if found is None:
        return
    density, viscosity, wind = found
    scene = reader.scene.of(Kind.Scene)[0].primPath
    reader.add(scene, reader.builder.set_medium, density, viscosity, Rotation.from_quat(reader.base[3:]).apply(wind))
    for body in bodies:
        mass, com, inertia = reader.masses[body] or NOTHING
        if mass < LIGHTEST:
            continue
        moments, axes = principal_moments(inertia)
        reader.add(
            body, reader.builder.add_drag_box, reader.names[body], size=inertia_box(mass, moments),
            position=com - reader.link_in_body[body][:3], orientation=axes.as_quat(),
        )  # fmt: skip


def _gravity_compensation(reader: Reader, prim: Usd.Prim) -> float | None:
    """Return the compensated share of a body's weight; None if not stated."""
    exact = kept(prim, "gravity_compensation", 1)
    if exact is not None:
        return float(exact[0])
    if reader.scene.stated(prim, "physxRigidBody:disableGravity"):
        return 1.0
    shares = (reader.scene.number(prim, name) for name in ("mjc:gravcomp", "mjc:body:gravcomp"))
    return next((share for share in shares if share), None)


def add_joint(reader: Reader, body: Sdf.Path, carrier: Joint | None) -> list[str]:
    """Add the parent joint of a body, or the joints of a chain; return their names from the parent on."""
    child, pose = reader.names[body], reader.link_pose(body)
    if carrier is None:
        prim = reader.scene.prim(body)
        kind = "kinematic" if body in reader.scene.kinematic else "free"
        plain = f"{child.removeprefix(reader.prefix)}_{kind}"
        name, options = reader.joint_name(prim, plain), _free_properties(reader, body)
        reader.add(
            body, reader.builder.add_joint, name, "free", child=child, position=pose[:3], orientation=pose[3:],
            **options,
        )  # fmt: skip
        return [name]
    if carrier.chain:
        return add_chain(reader, carrier)
    prim = reader.scene.prim(carrier.path)
    placement, axis = _placement(reader, prim, carrier)
    if carrier.collides:
        reader.scene.notes.append(f"prim '{carrier.path}': bodies joined by a joint never collide here")
    motion = compose(inverse(compose(reader.link_pose(carrier.parent), placement)), pose)
    name = reader.joint_name(prim, carrier.path.name)
    options = dof_properties(reader, prim, carrier)
    if carrier.type != "fixed":
        # A dependent joint is placed as without its coupling: its coordinate follows from the other's.
        begun = kept(prim, "coupling_q0", 1) if kept_text(prim, "follows") else None
        found = coordinates(reader, carrier, axis, motion)
        options["q0"] = found if begun is None else begun
    if carrier.type == "fixed":
        note_misfit(reader, carrier, motion)
    reader.add(
        carrier.path, reader.builder.add_joint, name, carrier.type, child=child,
        parent=reader.link_name(carrier.parent), position=placement[:3], orientation=placement[3:], axis=axis,
        **options,
    )  # fmt: skip
    return [name]


def _free_properties(reader: Reader, body: Sdf.Path) -> dict[str, Any]:
    """Return properties of the free joint of a body without a parent joint."""
    if body in reader.scene.kinematic:
        return {"kinematic": True}
    prim = reader.scene.prim(body)
    spring = pose_spring(prim, 0.0, 6)
    if "rest_position" in spring and not reader.stays:
        spring["rest_position"] = compose(reader.base, spring["rest_position"])
    stated = damping_and_friction(reader.scene, prim, None) | spring
    found: dict[str, Any] = reader.add(body, in_groups, JOINT_FIELDS, stated)
    return found


def add_actuators(reader: Reader, trees: Forest, joint_names: dict[Sdf.Path, list[str]]) -> None:
    """Add the actuators in the order in which they were written, and the tendons in MuJoCo's schema."""
    named = named_joints(trees, joint_names)
    found: list[tuple[Actuator, dict[str, Any], Sdf.Path]] = [
        (actuator, {"joint": name}, step.path)
        for step, name in named
        for actuator in actuators(reader, reader.scene.prim(step.path), step)
    ]
    single = {step.path: (step, name) for step, name in named if not step.freedom}
    dynamic = {
        path: (step, name)
        for path, (step, name) in single.items()
        if not is_kinematic(reader, reader.scene.prim(path), step)
    }
    tendons = add_mujoco_tendons(reader, {path: name for path, (_, name) in single.items()})
    found += agreed_actuators(reader, mujoco_actuators(reader, dynamic, tendons), _further_actuators(reader))
    dynamics = {code: name for name, code in DYNAMICS_CODES.items()}
    for actuator, driven, path in sorted(found, key=lambda item: item[0].number):
        properties = {name: getattr(actuator, name) for name in ACTUATOR_FIELDS}
        properties["dynamics"] = dynamics[actuator.dynamics]
        if actuator.muscle is not None:
            of_muscle = dict(zip(MUSCLE_PARAMETERS, actuator.muscle, strict=True))
            driven = {**driven, "muscle": reader.add(path, Muscle, **of_muscle)}
        if actuator.motor is not None:
            driven = {**driven, "motor": reader.add(path, DCMotor, *actuator.motor)}
        if actuator.delay_samples:
            driven = {**driven, "delay": reader.add(path, Delay, actuator.delay, actuator.delay_samples)}
        reader.add(
            path, reader.builder.add_actuator, kind=ACTUATOR_KIND_NAMES[actuator.kind],
            name=reader.unique(actuator.name, path, reader.builder.actuators),
            gear=actuator.gear, force_limit=actuator.force_range, control_range=actuator.control_range, **driven,
            **reader.add(path, in_groups, ACTUATOR_FIELDS, properties),
        )  # fmt: skip


def _further_actuators(reader: Reader) -> list[tuple[Actuator, dict[str, Any], Sdf.Path]]:
    """Return the stored actuators on tendons, frames and contacts, with their targets if these exist."""
    prim, builder, prefix = reader.scene.stage.GetDefaultPrim(), reader.builder, reader.prefix
    found = []
    for actuator, driven in kept_further_actuators(prim) if prim else ():
        names = [prefix + driven.target, *([prefix + driven.reference] if driven.reference else [])]
        names = [WORLD if name == prefix + WORLD else name for name in names]
        known = {
            "tendon": builder.tendons.keys(),
            "frame": builder.frames.keys() | builder.links.keys() | {WORLD},
            "adhesion": builder.links.keys(),
        }.get(driven.kind, set())
        if not known >= set(names):
            reader.scene.notes.append(
                f"ignored: actuator '{actuator.name}': its target '{driven.target}' doesn't exist"
            )
            continue
        options: dict[str, Any] = {driven.kind: names[0]}
        if driven.kind == "frame":
            options |= {"force_axis": driven.force_axis, "torque_axis": driven.torque_axis}
            options["reference"] = names[1] if len(names) > 1 else None
        found.append((actuator, options, prim.GetPath()))
    return found


def named_joints(trees: Forest, joint_names: dict[Sdf.Path, list[str]]) -> list[tuple[Joint, str]]:
    """Return the joints that carry bodies, those in series one by one, with their names."""
    return [
        named
        for body, carrier in trees.carriers.items()
        if carrier is not None
        for named in zip(carrier.steps, joint_names[body], strict=True)
    ]


def _placement(reader: Reader, prim: Usd.Prim, joint: Joint) -> tuple[np.ndarray, np.ndarray]:
    """Return the joint frame's pose in the parent link [7], oriented as the child, and the axis in it [3]."""
    turn = Rotation.from_quat(joint.child_frame[3:])
    undo = np.concatenate([np.zeros(3), turn.inv().as_quat()])
    frame = joint.parent_frame if is_identity(undo) else compose(joint.parent_frame, undo)
    placement, axis = reader.in_link(joint.parent, frame), turn.apply(joint.axis)
    if joint.reference:
        placement = Step(joint, placement, axis).referred().placement
    if joint.turned or (joint.parent is None and not reader.stays):
        return placement, axis
    return agreed_pose(prim, "joint_placement", placement), agreed(prim, "axis", axis)


def add_couplings(reader: Reader, trees: Forest, joint_names: dict[Sdf.Path, list[str]]) -> None:
    """Couple dependent joints to the joints that they follow."""
    single = [(joint, name) for joint, name in named_joints(trees, joint_names) if not joint.freedom]
    joints, names = {joint.path: joint for joint, _ in single}, {joint.path: name for joint, name in single}
    for path, joint in joints.items():
        found = coupling(reader.scene, joint, joints)
        if found is not None:
            leader = found.leader
            other = reader.prefix + leader if isinstance(leader, str) else names[leader]
            if other not in reader.builder.joints:
                reader.scene.notes.append(
                    f"prim '{path}': its leader, joint '{other}', doesn't exist; it is not coupled"
                )
                continue
            load = kept(reader.scene.prim(path), "coupling_break_force", 1)
            reader.add(
                path, reader.builder.add_joint_coupling, names[path], other,
                ratio=found.ratio, offset=found.offset,
                softness=found.softness, active=found.active,
                break_force=np.inf if load is None else float(load[0]),
            )  # fmt: skip


def add_frames(reader: Reader) -> None:
    """Add the frames stored in the file with their names."""
    top = reader.scene.stage.GetDefaultPrim()
    names = kept_texts(top, "world_frames") if top else ()
    poses = kept_rows(top, "world_frame_poses", 7) if names else np.zeros((0, 7))
    if len(names) == len(poses):
        for frame, pose in zip(names, poses, strict=True):
            placed = reader.in_link(None, pose)
            reader.add(top.GetPath(), reader.builder.add_frame, reader.prefix + frame, WORLD, placed[:3], placed[3:])
    for prim in reader.scene.prims():
        name, body = kept_text(prim, "frame"), reader.scene.body_of(prim.GetPath())
        if name is not None and body is not None:
            local = reader.in_link(body, reader.scene.relative(body, reader.scene.placed(prim)[0]))
            reader.add(
                prim.GetPath(), reader.builder.add_frame, reader.prefix + name, reader.names[body], local[:3], local[3:]
            )


def add_cameras(reader: Reader) -> None:
    """Add the perspective cameras of the stage, to the links of the bodies above them."""
    for prim in reader.scene.prims():
        if is_of_model(prim):
            body = reader.scene.body_of(prim.GetPath())
            pose = reader.scene.placed(prim)[0]
            camera = camera_of(prim, reader.in_link(body, pose if body is None else reader.scene.relative(body, pose)))
            reader.add(
                prim.GetPath(), reader.builder.add_camera,
                reader.unique(camera.name, prim.GetPath(), reader.builder.cameras),
                WORLD if body is None else reader.names[body], camera.placement[:3], camera.placement[3:],
                fov=camera.fov, follows=camera.follows, point=camera.point,
            )  # fmt: skip


def add_sensors(reader: Reader) -> None:
    """Add the sensors stored in the file; note those whose joints, actuators or frames don't exist."""
    prim = reader.scene.stage.GetDefaultPrim()
    for sensor in kept_sensors(prim) if prim else ():
        target, reference = (
            name if name == WORLD else reader.prefix + name for name in (sensor.target, sensor.reference)
        )
        geometries, against = (
            None if names is None else tuple(reader.prefix + name for name in names)
            for names in (sensor.geometries, sensor.against)
        )
        record = replace(
            sensor, name=reader.prefix + sensor.name, target=target, reference=reference, geometries=geometries,
            against=against,
        )  # fmt: skip
        try:
            attach_sensor(reader.builder, record)
        except ModelError as error:
            reader.scene.notes.append(f"ignored: {error}")


def add_parts(reader: Reader, trees: Forest, joint_names: dict[Sdf.Path, list[str]]) -> list[Part]:
    """Add one part per tree, named as its root link; trees that were written as one part are joined again."""
    members: dict[Sdf.Path, list[Sdf.Path]] = {}
    root_of: dict[Sdf.Path, Sdf.Path] = {}
    first: dict[str, Sdf.Path] = {}
    for body, carrier in trees.carriers.items():
        above = carrier.parent if carrier is not None else None
        label = part_label(reader.scene.prim(body)) if above is None else None
        top = root_of[above] if above is not None else body if label is None else first.setdefault(label, body)
        root_of[body] = top
        members.setdefault(top, []).append(body)
    parts, of_mujoco = [], mujoco_options(reader.scene)
    for root, bodies in members.items():
        prim = reader.scene.prim(root)
        label, timestep = part_label(prim), kept(prim, "timestep", 1)
        name = reader.prefix + label if label else reader.names[root]
        joints = [name for body in bodies for name in joint_names[body]]
        above = ((body, trees.carriers[body]) for body in bodies)
        carriers = [each for body, carrier in above for each in (carrier.steps if carrier else (body,))]
        options = kept_mujoco_options(prim)
        if timestep is None and options is None and of_mujoco is not None:
            timestep, options = np.array([of_mujoco[0]]), of_mujoco[1]
        parts.append(
            reader.builder.add_part(
                name, [reader.builder.joints[joint].child for joint in joints], joints,
                keyframes=_keyframes(reader, prim, carriers, joints),
                timestep=None if timestep is None else float(timestep[0]), mujoco=options,
            )
        )  # fmt: skip
    return parts


def _keyframes(
    reader: Reader, root: Usd.Prim, carriers: Sequence[Joint | Sdf.Path], joints: Sequence[str]
) -> dict[str, Keyframe]:
    """Return the stored keyframes of a part, moved with the stage and with the prefix of all names."""
    prims = [reader.scene.prim(each.path if isinstance(each, Joint) else each) for each in carriers]
    types = [JOINT_TYPES[reader.builder.joints[name].type] for name in joints]
    turn = Rotation.from_quat(reader.base[3:])
    moved = {}
    for name, state in kept_keyframes(root, prims, [(type.coordinates, type.dofs) for type in types]).items():
        q, qd = state.q.copy(), state.qd.copy()
        at, dof = 0, 0
        for type in types:
            if type.code == codes.FREE and not reader.stays:
                q[at : at + 7] = compose(reader.base, q[at : at + 7])
                qd[dof : dof + 6] = turn.apply(qd[dof : dof + 6].reshape(2, 3)).ravel()
            at, dof = at + type.coordinates, dof + type.dofs
        inputs, act = (
            {reader.prefix + actuator: value for actuator, value in given.items()}
            for given in (state.control, state.act)
        )
        moved[name] = Keyframe(q, qd, inputs, act)
    lost = [name for name in kept_texts(root, "keyframes") if name not in moved]
    if lost:
        reader.scene.notes.append(
            f"prim '{root.GetPath()}': keyframes {', '.join(lost)} are ignored, since its joints have changed"
        )
    return moved
