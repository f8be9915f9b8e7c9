"""The documentation agrees with the code: its examples run, its table of parameters is complete."""

import json
import re
from pathlib import Path

import numpy as np
import pytest
import torch

import sim
from bench import results
from examples.__main__ import find_examples
from scenes import racecar
from scenes.physics.suite import hard_scenes, scenes
from sim.identify import Excitation, Log, robot_base_parameters
from sim.model.parameters import PARAMETERS

ROOT = Path(__file__).parents[1]


def test_readme_examples_run() -> None:
    blocks = re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)
    assert len(blocks) == 2
    names: dict = {}
    exec("".join(blocks), names)
    # Each of n steps reduces the velocity by mu g dt, then moves with the new velocity; in step n + 1 the box stops. It
    # begins on the surface and comes to rest a micrometre inside: until then friction is less, which adds up to 2e-4.
    v0, mu, g, dt = 1.0, 0.8, 9.81, 1.0 / 240
    n = int(v0 / (mu * g * dt))
    travelled = names["trajectory"].q.numpy()[-1, :, 0]
    np.testing.assert_allclose(travelled, n * v0 * dt - mu * g * dt**2 * n * (n + 1) / 2, rtol=5e-4)
    gradient = names["gradients"].parameters["friction"]
    np.testing.assert_allclose(gradient[0], -64 * g * dt**2 * n * (n + 1) / 2, rtol=5e-4)
    loss_slope = 2.0 * (travelled[0] - 0.2) * gradient[0] / 64
    np.testing.assert_allclose(names["friction"].grad[0].item(), loss_slope, rtol=1e-4)
    assert names["tau"].grad.abs().max() > 0.0


def test_examples_of_the_robot_run(monkeypatch, tmp_path) -> None:
    (tmp_path / "scenes").symlink_to(ROOT / "scenes")
    monkeypatch.chdir(tmp_path)
    blocks = re.findall(r"```python\n(.*?)```", (ROOT / "docs" / "robot.md").read_text(), re.DOTALL)
    names: dict = {}
    exec("".join(blocks), names)
    assert names["position"].shape == (64, 3)
    assert names["q"].grad.abs().max() > 0.1
    assert names["robot"].mass.grad.abs().max() > 0.01
    assert (tmp_path / "learnt.urdf").exists()


def test_programs_of_learning_run(monkeypatch, tmp_path) -> None:
    """The first lifts its pendulum; the others have begun to learn, one after 15 of its 40 iterations."""
    (tmp_path / "scenes").symlink_to(ROOT / "scenes")
    monkeypatch.chdir(tmp_path)
    blocks = re.findall(r"```python\n(.*?)```", (ROOT / "docs" / "learning.md").read_text(), re.DOTALL)
    names: dict = {}
    for block in blocks:
        exec(block.replace("iterations=40", "iterations=15"), names)
    assert 0.45 < names["returns"][-1] <= 0.5
    assert names["balancing"].figures["return"][-1] > 80.0 > 4.0 * names["balancing"].figures["return"][0]
    assert len(names["figures"]) == 3
    assert names["action"].grad.abs().min() > 0.0
    assert names["observation"]["critic"].shape == (4, 24)
    assert all(np.isfinite(each["gradient_norm"]) for each in names["figures"])


def test_programs_of_optimisation_run() -> None:
    """One swings a pole up within the limits of its force; the other presses as is said, while it wipes."""
    program, pressing = re.findall(r"```python\n(.*?)```", (ROOT / "docs" / "optimise.md").read_text(), re.DOTALL)
    names: dict = {}
    exec(program, names)
    result = names["result"]
    np.testing.assert_allclose(result.q[-1], [0.0, np.pi], atol=0.05)
    assert np.abs(result.controls).max() <= 12.0
    assert result.history[0] > 100.0 * result.cost
    exec(pressing, names)
    said = float(re.findall(r"# (\S+) N$", pressing, re.MULTILINE)[-1])
    assert np.abs(names["errors"]).max() == pytest.approx(said, abs=0.01)
    position, _ = sim.torch.Robot(names["simulator"].model).forward_kinematics(torch.as_tensor(names["q"]), "tip")
    np.testing.assert_allclose(position[0, [0, 2]], [names["wipe"].target[0, 0], 0.03], atol=2e-3)


