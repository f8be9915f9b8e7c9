"""What a simulator would take is known before it is taken: many worlds, large ones, room for many contacts."""

import resource

import numpy as np
import pytest

import sim
from sim.simulation.engine import memory
from tests.errors import raises_naming
from tests.simulation.differences import METHODS


def balls(count: int) -> sim.Model:
    scene = sim.ModelBuilder()
    scene.add_ground()
    for k in range(count):
        scene.add_sphere(radius=0.1, mass=1.0, position=(0.3 * (k % 16), 0.3 * (k // 16), 0.1))
    return scene.finalize()


def peak() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


@pytest.mark.parametrize(("count", "worlds"), [(100, 4096), (40, 20_000), (3, 5_000_000)])
def test_worlds_are_refused_before_they_are_made(count, worlds, monkeypatch):
    monkeypatch.setattr(memory, "host_memory", lambda: 2_000_000_000)
    before = peak()
    with pytest.raises(
        sim.ModelError, match=rf"Simulator: {worlds} worlds would take .* cpu has 2 GB; at most \d+ fit"
    ):
        sim.Simulator(balls(count), 0.005, num_worlds=worlds, device="cpu")
    assert peak() - before < 300_000, "kB"


@pytest.mark.parametrize("solver", ["newton", "pgs"])
@pytest.mark.parametrize("contacts", [30_000_000, 10**8, 2**31, 10**12])
def test_room_for_too_many_contacts_is_refused(contacts, solver, monkeypatch):
    monkeypatch.setattr(memory, "host_memory", lambda: 8_000_000_000)
    options = METHODS[solver](max_contacts=contacts)
    with raises_naming("1 world", "max_contacts"):
        sim.Simulator(balls(2), 0.005, device="cpu", contact=options)


@pytest.mark.parametrize("seed", range(6))
def test_the_estimate_is_what_the_arrays_take(seed):
    """Within 15 % of all arrays of 64 worlds, what they share included."""
    rng = np.random.default_rng(seed)
    count, contacts = int(rng.integers(2, 30)), int(rng.integers(20, 1500))
    solver = "newton" if seed % 2 else "pgs"
    model, options = balls(count), METHODS[solver](max_contacts=contacts)
    simulator = sim.Simulator(model, 0.005, 64, "cpu", options, threads=1)
    (shard,) = simulator.engine.shards

    def make(worlds: int, room: int) -> object:
        few = METHODS[solver](max_contacts=room)
        return sim.Simulator(model, 0.005, worlds, "cpu", few, threads=1).engine.shards[0].step

    estimate = 64 * memory._bytes_per_world(contacts, make)
    assert estimate == pytest.approx(memory.bytes_of(shard.step), rel=0.15)


@pytest.mark.parametrize(
    ("groups", "files", "limit"),
    [
        ("0::/user/job\n", {"user/job/memory.max": "max", "user/memory.max": "5000"}, 5000),
        ("0::/user/job\n", {"user/job/memory.max": "3000", "user/memory.max": "5000"}, 3000),
        ("0::/\n", {"memory.max": "7000"}, 7000),
        ("0::/of/the/host\n", {"memory.max": "8000"}, 8000),
        ("5:cpu:/a\n4:memory:/job/3\n0::/\n", {"memory/job/3/memory.limit_in_bytes": "4000"}, 4000),
        ("9:cpu,memory:/of/the/host\n", {"memory/memory.limit_in_bytes": "6000"}, 6000),
        ("4:memory:/a\n0::/\n", {"memory/a/memory.limit_in_bytes": "9223372036854771712"}, None),
        ("4:cpu:/a\n", {"memory/a/memory.limit_in_bytes": "1", "cpu/a/memory.limit_in_bytes": "1"}, None),
        ("0::/a\n", {"a/memory.max": "max"}, None),
        (None, {}, None),
    ],
)
def test_limits_of_control_groups_of_both_versions(tmp_path, monkeypatch, groups, files, limit):
    monkeypatch.setattr(memory, "OWN_CGROUPS", tmp_path / "own")
    monkeypatch.setattr(memory, "CGROUPS", tmp_path / "cgroup")
    if groups is not None:
        (tmp_path / "own").write_text(groups)
    for name, text in files.items():
        path = tmp_path / "cgroup" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text + "\n")
    found = memory.host_memory()
    assert found == limit if limit is not None else found > 100_000_000
