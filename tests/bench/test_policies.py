"""The pages about learning are made from records, and each is measured again by one command."""

import importlib.util
import json
import math
import shutil
from pathlib import Path

import numpy as np
import torch

import sim.envs
from bench import ants_page, curves, policies, policies_page, results, skills_page, walking_page
from bench.trainings import keep_policies
from sim.learn import load_policy, make_learner

MACHINE = {"processor": "P", "load": "0.1"}


def row(**values) -> dict:
    whole = dict(seed=0, method="shac", processor="P", envs=64, steps=2048, seconds=12.3, deviation=1.5, length=240.0)
    return {**whole, "return": -500.0, **values}


def test_policies_are_listed_beside_the_paper() -> None:
    rows = [
        row(task="Pendulum-2", method="apg", **{"return": 1.99996}, length=100.0),
        row(task="Pendulum-2", method="apg", seed=1, **{"return": 1.5}, length=100.0),
        row(
            task="Pendulum-2",
            method="apg",
            substeps=1,
            greatest=1.95,
            return_with_quarter_steps=-0.88,
            **{"return": 1.92},
        ),
        row(task="Pendulum-2", method="simulated", **{"return": 1.9}, length=100.0),
        row(task="Pendulum-2", method="near", **{"return": 1.8}, length=100.0),
        row(task="CartpoleSwingup", upright=0.9375),
        row(
            task="Ant", **{"return": 3456.7}, here={"speed": 2.5}, mujoco={"return": 61.0, "length": 39.0, "speed": 0.9}
        ),
    ]
    text = "\n".join(page({"rows": rows}) for page in (policies_page.pendulum_section, policies_page.robot_section))
    assert "| 2 | 2 | 1.93 ± 0.08 | 1.90 ± 0.02 | 2, 1.5 | 2048, 2048 | 12.3, 12.3 |" in text
    assert "| 2 | 1 | 1.95 | 1.92 | -0.88 | 0.20 | 1.20 |" in text
    assert "| CartpoleSwingup | SHAC | 0 | 2048 | 12 | -500 ± 1.5, 94% upright at the end | 240 | - | - |" in text
    assert "| Ant | SHAC | 0 | 2048 | 12 | 3457 ± 1.5 | 240 | 2.50 m/s | 61, 39, 0.90 m/s |" in text
    assert "| 2 | simulated action | 0 | 2048 | 12 | 1.9 |" in text
    assert "| 2 | 2 | - | - | 1.80 | 1.90 |" in text
    assert "| Ant | SHAC | 1 | 12 | 3457 | 2.50 | 39 | 0.90 |" in text
    assert "| 2 | stored derivatives, weighted | 0 | 2048 | 12 | 1.8 |" in text
    assert "Pendulum-3" not in text
    assert text.endswith("All on P.")
    rows.append(row(task="Hopper", method="ppo", processor="Q", here={"speed": 2.5}))
    assert "| training | P | Q |\n" in policies_page.processors(rows)
    assert "| Hopper (PPO) |  | 0 |\n" in policies_page.processors(rows)
    rows += [row(task="Ant", seed=seed, processor="Q") for seed in (3, 4)]
    assert "| Ant (SHAC) | 0 | 3, 4 |\n" in policies_page.processors(rows)


def test_times_are_listed() -> None:
    names = ("forward_us", "kernels_us", "torch_us", "gradient_us", "gymnasium_us", "mujoco_us")
    record = {"task": "Ant", "machine": MACHINE, **dict(zip(names, (50.0, 40.0, 6.0, 31.2, 41.6, 52.0), strict=True))}
    hopper = record | {"task": "Hopper"}
    record |= {"mjx_us": 60.4, "mjx_gradient_us": 700.0, "mjx": "JAX 1, MJX 2"}
    arm = {"task": "PandaReach", "envs": 4096, "forward_us": 50.0, "control_us": 30.0, "kernels_us": 15.0}
    arm |= {"gradient_us": 201.0, "machine": MACHINE}
    text = policies_page.times([record, hopper, arm])
    found = policies_page.arm_times([record, arm])
    solver = record | {"solver": "Newton's method"}
    assert "| Newton's method | 50 | 31 |" in policies_page.solver_times([record, arm, solver])
    assert found.startswith("50 µs in 4096 environments, of which 60% go to the control and 30% to the simulator's")
    assert "| Ant | 50 | 80%, 12%, 8% | 31 | 42 | 52 | 60, 700 |" in text
    assert "| Hopper | 50 | 80%, 12%, 8% | 31 | 42 | 52 | - |" in text
    assert text.endswith("load average 0.1 beforehand. JAX 1, MJX 2.")
    link = {"task": "one link", "forward_us": 130.4, "gradient_us": 390.0, "machine": MACHINE}
    assert policies_page.single_step([link, arm]) == "130 µs, 390 with a loss and its gradient"