def test_programs_of_identification_run(monkeypatch, tmp_path, capsys) -> None:
    """What stands for a robot and a pendulum has known parameters; they are found as exactly as is said."""
    pytest.importorskip("matplotlib")
    (tmp_path / "scenes").symlink_to(ROOT / "scenes")
    monkeypatch.chdir(tmp_path)
    text = (ROOT / "docs" / "identify.md").read_text()
    arm, table, pendulum, puck, car = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    names: dict = {"record": record, "swing": swing, "filmed": filmed, "tracked": tracked}
    exec(arm, names)
    mass, fit = float(names["robot"].mass[-1]) + 1.5, names["fit"]
    assert abs(fit.estimate["mass of link7"] - mass) < 4.0 * fit.estimate.deviation("mass of link7") < 0.1
    assert {"report.html", "identified.urdf"} <= {path.name for path in tmp_path.iterdir()}
    lines = re.search(re.escape(table) + r"```\n\n```\n(.*?)\n  \.\.\.\n```", text, re.DOTALL)
    assert lines is not None
    found = str(robot_base_parameters(names["robot"])).splitlines()[0]
    # Which of equally good columns stand for the others is a matter of rounding, and the condition number follows.
    condition = r"condition number 5\.\d\d"
    assert len(re.findall(condition, found)) == 1
    assert re.sub(condition, "", found) == re.sub(condition, "", lines[1].splitlines()[0])
    exec(pendulum, names)
    assert abs(names["fit"].estimate["mass of link1"] - 1.4) < 0.02
    assert names["fit"].estimate.probability > 1e-3
    exec(puck, names)
    product = names["fit"].estimate["friction of puck"] * names["model"].parameters["friction"][0]
    assert abs(product - 0.3) < 0.015
    capsys.readouterr()
    exec(car, names)
    assert f"# {capsys.readouterr().out.split()[-1]};" in car
    estimate = names["fit"].estimate
    assert abs(estimate["friction of ground"] - 0.06) < 3.5 * estimate.deviation("friction of ground")


def record(path: str, motion: Excitation) -> None:
    """A log of the arm of docs/identify.md with 1.5 kg more in its hand."""
    robot = sim.torch.Robot("scenes/robots/manipulator.urdf", dtype=torch.float64)
    robot.mass[-1] += 1.5
    robot.friction_loss += 0.2
    log, rng = motion.log(200.0), np.random.default_rng(0)
    with torch.no_grad():
        tau = robot.inverse_dynamics(*map(torch.as_tensor, (log.q, log.qd, log.qdd))).numpy()
    tau += 0.2 * rng.standard_normal(tau.shape)
    columns = {"time": log.time} | {f"q_joint{k + 1}": log.q[:, k] for k in range(7)}
    columns |= {f"tau_joint{k + 1}": tau[:, k] for k in range(7)}
    np.savetxt(path, np.stack(list(columns.values()), axis=1), delimiter=",", header=",".join(columns), comments="")


def swing(model: sim.Model) -> Log:
    """Four seconds of the pendulum of docs/identify.md, with another mass and less damping."""
    parameters = {"damping": np.array([0.02, 0.01]), "mass": np.array([1.0, 1.4])}
    simulator = sim.Simulator(model, 0.002, 1, "cpu", parameters=parameters)
    q = simulator.rollout(simulator.state([2.0, 1.0]), steps=2000).q.numpy()[::5, 0]
    return Log(model, 0.01 * np.arange(len(q)), q + 0.01 * np.random.default_rng(0).standard_normal(q.shape))


def tracked() -> tuple[np.ndarray, np.ndarray]:
    """Times [n] and positions [n, 2] of the puck of docs/identify.md, on a table of friction 0.3."""
    time, speed = np.arange(30) / 30, 1.5
    end = np.minimum(time, speed / (9.81 * 0.3))
    way = np.outer(speed * end - 0.5 * 9.81 * 0.3 * end**2, [0.8, 0.6])
    return time, way + 0.002 * np.random.default_rng(0).standard_normal(way.shape)


