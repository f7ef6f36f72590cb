"""Writes docs/paper/errata.md: the slips in the printed paper, each with what the library's own tools say of it.

    python -m ergodica_paper.errata.document           writes the page (`make errata`, in the root of a checkout)
    python -m ergodica_paper.errata.document --check   exit code 1 if the page is not what would be written

Figures are rounded so far that they are the same on every machine; one at rounding is given by a bound that it is held
to. The printed samplers and their slips are those of ergodica_paper.printed.
"""

import argparse
import re
import sys
import textwrap
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

import ergodica as eg
from ergodica_paper.errata import formulas
from ergodica_paper.errata import samplers as samplers_item
from ergodica_paper.flat import RESIDUAL
from ergodica_paper.printed import RIGHT, SLIPS, WRONG, HandwrittenSde, equations
from ergodica_paper.printed.potentials import one_peak, two_peaks
from ergodica_paper.wrong import RIGHT_STEPS, WRONG_STEPS

PAGE = Path("docs/paper/errata.md")  # in a checkout
ROUNDING = 1e-14  # of a residual that vanishes, over the size of its terms

HEAD = """# Slips in the printed paper

Ma, Chen and Fox, *A Complete Recipe for Stochastic Gradient MCMC* (2015), held against its own theorems. The library
implements what is right. What is printed lives in `paper/src/ergodica_paper/printed/`: every checker must reject it.

`make errata` writes this page: change `paper/src/ergodica_paper/errata/document.py`, not the page. Every figure comes
from the library's tools, or is a printed formula evaluated; `paper/tests/test_errata_page.py` compares the page with
them."""

TAIL = """## Without a figure

- Gibbs conditional of a topic (supplement): the weights (gamma + n_dk) theta_kx should be
  (gamma + n_dk) theta_kx / theta_k., the dot being the sum over words. Under the expanded mean a topic is
  theta_k / theta_k., and the theta_k. of different topics differ.
- Theorem 2 has d/d theta_j for d/d z_j; the supplement has "rd t" for "dt" in SGNHT, and no dt after Gamma in SGRLD.

Right as printed: Theorem 1, Eq. `CorrectDrift`, the Fourier construction of Q, D and Q of every sampler except in the
SGHMC paragraph, SGRHMC's algorithm box, the gradient for LDA."""


def samplers() -> str:
    rows = []
    for *words, name in SLIPS:
        wrong = WRONG[name]
        rows.append([*words, residual(wrong), f"< {at_rounding(RIGHT[wrong.twin])}", said(wrong)])
    heads = ["where", "as printed", "right", "residual, printed", "residual, right", "`eg.certify_sde` says"]
    d, thermostat = 2, certified(WRONG["sgnht_printed_energy"]).other_law
    stiffness = 1 / d + thermostat.factors[-1]
    separable = equations.sgrld(equations.separable_metric)[2]
    return f"""## Samplers

`eg.certify_sde` puts drift, diffusion and energy through the Fokker-Planck equation in float64, at points where the
law lives. The figure is the largest residual over the sum of the sizes of what cancels in it: 0 up to rounding where
the law is left invariant, at most 1.

{table(heads, rows)}

- SGNHT is shown with d = {d} and A = 0.8, xi = z[4]. The law found has the xi-part of the right energy, stiffness
  1/d + {thermostat.factors[-1]:.3g} = {stiffness:.3g} = d: the printed drift is right, and so are D and Q.
- The older Gamma without its 2 leaves a density with respect to the volume det(G)^1/2 invariant: D = G^-1. With the 2
  no law is found, except where entry i of a diagonal metric is a function of coordinate i alone: then it is
  the right Gamma (residual < {at_rounding(separable)}).
- SGHMC: the gradient's noise is what it is, 2D = eps V; with the printed D the friction is twice what it pays for.
- The own batch: averaged over all batches, which is the limit of small steps."""


@cache
def certified(sde: HandwrittenSde) -> Any:
    return samplers_item.certified(sde)


def residual(sde: HandwrittenSde) -> str:
    """Of a sampler that does not pass; as the largest of a few hundred points it is worth one digit."""
    report = certified(sde)
    if report.passed:
        raise ValueError(f"{sde.name} passes: it is on this page as a wrong one")
    return f"{report[RESIDUAL].figure:.1g}"


def at_rounding(sde: HandwrittenSde) -> str:
    """A bound that the residual of a right sampler keeps."""
    return below(ROUNDING, certified(sde)[RESIDUAL].figure)


def below(bound: float, figure: float) -> str:
    """The bound, in words, for a figure that keeps it."""
    if not figure < bound:
        raise ValueError(f"got {figure:.3g}, expected less than {bound:g}: the words of the page no longer hold")
    return f"{bound:g}".replace("e-0", "e-")


def said(sde: HandwrittenSde) -> str:
    return samplers_item.said(certified(sde))


def table(heads: list[str], rows: list[list[str]]) -> str:
    lines = [heads, ["---"] * len(heads), *rows]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines)


