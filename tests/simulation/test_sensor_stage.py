"""Which kernels read a step for its sensors."""

import pytest

import sim

CASES = {
    (): None,
    ("box/geometry",): ["store_contact_forces"],
    ("sole",): ["store_contact_forces", "store_sensor_forces"],
    ("root",): ["store_contact_forces", "store_wrenches"],
    ("root", "sole"): ["store_contact_forces", "store_sensor_forces", "store_wrenches"],
    ("deep",): ["store_contact_forces", "store_contact_readings"],
}


@pytest.mark.parametrize("chosen", CASES, ids="-".join)
def test_kernels_are_those_that_sensors_need(chosen):
    builder = sim.ModelBuilder()
    builder.add_ground()
    builder.add_box(half_extents=(0.1, 0.1, 0.1), mass=1.0, position=(0, 0, 0.1), name="box")
    builder.add_sensor("sole", "touch", "box", zone="box", zone_size=(0.3, 0.2, 0.06))
    builder.add_sensor("root", "force", "box")
    builder.add_contact_sensor("deep", ["force"], geometries=["box/geometry"])
    simulator = sim.Simulator(builder.finalize(), dt=0.01, device="cpu", contact_sensors=chosen)
    stage = simulator.engine.shards[0].step.sensors
    found = stage and [forward.key.split("__")[-1] for forward, _ in stage._kernels]
    assert found == CASES[chosen]
