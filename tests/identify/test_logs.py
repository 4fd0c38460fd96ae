"""Logs: formats, units, gears, repairs, and files that are no logs."""

from __future__ import annotations

import gc
import json
import tracemalloc
from pathlib import Path

import numpy as np
import pytest
from identification_logs import STANDARD, native, virtual

from qddot import identify
from qddot.errors import InvalidArgument, QddotError, ShapeMismatch, UnusableLog
from qddot.identify.log import _longest_increase, repair_times
from qddot.identify.spill import release_pages


@pytest.fixture
def data():
    robot = native("planar_2r")
    t = np.arange(400) * 0.01
    q = np.column_stack([np.sin(t), np.cos(2 * t)])
    return robot, t, q, np.column_stack([np.cos(t), np.sin(t)])


def table(t, q, tau, names=("joint1", "joint2")):
    head = ["time", *(f"pos_{n}" for n in names), *(f"tau_{n}" for n in names)]
    return head, np.column_stack([t, q, tau])


def write_csv(path, head, rows):
    lines = [",".join(head), *(",".join(f"{x:.12g}" for x in row) for row in rows)]
    path.write_text("\n".join(lines) + "\n")
    return path


# formats


@pytest.mark.parametrize("form", ["csv", "tsv", "npz", "npy", "mat", "parquet"])
def test_formats_hold_the_same_log(tmp_path, data, form):
    robot, t, q, tau = data
    names = robot.joint_names
    head, rows = table(t, q, tau, names)
    file = tmp_path / f"log.{form}"
    options = {}
    if form in ("csv", "tsv"):
        write_csv(file, head, rows)
        if form == "tsv":
            file.write_text(file.read_text().replace(",", "\t"))
    elif form == "npz":
        np.savez(file, time=t, q=q, tau=tau, rate=100.0, robot="arm")
    elif form == "npy":
        np.save(file, rows)
        options["columns"] = {"t": 0, "q": [1, 2], "tau": [3, 4]}
    elif form == "mat":
        from scipy.io import savemat

        savemat(file, {"time": t[:, None], "q": q, "tau": tau})
    else:
        pa = pytest.importorskip("pyarrow")
        import pyarrow.parquet as parquet

        parquet.write_table(pa.table(dict(zip(head, rows.T, strict=True))), file)
    log = identify.read(file, robot, **options)
    np.testing.assert_allclose(log.q, q, atol=1e-10)
    np.testing.assert_allclose(log.tau, tau, atol=1e-10)
    assert log.dt == pytest.approx(0.01)


def test_joint_states_of_an_mcap_file(tmp_path, data):
    writer = pytest.importorskip("mcap.writer")
    robot, t, q, tau = data
    file = tmp_path / "log.mcap"
    with file.open("wb") as stream:
        w = writer.Writer(stream)
        w.start()
        schema = w.register_schema("sensor_msgs/JointState", "jsonschema", b"{}")
        channel = w.register_channel("/joint_states", "json", schema)
        for k in range(len(t)):
            # joints in another order than the robot's
            content = {"name": list(robot.joint_names)[::-1], "position": q[k, ::-1].tolist(),
                       "velocity": [], "effort": tau[k, ::-1].tolist()}  # fmt: skip
            stamp = int(1e18 + t[k] * 1e9)
            w.add_message(channel, stamp, json.dumps(content).encode(), stamp)
        w.finish()
    log = identify.read(file, robot)
    np.testing.assert_allclose(log.q, q)
    np.testing.assert_allclose(log.tau, tau)
    assert log.v is None


def test_units_gears_and_torque_constants(tmp_path, data):
    robot, t, q, tau = data
    G = np.array([[50.0, 0.0], [80.0, 80.0]])
    current = np.linalg.solve(G.T, tau.T).T / [0.1, 0.2] * 1000
    motor = np.rad2deg(q @ G.T)
    head, rows = table(1000 * t, motor, current, robot.joint_names)
    file = write_csv(tmp_path / "log.csv", head, rows)
    units = {"t": "ms", "q": "motor deg", "tau": "mA"}
    log = identify.read(file, robot, units=units, gear=G, torque_constant=[0.1, 0.2], offset=0.5)
    np.testing.assert_allclose(log.q, q + 0.5, atol=1e-8)
    np.testing.assert_allclose(log.tau, tau, atol=1e-8)
    with pytest.raises(InvalidArgument, match="torque_constant"):
        identify.read(file, robot, units=units, gear=G)
    with pytest.raises(InvalidArgument, match="motor units need gear"):
        identify.read(file, robot, units={"q": "motor deg"})
    with pytest.raises(InvalidArgument, match="known: rad"):
        identify.read(file, robot, units={"q": "turns"})


