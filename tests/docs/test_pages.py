"""The programs of the pages run, and do what the text says."""

import importlib.util
import pkgutil
import re
import sys
import tomllib
import types
import warnings
from pathlib import Path

import numpy as np
import pytest
import torch

import sim
import sim.envs
from sim.usd import write_usd

ROOT = Path(__file__).parents[2]


def run(page: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> dict:
    """Run the programs of a page one after the other, in a folder that has the scenes; return their names."""
    (folder / "scenes").symlink_to(ROOT / "scenes")
    monkeypatch.chdir(folder)
    names: dict = {}
    for block in re.findall(r"```python\n(.*?)```", (ROOT / "docs" / page).read_text(encoding="utf-8"), re.DOTALL):
        exec(block, names)
    return names


def test_start(monkeypatch, tmp_path) -> None:
    names = run("start.md", tmp_path, monkeypatch)
    assert names["distance"].item() < 0.02  # the text says 1 cm, of 64 cm at first
    assert (tmp_path / "motion.gif").stat().st_size > 10_000


LAMP = """<robot name="lamp">
<link name="base"/>
<link name="arm"><inertial><origin xyz="0 0 0.15"/><mass value="0.6"/>
<inertia ixx="0.005" iyy="0.005" izz="0.0005" ixy="0" ixz="0" iyz="0"/></inertial></link>
<link name="shade"><inertial><origin xyz="0 0 0.1"/><mass value="0.3"/>
<inertia ixx="0.001" iyy="0.001" izz="0.0005" ixy="0" ixz="0" iyz="0"/></inertial>
<collision><geometry><sphere radius="0.05"/></geometry></collision></link>
<link name="bulb"/>
<joint name="turn" type="continuous"><parent link="base"/><child link="arm"/><axis xyz="0 0 1"/></joint>
<joint name="bend" type="revolute"><parent link="arm"/><child link="shade"/><origin xyz="0 0 0.3"/><axis xyz="0 1 0"/>
<limit lower="-2" upper="2" effort="10" velocity="3"/></joint>
<joint name="socket" type="fixed"><parent link="shade"/><child link="bulb"/><origin xyz="0 0 0.2"/></joint>
</robot>"""
PICKER = """<mujoco><worldbody><geom type="plane" size="2 2 0.1"/>
<body name="mount" pos="0 0 0.5"><geom type="box" size="0.08 0.08 0.05"/>
<body name="arm" pos="0 0 0.1"><joint name="yaw" axis="0 0 1" damping="0.5"/>
<geom type="capsule" fromto="0 0 0 0.3 0 0" size="0.03"/>
<body name="forearm" pos="0.3 0 0"><joint name="pitch" axis="0 1 0" range="-114 114" damping="0.5"/>
<geom type="capsule" fromto="0 0 0 0.3 0 0" size="0.025"/><site name="tip" pos="0.32 0 0"/></body></body></body>
</worldbody>
<actuator><position joint="yaw" kp="50"/><position joint="pitch" kp="50"/></actuator></mujoco>"""


@pytest.mark.parametrize(
    ("name", "text", "hand", "method"),
    [
        ("lamp.urdf", LAMP, "bulb", "add_urdf(FILE)"),
        ("picker.xml", PICKER, "tip", "add_mjcf(FILE, self_collision=False)"),
        ("lamp.usda", LAMP, "bulb", "add_usd(FILE)"),
    ],
)
def test_start_with_a_robot_of_ones_own(name, text, hand, method, monkeypatch, tmp_path) -> None:
    """Files that nobody tuned the program for, the second with actuators of its own: as the page says to change it."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / name).write_text(text)
    if name.endswith(".usda"):
        (tmp_path / "lamp.urdf").write_text(text)
        lamp = sim.load("lamp.urdf")
        write_usd(name, lamp, sim.forward_kinematics(lamp, lamp.q0[None]).numpy(), fps=1.0)
    _, program, _ = re.findall(r"```python\n(.*?)```", (ROOT / "docs/start.md").read_text(encoding="utf-8"), re.DOTALL)
    changed = program.replace('"scenes/robots/manipulator.urdf", "link7"', f'"{name}", "{hand}"')
    assert changed.count(hand) == 1
    names: dict = {}
    assert method in changed
    exec(changed.replace("scene.add_urdf(FILE)", f"scene.{method}"), names)
    assert names["distance"].item() < 0.02


def test_concepts(monkeypatch, tmp_path) -> None:
    names = run("concepts.md", tmp_path, monkeypatch)
    assert names["gradients"].tau.shape == (100, 4, names["model"].nv)


def test_how_do_i(monkeypatch, tmp_path, capsys) -> None:
    names = run("howto.md", tmp_path, monkeypatch)
    model, tau, start = names["model"], names["tau"], names["simulator"].initial_state()
    still = np.zeros((8, model.nv))
    free = sim.forward_dynamics(model, start.q, still, still).numpy()
    pushed = sim.forward_dynamics(model, start.q, still, tau).numpy() - free
    assert pushed[0, model.qd_slice(names["ball"])] == pytest.approx([0.5 / 0.2, 0, 0, 0, 0, 0], abs=1e-4)
    hand = sim.jacobian(model, start.q, "link7").numpy()[0]
    assert (hand @ pushed[0])[3] > 0.1
    assert "ground ball/geometry" in capsys.readouterr().out
    belt, parcel = names["ride"].q.numpy()[-1, 0, :2]
    friction = float(np.prod(names["line"].finalize().parameters["friction"]))
    assert belt - (parcel + 4) == pytest.approx(1 / (2 * friction * 9.81), rel=0.03)
    assert (tmp_path / "worlds.png").exists()


def test_how_to_choose_a_solver(monkeypatch, tmp_path, capsys) -> None:
    names = run("solvers.md", tmp_path, monkeypatch)
    assert "from 1000 sweeps" in capsys.readouterr().out
    assert names["newton"].residual.max() < 1e-9


def test_rays(monkeypatch, tmp_path) -> None:
    names = run("rays.md", tmp_path, monkeypatch)
    gradient = names["q"].grad
    # A robot that is a metre higher sees the ground a metre deeper, wherever its rays fall.
    assert gradient[:, 2].tolist() == pytest.approx([-1 / 64] * 64, rel=1e-4)


def test_cameras(monkeypatch, tmp_path) -> None:
    names = run("cameras.md", tmp_path, monkeypatch)
    assert names["picture"].shape == (256, 384, 3)
    assert (tmp_path / "worlds.png").stat().st_size > 10_000
    assert names["images"].geometry.unique().numel() > 10
    assert names["observation"]["pixels"].shape == (16, 32, 48, 3)
    names["env"].step(torch.ones(16, 1))


def test_terrain(monkeypatch, tmp_path) -> None:
    names = run("terrain.md", tmp_path, monkeypatch)
    above = names["q"][:, 2] - names["ground"].height(names["q"][:, :2])
    assert abs(above - names["quadruped"].standing_height()).max() < 0.05  # all stand
    assert (tmp_path / "terrain.png").stat().st_size > 10_000


def test_locomotion(monkeypatch, tmp_path) -> None:
    names = run("locomotion.md", tmp_path, monkeypatch)
    observation, env, action = (names[name] for name in ("observation", "env", "action"))
    assert observation["policy"].shape == (8, 45 + 36)
    assert bool((action.grad.norm(dim=1) > 0.0).all())
    held = env.task.begin(sim.envs.NewEpisodes(torch.arange(2), torch.Generator())).act
    torch.testing.assert_close(
        held, env.task.inputs(env.state, torch.zeros(8, 12))["control"][:2].repeat_interleave(4, 1)
    )
    delays = env.state.parameters["actuator_delay"]
    assert 0.0 <= delays.min() < delays.max() <= 0.02
    trotting = sim.envs.VectorEnv(names["TrottingDog"](), 2, device="cpu", seed=0)
    trotting.reset()
    assert trotting.task.phase(trotting.state).tolist() == [[0.0, 0.5, 0.5, 0.0]] * 2


def test_viewer(monkeypatch, tmp_path) -> None:
    """Its programs show a motion with contact forces, the four worlds of a search, and arrows at all links."""
    viewers = pytest.importorskip("sim.viewer")
    shown = []
    monkeypatch.setattr(viewers.Viewer, "wait", lambda self: shown.append(self.q.shape))
    names = run("viewer.md", tmp_path, monkeypatch)
    nq = names["model"].nq
    assert shown == [(1, nq), (4, nq), (1, nq)]
    pushes = np.asarray(names["pushes"])
    assert pushes.shape == (480, 1, names["model"].num_links, 3)
    assert (pushes[-1, 0, :, 2] > 0.0).any()  # upwards
    assert 0.28 < names["trajectory"].q.numpy()[-1, 0, 2] < 0.33  # it stands
    assert np.abs(names["trajectory"].qd.numpy()[-1]).max() < 0.02  # the servos still give way a little


def test_pictures(monkeypatch, tmp_path) -> None:
    """Small ones, and of a USD file that the test writes."""
    pytest.importorskip("imageio_ffmpeg")
    model = sim.load(str(ROOT / "scenes/robots/arm.urdf"))
    q = np.linspace(model.q0, model.q0 + 0.5, 12)
    write_usd(tmp_path / "scene.usdc", model, sim.forward_kinematics(model, q).numpy(), fps=12)
    names = run("pictures.md", tmp_path, monkeypatch)
    for file in ("first.png", "clip.gif", "clip.mp4"):
        assert (tmp_path / file).stat().st_size > 5_000
    assert names["picture"].shape == (480, 640, 3)
    assert set(np.unique(names["survey"].geometry)) > {0}


def test_the_front_page(monkeypatch, tmp_path) -> None:
    """The distance of a box that slides to a stop falls with friction, as v² / (2 g mu)."""
    slope = run("index.md", tmp_path, monkeypatch)["friction"].grad[0].item()
    assert slope == pytest.approx(-1.0 / (2 * 9.81 * 0.8**2), rel=0.01)


def test_notebooks(monkeypatch, tmp_path) -> None:
    """It shows the files that it writes, and the viewer's page. IPython is here what a notebook would have."""
    pytest.importorskip("viser")
    shown: list = []
    ipython = types.ModuleType("IPython.display")
    vars(ipython).update(
        Image=lambda filename: (tmp_path / filename).stat().st_size,
        IFrame=lambda src, width, height: src,
        display=lambda *things: shown.extend(things),
    )
    monkeypatch.setitem(sys.modules, "IPython", types.ModuleType("IPython"))
    monkeypatch.setitem(sys.modules, "IPython.display", ipython)
    viewer = run("notebooks.md", tmp_path, monkeypatch)["viewer"]
    viewer.close()
    picture, film, address = shown
    assert film > picture > 10_000
    assert address == viewer.url


def test_cluster(monkeypatch, tmp_path, capsys) -> None:
    """One process finds the friction of the ground that the boxes were measured on."""
    run("cluster.md", tmp_path, monkeypatch)
    assert float(re.findall(r"friction ([\d.]+)", capsys.readouterr().out)[0]) == pytest.approx(0.4, abs=0.02)


def test_actuators(monkeypatch, tmp_path) -> None:
    names = run("actuators.md", tmp_path, monkeypatch)
    assert names["model"].nu == 3
    ends = names["swung"].q.numpy()[-1, :, 0]
    assert len(np.unique(ends)) == 8  # each world has its own delay
    assert names["lifted"].q.numpy()[0, 0] == pytest.approx(0.5, abs=0.02)
    assert names["error"].item() < 0.05 * names["log_tau"].square().mean().item()
    assert names["motion"].q.shape == (241, 1, 1)
    assert names["bent"].q.numpy()[0, 0] < -0.1  # the elbow flexes, up
    act = names["trajectory"].act.numpy()[:, 0, 0]
    np.testing.assert_allclose(act, 0.5 - 0.3 * np.exp(-np.arange(241) / 240 / 0.05), atol=1e-5)
    assert 0.0 < names["act"].item() < 0.5


def test_tendons(monkeypatch, tmp_path) -> None:
    model = run("contact/tendons.md", tmp_path, monkeypatch)["model"]
    assert list(model.tendons.names) == ["fingers", "rope", "cord"]
    assert model.nu == 1


def test_switched_constraints(monkeypatch, tmp_path) -> None:
    names = run("contact/constraints.md", tmp_path, monkeypatch)
    height = names["state"].q.numpy()[:, 3]
    fallen = -0.2 - 0.5 * 9.81 * 0.5**2
    np.testing.assert_allclose(height, [fallen, fallen, fallen, 0.05], atol=0.02)
    assert names["simulator"].parameters["anchor_active"].ravel().tolist() == [0, 0, 0, 0]
    broken = (60.0 - 5.0 * 9.81) / 20.0
    np.testing.assert_allclose(names["when"][:, 0], [broken, 241 / 240], atol=2 / 240)
    time = 1.0 - broken
    speed = [9.81 * time + 20.0 / 5.0 * (1.0 - time / 2) * time, 0.0]  # its mean pull is that at the middle of the fall
    np.testing.assert_allclose(-names["fall"].qd.numpy()[-1, :, 2], speed, atol=2.5 * 14.0 / 240)


def test_moving_surfaces(monkeypatch, tmp_path) -> None:
    names = run("contact/surfaces.md", tmp_path, monkeypatch)
    velocity = names["moved"].qd.numpy()[0, names["model"].qd_slice(names["parcel"])]
    np.testing.assert_allclose(velocity, [0.8, 0, 0, 0, 0, 0], atol=1e-5)


# A body on a hinge, a keyframe, and a body that only an input moves.
ANT = """<mujoco><option timestep="0.004"/><worldbody>
<geom type="plane" size="5 5 0.1"/>
<body name="torso" pos="0 0 0.5"><freejoint/><geom type="sphere" size="0.1"/>
<body name="leg"><joint name="hip" axis="0 1 0"/>
<geom type="capsule" fromto="0.1 0 0 0.3 0 -0.2" size="0.02"/></body></body>
<body name="hand" mocap="true" pos="1 0 0.5"><geom type="box" size="0.05 0.05 0.05"/></body></worldbody>
<keyframe><key name="stand" qpos="0 0 0.4 1 0 0 0 0.3"/></keyframe></mujoco>"""
# A link that has a mesh, and a base that has the same one.
GRIPPER = """<robot name="gripper">
<link name="base"><collision><geometry><mesh filename="corner.obj"/></geometry></collision></link>
<link name="jaw"><inertial><mass value="0.2"/>
<inertia ixx="0.001" iyy="0.001" izz="0.001" ixy="0" ixz="0" iyz="0"/></inertial>
<collision><geometry><mesh filename="corner.obj"/></geometry></collision></link>
<joint name="slide" type="prismatic"><parent link="base"/><child link="jaw"/><origin xyz="0 0 0.5"/><axis xyz="1 0 0"/>
<limit lower="0" upper="0.05" effort="20" velocity="1"/></joint></robot>"""


def write_corner(path: Path) -> None:
    """An L of two bars, which isn't convex. It begins at the inner corner, from where all others are seen."""
    outline = [(0.05, 0.05), (0.05, 0.2), (0, 0.2), (0, 0), (0.2, 0), (0.2, 0.05)]
    lines = [f"v {x} {y} {z}" for z in (0, 0.05) for x, y in outline]
    for k in range(1, 5):
        lines += [f"f 1 {k + 2} {k + 1}", f"f 7 {k + 7} {k + 8}"]
    for k in range(6):
        a, b = k + 1, (k + 1) % 6 + 1
        lines += [f"f {a} {b} {b + 6}", f"f {a} {b + 6} {a + 6}"]
    path.write_text("\n".join(lines) + "\n")


def test_importing(monkeypatch, tmp_path) -> None:
    """With small files of the names that the page uses."""
    pytest.importorskip("mujoco")
    pytest.importorskip("coacd")
    write_corner(tmp_path / "corner.obj")
    for name, text in (("ant.xml", ANT), ("gripper.urdf", GRIPPER), ("kitchen.urdf", GRIPPER)):
        (tmp_path / name).write_text(text)
    names = run("importing.md", tmp_path, monkeypatch)
    height = np.asarray(names["simulator"].parameters["joint_placement"])[..., names["model"].link("hand"), 2]
    assert height == pytest.approx(1.51)  # a metre above the file's, as the ant is, and a centimetre more
    assert names["q"][-1] == 0.3


def test_mujoco(monkeypatch, tmp_path) -> None:
    pytest.importorskip("mujoco")
    (tmp_path / "ant.xml").write_text(ANT)
    assert run("mujoco.md", tmp_path, monkeypatch)["simulator"].dt == 1 / 240


def test_exporting(monkeypatch, tmp_path) -> None:
    pytest.importorskip("mujoco")
    (tmp_path / "ant.xml").write_text(ANT.replace('mocap="true" ', ""))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of what the formats lack
        names = run("exporting.md", tmp_path, monkeypatch)
        read = sim.load(str(tmp_path / "scene.xml"))
    assert read.nq == names["model"].nq
    assert (tmp_path / "robot.urdf").is_file()


def test_usd(monkeypatch, tmp_path) -> None:
    """With a scene and a robot that the test writes."""
    builder = sim.ModelBuilder()
    builder.add_urdf(str(ROOT / "scenes/robots/arm.urdf"))
    robot = builder.finalize()
    builder.add_link("lead", mass=1.0, inertia=(1, 1, 1))
    builder.add_joint("lead_kinematic", "free", child="lead", position=(0, 1, 0), kinematic=True)
    builder.add_geometry("lead", "sphere", size=0.1)
    model = builder.finalize()
    q = np.stack([model.q0, model.q0])
    q[1, model.q_slice("lead_kinematic")][2] = 1.0  # up, one metre in a frame
    write_usd(tmp_path / "scene.usda", model, sim.forward_kinematics(model, q).numpy(), fps=2)
    write_usd(tmp_path / "robot.usd", robot, sim.forward_kinematics(robot, robot.q0[None]).numpy(), fps=12)
    with pytest.warns(sim.USDWarning, match="the motion of this kinematic body"):
        names = run("usd.md", tmp_path, monkeypatch)
    np.testing.assert_allclose(names["velocities"], [(0, 0, 2, 0, 0, 0)] * 50, atol=1e-4)
    assert [part.name for part in names["parts"]] == ["left/arm"]
    assert (tmp_path / "motion.usdc").stat().st_size > 100_000


def test_code_fits_the_page() -> None:
    """Blocks of code don't scroll at 1,280 pixels."""
    wide = []
    for page in [*ROOT.glob("docs/**/*.md"), ROOT / "README.md", ROOT / "CONTRIBUTING.md"]:
        for block in re.findall(r"^```.*?^```", page.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL):
            wide += [(page.name, line) for line in block.splitlines() if len(line) > 88]
    assert wide == []


def test_every_page_with_a_program_is_run() -> None:
    """Here, or beside the figures of README and guides in tests/test_docs.py."""
    tests = Path(__file__).read_text(encoding="utf-8") + (ROOT / "tests/test_docs.py").read_text(encoding="utf-8")
    docs = ROOT / "docs"
    pages = [*docs.glob("*.md"), *docs.glob("contact/*.md")]
    names = [page.relative_to(docs).as_posix() for page in pages if "```python" in page.read_text(encoding="utf-8")]
    assert [name for name in names if f'"{name}"' not in tests] == []


def test_the_table_of_extras_is_complete() -> None:
    """But for those that a checkout alone needs."""
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["optional-dependencies"]
    rows = re.findall(r"^\| `(\w+)` \|", (ROOT / "docs/start.md").read_text(encoding="utf-8"), re.MULTILINE)
    assert set(rows) == set(extras) - {"test", "docs", "peers", "bench"}


def test_ten_lines_are_those_of_the_readme() -> None:
    first, second = (
        re.search(r"## Ten lines.*?```python\n(.*?)```", (ROOT / page).read_text(encoding="utf-8"), re.DOTALL)[1]
        for page in ("README.md", "docs/start.md")
    )
    assert second.startswith(first.replace('dtype="float32"', ""))


def test_what_pages_name_exists() -> None:
    """Files, public names and modules to run, in pages that are read as they are."""
    missing = []
    pages = [*ROOT.glob("docs/**/*.md"), ROOT / "README.md", ROOT / "CONTRIBUTING.md"]
    for page in pages:
        text = page.read_text(encoding="utf-8")
        for path in re.findall(r"`((?:sim|tests|bench|examples|scenes|warp_kernels|docs)/[\w/.*]+)`", text):
            if not any(ROOT.glob(path.removesuffix("/"))):
                missing.append((page.name, path))
        for module in re.findall(r"python -m ((?:bench|examples|sim|tests)[\w.]*\w)", text):
            if importlib.util.find_spec(module) is None:
                missing.append((page.name, module))
        for name in re.findall(r"`(sim(?:\.[A-Za-z_]\w*)+)", text):
            try:
                pkgutil.resolve_name(name)
            except (ImportError, AttributeError):
                missing.append((page.name, name))
    assert len(pages) > 30
    assert missing == []


def test_a_walking_robot_with_all_managers(monkeypatch) -> None:
    """The task of the page about Isaac Lab: what it remembers and what its log says, recomputed from the outside."""
    monkeypatch.chdir(ROOT)
    page = (ROOT / "docs/tutorials/from-isaac-lab-and-newton.md").read_text(encoding="utf-8")
    (program,) = (
        code for code in re.findall(r"```{code-cell} python\n(.*?)```", page, re.DOTALL) if "class Walk" in code
    )
    names: dict = {"sim": sim, "torch": torch}
    exec(program, names)
    names["Walk"].max_episode_length = 30
    env = sim.envs.VectorEnv(names["Walk"](), 8, device="cpu", seed=0)
    observation, _ = env.reset()
    level, air, logged = torch.zeros(8), torch.zeros(8, 4), 0
    generator = torch.Generator().manual_seed(0)
    for _ in range(70):
        before = env.state.data
        action = 2.0 * torch.rand(8, 12, generator=generator) - 1.0
        observation, _, terminated, truncated, info = env.step(action)
        ended = terminated | truncated
        force = torch.stack([env.state.readings[foot] for foot in names["FEET"]], dim=1)
        air = torch.where(force[..., 2] > 1.0, 0.0, air + env.step_dt).masked_fill(ended[:, None], 0.0)
        change = torch.where(info["reward_terms"]["velocity"] > 0.8 * 30, 1.0, -1.0)
        level = torch.where(ended, level + change, level).clamp(0.0, 3.0)
        assert torch.equal(env.state.data["air"], air)
        assert torch.equal(env.state.data["level"], level)
        assert torch.equal(env.state.data["actions"][~ended, -1], action[~ended])
        assert torch.equal(env.state.data["delay"][~ended], before["delay"][~ended])
        assert torch.equal(observation["critic"][:, 48:60], 0.01 * force.flatten(1))
        if ended.any():
            logged += sum(int(count) for name, count in info["log"].items() if name.startswith("end/"))
            logged -= int(ended.sum())
            assert set(info["log"]) >= {"reward/velocity", "reward/air", "end/fallen"}
    assert logged == 0
    assert 0.0 < level.max() <= 2.0
    assert air.max() > 0.0
    assert set(env.state.data["delay"].tolist()) == {0, 1, 2}


def test_the_layout_of_the_readme_names_all_folders() -> None:
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    layout = re.search(r"## Layout.*?```\n(.*?)```", text, re.DOTALL)[1]
    parts = re.split(r"^(\w+)/ .*\n", layout, flags=re.MULTILINE)
    for top, inner in zip(parts[1::2], parts[2::2], strict=True):
        folders = {path.parent.name for path in (ROOT / top).glob("*/__init__.py")}
        assert not inner or set(re.findall(r"^  (\w+)/", inner, re.MULTILINE)) == folders, top
