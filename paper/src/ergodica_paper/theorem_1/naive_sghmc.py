"""HMC with a stochastic gradient put in its place, Eq. `NaiveSGHMC`: the variance of its momentum, without sampling.

On a standard Gaussian every step is z' = A z + F n, n ~ N(0, V) the noise of the gradient, so that
Sigma' = A Sigma A^T + F V F^T. A and F are read off the library's own splitting step with the friction c eps V: c = 0
is the naive sampler (by leapfrog; Euler's rule would grow without any noise), c = 1/2 what pays for the noise, c = 1
what the paper prints. No noise is added: the gradient's is all there is.
"""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

import ergodica as eg
from ergodica.integrators import Kernel
from ergodica.verify.discrete.affine import Doubling, affine_step, phase_law, radius
from ergodica.verify.sde import widened
from ergodica_paper import style
from ergodica_paper.flat import RESIDUAL
from ergodica_paper.printed import WRONG
from ergodica_paper.result import Ask, Claim, Picture, Table
from ergodica_paper.verdict import Answer, judged, yes_if

SHARES = {0.0: "naive, no friction", 0.5: "friction (ε/2) V", 1.0: "friction ε V, as printed"}
COLOURS = {0.0: style.COLOURS["naive_sghmc"], 0.5: style.COLOURS["sghmc"], 1.0: "#000000"}
LINES = {0.0: "-", 0.5: "-", 1.0: "--"}
STEP_SIZES = (0.2, 0.1, 0.05, 0.025)
NOISES = (1.0, 4.0)
SHOWN = (0.05, 4.0)  # step size and V of the picture
TIME = 40.0  # of the picture
LEAST_GROWTH = 0.5  # of eps V / 2, half of what the noise brings: the other half goes into the position
LEAST_ORDER = 0.9  # of an error that vanishes like the step or faster


class SghmcMoments(NamedTuple):
    """One sampler: A, F V F^T, and the variance of the momentum in the long run; None where it grows for ever."""

    share: float
    step_size: float
    noise: float
    transition: np.ndarray
    spread: np.ndarray

    @property
    def radius(self) -> float:
        return radius(self.transition)

    @property
    def stationary(self) -> float | None:
        return None if self.radius > 1 - 1e-12 else float(Doubling(self.transition).solve(self.spread)[1, 1])

    def path(self, steps: int) -> np.ndarray:
        """Variance of the momentum after 0, 1, ... steps from the right law."""
        sigma, found = np.eye(2), [1.0]
        for _ in range(steps):
            sigma = self.transition @ sigma @ self.transition.T + self.spread
            found.append(float(sigma[1, 1]))
        return np.array(found)

    @property
    def growth(self) -> float:
        """Of the variance of the momentum per unit of time, a mean over whole turns of the orbit."""
        steps = round(10 * 2 * np.pi / self.step_size)
        path = self.path(steps)
        turn = round(2 * np.pi / self.step_size)
        return float((path[-turn:].mean() - path[:turn].mean()) / ((steps + 1 - turn) * self.step_size))

    @property
    def heating(self) -> float:
        """Growth over eps V / 2: noise with 2D = eps V heats by eps V a unit of time, and the position takes half."""
        return self.growth / (self.step_size * self.noise / 2)


def moments(share: float, step_size: float, noise: float) -> SghmcMoments:
    with jax.enable_x64(True):
        recipe, target = widened((eg.sghmc(friction=share * step_size * noise), eg.gallery.gaussian(1)))
        phase = recipe.draw_auxiliaries(jnp.zeros(1), jax.random.key(0), 1.0)
        kernel = Kernel(target, recipe, integrator=eg.Splitting())
        step = affine_step(kernel, phase, phase_law(recipe, target, phase, 1.0), step_size, 1.0)
    return SghmcMoments(share, step_size, noise, step.transition, noise * step.through @ step.through.T)


