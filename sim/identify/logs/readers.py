"""Logs from files and tables, by the names of their columns."""

import csv
import os
import zipfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from sim.errors import ImportFileError, ModelError
from sim.identify.logs.log import CHANNELS, Log, channel_names
from sim.model.checks import require_path, require_type
from sim.model.model import Model

# A pattern with {joint} in it, the name of each column in the order of the model, or names of columns by joint.
Columns = str | Sequence[str] | Mapping[str, str]
DEFAULT: dict[str, Columns] = {"q": "q_{joint}", "qd": "qd_{joint}", "tau": "tau_{joint}", "control": "u_{joint}"}
JOINT_STATE = "sensor_msgs/msg/JointState"
# Arrays of measurements are compressed by less; a small file that holds a huge array isn't a log.
MOST_COMPRESSED, LARGE = 200, 100_000_000
LARGEST_BAG = 4_000_000_000  # bytes of messages


def read_csv(path: str | os.PathLike[str], model: Model, *, time: str = "time", **columns: Columns | None) -> Log:
    """Read a log from a CSV file with names in its first line.

    Args:
        path: the file. Fields may be separated by commas, semicolons or tabs.
        model: the model.
        time: name of the column with the time [s].
        **columns: columns of ``q``, ``qd``, ``qdd``, ``tau``, ``control`` and ``act``: a pattern such as "q_{joint}",
            where {joint} stands for each joint in turn (for a control each actuator; ``base[0]``, ``base[1]`` ... for a
            joint with several numbers), a list of names in the order of the model, or a dictionary with the columns of
            those that were measured, such as {"base[0]": "x"}. None: absent. Default: "q_{joint}", and "qd_{joint}",
            "tau_{joint}" and "u_{joint}" if the file has all of their columns.

    Empty fields and "nan" are gaps.

    Raises:
        ImportFileError: for an unreadable file, a missing column, or a value that isn't a number, naming the column and
            the line.

    Example:
        >>> import tempfile
        >>> import numpy as np
        >>> import sim
        >>> from sim.identify import read_csv
        >>> scene = sim.ModelBuilder()
        >>> _ = scene.add_link("bob", mass=2.0, com=(0, 0, -0.5), inertia=0.1 * np.eye(3))
        >>> _ = scene.add_joint("hinge", "revolute", child="bob", axis=(0, 1, 0))
        >>> model = scene.finalize("float64")
        >>> path = tempfile.mkdtemp() + "/log.csv"
        >>> with open(path, "w") as file:
        ...     print("time,q_hinge,torque", "0.0,0.1,1.5", "0.1,0.2,1.4", sep=chr(10), file=file)
        >>> log = read_csv(path, model, tau=["torque"])
        >>> log.q.tolist(), log.tau.tolist()
        ([[0.1], [0.2]], [[1.5], [1.4]])
    """
    _require(path, model)
    try:
        with open(path, newline="", encoding="utf-8-sig") as file:
            start = file.read(4096)
            file.seek(0)
            header = start.splitlines()[0] if start.splitlines() else ""
            rows = list(csv.reader(file, delimiter=max(",;\t", key=header.count)))
    except (OSError, UnicodeDecodeError, csv.Error, MemoryError) as error:
        raise ImportFileError(path, f"can't be read: {getattr(error, 'strerror', None) or error}") from None
    if not rows:
        raise ImportFileError(path, "the file is empty")
    names = [name.strip() for name in rows[0]]
    lines = [(number, row) for number, row in enumerate(rows[1:], start=2) if row]

    def column(name: str) -> np.ndarray:
        index, values = names.index(name), np.empty(len(lines))
        for k, (number, row) in enumerate(lines):
            if len(row) != len(names):
                raise ImportFileError(path, f"has {len(row)} fields; expected {len(names)}", f"line {number}")
            try:
                values[k] = float(row[index].strip() or "nan")
            except ValueError:
                message = f"{row[index]!r} is not a number"
                raise ImportFileError(path, message, f"line {number}, column '{name}'") from None
        return values

    return _log(path, model, names, column, time, columns)


