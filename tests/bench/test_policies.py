"""The pages about learning are made from records."""

from bench import policies, policies_page

MACHINE = {"processor": "P", "load": "0.1"}


def row(**values) -> dict:
    whole = dict(seed=0, method="shac", envs=64, steps=2048, seconds=12.3, deviation=1.5, length=240.0)
    return {**whole, "return": -500.0, **values}


def test_policies_are_listed_beside_the_paper() -> None:
    rows = [
        row(task="Pendulum-2", **{"return": 1.99996}, length=100.0),
        row(task="Pendulum-2", seed=1, **{"return": 1.5}, length=100.0),
        row(task="CartpoleSwingup", upright=0.9375),
        row(
            task="Ant", **{"return": 3456.7}, here={"speed": 2.5}, mujoco={"return": 61.0, "length": 39.0, "speed": 0.9}
        ),
    ]
    text = policies_page.section({"rows": rows})
    assert "| 2 | 2 | 1.93 ± 0.08 | 1.90 ± 0.02 | 2, 1.5 | 2048, 2048 | 12.3, 12.3 |" in text
    assert "| CartpoleSwingup | 0 | 2048 | 12 | -500 ± 1.5, 94% upright at the end | 240 | - | - |" in text
    assert "| Ant | 0 | 2048 | 12 | 3457 ± 1.5 | 240 | 2.50 m/s | 61, 39, 0.90 m/s |" in text
    assert "Pendulum-3" not in text


def test_times_are_listed() -> None:
    names = ("forward_us", "kernels_us", "gradient_us", "gymnasium_us", "mujoco_us")
    record = {"task": "Ant", "machine": MACHINE, **{name: 10.4 * (k + 1) for k, name in enumerate(names)}}
    text = policies_page.times([record])
    assert "| Ant | 10 | 21 | 31 | 42 | 52 |" in text
    assert "load average 0.1" in text


def test_every_task_has_a_training() -> None:
    assert len({case.task for case in policies.CASES}) == len(policies.CASES)
    assert {case.task for case in policies.CASES} >= {"Pendulum-1", "Pendulum-7", "CartpoleSwingup", "Ant"}
