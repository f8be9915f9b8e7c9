"""Result of a gradient check, entry by entry, and its printed report."""

from dataclasses import dataclass

import numpy as np

from sim.diagnostics.gradient_entries import Entry
from sim.diagnostics.jumps import Jump
from sim.errors import GradientError
from sim.simulation.gradients import GradientNorms

VERDICTS = ("right", "kink", "unclear", "wrong")
LISTED = 20
ABOUT = {"unclear": ("Finite differences of several widths disagree, so these entries can't be checked:",)}


@dataclass(frozen=True)
class CheckedEntry:
    """One entry of a gradient with its finite differences.

    Attributes:
        entry: the changed entry: argument, index, names.
        world: the world in which it was changed.
        analytic: derivative from the backward pass.
        left: one-sided difference from below.
        right: one-sided difference from above.
        central: central difference.
        width: width of the central difference.
        error: difference between the analytic derivative and the central difference; for the verdicts "kink" and
            "unclear", distance from the interval between the one-sided differences. It is relative to the largest
            derivative of the same argument and world, with an allowance for rounding.
        verdict: "right": the derivative agrees with the central difference. "kink": the one-sided differences differ,
            and the derivative equals one of them or lies between. "unclear": the differences vary with their width by
            more than the derivative's distance from them, as after a chaotic motion. "wrong": none of these.
    """

    entry: Entry
    world: int
    analytic: float
    left: float
    right: float
    central: float
    width: float
    error: float
    verdict: str

    def __str__(self) -> str:
        numbers = "  ".join(
            f"{name} {getattr(self, name):.6g}" for name in ("analytic", "left", "right", "central")
        )  # fmt: skip
        return f"{self.verdict}: {self.entry} in world {self.world}\n    {numbers}"


@dataclass(frozen=True)
class GradientReport:
    """Result of :func:`check_gradients`, to be printed.

    Attributes:
        entries: all entries that were compared.
        totals: number of entries of each argument, of which at most ``most`` were compared.
        norms: norms of the derivatives with respect to each state of the checked worlds.
        about: lines that describe what was compared.
        jumps: arguments along which the change of the loss over 5 cm, 0.05 rad or 5 % of a parameter differs from the
            integral of its derivatives.

    Example:
        >>> import sim
        >>> model = sim.load("scenes/robots/manipulator.urdf", self_collision=False)
        >>> simulator = sim.Simulator(model, dt=1 / 240, device="cpu")
        >>> report = sim.check_gradients(simulator, simulator.initial_state(), steps=2, wrt=["q"])
        >>> report.wrong, len(report.entries)
        ((), 7)
    """

    entries: tuple[CheckedEntry, ...]
    totals: dict[str, int]
    norms: GradientNorms
    about: tuple[str, ...]
    jumps: tuple[Jump, ...] = ()

    @property
    def wrong(self) -> tuple[CheckedEntry, ...]:
        """Entries with a wrong gradient."""
        return self.of("wrong")

    @property
    def kinks(self) -> tuple[CheckedEntry, ...]:
        """Entries at which the motion has a kink and thus two one-sided derivatives."""
        return self.of("kink")

    def of(self, verdict: str) -> tuple[CheckedEntry, ...]:
        """Return the entries with a verdict, the largest error first."""
        found = [entry for entry in self.entries if entry.verdict == verdict]
        return tuple(sorted(found, key=lambda entry: -np.nan_to_num(entry.error, nan=np.inf)))

    def raise_if_wrong(self) -> None:
        """Raise :class:`sim.GradientError` with the report if an entry is wrong."""
        if self.wrong:
            raise GradientError(str(self))

    def __str__(self) -> str:
        lines = [*self.about, ""]
        lines.append(
            f"{'argument':<20}{'compared':>12}"
            + "".join(f"{verdict:>9}" for verdict in VERDICTS)
            + f"{'largest error':>15}"
        )
        for name, total in self.totals.items():
            of_it = [entry for entry in self.entries if entry.entry.argument == name]
            counts = "".join(f"{sum(entry.verdict == verdict for entry in of_it):>9}" for verdict in VERDICTS)
            # A NaN gradient counts as the worst error.
            error = max((float(np.nan_to_num(entry.error, nan=np.inf)) for entry in of_it), default=None)
            text = "-" if error is None else f"{error:.1e}"
            lines.append(f"{name:<20}{f'{len(of_it)} of {total}':>12}{counts}{text:>15}")
        for verdict in VERDICTS[:0:-1]:
            found = self.of(verdict)
            lines += ["", *ABOUT.get(verdict, ()), *map(str, found[:LISTED])] if found else []
            if len(found) > LISTED:
                lines.append(f"... and {len(found) - LISTED} more {verdict}")
        lines += ["", *map(str, self.jumps)] if self.jumps else []
        return "\n".join([*lines, "", self._growth()])

    def _growth(self) -> str:
        bad = self.norms.first_beyond()
        if bad:
            return f"The derivatives in q and qd are not finite at state {bad[0]} and before.\nSee print(report.norms)."
        size = np.hypot(self.norms.q, self.norms.qd).max(axis=1)
        state = int(np.argmax(size))
        where = f"state {state} of {len(size) - 1}"
        return (
            f"The largest derivative in a state is {size[state]:.2e}, at {where};\n"
            f"in the final state it is {size[-1]:.2e}. See print(report.norms)."
        )
