"""How often 90 % bands cover the truth, and what 200 effective draws cost.

    python benchmarks/_lda_coverage.py [sampler,...] [seeds]

Four topics of the demo corpus with their 120 words, 400 documents of 60 words. Topics are found by averaged counts, and
then sampled in steps whose gradient noise is a tenth of the injected noise. "exact" is Gibbs sampling of all documents
at once, with no step size and no gradient: what bands of the posterior itself cover, but for its sweeps (with 60
instead of 10 it covered 0.016 more on three seeds).
"""

import sys
import time
from dataclasses import replace
from typing import NamedTuple

import numpy as np
from scipy.optimize import linear_sum_assignment

from ergodica.lda import demo
from ergodica.lda.corpus import Documents
from ergodica.lda.effective import effective_draws
from ergodica.lda.expanded_mean import ExpandedMean
from ergodica.lda.gibbs import expectations
from ergodica.lda.learner import learner_of
from ergodica.lda.noise import noise_of
from ergodica.lda.samplers import LDA_PRESETS
from ergodica.lda.scale_check import at_posterior_scale, check_scales
from ergodica.lda.steps import langevin_step
from ergodica.lda.stream import DocumentBatch

TOPICS, DOCUMENTS, LENGTH = 4, 400, 60
WORDS = 30 * TOPICS
SAMPLERS = ("exact", "scir", "sgrld", "sgrhmc")
STEPS, WARM_UP, KEPT = 6_000, 1_000, 500  # of a sampler
NOISE_RATIO, EFFECTIVE = 0.1, 200
EXACT_STEPS, EXACT_SWEEPS = 700, 10
FINDING_STEPS, FINDING_BATCH = 300, 100


class Sampled(NamedTuple):
    """Draws (n, words, topics), the processor time they took, and what is to be said of them."""

    draws: np.ndarray
    seconds: float
    words: str


def truth() -> np.ndarray:
    phi = demo.truth()[:WORDS, :TOPICS]
    return phi / phi.sum(0)


def found_topics(documents: Documents, alpha: float, gamma: float, seed: int) -> np.ndarray:
    """Averaged counts, N <- (1 - rho) N + rho (S/n) N_batch, from nearly equal topics: an optimiser."""
    rng = np.random.default_rng(seed)
    counts = rng.gamma(100.0, 0.01, (WORDS, TOPICS))
    for step in range(FINDING_STEPS):
        phi = np.ascontiguousarray((counts + alpha) / (counts + alpha).sum(0), np.float32)
        batch = documents.take(rng.choice(len(documents), FINDING_BATCH, replace=False))
        found = expectations(
            phi, batch, gamma, sweeps=6, burn_in=2, seed=seed, visit=step * FINDING_BATCH, want="counts", start="phi"
        )
        rho = (1 + step / 10) ** -0.7
        counts *= 1 - rho
        counts[found.words] += rho * len(documents) / FINDING_BATCH * found.counts
    return (counts + alpha) / (counts + alpha).sum(0)


def sampled(sampler: str, documents: Documents, seed: int) -> Sampled:
    """The second phase of a run: from topics that were found, at the scale that theta has under the posterior."""
    preset = LDA_PRESETS["posterior"][sampler]
    model = ExpandedMean(
        WORDS, TOPICS, DOCUMENTS, preset.alpha, preset.gamma, preset.sweeps, preset.burn_in, preset.estimator,
        preset.start, floor=preset.floor,
    )  # fmt: skip
    chain = learner_of(model, sampler, replace(preset, noise=None), seed)
    begin = time.process_time()
    chain.start_at(at_posterior_scale(found_topics(documents, preset.alpha, preset.gamma, seed), preset.alpha, seed))
    noise = noise_of(model, chain.recipe, chain.theta, documents, batch_size=preset.batch_size, seed=seed + 1)
    chain.fixed_size = noise.step_size(NOISE_RATIO)
    rng, draws, scales, times = np.random.default_rng(seed), [], [], []
    while chain.steps < STEPS:
        order = rng.permutation(DOCUMENTS)
        for first in range(0, DOCUMENTS, preset.batch_size):
            batch = documents.take(order[first : first + preset.batch_size])
            chain.step(DocumentBatch(batch, chain.steps * preset.batch_size, DOCUMENTS))
            if chain.steps > WARM_UP and chain.steps % ((STEPS - WARM_UP) // KEPT) == 0:
                draws.append(chain.phi)
                scales.append(chain.theta.sum(0, dtype=np.float64))
                times.append(chain.steps * langevin_step(chain.fixed_size, preset.friction))
    seconds = time.process_time() - begin
    check = check_scales(np.array(scales), WORDS * preset.alpha, np.array(times))
    return Sampled(np.array(draws), seconds, f"step {chain.fixed_size:.2g}; {check.text}")


def exact(documents: Documents, seed: int) -> Sampled:
    """Gibbs sampling: the topics z of all tokens given phi, then phi_k ~ Dirichlet(alpha + N_k)."""
    preset, rng, draws = LDA_PRESETS["posterior"]["scir"], np.random.default_rng(seed), []
    begin = time.process_time()
    phi = found_topics(documents, preset.alpha, preset.gamma, seed)
    for step in range(EXACT_STEPS):
        found = expectations(
            np.ascontiguousarray(phi, np.float32), documents, preset.gamma, sweeps=EXACT_SWEEPS,
            burn_in=EXACT_SWEEPS - 1, seed=seed, visit=step * DOCUMENTS, estimator="sampled", start="phi",
            want="counts",
        )  # fmt: skip
        counts = np.zeros((WORDS, TOPICS))
        counts[found.words] = found.counts
        theta = rng.gamma(preset.alpha + counts)
        phi = np.maximum(theta / theta.sum(0), 1e-30)
        draws.append(phi)
    return Sampled(np.array(draws[EXACT_STEPS // 7 :]), time.process_time() - begin, "")


def covered(draws: np.ndarray) -> float:
    """The share of all probabilities that lie in their bands, topics matched by their cosines."""
    found, phi = draws.mean(0), truth()
    cosines = (found / np.linalg.norm(found, axis=0)).T @ (phi / np.linalg.norm(phi, axis=0))
    order, matched = linear_sum_assignment(-cosines)
    low, high = (edge[:, order] for edge in np.quantile(draws, (0.05, 0.95), axis=0))
    return float(np.mean((low <= phi[:, matched]) & (phi[:, matched] <= high)))


def report(sampler: str, seeds: int) -> None:
    shares, costs = [], []
    for seed in range(1, 1 + seeds):
        documents = demo.documents(DOCUMENTS, seed, truth(), LENGTH)
        found = exact(documents, seed) if sampler == "exact" else sampled(sampler, documents, seed)
        size = effective_draws(found.draws)
        shares.append(covered(found.draws))
        costs.append(found.seconds * EFFECTIVE / size.median)
        print(
            f"{sampler}, seed {seed}: covered {shares[-1]:.3f}; {size.median:.0f} effective draws (95 % of words: "
            f"{size.low:.0f}) in {found.seconds:.1f} s of processor time; {found.words}",
            flush=True,
        )
    print(
        f"{sampler}: covered {np.mean(shares):.3f} on average (expected: 0.87 to 0.93), "
        f"{EFFECTIVE} effective draws in {np.median(costs):.1f} s of processor time\n",
        flush=True,
    )


if __name__ == "__main__":
    names = sys.argv[1].split(",") if len(sys.argv) > 1 else SAMPLERS
    for name in names:
        report(name, int(sys.argv[2]) if len(sys.argv) > 2 else 10)