def test_curves_are_thinned_and_drawn(tmp_path) -> None:
    """From the first end of an episode to the last point; a training in which none ended has no points."""
    returns = np.array([np.nan, np.nan, *np.arange(50.0)])
    curve = curves.thinned(np.arange(52) * 10, np.arange(52) * 0.5, returns, 8)
    assert curve["steps"] == [20, 90, 160, 230, 300, 370, 440, 510]
    assert curve["return"] == [0.0, 7.0, 14.0, 21.0, 28.0, 35.0, 42.0, 49.0]
    assert curve["seconds"][-1] == 25.5
    assert curves.thinned([1, 2], [0.1, 0.2], [np.nan, np.nan], 8) == {"steps": [], "seconds": [], "return": []}
    rows = [row(task=task, method=m, law="hard", curve=curve) for task in curves.TASKS for m in curves.METHODS]
    curves.plot_policies(tmp_path / "policies.png", {"rows": [*rows, row(task="Hopper")]})
    assert (tmp_path / "policies.png").stat().st_size > 5000


def test_cart_poles_are_listed_with_what_they_took() -> None:
    rows = [
        {"method": "shac", "seed": 0, "reached": True, "steps": 500, "seconds": 31.2, "return": -540.1},
        {"method": "sac", "seed": 0, "reached": False, "steps": 900, "seconds": 960.0, "return": -1400.2},
    ]
    text = policies_page.cartpole_section({"rows": rows})
    assert "| SHAC | 0 | 500 | 31 | -540 |\n| SAC | 0 | 900 | 960 | -1400, not reached |" in text


def test_every_task_has_a_training() -> None:
    assert len({case.key for case in policies.CASES}) == len(policies.CASES)
    cases = {(case.task, case.method) for case in policies.CASES}
    assert cases >= {("Pendulum-1", "apg"), ("Pendulum-7", "apg"), ("CartpoleSwingup", "shac"), ("Ant", "sac")}
    assert cases >= {(f"Pendulum-{links}", method) for links in (1, 2, 3) for method in policies_page.GRADIENTS}
    learner = policies.learner_of(policies.Case("Pendulum-1", "near", 1.0), 0)
    assert (learner.settings.enhance, learner.settings.near) == ("jacobian", True)


def test_ants_are_listed_beside_the_paper(tmp_path) -> None:
    played = {"return": [2000.4, 30.2], "length": [990.0, 9.0], "speed": [2.126, 0.1]}
    common = {"seed": 0, "minutes": 3.0, "processor": "P", "seconds": 180.2, "here": played, "mujoco": played}
    rows = [
        {"method": "here, then MuJoCo", "steps": {"here": 7000, "mujoco": 5000}, **common},
        {"method": "MuJoCo", "steps": {"mujoco": 5000}, **common},
    ]
    text = ants_page.pretraining_section({"rows": rows})
    both = "2000 ± 30, 990, 2.13 m/s | 2000 ± 30, 990, 2.13 m/s |"
    assert f"| MuJoCo | 868 ± 77 | 0 | - | 5000 | 180 | {both}\n" in text
    assert f"| here, then MuJoCo | 1735 ± 1066 | 0 | 7000 | 5000 | 180 | {both}" in text
    assert text.endswith("All on P.")
    curve = {"steps": [100, 200, 300], "seconds": [1.0, 2.0, 3.0], "return": [0.0, 30.0, 60.0]}
    added = {"seed": 0, "processor": "P", "final": 70.4, "deviation": 5.0, "length": 90.0}
    short = {"steps": [50, 100, 150], "seconds": [1.0, 2.0, 3.0], "return": [0.0, 10.0, 20.0]}
    record = {"rows": [{"variant": "nothing", **curve, **added}, {"variant": "nine", **short, **added}]}
    text = ants_page.enhancement_section(record)
    assert "| nothing | 0 | 300 | 3 | 0, 30, 60 | 15 | 70 ± 5 |" in text
    assert "| nine | 0 | 150 | 3 | 0, 10, 20 | 20 | 70 ± 5 |" in text
    ants_page.plot_enhancement(tmp_path / "curve.png", record)
    assert (tmp_path / "curve.png").is_file()


