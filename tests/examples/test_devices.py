"""The conveyor, the suction cup, the turntable and the top move as their closed forms say."""

import numpy as np
import pytest

from examples import devices as example

BOUNDS = {
    "slip of the parcel on the belt [m]": 2e-5,
    "place of the parcel on the turntable [m]": 1e-4,
    "velocity of the parcel there [rad/s]": 1e-4,
    "precession of the top [rad/s]": 0.05,
    "change of its lean [rad]": 3e-3,
}


def test_devices(monkeypatch, tmp_path, capsys):
    monkeypatch.setattr("sys.argv", ["devices", "--no-render", "--out", str(tmp_path)])
    motions = []
    ride = example.ride
    monkeypatch.setattr(example, "ride", lambda: motions.append(ride()) or motions[0])
    example.main()
    assert {path.name for path in tmp_path.iterdir()} == {"devices.npz", "devices.usda"}
    found = example.measure(motions[0])
    assert set(found) == set(BOUNDS)
    for name, bound in BOUNDS.items():
        assert abs(found[name][0] - found[name][1]) < bound, name
    assert f"{found['slip of the parcel on the belt [m]'][0]:.4f}" in capsys.readouterr().out
    with np.load(tmp_path / "devices.npz") as file:
        assert file["q"].shape == motions[0].q.shape
        assert file["dt"] == example.DT


def test_the_cup_moves_smoothly():
    times, values = np.array([0.0, 1.0, 3.0]), np.array([0.0, 2.0, -1.0])
    now = np.linspace(0.0, 3.0, 3001)
    path = example.smooth(now, times, values)
    assert path[[0, 1000, 3000]] == pytest.approx(values)
    rates = np.gradient(path, now)
    assert np.abs(rates[[0, 1000, 3000]]).max() < 1e-2