def read_npz(path: str | os.PathLike[str], model: Model, *, time: str = "time", **names: str | None) -> Log:
    """Read a log from an .npz file, which has an array for each channel.

    Args:
        path: the file.
        model: the model.
        time: name of the array with the time [n], s.
        **names: names of the arrays with ``q`` [n, nq], ``qd``, ``qdd``, ``tau`` [n, nv], ``control`` [n, nu] and
            ``act`` [n, na].
            Default: those of these names that exist.

    Raises:
        ImportFileError: for an unreadable file, and for a missing array or one of the wrong shape.

    Example:
        >>> import tempfile
        >>> import numpy as np
        >>> import sim
        >>> from sim.identify import read_npz
        >>> scene = sim.ModelBuilder()
        >>> _ = scene.add_link("bob", mass=2.0, com=(0, 0, -0.5), inertia=0.1 * np.eye(3))
        >>> _ = scene.add_joint("hinge", "revolute", child="bob", axis=(0, 1, 0))
        >>> model = scene.finalize("float64")
        >>> path = tempfile.mkdtemp() + "/log.npz"
        >>> np.savez(path, t=[0.0, 0.1], q=[[0.1], [0.2]])
        >>> read_npz(path, model, time="t").q.tolist()
        [[0.1], [0.2]]
    """
    _require(path, model)
    _require_channels(names)
    _refuse_bomb(path)
    try:
        with open(path, "rb") as stream:  # numpy leaves it open if the file is malformed
            file = np.load(stream, allow_pickle=False)
            if isinstance(file, np.ndarray):
                raise ValueError("it contains a single array, like .npy files; write it with numpy.savez")
            wanted = {"time": time, "q": names.get("q") or "q"}
            for channel in CHANNELS[1:]:
                name = names.get(channel, channel if channel in file.files else None)
                if name is not None:
                    wanted[channel] = name
            for name in wanted.values():
                if name not in file.files:
                    raise ImportFileError(path, f"has no array '{name}'; there are {', '.join(file.files)}")
            arrays = {channel: file[name] for channel, name in wanted.items()}
    except ImportFileError:
        raise
    except Exception as error:  # NumPy's reader raises errors of many types for a damaged file
        raise ImportFileError(path, f"can't be read: {error or type(error).__name__}") from None
    for channel, array in arrays.items():
        if array.dtype.kind not in "biuf":
            raise ImportFileError(path, f"array '{wanted[channel]}' has dtype {array.dtype}; expected real numbers")
    return _made(path, model, arrays)


def read_frame(frame: Any, model: Model, *, time: str = "time", **columns: Columns | None) -> Log:
    """Read a log from a pandas DataFrame. Arguments as for :func:`read_csv`; ``time`` may name its index.

    Dates and durations of pandas are valid times: dates count in seconds from the first row.

    Example:
        >>> import numpy as np
        >>> import pandas
        >>> import sim
        >>> from sim.identify import read_frame
        >>> scene = sim.ModelBuilder()
        >>> _ = scene.add_link("bob", mass=2.0, com=(0, 0, -0.5), inertia=0.1 * np.eye(3))
        >>> _ = scene.add_joint("hinge", "revolute", child="bob", axis=(0, 1, 0))
        >>> model = scene.finalize("float64")
        >>> frame = pandas.DataFrame({"time": [0.0, 0.1], "q_hinge": [0.1, 0.2]})
        >>> read_frame(frame, model).q.tolist()
        [[0.1], [0.2]]
    """
    if not hasattr(frame, "columns"):
        raise ModelError(f"frame is a {type(frame).__name__}; it must be a pandas.DataFrame")
    names = [str(name) for name in frame.columns]
    if time not in names and frame.index.name == time:
        frame = frame.reset_index()
        names = [str(name) for name in frame.columns]

    def column(name: str) -> np.ndarray:
        values = frame.iloc[:, names.index(name)]
        if name == time and values.dtype.kind == "M":
            values = values - values.iloc[0]
        if name == time and values.dtype.kind == "m":
            values = values.dt.total_seconds()
        if values.dtype.kind in "mM":
            raise ImportFileError("DataFrame", f"column '{name}' contains times, not numbers")
        try:
            return np.asarray(values, dtype=np.float64)
        except (TypeError, ValueError):
            row = next(k for k, value in enumerate(values) if not _is_number(value))
            message = f"{values.iloc[row]!r} is not a number"
            raise ImportFileError("DataFrame", message, f"row {row}, column '{name}'") from None

    return _log("DataFrame", model, names, column, time, columns)


