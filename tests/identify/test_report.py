"""Reports: what they say, and that they are whole files."""

import re
from dataclasses import replace
from html.parser import HTMLParser

import numpy as np
import pytest

import sim
from sim.identify import Log, Normal, Unknowns, cannot_tell, fit_torques, fit_trajectories, report, save_html, save_plot
from tests.errors import naming
from tests.identify.arms import arm, different, moving_log

UNKNOWN = {
    "inertial of link7": None, "inertial of link1": None, "damping of *": None, "friction_loss of *": Normal(0.2, 0.5)
}  # fmt: skip


@pytest.fixture(scope="module")
def fit():
    robot = arm()
    return fit_torques(robot, moving_log(different(robot), 6.0, offset=0.0), UNKNOWN)


class Tags(HTMLParser):
    """Counts tags and fails where one is not closed."""

    def __init__(self, text):
        super().__init__()
        self.open, self.count = [], {}
        self.feed(text)
        assert not self.open

    def handle_starttag(self, tag, attrs):
        self.count[tag] = self.count.get(tag, 0) + 1
        if tag not in ("meta", "img"):
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag


def test_text(fit):
    text = report(fit)
    assert re.match(r"(2[4-9]) of 34 values determined from joint forces of 300 samples \(seed 0\)", text)
    row = next(line for line in text.splitlines() if line.startswith("mass of link7"))
    assert re.match(r"mass of link7 +1\.9 +3\.\d+ +0\.0\d+ +kg$", row)
    row = next(line for line in text.splitlines() if line.startswith("mass of link1"))
    assert re.search(r"unknown  kg +not determined by the data$", row)
    not_told = text[text.index("Not determined by the data:") :]
    assert "one choice of many: mass of link1" in not_told
    assert re.search(r"This motion determines \d+ combinations of the 34 numbers", not_told)
    assert re.search(r"No effect on any joint force: mass of link1", not_told)


def test_html_is_one_whole_file(fit, tmp_path):
    pytest.importorskip("matplotlib")
    save_html(fit, tmp_path / "report.html", "Arm <1> & payload")
    text = (tmp_path / "report.html").read_text(encoding="utf-8")
    tags = Tags(text)
    assert tags.count["tr"] == 35
    assert tags.count["img"] == 1
    assert "Arm &lt;1&gt; &amp; payload" in text
    assert "http" not in re.sub(r"base64,[^\"]*", "", text), "it needs nothing else"


def test_plots_of_both_kinds(fit, tmp_path):
    image = pytest.importorskip("PIL.Image")
    builder = sim.ModelBuilder()
    builder.add_link("bob", mass=1.0, com=(0, 0, -0.3), inertia=0.01 * np.eye(3))
    builder.add_joint("hinge", "revolute", child="bob", axis=(0, 1, 0), spring=sim.Spring(damping=0.1))
    model = builder.finalize("float64")
    simulator = sim.Simulator(model, 0.01, 1, "cpu", parameters={"damping": np.array([0.03])})
    q = simulator.rollout(simulator.state([1.0]), steps=100).q.numpy()[:, 0]
    log = Log(model, 0.01 * np.arange(101), q + 1e-3 * np.random.default_rng(0).standard_normal(q.shape))
    found = fit_trajectories(model, log, ["damping of hinge"], dt=0.01, noise={"q": 1e-3}, segment=0.4)
    for number, each in enumerate((fit, found)):
        save_plot(each, tmp_path / f"{number}.png")
        with image.open(tmp_path / f"{number}.png") as picture:
            assert picture.width == 1320
    assert report(found).startswith("1 of 1 values determined from 3 motions of up to 0.4 s, 101 measured numbers")
    assert [line.partition(":")[0] for line in cannot_tell(found)] == ["Nothing"]
    wrong = fit_trajectories(
        model, log, ["damping of hinge"], dt=0.01, noise={"q": 1e-5}, segment=0.4, max_evaluations=3
    )
    assert wrong.estimate.widening > 50.0
    (said,) = (line for line in cannot_tell(wrong) if wrong.estimate.widened in line)
    assert re.search(naming("q of hinge", 101), said)
    early = replace(wrong, estimate=replace(wrong.estimate, converged=False))
    assert any("The search had not converged after" in line for line in cannot_tell(early))
    robot = sim.torch.Robot(model)
    assert float(found.apply(robot).damping[0]) == found.estimate["damping of hinge"]


def test_figures_of_estimates(fit):
    """Values with their bars and correlations, whether determined or not."""
    pytest.importorskip("matplotlib")
    assert f"<td>{fit.estimate.values[0]:.5g}</td>" in fit.estimate._repr_html_()
    values, correlation, _ = fit.estimate.plot().axes
    assert [tick.get_text() for tick in values.get_yticklabels()] == list(fit.estimate.names)
    found = values.collections[-1]  # circles of the values found
    np.testing.assert_allclose(found.get_offsets()[:, 0], np.sign(fit.estimate.values))
    filled = (found.get_facecolors()[:, :3] < 1.0).any(axis=1)
    np.testing.assert_array_equal(filled, np.isfinite(fit.estimate.deviations))
    np.testing.assert_array_equal(correlation.images[0].get_array(), fit.estimate.correlation)


def test_the_robot_is_written(fit, tmp_path):
    fit.robot.save_urdf(tmp_path / "found.urdf")
    again = sim.torch.Robot(tmp_path / "found.urdf", dtype=fit.robot.mass.dtype)
    np.testing.assert_allclose(again.mass.numpy(), fit.robot.mass.numpy(), rtol=1e-12)
    np.testing.assert_allclose(again.inertia.numpy(), fit.robot.inertia.numpy(), rtol=1e-9, atol=1e-12)


def test_units_are_those_of_what_turns_or_slides():
    builder = sim.ModelBuilder()
    for name, kind in (("cart", "prismatic"), ("pole", "revolute"), ("bob", "spherical")):
        builder.add_link(name, mass=1.0, inertia=(0.1, 0.1, 0.1))
        builder.add_joint(f"{name}_joint", kind, child=name, parent="pole" if name == "bob" else "world")
    for joint in ("cart_joint", "pole_joint"):
        builder.add_actuator(joint, "affine", gains=sim.Gains(gain=2.0, kp=1.0, kd=1.0))
    priors = {f"{quantity} of *": Normal(0.2, 0.5) for quantity in ("damping", "friction_loss", "torque_offset", "kp")}
    unknowns = Unknowns(builder.finalize(), {**priors, "gain of *": None, "gear of cart_joint": None})
    assert dict(zip(unknowns.names, unknowns.units, strict=True)) == {
        "damping of cart_joint": "N s/m", "damping of pole_joint": "N m s/rad", "damping of bob_joint": "N m s/rad",
        "friction_loss of cart_joint": "N", "friction_loss of pole_joint": "N m", "friction_loss of bob_joint": "N m",
        "torque_offset of cart_joint": "N", "torque_offset of pole_joint": "N m", "torque_offset of bob_joint": "N m",
        "kp of cart_joint": "N/m", "kp of pole_joint": "N m/rad",
        "gain of cart_joint": "N/u", "gain of pole_joint": "N m/u", "gear of cart_joint": "",
    }  # fmt: skip
