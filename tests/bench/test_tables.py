"""What the tables compare is the same gradient, and their bookkeeping."""

import numpy as np

from bench.tables.backswing import Checkpointed, Taped
from bench.tables.measure import Row, measure
from bench.tables.page import gradients_section


def test_with_and_without_checkpoints_the_gradient_is_the_same_bit_for_bit():
    """Steps with working arrays of their own, on one tape, against one set of arrays and steps that run again."""
    stored, taped = Checkpointed(1), Taped(1)
    for method in (stored, taped):
        method.begin(5)
        method.forward(5)
        method.backward()
    gradients = stored.trajectory.backward(np.ones((1, 19)))
    np.testing.assert_array_equal(taped.steps[-1].q_next.numpy(), stored.trajectory.q.numpy()[-1])
    np.testing.assert_array_equal(taped.steps[0].q.grad.numpy(), gradients.q.numpy())
    for step, tau_bar in zip(taped.steps, gradients.tau.numpy(), strict=True):
        np.testing.assert_array_equal(step.tau.grad.numpy(), tau_bar)
    assert np.abs(gradients.tau.numpy()).max() > 0.0


class Hoard:
    """Keeps a megabyte for each step."""

    note, chunk = "a list", 1

    def begin(self, steps: int) -> None:
        self.kept = []

    def forward(self, steps: int) -> None:
        self.kept = [np.ones(125_000) for _ in range(steps)]

    def backward(self) -> None:
        pass

    def forget(self) -> None:
        self.kept = []


def test_memory_is_that_of_the_longest_rollout_that_has_room():
    rows = list(measure("Hoard", Hoard(), 1, [20, 10, 200], seconds=2.0, room=100.0, made_s=0.0))
    assert [row.steps for row in rows] == [10, 20, 200]
    assert [row.estimate for row in rows] == ["", "", "out of room"]
    for row in rows:  # the allocator rounds, and may have had a little at hand
        assert abs(row.peak_mb - row.steps) < 0.15 * row.steps + 3.0
    assert abs(rows[2].peak_mb - rows[1].peak_mb - 18.0 * (rows[1].peak_mb - rows[0].peak_mb)) < 1e-6
    assert rows[2].repeats == 0


def test_the_page_says_what_was_not_run():
    def row(method: str, seconds: float, peak: float, estimate: str) -> dict:
        return vars(Row(method, 1, 5000, seconds, 2.0 * seconds, peak, 1, 3.0, estimate, "as it is"))

    rows = [row("Backswing", 0.1, 1.5, ""), row("PyTorch", 30.0, 36000.0, "out of room")]
    text = gradients_section({"rows": rows, "missing": {"MJX, 1 robots": "No module named 'jax'"}})
    assert "| PyTorch | 1 | out of memory (36000) |" in text
    assert "| PyTorch | 300 | 24000 | yes |" in text
    assert "Not run: MJX, 1 robots (No module named 'jax')." in text