def always_psd() -> str:
    target = eg.gallery.gaussian(covariance=np.array([[1.0, 0.6], [0.6, 1.0]]))

    def row(friction, noise) -> list[str]:
        recipe = eg.sghmc(friction=np.array(friction))
        chain: Any = eg.exact_law(recipe, target, 0.1, gradient_noise=np.array(noise))
        listed = (", ".join(f"{x:g}" for x in entries) for entries in (friction, noise))
        return [*listed, f"{chain.largest_step:.3g}", percent(chain.largest_bias)]

    cases = (([1.0, 1.0], [1.0, 1.0]), ([1.0, 0.0], [1.0, 0.0]), ([1.0, 0.0], [1.0, 1.0]))
    heads = ["friction, diagonal of D", "diagonal of V", "largest eps with 2D - eps B PSD", "error of a variance"]
    refused = answer(lambda: eg.exact_law(eg.hmc(), target, 0.1, gradient_noise=1.0))
    return f"""## "With small eps, 2D - eps B is always positive semidefinite"

Only where the range of B lies in the range of D; it is false for HMC and for every direction with D = 0. `eg.exact_law`
of SGHMC on a correlated Gaussian at step size 0.1, the gradient noise compensated:

{table(heads, [row(*case) for case in cases])}

In the last row no step size will do, and the noise that cannot be subtracted widens the law. With D = 0 throughout,
`eg.exact_law(eg.hmc(), ..., gradient_noise=1)` refuses:

{quoted(refused)}"""


def answer(call: Callable[[], Any], say: Callable[[Any], str] = str) -> str:
    """What is to be said of the result, or the words in which the library refuses."""
    try:
        return say(call())
    except eg.InputError as error:
        return rounded(str(error))


def percent(bias: float) -> str:
    return "none" if abs(bias) < 1e-9 else f"{100 * bias:+.3g} %"


def quoted(words: str) -> str:
    return textwrap.fill(words, 118, initial_indent="> ", subsequent_indent="> ")


def rounded(words: str) -> str:
    """With every decimal number to three digits."""
    return re.sub(r"\d+\.\d+", lambda number: f"{float(number[0]):.3g}", words)


def naive_sgrhmc() -> str:
    cusps = formulas.CUSPS
    peaks = [("one peak", one_peak, 0.5, ()), ("two peaks", two_peaks, 0.5, cusps), ("two peaks", two_peaks, 1.5, ())]
    rows = []
    for name, potential, offset, poles in peaks:
        sde = formulas.naive_sgrhmc(potential, offset)
        figure = formulas.divergence(certified(sde).other_law.hamiltonian, potential, poles)
        rows.append([f"{name}, C = {offset}", residual(sde), said(sde), f"{figure:.5f}"])
    for name, words in (("sgrhmc_separable_naive", "diagonal, separable"), ("sgrhmc_dense_naive", "dense")):
        rows.append([f"{words}, in 2-D", residual(WRONG[name]), said(WRONG[name]), ""])
    heads = ["metric", "residual", "`eg.certify_sde`", "KL(sampled, target)"]
    return f"""## Naive SGRHMC "cannot be written within our framework"

With a scalar metric, G^-1 = 1.5 sqrt(abs(U + C)) as in the synthetic experiments, it is the recipe for another law,
exp(-U) G^1/2 (D_rr = G^-1). Its KL divergence from the target in the limit of small steps is then an integral over the
law that the certificate names. A separable diagonal metric has such a law too; for a dense one none is found.

{table(heads, rows)}"""


def own_batch() -> str:
    rows = []
    steps = ((WRONG_STEPS["own_batch_step"], "own"), (RIGHT_STEPS["independent_batch_step"], "independent"))
    for step, batch in steps:
        report: Any = step.audit(effort=0.25)
        failed = [check.name for check in report.checks if not check.passed]
        rows.append([batch, verdict(report), f"{report.temperature.value:.1f}", ", ".join(failed) or "none"])
    heads = ["the metric's batch", "`eg.audit`", "temperature sampled, asked for 1", "checks that fail"]
    return f"""## A metric from the gradient's own batch

The drift is then off by -Cov(D + Q, grad U~), which does not shrink with eps. `eg.audit` of SGRLD with
D = 1.2 + tanh((U~ - 1)/2) on a Gaussian in two dimensions, 64 rows, batches of 4:

{table(heads, rows)}"""


def verdict(report: Any) -> str:
    return "passes" if report.passed else "rejects"


