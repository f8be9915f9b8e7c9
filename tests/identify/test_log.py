"""Logs: what is read, what is refused, and what filters, derivatives and alignment do."""

import zipfile

import numpy as np
import pytest

import sim
from scenes import box
from sim.identify import Log, align, read_csv, read_frame, read_npz, read_rosbag
from sim.identify.logs.alignment import delay
from tests.errors import quietly, raises_naming, refuses
from tests.identify.bags import write_bag

RATE = 500.0


def motion(model, seconds=4.0, rate=RATE):
    """Sums of two sines, and their derivatives."""
    time = np.arange(round(seconds * rate)) / rate
    w = np.array([2.0, 5.0])[:, None] + 0.3 * np.arange(model.nv)
    q, qd, qdd = (sum(w[k] ** n * np.sin(w[k] * time[:, None] + 0.5 * n * np.pi) for k in (0, 1)) for n in (0, 1, 2))
    return time, q, qd, qdd


def table(model):
    """Columns by name, with one that nobody asks for."""
    time, q, qd, _ = motion(model, 0.2)
    columns = {"note": time, "time": time}
    columns |= {f"q_{name}": q[:, k] for k, name in enumerate(model.joint_names)}
    columns |= {f"tau_{name}": 2.0 * qd[:, k] for k, name in enumerate(model.joint_names)}
    return columns


def write_csv(path, columns, separator=","):
    rows = [
        separator.join(columns),
        *(separator.join(repr(float(x)) for x in row) for row in zip(*columns.values(), strict=True)),
    ]
    path.write_text("\n".join(rows) + "\n")
    return path


@pytest.fixture
def moving():
    builder = sim.ModelBuilder()
    for k in range(3):
        builder.add_link(f"link{k}", mass=1.0, com=(0, 0, -0.2), inertia=0.01 * np.eye(3))
        parent = f"link{k - 1}" if k else "world"
        builder.add_joint(f"joint{k}", "revolute", child=f"link{k}", parent=parent, axis=(0, 1, 0))
    return builder.finalize("float64")


@pytest.mark.parametrize("separator", [",", ";", "\t"])
def test_csv(moving, tmp_path, separator):
    columns = table(moving)
    log = read_csv(write_csv(tmp_path / "log.csv", columns, separator), moving)
    np.testing.assert_array_equal(log.q[:, 1], columns["q_joint1"])
    np.testing.assert_array_equal(log.tau[:, 2], columns["tau_joint2"])
    assert log.qd is None
    assert log.source == str(tmp_path / "log.csv")
    assert repr(log).endswith("100 rows over 0.198 s; q, tau)")
    swapped = [f"q_joint{k}" for k in (2, 1, 0)]
    other = read_csv(tmp_path / "log.csv", moving, q=swapped, tau=None)
    np.testing.assert_array_equal(other.q, log.q[:, ::-1])
    assert other.tau is None


def test_frame_and_npz_are_the_same(moving, tmp_path):
    pandas = pytest.importorskip("pandas")
    log = read_csv(write_csv(tmp_path / "log.csv", table(moving)), moving)
    frame = pandas.DataFrame(table(moving))
    np.savez(tmp_path / "log.npz", t=log.time, q=log.q, tau=log.tau, other=np.zeros(3))
    for same in (read_frame(frame, moving), read_frame(frame.set_index("time"), moving),
                 read_npz(tmp_path / "log.npz", moving, time="t")):  # fmt: skip
        for name in ("time", "q", "tau"):
            np.testing.assert_array_equal(getattr(same, name), getattr(log, name))
    for moment in (pandas.Timestamp("2026-01-02", tz="UTC"), pandas.Timedelta(0.0, "s")):
        dated = frame.assign(time=moment + pandas.to_timedelta(log.time, unit="s")).set_index("time")
        np.testing.assert_allclose(read_frame(dated, moving).time, log.time, atol=1e-9)
    with raises_naming("DataFrame", "column 'q_joint1'", "times", error=sim.ImportFileError):
        read_frame(frame.assign(q_joint1=pandas.to_timedelta(log.time, unit="s")), moving)
    frame["q_joint1"] = frame["q_joint1"].astype(object)
    frame.loc[3, "q_joint1"] = "oops"
    with raises_naming("DataFrame", "row 3", "column 'q_joint1'", "'oops'", error=sim.ImportFileError):
        read_frame(frame, moving)


