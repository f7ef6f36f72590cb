"""Item errata: printed slips are rejected, right forms accepted, and a wrong sign in the library changes the claims."""

import pytest

import ergodica as eg
from ergodica.paper import errata
from ergodica.paper.errata import formulas, others, samplers
from ergodica.paper.printed import RIGHT, SLIPS, WRONG
from ergodica.paper.result import Ask
from tests.unit.paper import flipped

ONE = [slip for slip in SLIPS if slip.name == "sgrld_printed"]


@pytest.fixture(scope="module")
def found():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(samplers, "SLIPS", ONE)
        return samplers.examine(Ask())


def test_a_slip_is_rejected_and_its_right_form_accepted(found):
    (claim,) = samplers.slip_claims(found)
    assert claim.verdict == "not reproduced"
    assert "the correction Gamma has the wrong sign" in claim.explanation
    assert "recipe is the same" in claim.explanation
    assert samplers.right_claim(found).verdict == "reproduced"
    errata.picture_of(found)


def test_a_changed_sign_in_the_library_changes_the_claims(found, monkeypatch):
    monkeypatch.setattr(eg, "sgrld", flipped.sgrld)
    changed = [e._replace(gap=samplers.library_gap(WRONG[e.slip.name].twin, 0)) for e in found]
    assert samplers.right_claim(changed).verdict == "not reproduced"
    assert "recipe is another" in samplers.slip_claims(changed)[0].explanation
    assert samplers.slips_table(changed).rows[0][5] > 1e-2


def test_every_slip_has_a_right_form_in_the_library():
    assert {WRONG[slip.name].twin for slip in SLIPS} == set(samplers.LIBRARY)
    assert set(samplers.LIBRARY) <= set(RIGHT)
    assert {slip.name for slip in SLIPS} - set(samplers.SLUGS) == {"sgrld_geometric_correction"}


@pytest.mark.parametrize("maker", [others.remark, others.schedule, others.gibbs])
def test_printed_formulas_are_off(maker):
    claim, table = maker(0)
    assert claim.verdict == "not reproduced"
    assert all(len(row) == len(table.columns) for row in table.rows)


def test_right_formulas():
    bayes, printed, right = formulas.topic_weights(0)
    assert right == pytest.approx(bayes)
    assert printed != pytest.approx(bayes, abs=1e-2)
    assert formulas.transform_of_g(1.3) == pytest.approx(formulas.transform(1.3))
    assert formulas.right_schedule(0.0) == formulas.SCHEDULE[0]
