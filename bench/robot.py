"""Kinematics and dynamics of robots in PyTorch, compared with Pinocchio and other PyTorch libraries.

python -m bench.robot --json out/bench/robot.json
python -m bench.robot --device cuda:0 --batches 10000 --dtypes float64 --robots go2
python -m bench.robot --quick

Each library runs in a separate process, all on one core, on the same states of the same robots. For every figure the
libraries take turns in short rounds, one at a time, so that ratios compare times taken together. Values and gradients
are checked before anything is timed. Needs the extras peers and bench, and BARD from its repository; libraries that are
not installed are skipped.
"""

import argparse
import json
import sys
import tempfile
import xml.etree.ElementTree as ElementTree
from dataclasses import asdict, dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

import sim
from bench.report import with_machine, write_json
from bench.robot_libraries import LIBRARIES, ON_REQUEST, is_installed, library
from bench.robot_libraries.base import CASES, Robot, State
from bench.robot_tables import by_key, print_tables
from bench.robot_turns import measure
from bench.timing import machine

# Per robot: file in example-robot-data, whether the base floats, tip link, degrees of freedom.
FILES = {
    "xarm7": ("xarm_description/urdf/xarm7.urdf", False, "link7", 7),
    "go2": ("go2_description/urdf/go2.urdf", True, "FR_calf", 18),
    "g1": ("g1_description/urdf/g1_29dof_rev_1_0.urdf", True, "left_wrist_yaw_link", 35),
}
BATCHES = (1, 64, 1024, 4096, 16384)
DTYPES = ("float32", "float64")
# Elements that some libraries do not support or interpret differently.
LEFT_OUT = ("visual", "collision", "dynamics", "safety_controller", "mimic")
NO_INERTIA = """<inertial><origin xyz="0 0 0" rpy="0 0 0"/><mass value="0"/>
  <inertia ixx="0" ixy="0" ixz="0" iyy="0" iyz="0" izz="0"/></inertial>"""


@dataclass
class Record:
    """A case of Backswing and one peer. Times are medians per state [microseconds]; None: not measured.

    Attributes:
        case: "fk" (pose of the tip), "jacobian" (of the tip), "rnea" (inverse dynamics), "crba" (mass matrix) or "aba"
            (forward dynamics).
        robot: name of the robot.
        batch: number of states in a call.
        dtype: "float32" or "float64".
        forward_us: time of the values.
        backward_us: time of the values and one vector-Jacobian product in all inputs.
        peer: the other library.
        peer_forward_us: its time of the values.
        peer_backward_us: its time of values and gradient.
        device: "cpu" or "cuda:0".
        cores: number of processor cores for each library.
        note: what the peer does not support or does differently.
    """

    case: str
    robot: str
    batch: int
    dtype: str
    forward_us: float | None
    backward_us: float | None
    peer: str
    peer_forward_us: float | None
    peer_backward_us: float | None
    device: str
    cores: int = 1
    note: str = ""


def main() -> None:
    """Measure and print the results; see the module docstring."""
    options = parse()
    where = machine()
    names = ["Backswing", *options.libraries]
    for name in [name for name in names if not is_installed(name)]:
        print(f"{name} is not installed (pip install {LIBRARIES[name][2]}); its columns stay empty")
        names.remove(name)
    if find_spec("pinocchio") is None:
        sys.exit("values are checked against Pinocchio, which is not installed: pip install backswing[peers]")
    with tempfile.TemporaryDirectory() as folder:
        plan = prepare(options, Path(folder))
        times = [asdict(each) for each in measure(names, plan, Path(folder))]
    records = paired(times, names[1:], options)
    print_tables(times, names, where)
    if options.json is not None:
        write_json(options.json, with_machine(records, where))


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", type=Path, help="write the records to this file")
    parser.add_argument("--robots", nargs="+", default=list(FILES), choices=list(FILES))
    parser.add_argument("--batches", type=int, nargs="+", default=list(BATCHES))
    parser.add_argument("--dtypes", nargs="+", default=list(DTYPES), choices=DTYPES)
    peers = [name for name in LIBRARIES if name != "Backswing"]
    usual = [name for name in peers if name not in ON_REQUEST]
    about = f"libraries to compare with (all but {', '.join(ON_REQUEST)}, which takes minutes per robot and batch)"
    parser.add_argument("--libraries", nargs="*", default=usual, choices=peers, help=about)
    parser.add_argument("--device", default="cpu", help='"cpu" or "cuda:0"')
    parser.add_argument("--longest", type=float, default=2.0, help="skip calls that would take longer [s] (2)")
    parser.add_argument("--gigabytes", type=int, default=6, help="memory limit per library on a CPU [GiB] (6)")
    parser.add_argument("--quick", action="store_true", help="small batches, few repeats")
    options = parser.parse_args()
    if options.quick:
        options.batches = [batch for batch in options.batches if batch <= 64] or options.batches[:1]
    options.batches.sort()
    return options


