"""How often 90 % bands under the preset `posterior` cover the truth.

    python benchmarks/_lda_coverage.py [sampler] [seeds]

Four topics of the demo corpus with their 120 words, 400 documents of 60 words; two minutes a seed on two cores.
"""

import sys
import time

import numpy as np
from scipy.optimize import linear_sum_assignment

from ergodica.lda import LDA, demo

TOPICS, DOCUMENTS, LENGTH, PASSES = 4, 400, 60, 2_000


def truth() -> np.ndarray:
    phi = demo.truth()[: 30 * TOPICS, :TOPICS]
    return phi / phi.sum(0)


def coverage(sampler: str, seed: int) -> tuple[float, LDA]:
    """The share of all probabilities that lie in their bands, topics matched by their cosines."""
    phi, words = truth(), list(demo.vocabulary().words[: 30 * TOPICS])
    model = LDA(TOPICS, sampler, "posterior", seed=seed, vocabulary=words, passes=PASSES)
    model.fit(demo.documents(DOCUMENTS, seed, phi, LENGTH))
    found = model.components_.T
    cosines = (found / np.linalg.norm(found, axis=0)).T @ (phi / np.linalg.norm(phi, axis=0))
    order, matched = linear_sum_assignment(-cosines)
    low, high = (band[order].T for band in model.bands())
    return float(np.mean((low <= phi[:, matched]) & (phi[:, matched] <= high))), model


if __name__ == "__main__":
    shares, (sampler, seeds) = [], [*sys.argv[1:], "sgrhmc", "2"][:2] if len(sys.argv) < 3 else sys.argv[1:3]
    for seed in range(1, 1 + int(seeds)):
        begin = time.monotonic()
        share, model = coverage(sampler, seed)
        shares.append(share)
        figures = model.figures_
        print(
            f"seed {seed}: covered {share:.3f}, {figures['steps']} steps of {figures['step_size']:.2g}, "
            f"noise ratio {model.noise_ratio:.3f} ({model.band}), {time.monotonic() - begin:.0f} s"
        )
    print(f"mean {np.mean(shares):.3f} (expected: 0.85 to 0.95)")