# repairs


def test_broken_rows_and_times_are_repaired_and_reported(tmp_path, data):
    robot, t, q, tau = data
    head, rows = table(t, q, tau, robot.joint_names)
    file = write_csv(tmp_path / "log.csv", head, rows)
    lines = file.read_text().splitlines()
    lines[50] = lines[50][:9]  # half-written
    lines[60] += ",7,8"  # more columns
    lines[70] = "logger restarted"
    lines[80] = lines[80].replace(lines[80].split(",")[1], "nan", 1)
    lines[90] = "2.7e154" + lines[90][lines[90].index(",") :]
    lines[91] = lines[92]  # duplicated
    lines[100], lines[101] = lines[101], lines[100]  # swapped
    file.write_text("\n".join(lines) + "\n1.23,0.")
    log = identify.read(file, robot)
    text = str(log)
    assert "4 broken rows" in text
    assert "1 row with values missing" in text
    assert "1 absurd timestamp" in text
    assert "repeated or backward" in text
    assert len(log) > 385
    assert np.all(np.diff(log.time) > 0)


def test_an_absurd_time_does_not_swallow_the_file():
    t = np.arange(1000.0)
    t[10] = 5e3
    rows, notes = repair_times(t, np.arange(1000))
    assert len(rows) == 999
    assert notes


def test_jitter_and_gaps(data):
    robot, t, q, tau = data
    rng = np.random.default_rng(0)
    shaken = np.delete(t, slice(200, 240)) + rng.uniform(-2e-3, 2e-3, 360)
    keep = [np.delete(x, slice(200, 240), axis=0) for x in (q, tau)]
    exact = np.column_stack([np.sin(shaken), np.cos(2 * shaken)])
    log = identify.make_log(robot, shaken, exact, keep[1])
    assert len(log.starts) == 2
    assert "interpolated" in str(log)
    np.testing.assert_allclose(log.q[:, 0], np.sin(log.time), atol=1e-3)


def test_a_lone_sample_before_a_gap_leaves_the_period():
    robot, _, log = virtual()
    time = log.time.copy()
    time[0] -= 0.5
    parted = identify.make_log(robot, time, log.q, log.tau)
    assert parted.starts == (0, 1)
    assert parted.dt == pytest.approx(1 / 200.0)
    assert parted.duration == pytest.approx(20.0)
    expected = identify.fit(robot, log, STANDARD)
    found = identify.fit(robot, parted, STANDARD)
    assert np.all(np.abs(found.values - expected.values) < expected.half_widths)
    with pytest.raises(UnusableLog, match="no two samples"):
        _ = parted.between(0, 2).dt


def test_a_measured_velocity_is_used(data):
    robot, t, q, tau = data
    v = np.column_stack([np.cos(t), -2 * np.sin(2 * t)])
    log = identify.make_log(robot, t, np.round(q, 2), tau, v)
    fit_v = identify.fit(robot, log, ("viscous",), bandwidth=5.0)
    block = next(fit_v.design.blocks())
    np.testing.assert_allclose(block.v, v[block.index], atol=1e-3)


# hostile files


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", "it is empty"),
        ("\n\n", "it is empty"),
        ("hello world\nthis is no log\n", "no columns"),
        ("time,q_1,q_2,tau_1,tau_2\n", "no row of numbers"),
        ("time,q_1,q_2,tau_1,tau_2\n0,1,2,3,4\n", "usable row"),
        ("time,q_1,q_2,tau_1,tau_2\n" + "nan,nan,nan,nan,nan\n" * 40, "no row is complete"),
        ("time,q_1,q_2,tau_1,tau_2\n" + "a,b,c,d,e\n" * 40, "are no rows"),
        ("time,q_1,q_2,tau_1,tau_2\n" + "1,1,2,3,4\n" * 40, "only 1 of 40 timestamps"),
        ("\x00\x01\x02" * 300, "no columns"),
    ],
)
def test_files_that_are_no_logs(tmp_path, content, message):
    file = tmp_path / "log.csv"
    file.write_text(content)
    with pytest.raises(UnusableLog, match=message):
        identify.read(file, native("planar_2r"))