# ---- robots and states -------------------------------------------------------------------------------------------


def prepare(options: argparse.Namespace, folder: Path) -> dict[str, Any]:
    """Write robots, states and plan, and return the plan."""
    robots = [write_robot(name, folder) for name in options.robots]
    for robot in robots:
        write_states(robot, max(options.batches), folder)
    plan = {
        "robots": [{**asdict(robot), "urdf": str(robot.urdf)} for robot in robots],
        "dtypes": options.dtypes,
        "batches": options.batches,
        "device": options.device,
        "seconds": 0.1 if options.quick else 0.3,
        "longest": options.longest,
        "gigabytes": options.gigabytes,
    }
    (folder / "plan.json").write_text(json.dumps(plan))
    return plan


def write_robot(name: str, folder: Path) -> Robot:
    """Write a robot's file with only those elements that all libraries support."""
    file, floating, tip, dofs = FILES[name]
    tree = ElementTree.parse(examples() / file)
    for parent in list(tree.iter()):
        for child in list(parent):
            if child.tag in LEFT_OUT or (parent is tree.getroot() and child.tag not in ("link", "joint")):
                parent.remove(child)
    for joint in tree.getroot().iter("joint"):
        joint.attrib = {key: joint.attrib[key] for key in ("name", "type")}
        if joint.find("origin") is None:
            ElementTree.SubElement(joint, "origin", xyz="0 0 0", rpy="0 0 0")
    root = {link.attrib["name"] for link in tree.getroot().iter("link")}
    root -= {child.attrib["link"] for child in tree.getroot().iter("child")}
    for link in tree.getroot().iter("link"):
        if link.find("inertial") is None and link.attrib["name"] not in root:
            link.append(ElementTree.fromstring(NO_INERTIA))
    path = folder / f"{name}.urdf"
    tree.write(path)
    model = sim.load(path, floating_base=floating, collapse_fixed=True)
    assert model.nv == dofs, f"{name} has {model.nv} degrees of freedom"
    return Robot(name, path, floating, tip, tuple(model.joint_names[floating:] if floating else _moving(model)))


def _moving(model: sim.Model) -> list[str]:
    ends = [*model.joint_qd_start[1:], model.nv]
    return [n for n, a, b in zip(model.joint_names, model.joint_qd_start, ends, strict=True) if b > a]


def examples() -> Path:
    """Return the folder of the robots of example-robot-data in Pinocchio's installation."""
    spec = find_spec("pinocchio")
    assert spec is not None
    assert spec.origin is not None
    for folder in Path(spec.origin).parents:
        robots = folder / "share/example-robot-data/robots"
        if robots.is_dir():
            return robots
    sys.exit("the robots of example-robot-data are not installed: pip install backswing[peers]")


def write_states(robot: Robot, count: int, folder: Path) -> None:
    """Write random states, and the values expected for the first of them, computed by Pinocchio."""
    random = np.random.default_rng(0)
    q = random.uniform(-1.0, 1.0, (count, robot.nv))
    if robot.floating:
        turns = random.normal(size=(count, 4))
        q = np.hstack([q[:, :3], turns / np.linalg.norm(turns, axis=1, keepdims=True), q[:, 6:]])
    qd, qdd, tau = random.normal(size=(3, count, robot.nv))
    tau[:, : len(tau[0]) - len(robot.joints)] = 0.0  # no forces on a floating base
    state = State(q, qd, qdd, tau)
    reference: Any = library("Pinocchio")(robot, "float64", "cpu")
    known = {case: reference.value(case, state.first(16)) for case in (*CASES, "bias")}
    np.savez(folder / f"{robot.name}.npz", **vars(state), **known)


def paired(times: list[dict[str, Any]], peers: list[str], options: argparse.Namespace) -> list[Record]:
    """Match Backswing's times with those of each peer."""
    found = by_key(times)
    records = []
    for ours in [each for each in times if each["library"] == "Backswing"]:
        for peer in peers:
            theirs = found[peer, ours["robot"], ours["case"], ours["batch"], ours["dtype"]]
            general = library(peer).note
            records.append(
                Record(
                    ours["case"],
                    ours["robot"],
                    ours["batch"],
                    ours["dtype"],
                    ours["forward_us"],
                    ours["backward_us"],
                    peer,
                    theirs["forward_us"],
                    theirs["backward_us"],
                    options.device,
                    note=". ".join(text for text in (general, theirs["note"]) if text),
                )
            )
    return records


if __name__ == "__main__":
    main()
