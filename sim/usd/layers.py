"""Layers of a stage: contact points and forces, and conversion of errors while layers are written."""

import contextlib
import re
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from pxr import Gf, Sdf, Tf, Usd, UsdGeom, Vt

from sim.model.model import Model
from sim.simulation.contacts import Contacts
from sim.usd.materials import linear_color


@contextlib.contextmanager
def layer_errors() -> Iterator[None]:
    """Convert errors of USD to OSErrors, as a context manager.

    Raises:
        OSError: if a file can't be written, for example because the disk is full.
    """
    try:
        yield
    except Tf.ErrorException as error:
        # The quoted text of the first message, such as 'Error occurred writing file: No space left on device'
        quoted = re.search(r": '([^'\n]*)'\s*$", str(error), re.MULTILINE)
        raise OSError(quoted[1] if quoted else str(error)) from None


RED = (0.85, 0.15, 0.12)
POINT_RADIUS = 0.012  # [m]
ARROW_RADIUS = 0.004  # [m]
WEIGHT_LENGTH = 0.5  # length of a force equal to the weight of the model [m]


class ContactWriter:
    """Writer of contacts into a sublayer of the stage: a ball at each point and a line along the force on body b.

    Args:
        stage: the stage, with a file.
        name: name of the layer's file, in the folder of the stage.
        model: the model.
        force_scale: length of a force [m/N]. Default: the weight of the model is half a metre long.
        frame: the first frame with contacts.
    """

    def __init__(self, stage: Usd.Stage, name: str, model: Model, force_scale: float | None, frame: int):
        self.name = name
        weight = float(model.parameters["mass"].sum() * np.linalg.norm(model.parameters["gravity"]))
        self._scale = force_scale if force_scale is not None else WEIGHT_LENGTH / weight if weight else 1.0
        root = stage.GetRootLayer()
        with layer_errors():
            self._layer = Sdf.Layer.CreateNew(str(Path(root.realPath).with_name(name)))
        root.subLayerPaths.append(f"./{name}")
        self._stage = Usd.Stage.Open(self._layer)
        UsdGeom.SetStageUpAxis(self._stage, UsdGeom.Tokens.z)
        UsdGeom.SetStageMetersPerUnit(self._stage, 1.0)
        self._stage.SetTimeCodesPerSecond(stage.GetTimeCodesPerSecond())
        self._stage.SetDefaultPrim(UsdGeom.Xform.Define(self._stage, "/World").GetPrim())
        UsdGeom.Xform.Define(self._stage, "/World/Contacts")
        self._points = UsdGeom.PointInstancer.Define(self._stage, "/World/Contacts/points")
        ball = UsdGeom.Sphere.Define(self._stage, "/World/Contacts/points/ball")
        ball.CreateRadiusAttr(POINT_RADIUS)
        ball.CreateExtentAttr([Gf.Vec3f(-POINT_RADIUS), Gf.Vec3f(POINT_RADIUS)])
        ball.CreateDisplayColorAttr([linear_color(RED)])
        self._points.CreatePrototypesRel().SetTargets([ball.GetPath()])
        self._forces = UsdGeom.BasisCurves.Define(self._stage, "/World/Contacts/forces")
        self._forces.CreateTypeAttr(UsdGeom.Tokens.linear)
        self._forces.CreateWidthsAttr([2.0 * ARROW_RADIUS])
        self._forces.SetWidthsInterpolation(UsdGeom.Tokens.constant)
        self._forces.CreateDisplayColorAttr([linear_color(RED)])
        for before in sorted({0, frame - 1}) if frame > 0 else ():
            self.append(before, None)

    def append(self, frame: int, contacts: Contacts | None) -> None:
        """Draw the contacts of a frame that carry force; draw nothing for None."""
        loaded = np.zeros(0, dtype=bool) if contacts is None else np.linalg.norm(contacts.force, axis=1) > 0.0
        points = np.zeros((0, 3)) if contacts is None else contacts.point[loaded]
        ends = points if contacts is None else points + self._scale * contacts.force[loaded]
        lines = np.stack([points, ends], axis=1).reshape(-1, 3).astype(np.float32)
        low, high = (lines.min(axis=0), lines.max(axis=0)) if len(lines) else (np.zeros(3), np.zeros(3))
        box = np.stack([low - POINT_RADIUS, high + POINT_RADIUS]).astype(np.float32)
        for time in (Usd.TimeCode.Default(), Usd.TimeCode(0)) if frame == 0 else (Usd.TimeCode(frame),):
            self._points.CreateProtoIndicesAttr().Set(Vt.IntArray(len(points), 0), time)
            self._points.CreatePositionsAttr().Set(Vt.Vec3fArray.FromNumpy(points.astype(np.float32)), time)
            self._forces.CreateCurveVertexCountsAttr().Set(Vt.IntArray(len(points), 2), time)
            self._forces.CreatePointsAttr().Set(Vt.Vec3fArray.FromNumpy(lines), time)
            for drawn in (self._points, self._forces):
                drawn.CreateExtentAttr().Set(Vt.Vec3fArray.FromNumpy(box), time)
        self._stage.SetEndTimeCode(float(frame))

    def finish(self) -> None:
        """Write the layer."""
        self._stage.SetStartTimeCode(0.0)
        with layer_errors():
            self._layer.Save()