@pytest.mark.parametrize("suffix", [".npz", ".npy", ".mat", ".parquet", ".mcap", ".db3"])
def test_garbage_of_every_format(tmp_path, suffix):
    file = tmp_path / f"log{suffix}"
    file.write_bytes(b"garbage" * 100)
    with pytest.raises(QddotError):
        identify.read(file, native("planar_2r"))
    with pytest.raises(UnusableLog, match="no such file"):
        identify.read(tmp_path / f"none{suffix}", native("planar_2r"))


def test_two_logs_in_one_file_are_refused(data):
    robot, t, q, tau = data
    twice = (np.concatenate([x, x]) for x in (t, q, tau))
    with pytest.raises(UnusableLog, match="two logs in one file"):
        identify.make_log(robot, *twice)


def test_the_log_of_another_robot(tmp_path, data):
    robot, t, q, tau = data
    file = write_csv(tmp_path / "log.csv", *table(t, q, tau, ("left", "right")))
    with pytest.raises(UnusableLog, match="say which with columns"):
        identify.read(file, robot)
    with pytest.raises(ShapeMismatch):
        identify.make_log(native("ur5e"), t, q, tau)
    with pytest.raises(InvalidArgument, match="there are 2 to name"):
        identify.read(file, robot, columns={"q": [1, 2, 3]})


def test_a_file_of_torques_may_name_the_joints_only(tmp_path, data):
    robot, t, q, tau = data
    head, rows = table(t, q, tau)
    positions = write_csv(tmp_path / "q.csv", head[:3], rows[:, :3])
    torques = write_csv(tmp_path / "tau.csv", ["joint1", "joint2"], tau)
    log = identify.read({"q": positions, "tau": torques}, robot)
    np.testing.assert_allclose(log.tau, tau, atol=1e-9)
    for unit in ("motor N m", "motor Nm"):
        geared = identify.read(
            {"q": positions, "tau": torques}, robot, units={"tau": unit}, gear=[2.0, 3.0]
        )
        np.testing.assert_allclose(geared.tau, tau * [2.0, 3.0], atol=1e-9)


def test_a_large_log_goes_through_a_file(tmp_path, monkeypatch):
    robot, _, log = virtual()
    whole = identify.fit(robot, log, STANDARD)
    _, rows = table(log.time, log.q, log.tau, robot.joint_names)
    np.save(tmp_path / "log.npy", rows)
    monkeypatch.setattr("qddot.identify.spill._HELD", 1000)
    monkeypatch.setattr("qddot.identify.tables._LINES", 300)
    columns = {"t": 0, "q": [1, 2], "tau": [3, 4]}
    spilled = identify.read(tmp_path / "log.npy", robot, columns=columns)
    assert isinstance(spilled.q, np.memmap)
    monkeypatch.setattr("qddot.identify.fitting._KEPT", 0)
    np.testing.assert_allclose(identify.fit(robot, spilled, STANDARD).values, whole.values)


# memory


def peak_bytes(work):
    """Largest sum of arrays and objects that some work holds, and its result."""
    gc.collect()
    tracemalloc.start()
    try:
        made = work()
        return tracemalloc.get_traced_memory()[1], made
    finally:
        tracemalloc.stop()