def test_rosbag(moving, tmp_path):
    """Joints in another order, one more than the model has, and no velocities."""
    time, q, qd, _ = motion(moving, 0.1)
    order, names = [2, 0, 0, 1], ["joint2", "gripper", "joint0", "joint1"]
    write_bag(tmp_path / "bag", [(t, names, a[order], [], b[order]) for t, a, b in zip(time, q, qd, strict=True)])
    log = read_rosbag(tmp_path / "bag", moving)
    np.testing.assert_allclose(log.time, time, atol=1e-8)
    np.testing.assert_array_equal(log.q, q)
    np.testing.assert_array_equal(log.tau, qd)
    assert log.qd is None
    with raises_naming("topic", "'/states'", "/joint_states", error=sim.ImportFileError):
        read_rosbag(tmp_path / "bag", moving, topic="/states")
    refuses(lambda: read_rosbag(tmp_path / "nothing", moving), "nothing", "read", error=sim.ImportFileError)
    builder = sim.ModelBuilder()
    builder.add_link("link", mass=1.0, inertia=np.eye(3))
    builder.add_joint("knee", "revolute", child="link", axis=(0, 1, 0))
    with raises_naming("position of knee", "joint2", "gripper", error=sim.ImportFileError):
        read_rosbag(tmp_path / "bag", builder.finalize("float64"))


def test_rosbag_without_some_joints(tmp_path):
    """An arm and its gripper publish separately; nobody publishes the finger that follows, nor the lamp."""
    builder = sim.ModelBuilder()
    for name in ("arm", "finger", "mimic", "last", "lamp"):
        builder.add_link(name, mass=1.0, inertia=(0.1, 0.1, 0.1))
        builder.add_joint(f"{name}_joint", "revolute", child=name, parent="world", axis=(0, 1, 0))
    builder.add_joint_coupling("last_joint", "mimic_joint", ratio=2.0)
    builder.add_joint_coupling("mimic_joint", "finger_joint", ratio=-0.5, offset=0.1)
    model = builder.finalize("float64")
    rows = [(0.00, ["arm_joint"], [1.0], [], [5.0]), (0.01, ["finger_joint"], [0.4], [0.2], [6.0]),
            (0.02, ["arm_joint", "finger_joint"], [1.5, 0.6], [0.0, 0.3], [])]  # fmt: skip
    write_bag(tmp_path / "bag", rows)
    log, nan = read_rosbag(tmp_path / "bag", model), np.nan
    index = [model.qd_slice(f"{name}_joint").start for name in ("arm", "finger", "mimic", "last", "lamp")]
    expected = {
        "q": [[1.0, nan, nan, nan, nan], [nan, 0.4, -0.1, -0.2, nan], [1.5, 0.6, -0.2, -0.4, nan]],
        "qd": [[nan, nan, nan, nan, nan], [nan, 0.2, -0.1, -0.2, nan], [0.0, 0.3, -0.15, -0.3, nan]],
        "tau": [[5.0, nan, 0.0, 0.0, nan], [nan, 6.0, 0.0, 0.0, nan], [nan, nan, 0.0, 0.0, nan]],
    }
    for name, values in expected.items():
        np.testing.assert_allclose(getattr(log, name)[:, index], values, err_msg=name)


