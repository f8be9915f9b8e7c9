"""The softness of two geoms of an MJCF file together, where their numbers are beyond MuJoCo's bounds.

MuJoCo mixes the numbers of the file and bounds the result. Geometries here have numbers within the bounds, which are
then mixed. Where that gives something else, the softness of the pair is stated. So it is where the file disables
"refsafe", one of the bounds.
"""

from itertools import product

import numpy as np

from sim.importers.mjcf.geoms.softness import unbounded
from sim.importers.mjcf.reader import Reader, softness_of
from sim.simulation.stepping.mujoco.law import mixed_softness, pair_softness


class MixedSoftness:
    """The geoms of a file with numbers beyond the bounds, and what pairs of them have."""

    def __init__(self, reader: Reader):
        self._reader, self._model = reader, reader.file.model
        ends = self._model.pair_geom1.tolist(), self._model.pair_geom2.tolist()
        self._listed = {frozenset(pair) for pair in zip(*ends, strict=True)}
        solref, solimp = self._model.geom_solref, self._model.geom_solimp
        bounded = [softness_of(*numbers) for numbers in zip(solref, solimp, strict=True)]
        solrefs = np.reshape([each.solref for each in bounded], solref.shape)
        solimps = np.reshape([each.solimp for each in bounded], solimp.shape)
        freed = unbounded(reader.file, solref)
        self._beyond = np.asarray((solrefs != freed).any(axis=1) | (solimps != solimp).any(axis=1))

    def state(self, geom: int, others: np.ndarray, names: dict[int, list[str]]) -> None:
        """State the softness of a geom with others where theirs, mixed, is another than the file's.

        Those that the file lists as a ``<pair>`` have its softness.

        Args:
            geom: the geom.
            others: the geoms that it touches.
            names: of geometries, by geom.
        """
        geometries = self._reader.builder.geometries
        for other in others[self._beyond[others] | self._beyond[geom]].tolist():
            if frozenset((geom, other)) in self._listed:
                continue
            a, b = (geometries[names[each][0]].geometry for each in (geom, other))
            solref, solimp = self._mixed(geom, other)
            softness = softness_of(unbounded(self._reader.file, solref[None])[0], solimp)
            if softness == pair_softness(a, b):
                continue
            margin, gap = a.contact_margin + b.contact_margin, a.contact_gap + b.contact_gap
            for pair in product(names[geom], names[other]):
                self._reader.builder.set_pair_softness(*pair, softness=softness, contact_margin=margin, contact_gap=gap)

    def _mixed(self, geom: int, other: int) -> tuple[np.ndarray, np.ndarray]:
        """solref and solimp of two geoms, mixed and not bounded."""
        model, pair = self._model, [geom, other]
        priority, weights = model.geom_priority[pair], model.geom_solmix[pair]
        if priority[0] != priority[1]:
            first = pair[int(priority[1] > priority[0])]
            return model.geom_solref[first], model.geom_solimp[first]
        numbers = mixed_softness(model.geom_solref[pair].tolist(), model.geom_solimp[pair].tolist(), weights.tolist())
        solref, solimp = map(np.array, numbers)
        return solref, solimp
