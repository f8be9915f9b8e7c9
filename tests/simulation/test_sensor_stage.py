"""Which kernels read a step for its sensors."""

import pytest

import sim

NAMES = [(), ("box/geometry",), ("sole",), ("root",), ("deep",), ("box/geometry", "sole", "root", "deep")]


@pytest.mark.parametrize("chosen", NAMES, ids="-".join)
def test_one_kernel_reads_a_step_for_all_sensors(chosen):
    builder = sim.ModelBuilder()
    builder.add_ground()
    builder.add_box(half_extents=(0.1, 0.1, 0.1), mass=1.0, position=(0, 0, 0.1), name="box")
    builder.add_sensor("sole", "touch", "box", zone="box", zone_size=(0.3, 0.2, 0.06))
    builder.add_sensor("root", "force", "box")
    builder.add_contact_sensor("deep", ["force"], geometries=["box/geometry"])
    simulator = sim.Simulator(builder.finalize(), dt=0.01, device="cpu", contact_sensors=chosen)
    step = simulator.engine.shards[0].step
    launched = []
    step.launch = lambda kernel, *_arguments, **_named: launched.append(kernel.key.split("__")[-1])
    step.store_readings()
    assert launched == (["store_sensor_readings"] if chosen else [])