def test_walks_are_listed_with_the_time_to_the_goal(tmp_path) -> None:
    names = ("speed_error", "mean_speed_error", "turn_error", "falls")
    here, there = (dict(zip(names, values, strict=True)) for values in ((0.05, 0.04, 0.06, 0), (0.07, 0.06, 0.08, 1)))
    common = {
        "task": "Go2Velocity",
        "law": "hard",
        "processes": 2,
        "algorithm": "ppo",
        "seconds": [0.0, 30.0, 60.2],
        "steps": [0, 5000, 10000],
    }
    common |= {"here": here, "mujoco": there}
    rows = [
        {"seed": 0, "speed_error": [0.5, 0.099, 0.05], **common},
        {"seed": 1, "speed_error": [0.5, 0.3, 0.11], **common},
    ]
    rows[1]["load"] = [3.2, 11.6]
    text = walking_page.section({"rows": rows})
    numbers = "0.050 | 0.040 | 0.060 | 0 | 0.070 | 0.060 | 0.080 | 1 |"
    assert f"| Go2 | hard | PPO | 0 | - | 2 | 10,000 | 120 | 60 | {numbers}\n" in text
    assert f"| Go2 | hard | PPO | 1 | 3 to 12 | 2 | 10,000 | 120 | - | {numbers}\n" in text
    rows[1]["here"] = {**here, "speed_error": 0.11, "falls": 2}
    text = walking_page.section({"rows": rows})
    assert "| Go2 | hard | PPO | 2 | 120 | 1 of 2 | 60 | 0.050 to 0.110 | 0 to 2 | 0.070 | 1 |\n" in text
    assert walking_page.in_short({"rows": rows}) == (
        '- Go2 by PPO, law "hard": 1 of 2 below 0.1 m/s after 60 s; 0.050 to 0.110 m/s after 120 s'
    )
    walking_page.plot_errors(tmp_path / "curve.png", {"rows": rows})
    assert (tmp_path / "curve.png").stat().st_size > 5000


def test_successes_are_listed_with_the_time_to_most_of_them(tmp_path) -> None:
    common = {"task": "Go2GetUp", "law": "mujoco", "seconds": [0.0, 30.0, 60.2], "steps": [0, 5000, 1_000_000]}
    rows = [
        {"seed": 0, "load": [1.0, 2.2], "here": [0.0, 0.9375, 1.0], "mujoco": 0.96875, **common},
        {"seed": 1, "load": [1.0, 2.2], "here": [0.0, 0.25, 0.5], "mujoco": 0.5, **common},
        {**common, "task": "PickAndPlace", "seed": 0, "load": [1.0, 2.2], "here": [0.0, 0.0, 1.0], "mujoco": 1.0,
         "distance": 0.0028},
    ]  # fmt: skip
    text = skills_page.section({"rows": rows})
    assert "| Go2GetUp | mujoco | 2 | 1.0 | 60 | 1 of 2 | 30 | 32 to 64 | 32 to 62 |\n" in text
    assert "| Go2GetUp | mujoco | 1 | 1 to 2 | 1,000,000 | 60 | - | 32 | 32 | - |\n" in text
    assert "| PickAndPlace | mujoco | 0 | 1 to 2 | 1,000,000 | 60 | 60 | 64 | 64 | 2.8 |" in text
    said = skills_page.in_short({"rows": rows}, "Go2GetUp")
    assert "32 to 64 of 64 succeed with 2 seeds, nine tenths after 30 s; in MuJoCo 32 to 62." in said
    skills_page.plot_successes(tmp_path / "curve.png", {"rows": rows})
    assert (tmp_path / "curve.png").stat().st_size > 5000


def test_policies_are_kept_with_their_times(tmp_path) -> None:
    """A policy before the training and one after each part of it, of which there is one in three iterations."""
    task = sim.envs.make_task("Pendulum-1", substeps=1)
    learner = make_learner(task, "ppo", iterations=math.inf, device="cpu", envs=2, horizon=4)
    keep_policies(learner, tmp_path, "Pendulum-1", {"substeps": 1}, minutes=10.0, iterations=3)
    times = json.loads((tmp_path / "times.json").read_text())
    assert times["steps"] == [0, 3 * 2 * 4]
    assert times["envs"] == 2
    assert 0.0 == times["seconds"][0] < times["seconds"][1] < 60.0
    kept = [load_policy(tmp_path / f"{k}.pt")[0] for k in range(2)]
    seen = torch.ones(1, kept[0].num_observations)
    assert not torch.equal(kept[0](seen), kept[1](seen))


def test_a_page_is_measured_again_by_one_command(tmp_path, monkeypatch) -> None:
    """Each command that a page names is run, with a record of its own; the page is made from these."""
    commands = []

    def run(command, check):
        commands.append(command[1:-2])
        shutil.copy(results.RECORDS / Path(command[-1]).name, command[-1])

    monkeypatch.setattr(results.subprocess, "run", run)
    monkeypatch.setattr(results, "write_plots", lambda folder, records: None)  # the plots take seconds
    for page in results.PAGES:
        results.measure(page.name, tmp_path / page.name)
        written = (tmp_path / page.name / f"{page.name}.md").read_text()
        assert written == (results.DOCS / "results" / f"{page.name}.md").read_text()
    assert ["-m", "bench.pretraining", "--seeds", "5"] in commands
    assert all(importlib.util.find_spec(command[1]) for command in commands)
    options = " ".join(" ".join(command) for command in commands if "bench.policies" in command)
    assert all(f" {task}" in options for task in policies.TASKS)


def test_the_record_has_the_trainings_that_its_command_makes() -> None:
    record = json.loads((results.RECORDS / "policies_cpu.json").read_text())
    expected = {(*case.key, seed) for case in policies.CASES for seed in range(case.most_seeds)}
    assert {(*policies.key_of(row), row["seed"]) for row in record["rows"]} == expected