def test_columns_by_joint_and_gaps(moving, tmp_path):
    """Values that nobody measured are NaN, in files and in logs; each method says what it needs."""
    columns = table(moving)
    text = write_csv(tmp_path / "log.csv", columns).read_text().splitlines()
    fields = text[4].split(",")
    fields[2], fields[3] = "", "nan"
    (tmp_path / "log.csv").write_text("\n".join([*text[:4], ",".join(fields), *text[5:]]))
    log = read_csv(tmp_path / "log.csv", moving, q={"joint2": "q_joint0", "joint0": "q_joint1"}, tau=None)
    assert np.isnan(log.q[:, 1]).all()
    assert np.argwhere(np.isnan(log.q[:, [0, 2]])).tolist() == [[3, 0], [3, 1]]
    np.testing.assert_array_equal(np.delete(log.q, 3, 0)[:, 2], np.delete(columns["q_joint0"], 3))
    with raises_naming("log.csv", "q of 'joint9'", "joint0, joint1, joint2"):
        read_csv(tmp_path / "log.csv", moving, q={"joint9": "q_joint0"})
    filled = log.filled()
    np.testing.assert_allclose(filled.q[3, [0, 2]], 0.5 * (log.q[2] + log.q[4])[[0, 2]])
    assert np.isnan(filled.q[:, 1]).all()
    assert np.isnan(log.filled(0.003).q[3]).all()
    assert np.isfinite(log.filled(0.004).q[3, [0, 2]]).all()
    refuses(lambda: log.differentiated(0.05), "log.csv", "q of joint1", "row 0", "filled()")
    refuses(lambda: log.filtered(10.0, channels=("q",)), "log.csv", "q of joint1", "row 0")
    refuses(lambda: log.without_gaps("q"), "log.csv", "q", "two rows")
    time, q, qd, qdd = motion(moving, 0.1)
    q[[0, 7], 1], qd[9, 2] = np.nan, np.nan
    measured = Log(moving, time, q, qd, qdd).without_gaps("q", "qd")
    np.testing.assert_array_equal(measured.time, np.delete(time, [0, 7, 9]))
    assert np.isnan(Log(moving, time, q).filled().q[0, 1])
    refuses(lambda: align(Log(moving, time, q, qd), "qd", longest=0.01), "align()", "q of joint1", "row 0")
    with raises_naming("control", "row 1"):
        Log(driven(), [0.0, 1.0], np.zeros((2, 1)), control=[[0.0], [np.nan]])


def driven():
    builder = sim.ModelBuilder()
    builder.add_link("wheel", mass=1.0, inertia=(0.1, 0.1, 0.1))
    builder.add_joint("axle", "revolute", child="wheel", axis=(0, 1, 0))
    builder.add_actuator("axle", "torque")
    return builder.finalize("float64")


