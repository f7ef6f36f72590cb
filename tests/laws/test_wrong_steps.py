"""Every wrong step of the registry is rejected by an audit, and its right twin passes: one seed each.

False alarms: 1e-4 for each right step. The slips are seen by a wide margin at the effort that the registry names.
"""

import pytest

from tests.wrong import RIGHT_STEPS, WRONG_STEPS

WORDS = {
    "baoab_frozen": "position never moves",
    "sgld_step_key_ignored": "key is ignored",
    "sgld_step_key_twice": "used for 2 steps",
    "sgld_batch_held": "used for 10 steps",
    "sghmc_step_naive": "runs away",
    "sghmc_step_temperature_is_friction": "it samples at temperature 0.5",
}


@pytest.mark.parametrize("name", sorted(RIGHT_STEPS))
def test_a_right_step_passes(name):
    step = RIGHT_STEPS[name]
    found = step.audit()
    assert found.passed, str(found)
    assert step.twin is None


@pytest.mark.parametrize("name", sorted(WRONG_STEPS))
def test_a_wrong_step_is_rejected(name):
    step = WRONG_STEPS[name]
    found = step.audit()
    assert not found.passed, str(found)
    assert WORDS.get(name, "") in " ".join(found.notes)
    assert step.twin in RIGHT_STEPS
    assert step.source
