"""Every wrong step of the registry is rejected by an audit, and its right twin passes: one seed each.

False alarms: 1e-4 for each right step. The slips are seen by a wide margin at the effort that the registry names.
"""

import pytest

from ergodica_paper.wrong import RIGHT_STEPS, WRONG_STEPS
from tests.selection import long_unless

WORDS = {
    "baoab_frozen": "position never moves",
    "euler_refreshed": "drift is 0.8",
    "hmc_momentum_temperature": "it samples at temperature",
    "hmc_never_refreshed": "randomness comes from init alone",
    "hmc_potential_only": "Hastings' ratio",
    "leapfrog_momentum_temperature": "it samples at temperature",
    "own_batch_step": "of what the noise asks for",
    "resampled_step_exponential": "the law is skewed in position[",
    "resampled_step_gamma": "the law is skewed in position[",
    "sghmc_step_naive": "runs away",
    "sghmc_step_printed_friction": "it samples at temperature 0.5",
    "sghmc_step_temperature_is_friction": "it samples at temperature 0.5",
    "sgld_batch_held": "used for 10 steps",
    "sgld_numpy_without_two": "it samples at temperature",
    "sgld_step_bent": "the law is bent in position[0]",
    "sgld_step_drift_off": "drift of position[0] is 1.05",
    "sgld_step_key_ignored": "key is ignored",
    "sgld_step_key_twice": "used for 2 steps",
    "sgld_step_noise_is_step": "it samples at temperature 0.0",
    "sgld_step_noise_without_two": "drift is 2.0",
    "sgld_step_one_noise": "position[0] and position[1] are correlated",
    "sgld_step_shifted": "the mean of position[",
    "sgld_step_temperature_ignored": "asked for 0.5",
    "sgld_step_temperature_is_dimension": "drift is 0.50",
    "sgld_step_temperature_off": "drift is 0.9",
    "sgld_step_temperature_squared": "it samples at temperature 0.2",
    "sgld_step_variance_off": "drift of position[0] is 0.9",
    "sgnht_step_temperature_is_dimension": "it samples at temperature",
    "sgrhmc_step_naive": "the mean of position[",
    "sgrhmc_step_printed": "runs away",
    "sgrhmc_step_sign_of_gamma": "the mean of position[",
    "sgrld_step_elementwise_root": "drift and noise between position[0] and position[1]",
    "sgrld_step_gamma_dropped": "Gamma is left out",
    "sgrld_step_gamma_index": "it samples at temperature",
    "sgrld_step_printed": "Gamma has the wrong sign",
}


# one of each kind of slip, and of step
SHORT_RIGHT = ("hmc_metropolis", "sghmc_step", "sgld_numpy", "sgld_step", "sgrld_step")
SHORT_WRONG = (
    "hmc_never_refreshed", "hmc_potential_only", "own_batch_step", "sghmc_step_naive", "sgld_step_key_twice",
    "sgld_step_noise_without_two", "sgld_step_one_noise", "sgld_step_temperature_off", "sgrhmc_step_printed",
    "sgrld_step_gamma_dropped",
)  # fmt: skip


@pytest.mark.parametrize("name", long_unless(sorted(RIGHT_STEPS), *SHORT_RIGHT))
def test_a_right_step_passes(name):
    step = RIGHT_STEPS[name]
    found = step.audit()
    assert found.passed, str(found)
    assert not step.twin


@pytest.mark.parametrize("name", long_unless(sorted(WRONG_STEPS), *SHORT_WRONG))
def test_a_wrong_step_is_rejected(name):
    step = WRONG_STEPS[name]
    found = step.audit()
    assert not found.passed, str(found)
    assert WORDS[name] in " ".join(found.notes)
    assert step.twin in RIGHT_STEPS
    assert step.source
