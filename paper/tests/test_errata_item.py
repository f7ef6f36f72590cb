"""Item errata: printed slips are rejected, right forms accepted, and a wrong sign in the library changes the claims."""

from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest

import ergodica as eg
from ergodica_paper import errata, store
from ergodica_paper.errata import formula_claims, formulas, lines, pictures, sampler_claims, samplers
from ergodica_paper.items import MODULES
from ergodica_paper.printed import RIGHT, SLIPS, WRONG, matrices
from ergodica_paper.printed.potentials import one_peak
from ergodica_paper.result import Ask
from paper.tests import flipped

SOURCE = Path(__file__).parents[1] / "src"
ONE = [slip for slip in SLIPS if slip.name == "sgrld_printed"]


@pytest.fixture(scope="module")
def found():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(samplers, "SLIPS", ONE)
        return samplers.examine(Ask())


class Passed(NamedTuple):
    """Enough of a certificate that passes."""

    passed: bool = True
    checks: tuple = ()


@pytest.fixture(scope="module")
def result(found):
    """The whole item, with the certificates of one slip instead of all.

    Of the metrics of naive SGRHMC one is certified, which has a law; that the dense one has none is in tests/laws.
    The updates of HMC and SGLD have a test below.
    """
    scalar = samplers.certified(formulas.naive_sgrhmc(one_peak, 0.5))
    certify = formula_claims.certified_with_offset

    def metric(sde, seed):
        return found[0].printed if sde is WRONG["sgrhmc_dense_naive"] else scalar

    def offset(target, shift, seed):
        return certify(target, shift, seed) if shift == formula_claims.PRINTED_OFFSET else Passed()

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(samplers, "examine", lambda ask: [found[0]._replace(slip=slip) for slip in SLIPS])
        patch.setattr(sampler_claims, "certified", lambda sde, seed: found[0].printed)
        patch.setattr(formula_claims, "certified", metric)
        patch.setattr(formula_claims, "certified_with_offset", offset)
        patch.setattr(formula_claims, "FRICTIONS", (1.0, 64.0, 128.0))
        patch.setattr(formula_claims, "PRINTED", {name: formula_claims.PRINTED[name] for name in ("sghmc", "sgnht")})
        return errata.run(Ask())


def test_a_slip_is_rejected_and_its_right_form_accepted(found):
    (claim,) = sampler_claims.slip_claims(found)
    assert claim.verdict == "not reproduced"
    assert "the correction Gamma has the wrong sign" in claim.explanation
    assert "recipe is the same" in claim.explanation
    assert sampler_claims.right_claim(found).verdict == "reproduced"
    pictures.slips(found)


def test_a_right_form_that_is_refused_changes_the_claims(found):
    swapped = [e._replace(right=e.printed, printed=e.right) for e in found]
    assert sampler_claims.slip_claims(swapped)[0].verdict == "reproduced"
    assert "nothing is wrong" in sampler_claims.slip_claims(swapped)[0].explanation
    assert sampler_claims.right_claim(swapped).verdict == "not reproduced"
    assert "Refused" in sampler_claims.right_claim(swapped).explanation


def test_a_changed_sign_in_the_library_changes_the_claims(found, monkeypatch):
    monkeypatch.setattr(eg, "sgrld", flipped.sgrld)
    changed = [e._replace(gap=samplers.library_gap(WRONG[e.slip.name].twin, 0)) for e in found]
    assert sampler_claims.right_claim(changed).verdict == "not reproduced"
    assert "recipe is another" in sampler_claims.slip_claims(changed)[0].explanation
    assert samplers.slips_table(changed).rows[0][4] > 1e-2


def test_a_changed_sign_in_q_changes_the_claim_on_updates(monkeypatch):
    curl = {("momentum", "position"): eg.Scaled(lambda z: -1.0)}
    monkeypatch.setattr(eg, "hmc", lambda mass: eg.Recipe(energy={"momentum": eg.Gaussian(mass=mass)}, curl=curl))
    monkeypatch.setattr(formula_claims, "PRINTED", {name: formula_claims.PRINTED[name] for name in ("hmc", "sgld")})
    claim, table = formula_claims.update_claim(formula_claims.update_gaps(0))
    assert claim.verdict == "reproduced under conditions"
    assert claim.conditions == "SGLD"
    assert table.rows[0][1] == pytest.approx(2.0)


@pytest.mark.long
def test_the_older_gamma_has_no_law_with_its_2_and_another_measure_without():
    older, without = (samplers.certified(WRONG[name]) for name in (sampler_claims.OLDER, sampler_claims.WITHOUT_2))
    claim = sampler_claims.older_claim({"dense metric": older})
    assert claim.verdict == "not reproduced"
    assert "law none" in claim.explanation
    both = sampler_claims.older_claim({"dense metric": older, "without its 2": without})
    assert (both.verdict, both.conditions) == ("reproduced under conditions", "without its 2")
    assert [sampler_claims.is_volume(report, power=0.5) for report in (older, without)] == [False, True]


def test_every_slip_has_a_right_form_in_the_library():
    assert {WRONG[slip.name].twin for slip in SLIPS} == set(samplers.LIBRARY)
    assert set(samplers.LIBRARY) <= set(RIGHT)
    assert {slip.name for slip in SLIPS} == {*sampler_claims.WORDS, sampler_claims.OLDER, sampler_claims.WITHOUT_2}


