"""NumPyro models of tests/numpyro_models.py: `eg.sample(target)` without settings against NumPyro's NUTS.

    python benchmarks/models.py [NAME ...]

Where NUTS (4 chains, 1,000 draws after 1,000 of warm-up) has R-hat below 1.01 for every number and no divergence, every
mean of ours must be within 0.1 of its sd, or the run must say that the accuracy was not reached; exit code 1 where
neither is so. `miss` is the worst distance of means in sds, `width` the worst ratio of sds less 1 (not judged).
"""

import sys
import time
import warnings
from pathlib import Path
from typing import Any, NamedTuple

import jax
import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
warnings.filterwarnings("ignore", message="subsample_size does not match")  # NumPyro, of indices substituted for NUTS

from numpyro.diagnostics import split_gelman_rubin  # noqa: E402
from numpyro.infer import MCMC, NUTS  # noqa: E402

import ergodica as eg  # noqa: E402
from ergodica.interop import numpyro as bridge  # noqa: E402
from tests.numpyro_models import MODELS, Case  # noqa: E402

CHAINS, WARMUP, DRAWS = 4, 1000, 1000
RHAT, MISS = 1.01, 0.1


class Nuts(NamedTuple):
    """Draws of sites (chain, draw, ...), and whether they can be trusted."""

    draws: dict[str, np.ndarray]
    rhat: float
    divergences: int
    seconds: float


def by_nuts(case: Case) -> Nuts:
    start = time.process_time()
    mcmc = MCMC(
        NUTS(case.plain or case.model),
        num_warmup=WARMUP,
        num_samples=DRAWS,
        num_chains=CHAINS,
        chain_method="vectorized",
        progress_bar=False,
    )
    mcmc.run(jax.random.key(0), extra_fields=("diverging",), **case.arguments)
    draws = {name: np.asarray(value, np.float64) for name, value in mcmc.get_samples(group_by_chain=True).items()}
    ratios = [split_gelman_rubin(value) for value in draws.values()]
    # entries that never move, as zeros of a triangular matrix, have none
    rhat = max(float(np.max(ratio, initial=1.0, where=np.isfinite(ratio))) for ratio in ratios)
    divergences = int(np.sum(mcmc.get_extra_fields()["diverging"]))
    return Nuts(draws, rhat, divergences, time.process_time() - start)


def compared(ours: dict[str, Any], theirs: dict[str, np.ndarray]) -> tuple[float, float, str]:
    """The worst distance of means, the worst ratio of sds less 1, and the site of the first."""
    miss, width, worst = 0.0, 0.0, ""
    for name, value in ours.items():
        got, truth = np.asarray(value, np.float64), theirs[name]
        sd = truth.std((0, 1))
        moves = sd > 1e-9
        away = np.max(np.abs(got.mean((0, 1)) - truth.mean((0, 1))) / np.where(moves, sd, 1.0), where=moves, initial=0)
        width = max(width, np.max(np.abs(got.std((0, 1)) / np.where(moves, sd, 1.0) - 1), where=moves, initial=0))
        if away > miss:
            miss, worst = float(away), name
    return miss, width, worst


def judged(name: str) -> bool:
    case = MODELS[name]
    start = time.process_time()
    run = eg.sample(bridge.target(case.model, rows=case.rows, **case.arguments), progress=False)
    seconds = time.process_time() - start
    nuts = by_nuts(case)
    miss, width, worst = compared(run.posterior, nuts.draws)
    is_reached = run.tuning.reached
    is_trusted = nuts.rhat < RHAT and nuts.divergences == 0
    is_right = miss <= MISS or not is_reached or not is_trusted
    words = "ok" if miss <= MISS else f"at {worst}"
    print(
        f"{name:20s} {'ok' if is_right else 'MISSED':7s} {'reached' if is_reached else 'not reached':12s} "
        f"miss {miss:6.3f} {words:12s} width {width:6.3f}   NUTS: R-hat {nuts.rhat:.4f}, {nuts.divergences} divergences"
        f"{'' if is_trusted else ' (no judge)'}   CPU s {seconds:5.1f} and {nuts.seconds:5.1f}",
        flush=True,
    )
    return is_right


def main(names: list[str]) -> int:
    unknown = [name for name in names if name not in MODELS]
    if unknown:
        print(f"no model {unknown[0]!r}: there are {', '.join(MODELS)}", file=sys.stderr)
        return 2
    return int(not all([judged(name) for name in names or MODELS]))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
