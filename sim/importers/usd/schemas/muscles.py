"""Muscles in MuJoCo's schema."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import Any

import numpy as np
from pxr import Usd

from sim.importers.force_laws import ForceLaw, NoForceLawError
from sim.importers.muscles import muscle_law
from sim.importers.usd.reader import Reader
from sim.simulation.stepping.mujoco_law import InverseWeights

# MuJoCo's array of parameters of a force
PARAMETERS = 10


class Muscles:
    """Muscles of an import in progress, after all links, joints and tendons have been added."""

    def __init__(self, reader: Reader):
        """Take the reader; the model's inertia is computed once a peak force follows from it."""
        self._reader = reader

    def law(self, prim: Usd.Prim, value: Mapping[str, Any], driven: Mapping[str, Any], gear: float) -> ForceLaw:
        """Return the law of a muscle.

        Args:
            prim: its prim.
            value: its attributes by name.
            driven: its target, as arguments of the builder.
            gear: its gear.

        Raises:
            NoForceLawError: for a muscle without a counterpart.
            ImportFileError: naming the prim, if the mass matrix that its peak force follows from is singular.
        """
        scene = self._reader.scene
        if "frame" in driven:
            raise NoForceLawError("which is a muscle, but acts neither on a joint nor on a tendon")
        if (scene.length, scene.mass) != (1.0, 1.0):
            raise NoForceLawError("which is a muscle of a stage whose units aren't metres and kilograms")
        if value["mjc:biasType"] not in ("muscle", "none"):
            raise NoForceLawError("which is a muscle with a passive force that isn't that of a muscle")
        lengths = [scene.number(prim, f"mjc:lengthRange:{side}") or 0.0 for side in ("min", "max")]
        if not lengths[0] < lengths[1]:
            raise NoForceLawError(
                "which is a muscle without a range of lengths, which MuJoCo's compiler computes; state mjc:lengthRange"
            )
        gain, bias = (
            [*map(float, value[f"mjc:{each}Prm"]), *[0.0] * PARAMETERS][:PARAMETERS] for each in ("gain", "bias")
        )
        passive = value["mjc:biasType"] == "muscle"
        follows = gain[2] < 0.0 or (passive and bias[2] < 0.0)
        acceleration = self._reader.add(prim.GetPath(), self._acceleration, driven, gear) if follows else 0.0
        return muscle_law(gain, bias if passive else None, lengths, acceleration)

    def _acceleration(self, driven: Mapping[str, Any], gear: float) -> float:
        """Return the norm of the joint accelerations by a unit force of an actuator, as MuJoCo's ``actuator_acc0``."""
        weights = self._weights
        if "tendon" in driven:
            moment = weights.slopes()[weights.model.tendons.names.index(driven["tendon"])]
        else:
            moment = np.zeros(weights.model.nv)
            moment[weights.model.qd_slice(driven["joint"])] = 1.0
        return abs(gear) * float(np.linalg.norm(weights.inverse @ moment))

    @cached_property
    def _weights(self) -> InverseWeights:
        return InverseWeights(self._reader.builder.finalize("float64", collapse_fixed=False))