def closed_form() -> str:
    momenta = (0.0, 1.0, 2.0, 3.0)
    rebuilt = {method: formulas.rebuilt_curl(formulas.HMC, method) for method in ("fourier", "closed form")}
    error = below(1e-8, max(q.error for q in rebuilt.values()))
    rows = [
        [f"`eg.rebuild_curl`, {method}", *(f"{q.curl((0.3, r))[0, 1]:.4f}" for r in momenta)]
        for method, q in rebuilt.items()
    ]
    printed = (formulas.printed_curl(formulas.HMC, (0.3, r), row=0) for r in momenta)
    rows.append(["as printed, from the lower edge", *(f"{q:.4f}" for q in printed)])
    from_0 = (formulas.integrals(formulas.HMC, (0.3, r), row=0, low=0.0)[0] for r in momenta)
    rows.append(["right sign, but from 0", *(f"{q:.4f}" for q in from_0)])
    return f"""## The closed form of Q in two dimensions (supplement)

Right is Q_12 = -Q_21 = p^-1 ∫ [f_1 p - d_1 (D_11 p) - d_s (D_12 p)] ds along z_2 from the lower edge, where p vanishes,
and likewise Q_21 = p^-1 ∫ [f_2 p - d_s (D_21 p) - d_2 (D_22 p)] ds along z_1. Printed are the opposite sign of both, a
p^-1 before the first term only, and no word on the lower limit. HMC on a standard Gaussian has Q_12 = -1 in the paper;
Q_12 at theta = 0.3:

{table(["r", *(f"{r:g}" for r in momenta)], rows)}

The drift through the rebuilt Q is within {error} of the given one, relative to its size, over the bulk."""


def remark() -> str:
    rows = []
    for k in (0.5, 1.0, 2.0):
        plus = formulas.transform_of_g(k)
        rows.append([f"{k:g}", f"{formulas.transform(k):+.5f} i", f"{plus:+.5f} i", f"{-plus:+.5f} i"])
    return f"""## The remark after Theorem 2

The inverse transform of k / (2 pi i (k^2 + a^2)) is g = +½ e^(-2 pi a z) for z > 0 and -½ e^(2 pi a z) for z < 0;
printed is its negative. Transforms of both by quadrature, a = 1:

{table(["k", "k / (2 pi i (k^2 + 1))", "of g with +½", "of g as printed, -½"], rows)}"""


def two_peak_run() -> str:
    target = eg.gallery.two_peaks()
    low, high = (eg.certify(eg.gsgrhmc(offset=offset), target) for offset in (0.5, 1.5))
    words = next(check.explanation for check in low.checks if not check.passed)
    # the point that is met first, out of many, differs from one processor to the next
    words = re.sub(r"(U = |offset > |such as )-?[\d.e+-]+", r"\1...", words)
    figure = below(ROUNDING, high[RESIDUAL].figure)
    return f"""## gSGRHMC on two peaks: G^-1 = 1.5 sqrt(abs(U + C)) with C = 0.5 (supplement)

min U = -1, so U + C crosses zero inside the bulk, where G^-1/2 has a cusp with an infinite derivative. `eg.certify`
{verdict(high)} `eg.gsgrhmc(offset=1.5)`, with a residual below {figure}, and {verdict(low)} `eg.gsgrhmc(offset=0.5)`
at the first point where it is wrong:

{quoted(words)}"""


def lda_friction() -> str:
    law_at = formulas.friction_law

    def row(theta: float) -> list[str]:
        explicit = answer(lambda: law_at(theta, eg.Euler()), lambda chain: f"variance {percent(chain.largest_bias)}")
        exact = below(1e-9, abs(law_at(theta, eg.Splitting()).largest_bias))
        return [f"{theta:g}", explicit, f"variance right to {exact}"]

    heads = ["theta", "explicit, `eg.Euler`", "Ornstein-Uhlenbeck, `eg.Splitting`"]
    return f"""## LDA with SGRHMC, eps = 0.02: explicit friction r - eps theta r (supplement)

It amplifies where theta > 2/eps = {2 / 0.02:g}, and theta, pushed by a gradient scaled up to the whole corpus, gets
there. Right is the exact friction of an Ornstein-Uhlenbeck step, or eps theta well below 2 everywhere. `eg.exact_law`
of SGHMC with friction theta on a standard Gaussian:

{table(heads, [row(theta) for theta in (50.0, 99.0, 101.0, 200.0)])}"""


def schedule() -> str:
    (a, b, c), times = formulas.SCHEDULE, (0.0, 10_000.0)
    rows = [
        ["(a (1 + t/b))^-c, printed", *(f"{formulas.printed_schedule(t):.3g}" for t in times)],
        ["a (1 + t/b)^-c, right", *(f"{formulas.right_schedule(t):.3g}" for t in times)],
    ]
    return f"""## Step-size schedule of SGRLD (supplement)

With a = {a:g}, b = {b:g}, c = {c:g}, the defaults of Patterson and Teh's code, which has the right form:

{table(["schedule", "t = 0", "t = 10,000"], rows)}"""


SECTIONS = (samplers, always_psd, naive_sgrhmc, own_batch, closed_form, remark, two_peak_run, lda_friction, schedule)


def page() -> str:
    parts = [HEAD]
    for i, section in enumerate(SECTIONS, 1):
        print(f"errata: {i} of {len(SECTIONS)}, {section.__name__.replace('_', ' ')}", file=sys.stderr)
        parts.append(section())
    return "\n\n".join([*parts, TAIL]) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description="Writes docs/paper/errata.md from the library's own tools.")
    parser.add_argument("--check", action="store_true", help="write nothing; exit code 1 if the page differs")
    check, text = parser.parse_args().check, page()
    if not check:
        PAGE.write_text(text, encoding="utf-8")
    elif text != PAGE.read_text(encoding="utf-8"):
        sys.exit(f"{PAGE} is not what the tools say: run make errata")


if __name__ == "__main__":
    main()