def test_derivatives_of_quaternions():
    """Of a thrown body and of a spinning ball joint, whose recorded quaternions change their sign."""
    builder = sim.ModelBuilder()
    builder.add_box(half_extents=(0.1, 0.2, 0.3), mass=1.0, position=(0, 0, 5.0), name="box")
    builder.add_link("bob", mass=1.0, com=(0.1, 0, -0.3), inertia=np.diag([0.02, 0.03, 0.01]))
    builder.add_joint("ball", "spherical", child="bob", position=(0, 0, 9.0))
    model = builder.finalize("float64")
    dt = 1e-3
    simulator = sim.Simulator(model, dt, 1, "cpu")
    qd0 = np.random.default_rng(0).uniform(-4.0, 4.0, model.nv)
    states = simulator.rollout(simulator.state(model.q0, qd0), steps=1000)
    q, qd = (each.numpy()[::5, 0] for each in (states.q, states.qd))
    q[:, model.q_slice("ball")] *= np.where(np.arange(len(q)) % 3, 1.0, -1.0)[:, None]
    time = 5 * dt * np.arange(len(q))
    exact = Log(model, time, q)
    inner = slice(20, -20)
    # The engine moves on with the velocity at the end of a step.
    rate = qd + 0.5 * dt * np.gradient(qd, time, axis=0)
    np.testing.assert_allclose(exact.velocities()[inner], rate[inner], atol=0.02)
    found = exact.differentiated(0.06)
    np.testing.assert_allclose(found.qd[inner], rate[inner], atol=2e-3)
    np.testing.assert_allclose(found.qdd[inner], np.gradient(qd, time, axis=0)[inner], atol=0.1)
    assert np.abs(sim.difference(model, found.q, q).numpy()).max() < 1e-5
    rng = np.random.default_rng(1)
    noisy = Log(model, time, sim.integrate(model, q, 1e-3 * rng.standard_normal(qd.shape)).numpy())
    for log in (noisy.differentiated(0.1), noisy.spline_differentiated(1e-3)):
        assert np.sqrt(np.mean((log.qd - rate)[inner] ** 2)) < 0.03
        assert np.abs(sim.difference(model, log.q, q).numpy())[inner].std() < 6e-4
    late = np.stack([np.interp(time - 0.012, time, column) for column in qd.T], axis=1)
    assert align(Log(model, time, q, late), "qd", longest=0.05).delay == pytest.approx(0.0125, abs=1e-3)
    q[7, 3] = np.nan
    refuses(lambda: Log(model, time, q), "log", "quaternion of", "row 7", "all four")
    q[7, 3:7] = np.nan
    gap = Log(model, time, q).filled()
    assert np.abs(sim.difference(model, gap.q[7:8], exact.q[7:8]).numpy()).max() < 1e-3


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"position": [0.1]}, "bag: message 0: position has 1 values for 2 joints"),
        ({"effort": [1.0, 2.0, 3.0]}, "bag: message 0: effort has 3 values for 2 joints"),
        ({"type": "std_msgs/msg/String"}, "topic '/joint_states' is of type std_msgs/msg/String; expected sensor_msgs"),
    ],
)
def test_messages_of_a_bag_that_are_no_joint_states(change, message, tmp_path):
    rosbag2 = pytest.importorskip("rosbags.rosbag2")
    from rosbags.typesys import Stores, get_typestore

    store = get_typestore(Stores.ROS2_HUMBLE)
    builder = sim.ModelBuilder()
    for name, parent in (("hip", "world"), ("knee", "hip")):
        builder.add_link(name, mass=1.0, inertia=np.eye(3))
        builder.add_joint(f"{name}_joint", "revolute", child=name, parent=parent, axis=(0, 1, 0))
    model, kind = builder.finalize("float64"), change.get("type", "sensor_msgs/msg/JointState")
    if "type" in change:
        sent = store.types[kind](data="hello")
    else:
        stamp = store.types["builtin_interfaces/msg/Time"](sec=1, nanosec=0)
        values = {"position": [0.1, 0.2], "velocity": [], "effort": [], **change}
        sent = store.types[kind](
            header=store.types["std_msgs/msg/Header"](stamp, ""), name=["hip_joint", "knee_joint"],
            **{channel: np.array(value) for channel, value in values.items()},
        )  # fmt: skip
    with rosbag2.Writer(tmp_path / "bag", version=9) as writer:
        there = writer.add_connection("/joint_states", kind, typestore=store)
        writer.write(there, 0, store.serialize_cdr(sent, kind))
    with pytest.raises(sim.ImportFileError, match=message):
        read_rosbag(tmp_path / "bag", model)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("q_joint1", "joint1", r"log.csv: has no column 'q_joint1' for q; .* q=: note, time"),
        ("time", "t", "log.csv: has no column 'time' for time"),
        ("\n0.002,0.002", "\n0.002,noon", "log.csv: line 3, column 'time': 'noon' is not a number"),
        ("\n0.004,0.004", "\n0.004,0.001", r"log.csv: time doesn't increase at row 2: 0.002, then 0.001"),
        ("\n0.004,0.004", "\n0.004,0.004,1.0", "line 4: has 9 fields; expected 8"),
        ("\n0.004,0.004", "\n0.004,nan", "log.csv: time isn't finite at row 2"),
        ("note", "q_joint1", "log.csv: .*columns 'q_joint1'"),
    ],
)
def test_csv_errors(moving, tmp_path, old, new, message):
    path = write_csv(tmp_path / "log.csv", table(moving))
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new, 1))
    with pytest.raises(sim.ImportFileError, match=message):
        read_csv(path, moving)


def test_csv_files_without_lines(moving, tmp_path):
    (tmp_path / "log.csv").write_text("")
    refuses(lambda: read_csv(tmp_path / "log.csv", moving), "log.csv", "file", "empty", error=sim.ImportFileError)
    refuses(lambda: read_csv(tmp_path / "gone.csv", moving), "gone.csv", "No such file", error=sim.ImportFileError)


