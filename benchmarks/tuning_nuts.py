"""NumPyro's NUTS on the targets of benchmarks/tuning.py: gradients counted, or CPU time until an error is reached."""

import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import jax
import numpy as np

from benchmarks import tuning_cases as cases
from ergodica.diagnostics.accuracy import measured
from ergodica.tree import Layout

CHAINS = 4
MILLION_WARMUP, MILLION_PIECE = 300, 100  # draws of one chain


def sampler(known: cases.Known, warmup: int, draws: int) -> tuple[Any, Any]:
    """With a dense mass, and the flat start of its chains."""
    from numpyro.infer import MCMC, NUTS

    position = jax.tree.map(jax.numpy.asarray, known.target.init)
    layout = Layout.of(position)
    target, rows = known.target.without_data(), known.target.data

    def potential(flat: Any) -> Any:
        return target.evaluate(layout.unravel(flat), rows)[0]

    kernel = NUTS(potential_fn=potential, dense_mass=True)
    return MCMC(kernel, num_warmup=warmup, num_samples=draws, progress_bar=False), layout


def counted(known: cases.Known, seed: int, draws: int) -> tuple[float, float, float]:
    """Gradients of warm-up, of sampling, and the worst error of an sd, of four chains."""
    nuts, layout = sampler(known, draws, draws)
    keep = known.keep if callable(known.keep) else (lambda q: q)
    kept = jax.jit(jax.vmap(lambda flat: keep(layout.unravel(flat))))
    before, steps, chains = 0.0, 0.0, []
    for chain in range(CHAINS):
        # dispersed as ours are not needed: NUTS finds its way from near the start
        key = jax.random.fold_in(jax.random.key(seed), chain)
        start = layout.ravel(jax.tree.map(jax.numpy.asarray, known.target.init))
        start = start + 0.1 * jax.random.normal(jax.random.fold_in(key, 1), start.shape, start.dtype)
        nuts.warmup(key, init_params=start, collect_warmup=True, extra_fields=("num_steps",))
        before += float(np.sum(nuts.get_extra_fields()["num_steps"]))
        nuts.run(nuts.post_warmup_state.rng_key, extra_fields=("num_steps",))
        steps += float(np.sum(nuts.get_extra_fields()["num_steps"]))
        chains.append(jax.tree.map(np.asarray, kept(nuts.get_samples())))
    posterior = jax.tree.map(lambda *leaves: np.stack(leaves), *chains)
    return before, steps, float(np.max(measured(posterior).sd_error))


def cpu_to_error(known: cases.Known, error: float, limit: float) -> tuple[str, float]:
    """CPU seconds until NUTS knows the sds as well: in words, and a number it is at least."""
    command = [sys.executable, "-m", "benchmarks.tuning_nuts", str(known.target.size), repr(error), repr(limit)]
    folder = Path(__file__).resolve().parents[1]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True, cwd=folder)
    seconds, is_over, words = done.stdout.splitlines()[-1].split("\t")
    return f"{'' if is_over == 'True' else 'more than '}{float(seconds):,.0f} CPU s ({words})", float(seconds)


def _main(rows: int, error: float, limit: float) -> None:
    """One chain from the mode, in pieces, until its error is reached or the limit has passed."""
    import ergodica as eg

    known = cases.regression(rows, 1.0)
    mode = eg.find_mode(known.target)
    start = time.process_time()
    nuts, layout = sampler(known, MILLION_WARMUP, MILLION_PIECE)
    nuts.warmup(jax.random.key(0), init_params=layout.ravel(mode.position))
    state, draws = nuts.post_warmup_state, []
    reached = False
    while time.process_time() - start < limit and not reached:
        nuts.post_warmup_state = state
        nuts.run(state.rng_key)
        state = nuts.last_state
        draws.append(np.asarray(nuts.get_samples()))
        flat = np.concatenate(draws)
        pieces = flat[: len(flat) // CHAINS * CHAINS].reshape(CHAINS, -1, flat.shape[1])
        reached = bool(np.max(measured(pieces).sd_error) <= error)
    count = MILLION_PIECE * len(draws)
    print(time.process_time() - start, reached, f"{count} draws after {MILLION_WARMUP}", sep="\t")


if __name__ == "__main__":
    _main(int(sys.argv[1]), float(sys.argv[2]), float(sys.argv[3]))