def all_moments(ask: Ask) -> list[SghmcMoments]:
    ask.report(0.86, "naive SGHMC: moments of the linear system")
    return [moments(*case) for case in ((s, e, v) for v in NOISES for s in SHARES for e in STEP_SIZES)]


def naive_claim(found: list[SghmcMoments], seed: int) -> Claim:
    """Reproduced if every naive chain heats up without end, and the certificate refuses the SDE."""
    naive = [m for m in found if m.share == 0]
    sde = WRONG["sghmc_naive"]
    report = eg.certify_sde(sde.drift, sde.diffusion, sde.hamiltonian, sde.dim, seed=seed)
    heats = all(m.stationary is None and m.heating >= LEAST_GROWTH for m in naive)
    answers = [Answer("naive SGHMC", yes_if(heats and not report.passed))]
    ratios = [m.heating for m in naive]
    shown = next(m for m in naive if (m.step_size, m.noise) == SHOWN)
    return judged(
        "naive-sghmc",
        "Putting a stochastic gradient into HMC (naive SGHMC) does not leave the law invariant: its momentum heats up.",
        "section 3.1, Eq. NaiveSGHMC",
        answers,
        f"The variance of the momentum, 1 in the law, grows by {shown.growth:.3g} a unit of time at step size "
        f"{shown.step_size:g} and V = {shown.noise:g}; over {len(naive)} pairs of step size and V by {min(ratios):.4f} "
        f"to {max(ratios):.4f} of eps V / 2. eg.certify_sde {_said(report)}.",
        {
            "growth_per_time": shown.growth,
            "step_size": shown.step_size,
            "V": shown.noise,
            "growth_over_half_eps_V": [min(ratios), max(ratios)],
            "residual_of_the_sde": report[RESIDUAL].figure,
        },
        picture="momentum",
        rule="On a standard Gaussian, at every step size and V, the exact moments have no limit and the momentum's "
        f"variance grows by at least {LEAST_GROWTH:g} of eps V / 2 a unit of time; and eg.certify_sde rejects the SDE.",
    )


def _said(report: Any) -> str:
    repair = report.repairs[0].words if report.repairs else "it knows no simple repair"
    return "passes the SDE" if report.passed else f"rejects the SDE: {repair}"


def friction_claim(found: list[SghmcMoments]) -> Claim:
    """Asked of half of eps V and of the printed eps V."""
    asked = {
        "friction (eps/2) V, half of what is printed": error_orders(found, 0.5),
        "friction eps V, as printed": error_orders(found, 1.0),
    }
    answers = [Answer(words, yes_if(min(orders.values()) >= LEAST_ORDER)) for words, orders in asked.items()]
    ends = {share: [m for m in found if m.share == share and m.step_size == STEP_SIZES[-1]] for share in (0.5, 1.0)}
    return judged(
        "sghmc-friction",
        "Friction that pays for the gradient's noise fixes naive SGHMC.",
        "section 3.1, SGHMC (printed: D = eps V)",
        answers,
        f"At step size {STEP_SIZES[-1]:g} the variance of the momentum, 1 in the law, is {_variances(ends[0.5])} with "
        f"friction (eps/2) V and {_variances(ends[1.0])} with the printed eps V; over all steps the errors fall like "
        f"the step to the power {_least(error_orders(found, 0.5))} and {_least(error_orders(found, 1.0))}.",
        {
            words: {
                "variance_at_smallest_step": {f"V={m.noise:g}": m.stationary for m in ends[share]},
                "order": {f"V={v:g}": order if np.isfinite(order) else None for v, order in orders.items()},
            }
            for (words, orders), share in zip(asked.items(), ends, strict=True)
        },
        picture="momentum",
        rule="On a standard Gaussian, for every V, the momentum has a variance in the long run, whose error falls like "
        f"the step size to the power {LEAST_ORDER:g} or faster from step {STEP_SIZES[0]:g} to {STEP_SIZES[-1]:g}.",
    )


