"""Figure 2 (left) and the supplement's densities: four samplers on two densities in one dimension."""

from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp

import ergodica as eg
from ergodica.errors import InputError
from ergodica_paper.one_dimensional.batches import BATCH, ROWS, shifts
from ergodica_paper.one_dimensional.chains import INTERVAL, NOISE, PRINTED_OFFSET, SCALE, STEPS, Size
from ergodica_paper.one_dimensional.claims import DENSITIES, all_claims, curve
from ergodica_paper.one_dimensional.densities import BINS, TWO_PEAKS, PolynomialPotential
from ergodica_paper.one_dimensional.pictures import all_pictures, all_tables
from ergodica_paper.one_dimensional.sweep import Curve, measure
from ergodica_paper.result import Ask, PaperItem, Result

# lots of chains, and how long: in full the worst point has an effective sample size above 3e5
QUICK, FULL = (1, Size(4_096, settling=8.0, watched=32.0)), (4, Size(8_192, settling=10.0, watched=100.0))


def run(ask: Ask) -> Result:
    """KL against the step for each sampler, its limit at step 0, and the metric from a batch."""
    parts, size = FULL if ask.full else QUICK
    curves = measure(ask, size, parts)
    found = shifts(*((1_024, 25.0) if ask.full else (256, 8.0)), ask.seed, lambda words: ask.report(0.95, words))
    ask.report(0.98, "pictures")
    return Result(
        text=_text(curves),
        claims=all_claims(curves, found, refusal()),
        pictures=all_pictures(curves, found),
        tables=all_tables(curves, found),
        settings=_settings(parts, size),
        non_finite={f"{c.name}, step {p.step_size:g}": p.non_finite for c in curves for p in c.points if p.non_finite},
    )


def refusal() -> str:
    """What the library says against the printed offset on two peaks; nothing where it takes it."""
    target = eg.Density(PolynomialPotential(TWO_PEAKS.quartic, TWO_PEAKS.quadratic))
    kernel = eg.Kernel(target, eg.gsgrhmc(scale=SCALE, offset=PRINTED_OFFSET), eg.Euler())
    try:
        kernel.init(jnp.ones((), jnp.float32), jax.random.key(0))
    except InputError as error:
        return str(error)
    return ""


def _text(curves: Sequence[Curve]) -> list[str]:
    every = [p for c in curves for p in c.points]
    least = min((p.effective for p in every if not p.non_finite), default=0.0)
    lossy = [p for p in every if p.non_finite]
    first = curve(curves, TWO_PEAKS, "sghmc").points[0]
    split = curve(curves, TWO_PEAKS, "sghmc", splitting=True).points[0]
    return [
        "The paper draws one bar of KL for each sampler and density, at a step size that it does not give. A bar at "
        "one step mixes two errors, of the recipe and of the step; only the first stays when the step goes to zero. So "
        f"KL is measured at {len(STEPS)} steps and extrapolated. Every chain makes the library's own steps (Euler's, "
        f"as in the paper), with a gradient that carries Gaussian noise of variance {NOISE:g}; the naive sampler is "
        "gSGRHMC with the derivative of its metric hidden, so that there is no Gamma.",
        "Errors come from groups of chains with random numbers of their own, and what a finite sample adds to KL is "
        f"subtracted. The smallest effective sample size of a point is {least:.2g} (of the KL, the mean and the mean "
        "square, the least). Euler's bias in law is of the order of the step, so the KL of a right sampler falls with "
        f"its square. The library's default for SGHMC is a splitting: with two peaks at step {first.step_size:g} its "
        f"KL is {split.kl} where Euler's is {first.kl}.",
        f"At {len(lossy)} of {len(every)} points, {sum(p.non_finite for p in lossy):,} chains became non-finite. "
        "They are counted in the outermost bin and named by sampler. Such a step has no stationary law, and so no "
        "effective sample size and no part in the verdicts: an explicit step on t⁴ can always throw a chain out, and a "
        "metric with a cusp does so often.",
    ]


def _settings(parts: int, size: Size) -> dict[str, Any]:
    return {
        "chains a point": parts * size.chains,
        "time to settle": size.settling,
        "time watched": size.watched,
        "time between observations": INTERVAL,
        "step sizes": list(STEPS),
        "bins": BINS,
        "variance of the gradient": NOISE,
        "metric": f"{SCALE:g} sqrt|U + C|, " + ", ".join(f"C = {p.offset:g} ({p.name})" for p in DENSITIES),
        "starts": "drawn from the target",
        "own batch": f"{ROWS} data, batches of {BATCH}",
    }


ITEM = PaperItem(
    name="one-dimensional",
    title="Four samplers on two densities in one dimension",
    source="figure 2, left; supplement, section F.1",
    run=run,
    code=tuple(
        f"ergodica_paper/one_dimensional/{name}.py"
        for name in ("densities", "chains", "draws", "divergence", "sweep", "batches", "claims")
    ),
    seconds=(25.0, 320.0),
)
