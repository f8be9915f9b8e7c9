"""Beside mujoco.sysid (MuJoCo 4, extra ``sysid``): the same log, model and noise give the same estimate."""

import mujoco
import numpy as np
import pytest
from mujoco import sysid

import sim
from sim.identify import Log, fit_trajectories

if not hasattr(sysid, "optimize"):  # the module is there without the packages that it needs
    pytest.skip("mujoco.sysid isn't installed", allow_module_level=True)

ARM = """
<mujoco>
  <compiler angle="radian"/>
  <option timestep="0.002"><flag contact="disable"/></option>
  <default><joint type="hinge" damping="0.5" armature="0.05"/></default>
  <worldbody>
    <body name="upper" pos="0 0 0.4">
      <inertial pos="0 0 0.15" mass="1.0" diaginertia="0.01 0.01 0.005"/>
      <joint name="shoulder" axis="0 0 1"/>
      <body name="fore" pos="0 0 0.3">
        <inertial pos="0 0 0.12" mass="0.8" diaginertia="0.008 0.008 0.004"/>
        <joint name="elbow" axis="0 1 0"/>
        <body name="hand" pos="0 0 0.25">
          <inertial pos="0.05 0 0.05" mass="0.4" diaginertia="0.004 0.003 0.002"/>
          <joint name="wrist" axis="0 1 0"/>
        </body>
      </body>
    </body>
  </worldbody>
  <actuator><motor joint="shoulder"/><motor joint="elbow"/><motor joint="wrist"/></actuator>
  <sensor><jointpos joint="shoulder"/><jointpos joint="elbow"/><jointpos joint="wrist"/></sensor>
</mujoco>
"""
TRUTH = {
    "damping of shoulder": 0.8, "damping of elbow": 0.3, "damping of wrist": 0.15, "armature of shoulder": 0.1,
    "mass of hand": 0.7,
}  # fmt: skip
DT, EVERY, ROWS, NOISE = 0.002, 5, 151, 1e-3


def put(spec: mujoco.MjSpec, name: str, value: float) -> None:
    """Change what an unknown's name says."""
    quantity, _, item = name.split()
    if quantity == "mass":
        spec.body(item).mass = value
    elif quantity == "damping":
        spec.joint(item).damping[0] = value
    else:
        spec.joint(item).armature = value


def measured() -> tuple[np.ndarray, np.ndarray]:
    """Controls of each row [ROWS, 3], and angles with noise but for the first row [ROWS, 3], simulated by MuJoCo."""
    spec = mujoco.MjSpec.from_string(ARM)
    for name, value in TRUTH.items():
        put(spec, name, value)
    model = spec.compile()
    data = mujoco.MjData(model)
    time = DT * EVERY * np.arange(ROWS)[:, None]
    control = np.array([2.0, 3.0, 1.0]) * np.sin(2.0 * np.pi * np.array([0.9, 0.6, 1.3]) * time + [0.0, 0.5, 1.0])
    q = [data.qpos.copy()]
    for row in control[:-1]:
        data.ctrl[:] = row
        mujoco.mj_step(model, data, EVERY)
        q.append(data.qpos.copy())
    noise = NOISE * np.random.default_rng(0).standard_normal((ROWS - 1, 3))
    return control, np.vstack([q[:1], np.array(q[1:]) + noise])


def by_sysid(control: np.ndarray, q: np.ndarray) -> tuple[np.ndarray, np.ndarray, int]:
    """Estimates, their covariance and the number of motions simulated."""
    spec = mujoco.MjSpec.from_string(ARM)
    model = spec.compile()
    data = mujoco.MjData(model)
    params = sysid.ParameterDict()
    for name in TRUTH:
        quantity, _, item = name.split()
        first = float(model.body(item).mass[0] if quantity == "mass" else getattr(model.joint(item), quantity)[0])
        params.add(
            sysid.Parameter(
                name, nominal=first, min_value=1e-4, max_value=10.0,
                modifier=lambda s, p, name=name: put(s, name, p.value[0]),
            )
        )  # fmt: skip
    fine = np.repeat(control[:-1], EVERY, axis=0)
    time = DT * np.arange(len(fine) + 1)
    start = sysid.create_initial_state(model, data.qpos, data.qvel, data.act)
    rows = sysid.TimeSeries(DT * EVERY * np.arange(ROWS), q)
    drive = sysid.TimeSeries(time, np.vstack([fine, fine[-1:]]))
    sequences = sysid.ModelSequences("arm", spec, "log", start, drive, rows)
    count = []

    def difference(params, simulated, seen, model, everything, state):
        count.append(1)
        return (state[EVERY - 1 :: EVERY, 1:4] - q[1:]) / NOISE, simulated, simulated

    residual = sysid.build_residual_fn(
        models_sequences=[sequences], modify_residual=difference, resample_true=False, n_threads=1
    )
    found, result = sysid.optimize(params, residual, verbose=False)
    return found.as_vector(), np.linalg.inv(result.jac.T @ result.jac), len(count)


def test_estimates_and_deviations_agree(tmp_path):
    """Both minimise the same sum of squares: MuJoCo's by differences of whole motions, ours by exact derivatives."""
    control, q = measured()
    reference, covariance, _ = by_sysid(control, q)
    path = tmp_path / "arm.xml"
    path.write_text(ARM)
    builder = sim.ModelBuilder()
    builder.add_mjcf(path)
    model = builder.finalize("float64")
    log = Log(model, DT * EVERY * np.arange(ROWS), q, qd=np.zeros((ROWS, 3)), control=control)
    fit = fit_trajectories(
        model, log, list(TRUTH), dt=DT, noise={"q": NOISE}, known_start=True,
        contact=sim.mujoco_settings(model)["contact"],
    )  # fmt: skip
    deviations = np.sqrt(np.diag(covariance))
    np.testing.assert_allclose(fit.estimate.values, reference, atol=1e-5 * deviations.min())
    np.testing.assert_allclose(fit.estimate.deviations, deviations, rtol=1e-5)
    assert (np.abs(fit.estimate.values - list(TRUTH.values())) < 3.5 * fit.estimate.deviations).all()