def error_orders(found: list[SghmcMoments], share: float) -> dict[float, float]:
    """By V, the power of the step size with which |variance - 1| falls; minus infinity where there is no law."""
    orders = {}
    for v in NOISES:
        first, last = (_error(found, share, v, step_size) for step_size in (STEP_SIZES[0], STEP_SIZES[-1]))
        has_law = np.isfinite(first) and np.isfinite(last)
        orders[v] = float(np.log(first / last) / np.log(STEP_SIZES[0] / STEP_SIZES[-1])) if has_law else -np.inf
    return orders


def _error(found: list[SghmcMoments], share: float, noise: float, step_size: float) -> float:
    variance = next(m for m in found if m[:3] == (share, step_size, noise)).stationary
    return np.inf if variance is None else abs(variance - 1)


def _variances(found: list[SghmcMoments]) -> str:
    return " and ".join(
        f"{'without end' if m.stationary is None else f'{m.stationary:.4f}'} (V = {m.noise:g})" for m in found
    )


def _least(orders: dict[float, float]) -> str:
    least = min(orders.values())
    return f"{least:.2f}" if np.isfinite(least) else "(none: no law)"


def long_run_tables(found: list[SghmcMoments]) -> tuple[Table, Table]:
    """One row for each sampler and V, on the page; and one for each chain."""
    rows, each = [], []
    for m in found:
        growth = (m.growth, m.step_size * m.noise / 2) if m.stationary is None else (None, None)
        each.append((SHARES[m.share], m.step_size, m.noise, m.stationary, *growth))
    for noise in NOISES:
        for share, words in SHARES.items():
            mine = [m for m in found if (m.share, m.noise) == (share, noise)]
            heating = [m.heating for m in mine if m.stationary is None]
            order = error_orders(found, share)[noise]
            rows.append((
                words, noise, *(m.stationary for m in mine), order if np.isfinite(order) else None,
                min(heating, default=None),
            ))  # fmt: skip
    caption = (
        "The momentum's variance in the long run (1 in the law) on a standard Gaussian, exact; where it grows without "
        "end, the growth over ten turns from the right law."
    )
    variances = [f"variance at step {step_size:g}" for step_size in STEP_SIZES]
    columns = ("sampler", "V", *variances, "power of the step in its error", "growth over eps V / 2, least")
    each_columns = (
        "sampler", "step size", "V", "variance of the momentum in the long run", "growth per unit of time", "eps V / 2",
    )  # fmt: skip
    shown = Table("momentum-summary", caption, columns, rows, shown=True)
    return shown, Table("momentum-long-run", f"{caption} Every chain.", each_columns, each)


def pictured(found: list[SghmcMoments]) -> tuple[Picture, Table]:
    step_size, noise = SHOWN
    steps = round(TIME / step_size)
    paths = {m.share: m.path(steps) for m in found if (m.step_size, m.noise) == SHOWN}
    figure, ((axis,),) = style.new_figure(squeeze=False, size=(7.0, 3.6))
    for share, words in SHARES.items():
        axis.plot(paths[share], color=COLOURS[share], linestyle=LINES[share], linewidth=2, label=words)
    axis.axhline(1.0, color=style.COLOURS["target"], linewidth=1, linestyle=":")
    axis.text(steps, 1.05, "the law", ha="right", va="bottom", color=style.COLOURS["target"])
    axis.set(xlabel="steps", ylabel="variance of the momentum (no unit)", ylim=(0, None), xlim=(0, steps))
    axis.legend(loc="upper left")
    caption = (
        f"Variance of the momentum against steps from the right law, standard Gaussian, step size {step_size:g}, "
        f"gradient noise V = {noise:g}: exact moments, no sampling. The naive sampler ripples with its orbit."
    )
    rows = [(n, *(float(paths[share][n]) for share in SHARES)) for n in range(0, steps + 1, 4)]
    table = Table("momentum", "Variance of the momentum after so many steps.", ("steps", *SHARES.values()), rows)
    return Picture("momentum", caption, figure, "momentum"), table