@pytest.mark.long
def test_every_claim_is_short_and_has_a_rule(result):
    for claim in result.claims:
        assert claim.rule
        assert len(claim.explanation.split()) <= 60
        assert claim.kind == "print" or not claim.name.startswith("printed-")


@pytest.mark.long
def test_every_line_of_the_list_has_its_claim_and_every_printed_formula_its_line(result):
    here = {line.claim for line in lines.LINES if line.item == "errata"}
    assert here == {claim.name for claim in result.claims if claim.kind != "ours"}
    (table,) = (table for table in result.tables if table.name == "lines")
    assert {row[3] for row in table.rows} == {"right", "wrong", *others_of("theorem-1", "theorem-2", "map"), PARTLY}


def test_claims_of_other_items_that_the_list_names_are_there():
    for line in lines.LINES:
        module = MODULES[line.item].replace(".", "/")
        files = [SOURCE / f"{module}.py", *(SOURCE / module).glob("*.py")]
        assert line.item == "errata" or any(f'"{line.claim}"' in x.read_text() for x in files if x.exists()), line


PARTLY = "right under conditions"


def others_of(*items):
    return {f"see item {item}" for item in items}


@pytest.mark.long
def test_what_is_found_can_be_written(result):
    assert store.faults(result) == []


@pytest.mark.long
def test_verdicts_on_what_is_no_sampler(result):
    verdicts = {claim.name: claim for claim in result.claims}
    for name in ("printed-remark", "printed-schedule", "printed-gibbs", "printed-closed-form"):
        assert verdicts[name].verdict == "not reproduced"
    assert verdicts["printed-offset"].conditions == "one peak"
    assert verdicts["naive-sgrhmc-framework"].conditions == "dense metric"
    assert verdicts["printed-explicit-friction"].conditions == "eps theta < 2"
    assert verdicts["printed-section-3-updates"].verdict == "reproduced"
    assert verdicts["printed-lda-gradient"].verdict == "reproduced"
    for table in result.tables:
        assert all(len(row) == len(table.columns) for row in table.rows)


class Law(NamedTuple):
    largest_bias: float = 0.0


@pytest.mark.parametrize(
    ("end", "verdict", "where"),
    [
        (5000.0, "reproduced", ""),
        (300.0, "reproduced under conditions", "eps theta < 6"),
        (0.5, "not reproduced", ""),
    ],
)
def test_the_friction_at_which_the_law_ends_is_the_condition(monkeypatch, end, verdict, where):
    def law(theta, integrator, step_size):
        if isinstance(integrator, eg.Euler) and theta > end:
            raise eg.InputError("no law")
        return Law()

    monkeypatch.setattr(formulas, "friction_law", law)
    claim, table = formula_claims.friction(0)
    assert (claim.verdict, claim.conditions) == (verdict, where)
    assert claim.figures.get("largest_theta_with_a_law", end) == pytest.approx(end, rel=1e-5)
    assert [row[0] for row in table.rows] == sorted(row[0] for row in table.rows)


def test_right_formulas_would_be_reproduced(monkeypatch):
    monkeypatch.setattr(formulas, "printed_schedule", formulas.right_schedule)
    assert formula_claims.schedule(0)[0].verdict == "reproduced"
    bayes, _, good = formulas.topic_weights(0)
    monkeypatch.setattr(formulas, "topic_weights", lambda seed: (bayes, good, good))
    assert formula_claims.gibbs(0)[0].verdict == "reproduced"
    monkeypatch.setattr(formulas, "printed_curl", lambda process, z, row: process.curl[0, 1])
    assert formula_claims.closed_form(0)[0].verdict == "reproduced"


def test_a_wrong_gradient_is_seen(monkeypatch):
    gradient, _ = formulas.lda_gradients(0)
    monkeypatch.setattr(formulas, "lda_gradients", lambda seed: (gradient, gradient + 1e-3))
    assert formula_claims.gradient_claim(0).verdict == "not reproduced"


def test_right_formulas():
    bayes, printed, good = formulas.topic_weights(0)
    assert good == pytest.approx(bayes)
    assert printed != pytest.approx(bayes, abs=1e-2)
    assert formulas.transform_of_g(1.3) == pytest.approx(formulas.transform(1.3))
    assert formulas.right_schedule(0.0) == formulas.SCHEDULE[0]


@pytest.mark.parametrize("process", [formulas.HMC, formulas.NOISY], ids=["HMC", "noisy"])
def test_the_closed_form_of_both_rows(process):
    """Q is skew, A S + S A^T + 2 D = 0, and both integrals with the right sign and over p give Q."""
    assert process.curl == pytest.approx(-process.curl.T)
    first, second = (np.subtract(*formulas.integrals(process, (0.3, 1.0), row, process.edge)) for row in (0, 1))
    assert (first, second) == pytest.approx((process.curl[0, 1], process.curl[1, 0]))
    assert all(abs(formulas.printed_curl(process, (0.3, 1.0), row) - process.curl[0, 1]) > 0.1 for row in (0, 1))


def test_printed_matrices_of_sgnht_have_the_printed_shape():
    diffusion, curl = matrices.sgnht(0.8).matrices(np.array([0.1, 0.2, 0.3, 0.4, 0.5]))
    assert curl == pytest.approx(-curl.T)
    assert curl[2:4, 4] == pytest.approx([0.15, 0.2])
    assert diffusion.diagonal().tolist() == [0, 0, 0.8, 0.8, 0]
