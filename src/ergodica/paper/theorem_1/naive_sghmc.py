"""HMC with a stochastic gradient put in its place, Eq. `NaiveSGHMC`: the variance of its momentum, without sampling.

On a standard Gaussian every step is z' = A z + F n, n ~ N(0, V) the noise of the gradient, so that
Sigma' = A Sigma A^T + F V F^T. A and F are read off the library's own splitting step with the friction c eps V: c = 0
is the naive sampler (by leapfrog; Euler's rule would grow without any noise), c = 1/2 what pays for the noise, c = 1
what the paper prints. No noise is added: the gradient's is all there is.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

import ergodica as eg
from ergodica.integrators import Kernel
from ergodica.paper import style
from ergodica.paper.printed import WRONG
from ergodica.paper.result import Ask, Claim, Picture, Table
from ergodica.verify.discrete.affine import affine_step, phase_law
from ergodica.verify.discrete.lyapunov import Doubling, radius
from ergodica.verify.precision import widened

SHARES = {0.0: "naive, no friction", 0.5: "friction (ε/2) V", 1.0: "friction ε V, as printed"}
COLOURS = {0.0: style.COLOURS["naive_sghmc"], 0.5: style.COLOURS["sghmc"], 1.0: "#000000"}
LINES = {0.0: "-", 0.5: "-", 1.0: "--"}
STEP_SIZES = (0.2, 0.1, 0.05, 0.025)
NOISES = (1.0, 4.0)
SHOWN = (0.05, 4.0)  # step size and V of the picture
TIME = 40.0  # of the picture


class Moments(NamedTuple):
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


def moments(share: float, step_size: float, noise: float) -> Moments:
    with jax.enable_x64(True):
        recipe, target = widened((eg.sghmc(friction=share * step_size * noise), eg.gallery.gaussian(1)))
        phase = recipe.draw_auxiliaries(jnp.zeros(1), jax.random.key(0), 1.0)
        kernel = Kernel(target, recipe, integrator=eg.Splitting())
        step = affine_step(kernel, phase, phase_law(recipe, target, phase, 1.0), step_size, 1.0)
    return Moments(share, step_size, noise, step.transition, noise * step.through @ step.through.T)


def all_moments(ask: Ask) -> list[Moments]:
    ask.report(0.86, "naive SGHMC: moments of the linear system")
    return [moments(*case) for case in ((s, e, v) for v in NOISES for s in SHARES for e in STEP_SIZES)]


def naive_claim(found: list[Moments], seed: int) -> Claim:
    """Reproduced if no naive chain has a stationary law, its momentum heats up, and the certificate refuses the SDE."""
    naive = [m for m in found if m.share == 0]
    sde = WRONG["sghmc_naive"]
    report = eg.certify_sde(sde.drift, sde.diffusion, sde.hamiltonian, sde.dim, seed=seed)
    ratios = [m.growth / (m.step_size * m.noise / 2) for m in naive]
    heats = all(m.stationary is None and m.growth > 0 for m in naive)
    shown = next(m for m in naive if (m.step_size, m.noise) == SHOWN)
    repair = report.repairs[0].words if report.repairs else "no simple repair"
    words = (
        f"On a standard Gaussian the variance of the momentum, 1 in the law, grows without end: by {shown.growth:.3g} "
        f"a unit of time at step size {shown.step_size:g} and V = {shown.noise:g}; at {len(naive)} pairs of step size "
        f"and V the growth is {min(ratios):.4f} to {max(ratios):.4f} of eps V / 2. eg.certify_sde "
        f"{'passes' if report.passed else 'rejects'} the SDE: {repair}."
    )
    figures = {
        "growth_per_time": shown.growth,
        "step_size": shown.step_size,
        "V": shown.noise,
        "growth_over_half_eps_V": [min(ratios), max(ratios)],
        "residual_of_the_sde": report["Fokker-Planck residual"].figure,
    }
    return Claim(
        "naive-sghmc",
        "Putting a stochastic gradient into HMC (naive SGHMC) does not leave the law invariant: its momentum heats up.",
        "section 3.1, Eq. NaiveSGHMC",
        "reproduced" if heats and not report.passed else "not reproduced",
        words,
        figures,
        picture="momentum",
    )


def friction_claim(found: list[Moments]) -> Claim:
    """Reproduced if with (eps/2) V the error falls at least as fast as the step and with eps V it does not vanish."""
    errors = {share: _errors(found, share) for share in (0.5, 1.0)}
    halves, whole = errors[0.5], errors[1.0]
    orders = [np.log(a[0] / a[-1]) / np.log(STEP_SIZES[0] / STEP_SIZES[-1]) for a in halves.values() if a is not None]
    mends = len(orders) == len(NOISES) and min(orders) > 0.9
    printed = [m.stationary for m in found if m.share == 1.0 and m.step_size == STEP_SIZES[-1]]
    is_printed_wrong = all(a is None or a[-1] > 0.25 for a in whole.values())
    verdict = "not reproduced"
    if mends:
        verdict = "reproduced under conditions" if is_printed_wrong else "reproduced"
    least = {v: halves[v] for v in NOISES}
    words = (
        "With friction (eps/2) V the variance of the momentum is off by "
        + ", ".join(f"{_percent(e)} (V = {v:g})" for v, e in least.items())
        + f" at step size {STEP_SIZES[-1]:g}, and the error falls like the step to the power "
        + (f"{min(orders):.2f} or better. " if orders else "(none: it has no law). ")
        + "With eps V, as printed, it is "
        + ", ".join("without end" if p is None else f"{p:.3f}" for p in printed)
        + " in place of 1."
    )
    return Claim(
        "sghmc-friction",
        "Friction that pays for the gradient's noise mends naive SGHMC.",
        "section 3.1, SGHMC (printed: D = eps V)",
        verdict,
        words,
        {
            "error_at_smallest_step": {f"V={v:g}": None if e is None else e[-1] for v, e in halves.items()},
            "order": min(orders) if orders else None,
            "variance_with_printed_friction": printed,
        },
        conditions="friction (eps/2) V, half of what is printed" if verdict.endswith("conditions") else "",
        picture="momentum",
    )


def _errors(found: list[Moments], share: float) -> dict[float, list[float] | None]:
    """|variance - 1| by V, from the largest step to the smallest; None where there is no law."""
    errors = {}
    for v in NOISES:
        values = [m.stationary for m in found if m.share == share and m.noise == v]
        errors[v] = None if None in values else [abs(x - 1) for x in values if x is not None]
    return errors


def _percent(errors: list[float] | None) -> str:
    return "everything" if errors is None else f"{100 * errors[-1]:.2g} %"


def long_run_table(found: list[Moments]) -> Table:
    rows = []
    for m in found:
        growth = (m.growth, m.step_size * m.noise / 2) if m.stationary is None else (None, None)
        rows.append((SHARES[m.share], m.step_size, m.noise, m.stationary, *growth))
    columns = (
        "sampler", "step size", "V", "variance of the momentum in the long run", "growth per unit of time", "eps V / 2",
    )  # fmt: skip
    caption = (
        "The momentum's variance (1 in the law) on a standard Gaussian, exact; where it grows without end, by how "
        "much, over ten turns from the right law."
    )
    return Table("momentum-long-run", caption, columns, rows, shown=True)


def pictured(found: list[Moments]) -> tuple[Picture, Table]:
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