def read_rosbag(path: str | os.PathLike[str], model: Model, *, topic: str = "/joint_states") -> Log:
    """Read a log from a bag of ROS 1 or 2 with messages of type sensor_msgs/JointState, through the package
    ``rosbags``.

    Positions, velocities and efforts are assigned to joints by name; other joints in the messages are ignored. Joints
    that a message lacks are gaps; a joint that follows another one (mimic) and is in no message gets its coordinate and
    velocity from that one, and no effort. The time is that of the messages' headers, starting at the first one.

    Args:
        path: the bag: a .bag file, or the folder of ROS 2.
        model: the model, whose joints have one coordinate each.
        topic: topic of the messages.

    Raises:
        ImportFileError: for an unreadable bag, a missing topic or one of another type, messages without any joint of
            the model, and a message whose numbers of values and joints differ.
        ModelError: without the package, which the extra ``rosbag`` installs.

    Example:
        >>> import pathlib, tempfile
        >>> import numpy as np
        >>> from rosbags.rosbag2 import Writer
        >>> from rosbags.typesys import Stores, get_typestore
        >>> import sim
        >>> builder = sim.ModelBuilder()
        >>> _ = builder.add_link("lid", mass=1.0, inertia=(0.1, 0.1, 0.1))
        >>> _ = builder.add_joint("hinge", "revolute", child="lid", axis=(0.0, 1.0, 0.0))
        >>> store = get_typestore(Stores.ROS2_HUMBLE)
        >>> Time, Header = (store.types[name] for name in ("builtin_interfaces/msg/Time", "std_msgs/msg/Header"))
        >>> JointState, none = store.types["sensor_msgs/msg/JointState"], np.zeros(0)
        >>> bag = pathlib.Path(tempfile.mkdtemp(), "bag")
        >>> with Writer(bag, version=9) as writer:  # as a robot records it
        ...     topic = writer.add_connection("/joint_states", JointState.__msgtype__, typestore=store)
        ...     for k in range(3):
        ...         header = Header(Time(sec=5, nanosec=k * 10_000_000), "")
        ...         message = JointState(header, ["hinge"], np.array([0.1 * k]), none, none)
        ...         writer.write(topic, k, store.serialize_cdr(message, JointState.__msgtype__))
        >>> log = sim.identify.read_rosbag(bag, builder.finalize("float64"))
        >>> log.time.tolist(), log.q[:, 0].tolist()
        ([0.0, 0.01, 0.02], [0.0, 0.1, 0.2])
    """
    _require(path, model)
    try:
        from rosbags.highlevel import AnyReader
        from rosbags.typesys import Stores, get_typestore
    except ImportError:
        raise ModelError("reading a bag needs the package rosbags: pip install 'backswing[rosbag]'") from None
    if model.nq != model.nv:
        raise ModelError("a JointState has one position for each joint, but the model has joints with quaternions")
    try:
        with AnyReader([Path(path)], default_typestore=get_typestore(Stores.ROS2_HUMBLE)) as bag:
            found = [each for each in bag.connections if each.topic == topic]
            if not found:
                topics = ", ".join(sorted({each.topic for each in bag.connections}))
                raise ImportFileError(path, f"has no topic '{topic}'; there are {topics}")
            for each in found:
                if each.msgtype != JOINT_STATE:
                    raise ImportFileError(path, f"topic '{topic}' is of type {each.msgtype}; expected {JOINT_STATE}")
            messages, size = [], 0
            for each, _, raw in bag.messages(connections=found):
                size += len(raw)
                if size > LARGEST_BAG:
                    raise ImportFileError(path, f"has more than {LARGEST_BAG / 1e9:g} GB of messages; split it")
                messages.append(bag.deserialize(raw, each.msgtype))
    except ImportFileError:
        raise
    except Exception as error:  # the reader raises errors of many types for a damaged bag
        raise ImportFileError(path, f"can't be read: {error or type(error).__name__}") from None
    return _of_messages(path, model, messages)


def _of_messages(path: Any, model: Model, messages: list[Any]) -> Log:
    index = {name: k for k, name in enumerate(channel_names(model, "q"))}
    stamps = [message.header.stamp for message in messages]
    seconds = [each.sec - stamps[0].sec + 1e-9 * (each.nanosec - stamps[0].nanosec) for each in stamps]
    channels = {"time": np.array(seconds)}
    for channel, attribute in (("q", "position"), ("qd", "velocity"), ("tau", "effort")):
        found = np.full((len(messages), model.nv), np.nan)
        for row, message in enumerate(messages):
            if len(set(message.name)) < len(message.name):
                twice = next(name for name in message.name if message.name.count(name) > 1)
                raise ImportFileError(path, f"names joint '{twice}' twice; rename one", f"message {row}")
            values = getattr(message, attribute)
            if len(values) not in (0, len(message.name)):
                problem = f"{attribute} has {len(values)} values for {len(message.name)} joints"
                raise ImportFileError(path, problem, f"message {row}")
            for name, value in zip(message.name, values, strict=False):
                if name in index:
                    found[row, index[name]] = value
        if channel == "q" and np.isnan(found).all():
            there = ", ".join(dict.fromkeys(name for message in messages for name in message.name))
            raise ImportFileError(path, f"has no position of {', '.join(index)}; there are {there or 'no joints'}")
        if not np.isnan(found).all():
            channels[channel] = found
    return _made(path, model, channels)


