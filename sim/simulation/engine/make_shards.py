"""The shards of a simulator's worlds: how many, with which worlds, and the step of each."""

import itertools

from sim.arrays.device_model import DeviceModel
from sim.simulation.engine.memory import made_in_memory
from sim.simulation.engine.parameters import Parameters
from sim.simulation.engine.settings import Settings
from sim.simulation.engine.shard import Shard
from sim.simulation.options import hard_options
from sim.simulation.stepping.body_grid import collision_model
from sim.simulation.stepping.collision import default_max_contacts
from sim.simulation.stepping.constraint_layout import constraint_layout
from sim.simulation.stepping.integrators.named import INTEGRATORS
from sim.simulation.stepping.lane_groups import lanes_worth
from sim.simulation.stepping.mujoco.law import MujocoLaw, require_mujoco_law
from sim.simulation.stepping.pipeline import Step
from sim.simulation.stepping.tendons.layout import require_explicit_tendons
from warp_kernels.types import LANES

# On a CPU a shard this small keeps its working arrays in the cache from one step to the next.
WORLDS_PER_SHARD = 64
MAX_SHARDS = 64


def make_shards(settings: Settings, parameters: Parameters) -> list[Shard]:
    """Return shards of all worlds, with arrays for the present values of the parameters.

    Raises:
        ModelError: for a model that the law or the integrator doesn't have, for masses that leave the mass matrix
            singular, and for more worlds than there is memory for.
    """
    s, model = settings, settings.model
    room = s.contact.max_contacts
    room = default_max_contacts(model, hard_options(s.contact).margin) if room is None else room
    collision = collision_model(model, s.device, s.contact_sensors, s.contact, room)
    contacts = room if collision.num_pairs else 0
    values = {name: parameters.first_numbers(name) for name in parameters.values}
    layout = constraint_layout(model, values)
    law = None
    if s.by_mujoco:
        require_mujoco_law(layout)
        law = MujocoLaw(model, collision)
    if s.integrator in ("implicit", "implicitfast"):
        require_explicit_tendons(model, values, s.integrator)

    def make_step(first: int, last: int, contacts: int = contacts) -> Step:
        own = {name: value[first:last] if parameters.per_world(name) else value for name, value in values.items()}
        device_model = DeviceModel(model, s.device, last - first, own)
        device_model.require_masses()
        found = collision.for_worlds(last - first, contacts)
        world_range = (s.num_worlds, first)
        return INTEGRATORS[s.integrator](
            device_model, found, layout, s.contact, s.dt, world_range, contacts, law, s.state_limit
        )

    def make_all() -> list[Shard]:
        return [Shard(make_step(first, last)) for first, last in itertools.pairwise(_bounds(s))]

    items = model.nv + model.num_links + model.num_geometries
    make = lambda worlds, contacts: make_step(0, worlds, contacts)  # noqa: E731
    return made_in_memory(s.num_worlds, contacts, items, s.device, make, make_all)


def _bounds(settings: Settings) -> list[int]:
    """Return the first world of each shard, and the number of worlds."""
    worlds, count = settings.num_worlds, 1
    if settings.device.is_cpu:
        count = min(max(-(-worlds // WORLDS_PER_SHARD), min(settings.threads, worlds // 8)), MAX_SHARDS)
        count = max(count, 1)
    # Whole lane groups, so that a world has the same place in its group whatever the number of threads.
    lanes = lanes_worth(LANES, worlds)
    groups = -(-worlds // lanes)
    return [min(lanes * (groups * i // count), worlds) for i in range(count + 1)]
