"""Contact forces that costs ask for: which sensors measure them, and how they follow from the readings."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch

from sim.errors import ModelError
from sim.model.model import Model
from sim.model.sensors.sensors import Sensor
from sim.model.specs import WORLD
from sim.simulation.simulator import Simulator
from warp_kernels.sensors.structs import CONTACT_FORCE, NORMAL, PER_CONTACT


@dataclass(frozen=True)
class Measure:
    """Contact force on some geometries.

    Attributes:
        on: names of the geometries or links, or the index of a geometry in the simulator's ``contact_sensors``.
        against: names of the geometries or links that touch them; None for all others.
        normal: True for the sum of the normal forces, as the first of three numbers; False for the force along world
            axes.
    """

    on: tuple[str, ...] | int
    against: tuple[str, ...] | None
    normal: bool

    @property
    def by_pairs(self) -> bool:
        """True if it takes single contacts, and not just the force on each geometry."""
        return self.normal or self.against is not None


class Forces:
    """Sensors of the forces that some costs ask for.

    Args:
        simulator: its ``contact_sensors`` are measured too, and come first.
        asked: measures of the costs, each with the name of its cost for messages.

    Attributes:
        measures: the measures, None for each of the simulator's ``contact_sensors``.
        changes: arguments of a simulator that measures them.

    Raises:
        ModelError: for an unknown geometry or link, naming the cost.
    """

    def __init__(self, simulator: Simulator, asked: Mapping[Measure, str]):
        given, model = simulator.contact_sensors, simulator.model
        names: list[int | str] = list(given)
        added: list[Sensor] = []
        self.measures: tuple[Measure | None, ...] = (*[None] * len(given), *asked)
        self._readings: list[list[int] | str] = [[k] for k in range(len(given))]
        for measure, where in asked.items():
            on = _geometries(model, given, measure.on, where)
            if measure.by_pairs:
                sensor = _sensor(model, given, measure, on, f"{where} {len(added)}")
                added.append(sensor)
                names.append(sensor.name)
                self._readings.append(sensor.name)
            else:
                names += [each for each in on if each not in names]
                self._readings.append([names.index(each) for each in on])
        self.changes: dict[str, Any] = {"contact_sensors": tuple(names)} if asked else {}
        if added:
            self.changes["model"] = replace(model, sensors=(*model.sensors, *added))
        self.measured = bool(names)

    def __call__(self, simulator: Simulator, raw: torch.Tensor, hold: int) -> torch.Tensor:
        """Return the forces, averaged over each stage [stages, worlds, measures, 3].

        Args:
            simulator: the simulator that measured them.
            raw: its readings in each step [steps, worlds, slots, 3].
            hold: number of steps of a stage.
        """
        found = [
            self._of_pairs(simulator, raw, reading, bool(measure and measure.normal))
            if isinstance(reading, str)
            else raw[:, :, reading].sum(2)
            for reading, measure in zip(self._readings, self.measures, strict=True)
        ]
        return torch.stack(found, dim=2).unflatten(0, (-1, hold)).mean(1)

    def _of_pairs(self, simulator: Simulator, raw: torch.Tensor, name: str, normal: bool) -> torch.Tensor:
        """Return the force of all contacts of a contact sensor on their second geometries [steps, worlds, 3]."""
        count = raw[:, :, simulator.contact_sensors.index(name), 0].detach()
        start, room = simulator.engine.shards[0].step.collision.contact_slots[name]
        rows = raw[:, :, start : start + PER_CONTACT * room].unflatten(2, (room, PER_CONTACT))
        there = torch.arange(room, device=raw.device) < count[..., None]
        force = rows[..., CONTACT_FORCE, :]
        if normal:
            along = (force * rows[..., NORMAL, :]).sum(-1, keepdim=True)
            force = torch.nn.functional.pad(along, (0, 2))
        return torch.where(there[..., None], force, 0.0).sum(2)


def _sensor(model: Model, given: Sequence[int | str], measure: Measure, on: list[int], name: str) -> Sensor:
    """Return the contact sensor of a measure."""
    if measure.against is None:
        others = [k for k, each in enumerate(model.geometries) if each.collides and k not in on]
    else:
        others = _geometries(model, given, measure.against, name)
    if both := set(on) & set(others):
        raise ModelError(f"cost '{name}': geometry '{model.geometries[min(both)].name}' is on both sides; remove one")
    first, second = (tuple(model.geometries[k].name for k in side) for side in (others, on))
    return Sensor(name, "contact", WORLD, geometries=first, against=second, readings=("force",), choice="net")


def _geometries(model: Model, given: Sequence[int | str], asked: tuple[str, ...] | int, where: str) -> list[int]:
    """Return the geometries that names mean, or the one of a sensor's index."""
    if isinstance(asked, int):
        if asked >= len(given):
            raise ModelError(
                f"cost '{where}': the simulator has {len(given)} contact sensors; give the name of a geometry or link, "
                "or an index below that"
            )
        chosen = given[asked]
        if isinstance(chosen, str):
            raise ModelError(
                f"cost '{where}': '{chosen}' is a sensor of contacts or forces; give the name of a geometry or link"
            )
        return [chosen]
    known = {each.name: k for k, each in enumerate(model.geometries) if each.collides}
    found: list[int] = []
    if not asked:
        raise ModelError(f"cost '{where}': no geometry is named; give at least one")
    for name in asked:
        link = model.link_names.index(name) if name in model.link_names else None
        of_link = [k for k in known.values() if model.geometries[k].link == link]
        if name not in known and not of_link:
            raise ModelError(
                f"cost '{where}': no geometry that collides is called '{name}', and no link of that name has one; "
                f"there are {', '.join(known)}"
            )
        found += [known[name]] if name in known else of_link
    return list(dict.fromkeys(found))
