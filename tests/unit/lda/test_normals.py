"""Fast normals against their law: moments, tails, bins; and that they depend on seed, step and row alone."""

import numba
import numpy as np
from scipy import stats

from ergodica.lda.gibbs.random_numbers import normals


def test_moments_tails_and_bins_are_those_of_a_normal():
    # seven figures, each within 5 standard errors: false alarm below 1e-5
    x = normals(0, 0, 2_000, 1_000).ravel().astype(float)
    n = len(x)
    assert abs(x.mean()) * np.sqrt(n) < 5
    assert abs(x.var() - 1) * np.sqrt(n / 2) < 5
    assert abs(stats.kurtosis(x)) * np.sqrt(n / 24) < 5
    for edge in (2.0, 3.442619855899, 4.0):  # inside, where the tail begins, in the tail
        for side in (x, -x):
            expected = n * stats.norm.sf(edge)
            assert abs(np.sum(side > edge) - expected) < 5 * np.sqrt(expected)
    edges = np.linspace(-3.5, 3.5, 501)
    expected = n * np.diff(stats.norm.cdf(edges))
    chi2 = np.sum((np.histogram(x, edges)[0] - expected) ** 2 / expected)
    assert abs(chi2 - 500) < 5 * np.sqrt(1000)
    assert abs(np.corrcoef(x[:-1], x[1:])[0, 1]) * np.sqrt(n) < 5


def test_a_row_hangs_on_seed_and_step_and_not_on_threads():
    one = normals(3, 5, 100, 20)
    before = numba.get_num_threads()
    numba.set_num_threads(1)
    np.testing.assert_array_equal(normals(3, 5, 100, 20), one)
    numba.set_num_threads(before)
    everything = [one, normals(3, 6, 100, 20), normals(4, 5, 100, 20)]
    assert len(np.unique(np.concatenate([x.ravel() for x in everything]))) > 0.999 * 6_000
