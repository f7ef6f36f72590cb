"""What was once called reached and was not, and what is said instead."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import ergodica as eg
from ergodica.diagnostics.accuracy import measured, sums
from tests.unit.tuning.test_tuned import LOOSE


def test_a_potential_that_float32_rounds_is_not_asked_for_a_metropolis_test():
    """Neighbouring values at 1e8 are 8 apart: sds were 24 % too wide, and "reached"."""

    def potential(q):
        return jnp.sum(q**2) / 2 + 1e8

    start = np.ones(2, np.float32)
    assert "Metropolis" not in eg.tune(eg.Density(potential, init=start)).predicted
    assert "Metropolis" in eg.tune(eg.Density(potential, init=start), temperature=1e3).predicted
    with pytest.raises(eg.InputError, match="numbers of float32 are 12 apart there"):
        eg.tune(eg.Density(potential, init=start, domain=eg.positive))


def test_a_chain_that_is_stuck_has_its_step_halved():
    """A banana: with the pilots' step its ends are hardly entered, and the sd of q[1] was 10 % short, and "reached"."""
    target = eg.Density(lambda q: (q[0] ** 2 + (q[1] - q[0] ** 2) ** 2) / 2, init=np.full(2, 0.5))
    run = eg.sample(target, seed=1, progress=False)
    assert run.tuning.spent["given up"] > 0
    assert run.tuning.reached
    np.testing.assert_allclose(run.posterior.std(axis=(0, 1)), [1, np.sqrt(3)], rtol=0.05)


def test_a_row_of_rejections_counts_where_it_is_no_chance():
    from ergodica.tuning.pilots import stuck_for

    accepted = np.random.default_rng(0).random((4, 2_000)) < 0.8
    assert stuck_for(accepted) == 0
    accepted[2, -40:] = False
    accepted[3, :10] = False  # another chain: no part of the same row
    assert 40 <= stuck_for(accepted) < 50


def test_heavy_tails_have_larger_errors():
    draws = np.random.default_rng(0).standard_t(3, (4, 5_000, 200))
    found = measured(draws)
    covered = np.abs(found.sd / np.sqrt(3) - 1) < 2.24 * found.sd_error
    assert covered.mean() > 0.88  # 0.86 by the scatter alone


@pytest.mark.parametrize("keep", [lambda q: q[:0], lambda q: jax.lax.complex(q, q)])
def test_nothing_to_keep_is_refused(keep):
    with pytest.raises(eg.InputError, match="keep returned no numbers, or complex ones"):
        eg.tune(eg.gallery.gaussian(2), keep=keep)


def test_a_kept_number_that_is_constant_is_named():
    from types import SimpleNamespace

    from ergodica.tuning.ladder import LadderRung, complaint

    draws = {"q": np.random.default_rng(0).standard_normal((4, 2_000)), "one": np.ones((4, 2_000))}
    settings, run = SimpleNamespace(accuracy=LOOSE), SimpleNamespace(posterior=draws)
    found = sums(LOOSE, measured(draws))
    assert not found.is_within(LOOSE)
    said = complaint(LadderRung(settings, run, measured(draws)), found)
    assert said == "the number one never changes, and has no sd to measure by: leave it out by `keep`"


def test_a_pole_of_the_density_is_not_called_a_flat_line():
    """Eight schools, centred: where the groups' width vanishes, so do Laplace's."""
    y, widths = np.array([28.0, 8, -3, 7, -1, 1, 18, 12]), np.array([15.0, 10, 16, 11, 9, 11, 10, 18])

    def potential(q):
        mean, log_width, groups = q[0], q[1], q[2:]
        prior = mean**2 / 50 + jnp.log1p(jnp.exp(2 * log_width) / 25) + 7 * log_width
        return (
            prior
            + jnp.sum((groups - mean) ** 2) / 2 * jnp.exp(-2 * log_width)
            + jnp.sum(((y - groups) / widths) ** 2) / 2
        )

    assert eg.tune(eg.Density(potential, init=np.zeros(10))).method == "Metropolis"