def filmed(scene: racecar.RacecarScene) -> tuple[np.ndarray, np.ndarray]:
    """Times [n] and positions [n, 3] of the car of docs/identify.md, which stops on ground of friction 0.06."""
    friction = np.where(np.arange(scene.model.num_geometries) == scene.ground, 0.06, 1.0)
    simulator = sim.Simulator(scene.model, scene.dt, 1, "cpu", parameters={"friction": friction})
    q = simulator.rollout(simulator.state(scene.q0, scene.qd0), steps=scene.steps).q.numpy()[::12, 0, :3]
    return 12 * scene.dt * np.arange(len(q)), q + 0.005 * np.random.default_rng(0).standard_normal(q.shape)


def test_parameter_table_is_complete() -> None:
    text = (ROOT / "docs" / "conventions.md").read_text()
    rows = re.findall(r"^\| `(\w+)` \| (\w+) \| [^|]+ \| ([^|]+) \| ([^|]+) \|$", text, re.MULTILINE)
    assert {name: (per, unit, about) for name, per, unit, about in rows} == {
        name: (spec.per, spec.unit, spec.about) for name, spec in PARAMETERS.items()
    }


def test_every_example_is_pictured() -> None:
    """Small, in the README, and every picture that a page shows is there."""
    pages = (ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md")))
    files = {
        page: {
            (page.parent / name).resolve()
            for name in re.findall(r"!\[[^\]]+\]\(([^)]+)\)", page.read_text(encoding="utf-8"))
        }
        for page in pages
    }
    small = {ROOT / "docs" / "pictures" / f"{name}.webp" for name in find_examples()}
    assert files[ROOT / "README.md"] >= small
    everywhere = set.union(*files.values())
    assert not [path for path in everywhere if not path.is_file()]
    pictures = {path for path in (ROOT / "docs").rglob("*") if path.suffix in (".gif", ".png", ".svg", ".webp")}
    assert pictures == everywhere, "no picture without a page that shows it"
    assert max(path.stat().st_size for path in small) < 600_000
    assert sum(path.stat().st_size for path in files[ROOT / "README.md"]) < 6_000_000


def test_the_picture_of_a_diagram_is_that_of_its_source() -> None:
    """Each label of a node or an arrow is in the picture, whose lines may break at any space."""
    for source in (ROOT / "docs" / "pictures").glob("*.mmd"):
        drawn = re.sub(r"<[^>]+>|\s", "", source.with_suffix(".svg").read_text(encoding="utf-8"))
        labels = re.findall(r'\["([^"]+)"\]|\|([^|]+)\|', source.read_text(encoding="utf-8"))
        assert labels
        for node, arrow in labels:
            for line in (node or arrow).split("<br>"):
                assert line.replace(" ", "") in drawn, line


def test_gradient_check_prints_what_the_documentation_shows(capsys) -> None:
    text = (ROOT / "docs" / "gradients.md").read_text()
    code, shown = re.search(r"```python\n(.*?)```\n\n```\n(.*?)```", text, re.DOTALL).groups()
    capsys.readouterr()
    exec(code, {})
    printed = capsys.readouterr().out

    def words(report: str) -> list[list[str]]:
        """Without digits and the order of kinks, which rounding changes from machine to machine; the counts stay."""
        lines = re.sub(r"\S*\d\.\d\S*", "number", report[report.index("Gradients of") :]).splitlines()
        return sorted(map(str.split, filter(None, lines)))

    assert words(printed) == words(shown)


def test_fidelity_table_has_every_scene() -> None:
    table = (ROOT / "docs" / "fidelity.md").read_text().split("<!-- end of table -->")[0]
    cells = r"^\| ([^|]*) \| [^|]* \| ([^|]+) \| [^|]+ \| [^|]+ \| [^|]+ \| [^|]+ \|$"
    rows = re.findall(cells, table, re.MULTILINE)[1:]
    expected = [
        (scene.name if number == 0 else "", quantity.name)
        for scene in [*scenes(), *hard_scenes()]
        for number, quantity in enumerate(scene.quantities)
    ]
    assert rows == expected


def test_results_pages_are_those_of_the_records() -> None:
    folder = ROOT / "docs" / "results"
    assert {path.stem: path.read_text(encoding="utf-8") for path in folder.glob("*.md")} == results.pages()


def test_figures_in_pages_are_those_of_the_records() -> None:
    for page in {figures.page for figures in results.FIGURES}:
        text = (ROOT / page).read_text(encoding="utf-8")
        assert results.filled(page, text) == text


def test_figures_of_the_robot_are_made_from_records(tmp_path) -> None:
    record = dict(
        case="rnea", robot="xarm7", batch=1, dtype="float32", forward_us=20.4, backward_us=80.0, peer="Pinocchio",
        peer_forward_us=1.5, peer_backward_us=None, note="", machine={"processor": "P", "load": "0.1"},
    )  # fmt: skip
    large = record | {"batch": 4096, "dtype": "float64", "forward_us": 0.5}
    (tmp_path / "robot_cpu.json").write_text(json.dumps([record, large]))
    text = (ROOT / "docs" / "robot.md").read_text(encoding="utf-8")
    page = results.filled("docs/robot.md", text, tmp_path)
    assert "| `inverse_dynamics` | 20 | 80 |" in page
    assert "| xarm7, 7 dof | rnea | 4096 | 0.50 / 80.00 | 1.50 / – |" in page
    assert "- Pinocchio: median 3, minimum 3 (values of rnea, xarm7, float64, batch 4096); below 1 in 0 of 1" in page
    assert results.filled("docs/robot.md", page, tmp_path) == page
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    assert "20 to 20 µs, and 80 to 80 µs with its gradient<!-- end -->" in results.filled("README.md", readme, tmp_path)


def test_results_pages_have_all_sections(tmp_path) -> None:
    """A record that is missing is named with the command that makes it; one that is there gives a table."""
    machine = {"processor": "P", "cores": "2", "load": "0.1", "python": "3"}
    trial = dict(problem="golf", seed=0, target=[4.0, 0.5], hit=True, iterations=5, off=0.001, seconds=1.25)
    missed = trial | {"target": [3.0, 0.25], "hit": False, "iterations": 50, "off": 0.123}
    (tmp_path / "optimise_cpu.json").write_text(json.dumps({"machine": machine, "trials": [trial, missed]}))
    run = dict(
        case="boxes", boxes=4, observed=96, unknowns=["friction"], starts=4, iterations=9, searching=55.4,
        sampling=96, seconds=12.0, good=3, held=[0.75], deviation=[0.013], spread=[1.25], largest=[3.0],
    )  # fmt: skip
    (tmp_path / "estimation_cpu.json").write_text(json.dumps({"machine": machine, "records": [run]}))
    search = dict(
        problem="estimate", method="gradients", seed=0, loss="chi square", unknowns=4, goal=91.0, episodes=[516, 520],
        seconds=[1.0, 1.5], best=[120.0, 90.5],
    )  # fmt: skip
    other = search | dict(method="CMA-ES", episodes=[8, 16], seconds=[0.5, 0.7], best=[200.0, 91.5])
    runs = [search, search | dict(seed=1, episodes=[516, 600]), other]
    (tmp_path / "cmaes_cpu.json").write_text(json.dumps({"machine": machine, "runs": runs}))
    page = "\n".join(results.pages(tmp_path).values())
    assert "| golf | 50 iterations; CMA-ES not within 1,500 episodes | 2 | 1 | 5, 5, 5 | 1.2 |" in page
    assert "Missed: golf at (3.00, 0.25) m: 12.3 cm off." in page
    assert "| boxes | 4 | friction | 1.3% | 1.25 | 75.0% ± 10.9% | 9 | 55 + 96 | 12 |" in page
    assert "3 of 4." in page
    assert "2 cores of P, load average 0.1 beforehand; python 3." in page
    assert "| estimate | 4 |  | 520 (1), 600 (1) | 1.5, 1.5 | not reached in 16 | 0.7 | 91.5 |" in page
    missing = "python -m bench.tables --steps 50 100 500 1000 5000 --json bench/results/tables_cpu.json"
    assert f"Not measured yet; run `{missing}`." in page
    readme = results.filled("README.md", (ROOT / "README.md").read_text(encoding="utf-8"), tmp_path)
    assert "2 random targets: 1 reached to within 1 cm in 5 to 5 iterations; medians 5 iterations and 1.2 s<" in readme
    assert "estimate 600 (CMA-ES: not reached in 16)<" in readme
