"""Bags of ROS 2, as a robot records them."""

from pathlib import Path

import numpy as np
import pytest

JOINT_STATE = "sensor_msgs/msg/JointState"
START = 1_700_000_000_500_000_000  # ns


def write_bag(path: Path, rows: list[tuple]) -> None:
    """Write messages of type JointState: time [s], names, positions, velocities and efforts of each."""
    rosbag2 = pytest.importorskip("rosbags.rosbag2")
    from rosbags.typesys import Stores, get_typestore

    store = get_typestore(Stores.ROS2_HUMBLE)
    message, header, stamp = (
        store.types[name] for name in (JOINT_STATE, "std_msgs/msg/Header", "builtin_interfaces/msg/Time")
    )
    with rosbag2.Writer(path, version=9) as writer:
        there = writer.add_connection("/joint_states", JOINT_STATE, typestore=store)
        for time, names, *values in rows:
            nanoseconds = START + round(1e9 * time)
            at = stamp(sec=nanoseconds // 10**9, nanosec=nanoseconds % 10**9)
            each = message(header(at, ""), names, *(np.array(value, dtype=np.float64) for value in values))
            writer.write(there, nanoseconds, store.serialize_cdr(each, JOINT_STATE))