def write_long(folder, form, rows, wrong):
    """A log of five columns with so many rows, its clock wrong or right."""
    t = np.arange(rows) * 1e-3
    if wrong == "uneven":
        t += 2e-4 * np.sin(np.arange(rows))
    elif wrong == "set back":
        t[rows // 2] = t[rows // 2 - 3]
    q, tau = (np.column_stack([np.sin(k * t), np.cos(3 * k * t)]) for k in (1, 2))
    file = folder / f"log{rows}.{form}"
    if form == "npz":
        np.savez(file, time=t, q=q, tau=tau)
    else:
        np.save(file, np.column_stack([t, q, tau]))
    return file


@pytest.mark.parametrize(
    ("form", "wrong"), [("npz", ""), ("npy", ""), ("npz", "uneven"), ("npz", "set back")]
)
def test_few_bytes_a_row_are_held(tmp_path, monkeypatch, form, wrong):
    # 10⁷ rows in 1 GB leave less than 60 bytes a row, the program's own memory apart
    robot = native("planar_2r")
    monkeypatch.setattr("qddot.identify.spill._HELD", 1 << 18)
    monkeypatch.setattr("qddot.identify.spill._SLICE_BYTES", 1 << 18)
    monkeypatch.setattr("qddot.identify.tables._LINES", 3000)
    monkeypatch.setattr("qddot.identify.log._PART", 1 << 12)
    columns = None if form == "npz" else {"t": 0, "q": [1, 2], "tau": [3, 4]}
    peaks = []
    for rows in (50_000, 150_000):
        file = write_long(tmp_path, form, rows, wrong)
        peak, log = peak_bytes(lambda file=file: identify.read(file, robot, columns=columns))
        peaks.append(peak)
        assert isinstance(log.q, np.memmap)
        np.testing.assert_allclose(log.q[:, 0], np.sin(log.time), atol=1e-6)
    assert (peaks[1] - peaks[0]) / 100_000 < 60.0


def test_a_fit_holds_few_bytes_a_row(monkeypatch):
    robot = native("planar_2r")
    monkeypatch.setattr("qddot.identify.spill._HELD", 1 << 16)
    monkeypatch.setattr("qddot.identify.fitting._KEPT", 0)
    monkeypatch.setattr("qddot.identify.design._BLOCK_BYTES", 1 << 19)
    monkeypatch.setattr("qddot.identify.design._SPECTRUM", 2000)
    peaks = []
    for rows in (10_000, 30_000):
        t = np.arange(rows) * 1e-2
        q = np.column_stack([np.sin(t), np.cos(0.7 * t)])
        tau = robot.inverse_dynamics(q, np.gradient(q, t, axis=0), 0.0 * q)
        log = identify.make_log(robot, t, q, tau)
        peaks.append(peak_bytes(lambda log=log: identify.fit(robot, log, STANDARD))[0])
    assert (peaks[1] - peaks[0]) / 20_000 < 60.0


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="no /proc on this system")
def test_pages_of_files_are_given_back(tmp_path):
    def in_files():
        text = Path("/proc/self/status").read_text()
        return int(text.split("RssFile:")[1].split()[0]) / 1024

    np.save(tmp_path / "x.npy", np.ones((1 << 20, 4)))
    x = np.load(tmp_path / "x.npy", mmap_mode="r+")
    x += 1.0
    before = in_files()
    release_pages(x[5:, 1:])
    assert before - in_files() > 25.0
    assert np.all(x == 2.0)
    # changes of a private map are in no file, and stay
    private = np.load(tmp_path / "x.npy", mmap_mode="c")
    private[:] = 7.0
    release_pages(private)
    assert np.all(private == 7.0)


def test_the_longest_increase_is_found():
    # every subsequence of short sequences is the oracle
    rng = np.random.default_rng(0)
    for _ in range(200):
        t = rng.integers(0, 9, rng.integers(1, 9)).astype(float)
        longest = max(
            bin(mask).count("1")
            for mask in range(1, 1 << len(t))
            if np.all(np.diff(t[[k for k in range(len(t)) if mask >> k & 1]]) > 0.0)
        )
        found = _longest_increase(t)
        assert len(found) == longest
        assert np.all(np.diff(t[found]) > 0.0)


def test_a_block_that_is_kept_holds_no_motion_at_the_full_rate():
    robot, _, log = virtual()
    design = identify.fit(robot, log, STANDARD).design
    assert design.torque.step > 1
    for block in design.blocks():
        arrays = (block.q, block.v, block.a, block.tau, block.columns)
        owners = [x if x.base is None else x.base for x in arrays]
        assert sum(x.nbytes for x in owners) == sum(x.nbytes for x in arrays)
