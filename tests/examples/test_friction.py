"""The friction of the ground, told from where a sliding car stops."""

import numpy as np
import pytest

from examples import friction as example
from scenes import racecar
from sim.progress import Progress
from sim.simulation.parameters import SimulatorParameters


@pytest.mark.parametrize("distance", [0.4, 0.8])
def test_finds_the_friction_of_the_closed_form(distance, device):
    scene = racecar.build("float64")
    result = example.estimate(scene, distance, 20, device)
    assert result.distances[-1] < example.GOAL
    assert len(result.distances) - 1 <= 10
    # A step of h takes mu g h from the velocity and then moves by what is left: v h / 2 less than without steps.
    stopped = distance + racecar.SPEED * scene.dt / 2.0
    assert result.frictions[-1] == pytest.approx(racecar.SPEED**2 / (2.0 * example.GRAVITY * stopped), rel=3e-3)
    assert result.frictions[0] == example.START


def test_files(monkeypatch, tmp_path, capsys):
    def run(*arguments):
        monkeypatch.setattr("sys.argv", ["friction", "--no-render", "--out", str(tmp_path), *arguments])
        example.main()

    run()
    assert {path.name for path in tmp_path.iterdir()} == {"loss.png", "friction.npz", "friction.usda"}
    printed = capsys.readouterr().out
    assert "found: friction 0.06" in printed
    with np.load(tmp_path / "friction.npz") as file:
        assert file["distances"][-1] < example.GOAL
        assert len(file["frictions"]) == len(file["distances"])


def test_a_distance_out_of_reach_is_named(monkeypatch, capsys):
    monkeypatch.setattr("sys.argv", ["friction", "--distance", "7"])
    with pytest.raises(SystemExit):
        example.main()
    assert "the car can stop between 0 and 2.5 m ahead" in capsys.readouterr().err


@pytest.mark.parametrize("iterations", [20, 1])
def test_goes_on_after_an_interruption(monkeypatch, tmp_path, device, iterations):
    """As without the interruption; asked for fewer iterations than were made, it tries what they led to."""
    scene = racecar.build()
    whole = example.estimate(scene, 0.8, 20, device)
    kept = Progress(tmp_path / "interrupted.npz", {})
    update, tried = SimulatorParameters.update, []

    def interrupted(self, *arguments):
        if len(tried) == 2:
            raise KeyboardInterrupt
        tried.append(1)
        return update(self, *arguments)

    with monkeypatch.context() as patch:
        patch.setattr(SimulatorParameters, "update", interrupted)
        with pytest.raises(KeyboardInterrupt):
            example.estimate(scene, 0.8, 20, device, kept)
    with kept:
        result = example.estimate(scene, 0.8, iterations, device, kept)
    count = len(whole.distances) if iterations == 20 else 3
    assert result.distances == whole.distances[:count]
    assert result.frictions == whole.frictions[:count]
    assert not list(tmp_path.iterdir())
