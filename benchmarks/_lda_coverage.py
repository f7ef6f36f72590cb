"""How often 90 % bands cover the truth, and what 200 effective draws cost: demo topics, after finding.

Four topics of the demo corpus with their 120 words, 400 documents of 60 words. The demo's topics are no draws of a
Dirichlet law: nine tenths of each are on its own words, and a tenth is even over all others. Under the alpha that the
likelihood prefers, about 0.15, words of that tenth are drawn towards 0, and bands cover less than they say, whoever
samples (collapsed Gibbs sampling: 0.73 to 0.78); under Jeffreys' 1/2 they cover. With topics drawn from the prior,
bands must cover whatever alpha is: that row is the test of the sampler.
"""

import time

import numpy as np
from scipy.optimize import linear_sum_assignment

from ergodica.lda import LDA, demo

TOPICS, DOCUMENTS, LENGTH, JEFFREYS = 4, 400, 60, 0.5


def truth(seed: int, is_drawn: bool) -> np.ndarray:
    if is_drawn:
        return np.random.default_rng(seed).dirichlet(np.full(30 * TOPICS, JEFFREYS), TOPICS).T
    phi = demo.truth()[: 30 * TOPICS, :TOPICS]
    return phi / phi.sum(0)


def coverage(sampler: str, seed: int, alpha: float | None, is_drawn: bool) -> tuple[float, float, LDA]:
    """The share of all probabilities in their bands, topics matched by their cosines; CPU seconds; the model."""
    phi, words = truth(seed, is_drawn), list(demo.vocabulary().words[: 30 * TOPICS])
    begun = time.process_time()
    model = LDA(TOPICS, sampler, bands=True, seed=seed, vocabulary=words, alpha=alpha, progress=False)
    model.fit(demo.documents(DOCUMENTS, seed, phi, LENGTH))
    cpu, found = time.process_time() - begun, model.components_.T
    cosines = (found / np.linalg.norm(found, axis=0)).T @ (phi / np.linalg.norm(phi, axis=0))
    order, matched = linear_sum_assignment(-cosines)
    low, high = (band[order].T for band in model.bands())
    return float(np.mean((low <= phi[:, matched]) & (phi[:, matched] <= high))), cpu, model


def coverage_rows(seeds: int) -> list[tuple[str, float, float | None]]:
    rows: list[tuple[str, float, float | None]] = []
    cases = {"demo topics, alpha 1/2": (JEFFREYS, False), "drawn topics, alpha 1/2": (JEFFREYS, True)}
    cases["demo topics, alpha learnt"] = (None, False)
    for name, (alpha, is_drawn) in cases.items():
        for sampler in ("scir", "sgrhmc", "sgrld"):
            if alpha is None and sampler != "scir":
                continue
            found = [coverage(sampler, seed, alpha, is_drawn) for seed in range(1, seeds + 1)]
            share, cpu = np.mean([row[0] for row in found]), np.mean([row[1] for row in found])
            effective = np.mean([row[2].figures_["effective_draws"] for row in found])
            passed = sum(row[2].band == "posterior interval" for row in found)
            print(f"{sampler}, {name}: {share:.3f} covered, {cpu:.1f} CPU s to {effective:.0f} effective draws, "
                  f"theta_.k right in {passed} of {seeds}", flush=True)  # fmt: skip
            bounds = (None, None) if alpha is None else (0.93, -0.87)
            rows += [
                (f"{sampler}, {name}: share covered", float(share), bound)
                for bound in bounds[: 1 + (alpha is not None)]
            ]
            rows.append((f"{sampler}, {name}: CPU s to 200 effective draws", float(cpu * 200 / effective), None))
    return rows