def test_more_errors(moving, tmp_path):
    time, q, *_ = motion(moving, 0.1)
    log = Log(moving, time, q, source="mine")
    refuses(lambda: Log(moving, time, q[:, :2], source="mine"), "mine", "q", "shape", "(50, 2)", "(50, 3)")
    q[3, 1] = np.inf
    refuses(lambda: Log(moving, time, q), "log", "q", "joint1", "finite", "row 3")
    refuses(lambda: log.require("q", "qdd"), "qdd", "differentiated")
    refuses(lambda: log.filtered(300.0), "positive", "rate", "500 Hz")
    refuses(lambda: log.differentiated(0.004), "window", "0.004 s", 3, 50)
    with raises_naming("mine", "filter", "order 4", "16 rows", 10):
        Log(moving, time[:10], log.q[:10], source="mine").filtered(100.0)
    assert len(Log(moving, time[:16], log.q[:16]).filtered(100.0)) == 16
    refuses(lambda: log.shifted("q", 0.2), "mine", "0.2 s", "0.098 s")
    refuses(lambda: log.differentiated(0.02, order=1), "order", 1, "whole", 2)
    refuses(lambda: log.differentiated(0.02, order=2.5), "order", "2.5", "whole", 2)
    refuses(lambda: Log(moving, time, log.q, log.q).differentiated(0.02, order=0), "order", 0, "whole", 1)
    refuses(lambda: Log(moving, time[:5], log.q[:5]).spline_differentiated(1e-3), "splines", "degree 5", "6 rows")
    refuses(lambda: log.with_offset("q", [0.1, 0.2]), "offset", "shape", "(2,)", 3)
    refuses(lambda: log.with_offset("q", np.nan), "mine", "offset", "nan", "finite")
    refuses(lambda: log.filled(-1.0), "mine", "longest", "-1", "positive")
    refuses(lambda: log.between("now", 1.0), "mine", "start", "'now'")
    refuses(lambda: align(Log(moving, time, log.q, log.q), "qd", longest="long"), "align", "longest", "'long'")
    uneven = Log(moving, time**1.5, log.q)
    refuses(lambda: uneven.filtered(10.0), "intervals", "row 1")
    refuses(lambda: align(Log(moving, time**1.5, log.q, log.q), "qd", longest=0.01), "align()", "intervals")
    refuses(lambda: log.filtered(100.0, channels=("Q",)), "unknown", "channel 'Q'")
    refuses(lambda: log.filtered(100.0, order=2.5), "order", "2.5", "whole")
    refuses(lambda: log.differentiated(np.nan), "window", "nan", "positive")
    refuses(lambda: log.resampled(np.inf), "rate", "inf", "positive")
    refuses(lambda: read_npz(tmp_path / "none.npz", moving, torque="tau"), "unknown", "channel 'torque'")
    refuses(lambda: read_npz(tmp_path / "none.npz", moving), "none.npz", "read", error=sim.ImportFileError)
    with raises_naming("q", "2 columns", 3, "joint0, joint1, joint2"):
        read_csv(write_csv(tmp_path / "log.csv", table(moving)), moving, q=["q_joint0", "q_joint1"])


