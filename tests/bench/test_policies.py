"""The pages about learning are made from records."""

from bench import policies, policies_page

MACHINE = {"processor": "P", "load": "0.1"}


def row(**values) -> dict:
    whole = dict(seed=0, method="shac", processor="P", envs=64, steps=2048, seconds=12.3, deviation=1.5, length=240.0)
    return {**whole, "return": -500.0, **values}


def test_policies_are_listed_beside_the_paper() -> None:
    rows = [
        row(task="Pendulum-2", method="apg", **{"return": 1.99996}, length=100.0),
        row(task="Pendulum-2", method="apg", seed=1, **{"return": 1.5}, length=100.0),
        row(task="Pendulum-2", method="simulated", **{"return": 1.9}, length=100.0),
        row(task="CartpoleSwingup", upright=0.9375),
        row(
            task="Ant", **{"return": 3456.7}, here={"speed": 2.5}, mujoco={"return": 61.0, "length": 39.0, "speed": 0.9}
        ),
    ]
    text = policies_page.section({"rows": rows})
    assert "| 2 | 2 | 1.93 ± 0.08 | 1.90 ± 0.02 | 2, 1.5 | 2048, 2048 | 12.3, 12.3 |" in text
    assert "| CartpoleSwingup | SHAC | 0 | 2048 | 12 | -500 ± 1.5, 94% upright at the end | 240 | - | - |" in text
    assert "| Ant | SHAC | 0 | 2048 | 12 | 3457 ± 1.5 | 240 | 2.50 m/s | 61, 39, 0.90 m/s |" in text
    assert "| 2 | simulated action | 0 | 2048 | 12 | 1.9 |" in text
    assert "Pendulum-3" not in text
    assert text.endswith("All on P.")
    rows.append(row(task="Hopper", method="ppo", processor="Q", here={"speed": 2.5}))
    assert policies_page.processors(rows) == "Hopper (PPO) on Q; all others on P."


def test_times_are_listed() -> None:
    names = ("forward_us", "kernels_us", "gradient_us", "gymnasium_us", "mujoco_us")
    record = {"task": "Ant", "machine": MACHINE, **{name: 10.4 * (k + 1) for k, name in enumerate(names)}}
    arm = {"task": "PandaReach", "envs": 4096, "forward_us": 50.0, "control_us": 30.0, "kernels_us": 15.0}
    arm |= {"gradient_us": 201.0, "machine": MACHINE}
    text = policies_page.times([record, arm])
    found = policies_page.arm_times([record, arm])
    solver = record | {"solver": "Newton's method"}
    assert "| Newton's method | 10 | 31 |" in policies_page.solver_times([record, arm, solver])
    assert found.startswith("50 µs in 4096 environments, of which 60% go to the control and 30% to the simulator's")
    assert "| Ant | 10 | 21 | 31 | 42 | 52 |" in text
    assert "load average 0.1" in text


def test_every_task_has_a_training() -> None:
    assert len({case.key for case in policies.CASES}) == len(policies.CASES)
    cases = {(case.task, case.method) for case in policies.CASES}
    assert cases >= {("Pendulum-1", "apg"), ("Pendulum-7", "apg"), ("CartpoleSwingup", "shac"), ("Ant", "sac")}
