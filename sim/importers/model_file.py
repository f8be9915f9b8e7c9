"""Serialisation of a model for another process as arrays and plain data, so that reading runs no code.

The format is a length, a JSON text with names, numbers and the tree of dataclasses, and the memory of all arrays.
"""

import dataclasses
import json
import struct
from collections.abc import Mapping
from typing import Any

import numpy as np

from sim.model.frames import Frame, MountedCamera, StagePrim
from sim.model.geometries import Geometry, HullFaces, Mesh, PairFriction, PairSoftness
from sim.model.looks.lights import Light, MountedLight
from sim.model.looks.looks import Material, Texture
from sim.model.medium import DragBoxes
from sim.model.model import Keyframe, Model, MujocoOptions, Part
from sim.model.sensors.sensors import Sensor
from sim.model.softness import Softness
from sim.model.tendons.tendons import Tendons
from sim.model.topology import Equalities, ExcludedPairs, Transmissions

CLASSES = {
    each.__name__: each
    for each in (
        Model,
        Frame,
        Geometry,
        HullFaces,
        Light,
        Material,
        Mesh,
        MountedCamera,
        MountedLight,
        Part,
        MujocoOptions,
        Keyframe,
        PairFriction,
        PairSoftness,
        DragBoxes,
        Softness,
        StagePrim,
        Sensor,
        Equalities,
        Tendons,
        Texture,
        Transmissions,
    )
}
DTYPES = {"<f8", "<f4", "<i4", "<i8", "|b1", "|u1"}
SHARED = (Mesh, Texture)
LENGTH = struct.Struct("<Q")


def model_to_bytes(model: Model) -> bytes:
    """Return the bytes from which :func:`model_from_bytes` restores the model."""
    writer = _Writer()
    text = json.dumps(writer.plain(model)).encode()
    return b"".join([LENGTH.pack(len(text)), text, *writer.blocks])


def model_from_bytes(data: bytes) -> Model:
    """Restore the model from the bytes of :func:`model_to_bytes`.

    Raises:
        ValueError: for invalid bytes.
    """
    try:
        (length,) = LENGTH.unpack_from(data)
        model = _Reader(data, LENGTH.size + length).value(json.loads(data[LENGTH.size : LENGTH.size + length]))
    except (struct.error, KeyError, TypeError, IndexError, ValueError) as error:
        raise ValueError(f"not the bytes of a model: {error}") from None
    if not isinstance(model, Model):
        raise ValueError("not the bytes of a model")
    return model


class _Writer:
    def __init__(self) -> None:
        self.blocks: list[bytes] = []
        self._end = 0
        self._shared: dict[int, int] = {}

    def plain(self, value: Any) -> Any:
        """Convert a value to JSON types."""
        if value is None or isinstance(value, bool | int | float | str):
            return value
        if isinstance(value, np.generic):
            return value.item()
        if isinstance(value, np.ndarray):
            return self._array(value)
        if isinstance(value, tuple | list):
            return [self.plain(each) for each in value]
        if isinstance(value, Mapping):
            return {"map": {str(key): self.plain(each) for key, each in value.items()}}
        if isinstance(value, ExcludedPairs):
            return {"pairs": [self._array(each) for each in value.arrays()]}
        # Geometries that share a mesh or a texture still share it afterwards, so that its kernel data are made once.
        if isinstance(value, SHARED) and id(value) in self._shared:
            return {"shared": self._shared[id(value)]}
        made = {field.name: self.plain(getattr(value, field.name)) for field in dataclasses.fields(value)}
        if isinstance(value, SHARED):
            self._shared[id(value)] = len(self._shared)
        return {"class": type(value).__name__, "fields": made}

    def _array(self, array: np.ndarray) -> dict[str, Any]:
        block = np.ascontiguousarray(array).tobytes()
        self.blocks.append(block)
        self._end += len(block)
        return {"array": [array.dtype.str, list(array.shape), self._end - len(block)]}


class _Reader:
    def __init__(self, data: bytes, start: int):
        self._data, self._start = data, start
        self._shared: list[Mesh | Texture] = []

    def value(self, plain: Any) -> Any:
        """Restore the argument of :meth:`_Writer.plain`; sequences become tuples."""
        if isinstance(plain, list):
            return tuple(self.value(each) for each in plain)
        if not isinstance(plain, dict):
            return plain
        if "array" in plain:
            return self._array(*plain["array"])
        if "map" in plain:
            return {key: self.value(each) for key, each in plain["map"].items()}
        if "pairs" in plain:
            return ExcludedPairs.from_arrays(*(self.value(each) for each in plain["pairs"]))
        if "shared" in plain:
            return self._shared[plain["shared"]]
        made: Any = CLASSES[plain["class"]](**{name: self.value(each) for name, each in plain["fields"].items()})
        if isinstance(made, SHARED):
            self._shared.append(made)
        return made

    def _array(self, dtype: str, shape: list[int], offset: int) -> np.ndarray:
        if dtype not in DTYPES:
            raise ValueError(f"an array of type {dtype}")
        count = int(np.prod(shape, dtype=np.int64))
        return np.frombuffer(self._data, dtype, count, self._start + offset).reshape(shape).copy()