def test_files_that_are_not_of_arrays_by_name(moving, tmp_path):
    np.save(tmp_path / "one.npy", np.zeros(3))
    refuses(lambda: read_npz(tmp_path / "one.npy", moving), "one.npy", error=sim.ImportFileError)
    np.savez(tmp_path / "words.npz", time=np.array(["now", "then"]), q=np.zeros((2, 3)))
    refuses(lambda: read_npz(tmp_path / "words.npz", moving), "words.npz", "'time'", "<U4", error=sim.ImportFileError)
    with raises_naming("words.npz", "'tau'", "time, q", error=sim.ImportFileError):
        read_npz(tmp_path / "words.npz", moving, tau="tau")
    np.savez(tmp_path / "waves.npz", time=[0.0, 1.0], q=np.zeros((2, 3), dtype=complex))
    with raises_naming("waves.npz", "'q'", "complex128", error=sim.ImportFileError):
        read_npz(tmp_path / "waves.npz", moving)
    np.savez(tmp_path / "noted.npz", time=[0.0, 1.0], q=np.zeros((2, 3)), note="left arm", by=np.array(None))
    assert read_npz(tmp_path / "noted.npz", moving).q.shape == (2, 3)
    whole = (tmp_path / "words.npz").read_bytes()
    for name, content in (("broken.npz", whole[: len(whole) // 2]), ("empty.npz", b"")):
        (tmp_path / name).write_bytes(content)
        with pytest.raises(sim.ImportFileError, match=rf"{name}: can't be read"):
            read_npz(tmp_path / name, moving)


def test_a_small_file_with_a_huge_array_is_refused(moving, tmp_path):
    path = tmp_path / "bomb.npz"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as file, file.open("q.npy", "w", force_zip64=True) as entry:
        for _ in range(15):
            entry.write(bytes(10_000_000))
    refuses(lambda: read_npz(path, moving), "bomb.npz", "'q.npy'", "numpy.savez", error=sim.ImportFileError)


def test_damaged_logs(moving, tmp_path):
    """Each is read, or refused by an error that names the file."""
    rng = np.random.default_rng(0)
    time, q, *_ = motion(moving, 0.1)
    np.savez_compressed(tmp_path / "log.npz", time=time, q=q)
    np.savez(tmp_path / "plain.npz", time=time, q=q)
    write_csv(tmp_path / "log.csv", table(moving))
    rows = [(0.01 * k, [f"joint{j}" for j in range(3)], q[k], [], []) for k in range(5)]
    write_bag(tmp_path / "bag", rows)
    readers = {"log.npz": read_npz, "plain.npz": read_npz, "log.csv": read_csv, "bag": read_rosbag}
    outcomes = set()
    for name, read in readers.items():
        path = tmp_path / name
        files = [path] if path.is_file() else sorted(each for each in path.iterdir() if each.is_file())
        for file in files:
            whole = file.read_bytes()
            for _ in range(6):
                wrong = bytearray(whole)
                for at in rng.integers(len(wrong), size=rng.integers(1, 9)):
                    wrong[at] = rng.integers(256)
                file.write_bytes(wrong[: rng.integers(len(wrong) // 2, len(wrong) + 1)])
                try:
                    quietly(read, path, moving)
                    outcomes.add((name, "read"))
                except sim.ImportFileError as error:
                    outcomes.add((name, "refused" if name in str(error) else "refused without the file's name"))
            file.write_bytes(whole)
        read(path, moving)
    assert {(name, "refused") for name in readers} <= outcomes
    assert not {(name, "refused without the file's name") for name in readers} & outcomes


def test_a_joint_named_twice_in_a_message(tmp_path):
    builder = sim.ModelBuilder()
    builder.add_link("lid", mass=1.0, inertia=np.eye(3))
    builder.add_joint("hinge", "revolute", child="lid", axis=(0, 1, 0))
    write_bag(tmp_path / "bag", [(0.0, ["hinge", "hinge"], [0.1, 0.2], [], [])])
    with raises_naming("bag", "message 0", "'hinge'", "twice", error=sim.ImportFileError):
        read_rosbag(tmp_path / "bag", builder.finalize("float64"))


def test_derivatives(moving):
    """Of noisy coordinates, by polynomials and by splines; without noise nearly exact."""
    time, q, qd, qdd = motion(moving)
    inner = slice(100, -100)
    exact = Log(moving, time, q).differentiated(0.05)
    np.testing.assert_allclose(exact.qd, qd, atol=2e-4)
    np.testing.assert_allclose(exact.qdd[inner], qdd[inner], atol=1e-3)
    measured = Log(moving, time, q, qd=qd).differentiated(0.05)
    np.testing.assert_array_equal(measured.q, q)
    np.testing.assert_allclose(measured.qdd, qdd, atol=2e-3)
    noisy = Log(moving, time, q + 1e-3 * np.random.default_rng(0).standard_normal(q.shape))
    for log in (noisy.differentiated(0.3), noisy.spline_differentiated(1e-3)):
        assert np.abs(log.qd - qd)[inner].max() < 0.02
        assert np.sqrt(np.mean((log.qdd - qdd)[inner] ** 2)) < 0.01 * np.sqrt(np.mean(qdd**2))
    rough = noisy.differentiated(0.02)
    assert np.abs(rough.qdd - qdd)[inner].max() > 10.0, "the noise alone would be that large"


def test_a_filter_delays_nothing_and_halves_at_its_cutoff(moving):
    time = np.arange(4000) / RATE
    slow, cut, fast = (np.sin(2.0 * np.pi * f * time) for f in (1.0, 20.0, 100.0))
    log = Log(moving, time, np.stack([slow, cut, fast], axis=1)).filtered(20.0)
    inner = slice(500, -500)
    np.testing.assert_allclose(log.q[inner, 0], slow[inner], atol=1e-5)
    np.testing.assert_allclose(log.q[inner, 1], 0.5 * cut[inner], atol=1e-3)
    assert np.abs(log.q[inner, 2]).max() < 1e-5


def test_resampling_and_cutting(moving):
    time, q, *_ = motion(moving)
    uneven = np.sort(np.random.default_rng(0).uniform(0.0, 3.9, 4000))
    uneven[0] = 0.0
    dense = np.stack([np.interp(uneven, time, column) for column in q.T], axis=1)
    log = Log(moving, uneven, dense).resampled(100.0)
    np.testing.assert_allclose(np.diff(log.time), 0.01, atol=1e-12)
    np.testing.assert_allclose(log.q, q[: 5 * len(log) : 5], atol=1e-2)
    assert len(log.between(1.0, 2.0)) == 101


def test_quaternions_stay_of_unit_length_and_keep_their_sign():
    scene = box.build()
    simulator = sim.Simulator(scene.model, scene.dt, 1, "cpu")
    states = simulator.rollout(simulator.state(scene.q0, scene.qd0), np.tile(scene.push, (20, 1, 1)))
    q = states.q.numpy()[:, 0]
    flipped = q * np.where(np.arange(21) % 2, -1.0, 1.0)[:, None] ** np.array([0, 0, 0, 1, 1, 1, 1])
    time = scene.dt * np.arange(21)  # before it hits anything
    log = Log(scene.model, time, 1.0 * flipped)
    np.testing.assert_allclose(log.q, q, atol=1e-12)
    between = Log(scene.model, time[::2], flipped[::2]).resampled(1.0 / scene.dt)
    np.testing.assert_allclose(np.linalg.norm(between.q[:, 3:], axis=1), 1.0)
    assert np.abs(between.q - q).max() < 2e-3
    q[3, 3:] = 0.0
    refuses(lambda: Log(scene.model, time, q), "log", "quaternion", "zero", "row 3")


def test_alignment(moving):
    """A delay of a fraction of the interval, an offset and a gain come out, and are made up for."""
    time, q, qd, qdd = motion(moving)
    late = np.stack([np.interp(time - 0.0234, time, column) for column in qd.T], axis=1)
    log = Log(moving, time, q, qd=1.1 * late + 0.3)
    found = align(log, "qd")
    assert found.delay == pytest.approx(0.0234, abs=2e-4)
    np.testing.assert_allclose(found.gain, 1.1, atol=2e-3)
    np.testing.assert_allclose(found.offset, 0.3, atol=2e-3)
    assert found.correlation.min() > 0.9999
    mended = log.shifted("qd", found.delay).with_offset("qd", found.offset)
    np.testing.assert_allclose(mended.qd[20:], 1.1 * qd[20 : len(mended)], atol=0.02)
    tau = sim.inverse_dynamics(moving, q, qd, qdd).numpy()
    later = np.stack([np.interp(time + 0.01, time, column) for column in tau.T], axis=1)
    assert align(Log(moving, time, q, qd, qdd, later), "tau", moving).delay == pytest.approx(-0.01, abs=2e-4)
    assert delay(q, q, 0.002, 0.05) == pytest.approx(0.0, abs=1e-5)
    refuses(lambda: align(log, "q"), "channel", "'q'", "'qd'", "'tau'")
    refuses(lambda: align(log, "qd", longest=0.02), "delay", "0.02 s")
    refuses(lambda: align(log, "qd", longest=10.0), "log", "80 s")