def _log(
    path: Any,
    model: Model,
    names: list[str],
    column: Callable[[str], np.ndarray],
    time: str,
    columns: Mapping[str, Columns | None],
) -> Log:
    """Return a log whose channels are found by the names of columns."""
    require_type("model", model, Model, "a sim.Model; for a robot give robot.model")
    _require_channels(columns)
    channels: dict[str, list[str | None]] = {"time": [time]}
    for channel in CHANNELS:
        pattern = columns.get(channel, DEFAULT.get(channel))
        if pattern is None:
            continue
        found = _named(path, channel, pattern, channel_names(model, channel))
        # Channels that aren't requested are read if they exist.
        if channel == "q" or channel in columns or (found and set(found) <= set(names)):
            channels[channel] = found
    for channel, wanted in channels.items():
        for name in filter(None, wanted):
            if name not in names:
                raise ImportFileError(
                    path, f"has no column '{name}' for {channel}; name yours with {channel}=: {', '.join(names)}"
                )
            if names.count(name) > 1:
                raise ImportFileError(path, f"has several columns '{name}'; give them different names")
    moments = column(time)
    arrays = {
        channel: np.stack([column(name) if name else np.full(len(moments), np.nan) for name in wanted], axis=1)
        for channel, wanted in channels.items()
    }
    return _made(path, model, arrays | {"time": moments})


def _named(path: Any, channel: str, columns: Columns, owners: Sequence[str]) -> list[str | None]:
    """Return the name of each owner's column; None where a dictionary has none."""
    if isinstance(columns, Mapping):
        for name in columns:
            if name not in owners:
                raise ModelError(f"{path}: {channel} of '{name}' doesn't exist; there are {', '.join(owners)}")
        return [columns.get(owner) for owner in owners]
    found = [columns.replace("{joint}", owner) for owner in owners] if isinstance(columns, str) else list(columns)
    if len(found) != len(owners):
        raise ModelError(
            f"{path}: {channel} names {len(found)} columns; it needs {len(owners)}: {', '.join(owners)}. If only some "
            f"were measured, give those by name: {channel}={{'{owners[0]}': ...}}"
        )
    return list(found)


def _made(path: Any, model: Model, channels: Mapping[str, np.ndarray]) -> Log:
    try:
        log = Log(model, source=str(path), **channels)
    except ModelError as error:
        raise ImportFileError(path, str(error).removeprefix(f"{path}: ")) from None
    return _with_followers(log)


def _with_followers(log: Log) -> Log:
    """Return the log with coordinates and velocities of unmeasured joints that follow another one, and no force."""
    model, found = log.model, {name: getattr(log, name) for name in ("q", "qd", "tau")}
    joined, parameters = model.equalities, model.parameters
    couplings = zip(
        joined.coupling_dof, joined.coupling_other, parameters["coupling_ratio"], parameters["coupling_offset"],
        strict=True,
    )  # fmt: skip
    for dof, other, ratio, offset in list(couplings) * len(joined.coupling_names):  # one may follow a follower
        at, of = (int(model.dof_q[k]) for k in (dof, other))
        for name, value in found.items():
            column = at if name == "q" else dof
            if value is not None and np.isnan(value[:, column]).all():
                followed = {
                    "q": ratio * found["q"][:, of] + offset,
                    "qd": ratio * value[:, other],
                    "tau": np.zeros(len(log)),
                }
                found[name] = value.copy()
                found[name][:, column] = followed[name]
    return replace(log, **found)


def _require(path: object, model: object) -> None:
    require_path(path)
    require_type("model", model, Model, "a sim.Model; for a robot give robot.model")


def _refuse_bomb(path: str | os.PathLike[str]) -> None:
    """Raise ImportFileError for a zip file with a large array that is compressed more than measurements can be."""
    try:
        with zipfile.ZipFile(path) as file:
            entries = file.infolist()
    except Exception:  # NumPy's message tells what is wrong
        return
    for entry in entries:
        if entry.file_size > max(LARGE, MOST_COMPRESSED * entry.compress_size):
            raise ImportFileError(
                path, f"array '{entry.filename}' of {entry.file_size / 1e9:.3g} GB is compressed to "
                f"{entry.compress_size / 1e6:.3g} MB, as in malicious files; write it with numpy.savez",
            )  # fmt: skip


def _require_channels(given: Mapping[str, Any]) -> None:
    for name in given:
        if name not in CHANNELS:
            raise ModelError(f"unknown channel '{name}'; there are {', '.join(CHANNELS)}")


def _is_number(value: Any) -> bool:
    try:
        float(value)
    except (TypeError, ValueError):
        return False
    return True
