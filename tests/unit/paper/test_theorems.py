"""Items theorem-1 and theorem-2: verdicts follow from the figures, and a wrong recipe changes them."""

import numpy as np
import pytest

import ergodica as eg
from ergodica.paper.random_recipes import draw_plan
from ergodica.paper.result import Ask
from ergodica.paper.theorem_1 import admissible, certificates, naive_sghmc
from ergodica.paper.theorem_2 import processes, rebuilt
from ergodica.report import Check, Report
from tests.unit.paper import flipped


@pytest.fixture(scope="module")
def moments():
    return naive_sghmc.all_moments(Ask())


def test_naive_sghmc_heats_up(moments):
    naive = next(m for m in moments if m.share == 0)
    assert naive.stationary is None
    assert naive.growth == pytest.approx(naive.step_size * naive.noise / 2, rel=0.02)
    claim = naive_sghmc.naive_claim(moments, seed=0)
    assert claim.verdict == "reproduced"
    assert "the friction is missing" in claim.explanation


def test_half_eps_v_mends_it_and_the_printed_friction_does_not(moments):
    claim = naive_sghmc.friction_claim(moments)
    assert claim.verdict == "reproduced under conditions"
    assert claim.figures["order"] == pytest.approx(2, abs=0.05)
    # by hand: the splitting's momentum has variance 1 / (1 - eps^2/4) at the end of a step
    assert claim.figures["error_at_smallest_step"]["V=1"] == pytest.approx(0.025**2 / 4, rel=1e-2)
    assert claim.figures["variance_with_printed_friction"] == pytest.approx([0.5, 0.5], abs=1e-3)
    naive_sghmc.pictured(moments)


def test_twice_the_friction_does_not_mend_it(monkeypatch):
    right = eg.sghmc
    monkeypatch.setattr(eg, "sghmc", lambda friction: right(friction=2 * friction))
    assert naive_sghmc.friction_claim(naive_sghmc.all_moments(Ask())).verdict == "not reproduced"


def test_largest_step(monkeypatch):
    every = admissible.cases()
    monkeypatch.setattr(admissible, "cases", lambda: {name: every[name] for name in ("sgld", "sghmc", "hmc")})
    found = admissible.all_admissible(Ask())
    claim = admissible.admissible_claim(found)
    assert claim.verdict == "reproduced under conditions"
    assert claim.figures["no_step"] == ["HMC"]
    # SGLD: B = D D, so 2 / lambda_max(D); SGHMC: B = 1 on the momentum, so 2 C
    matrix = np.array([[1.2, 0.5], [0.5, 0.8]])
    assert claim.figures["largest_step"]["sgld"] == pytest.approx(2 / np.linalg.eigvalsh(matrix)[1])
    assert claim.figures["largest_step"]["sghmc"] == pytest.approx(1.6)
    assert admissible.admissible_claim([a for a in found if a.name != "hmc"]).verdict == "reproduced"


def test_a_sign_of_gamma_is_seen(monkeypatch):
    monkeypatch.setattr(eg, "sgrld", flipped.sgrld)
    monkeypatch.setattr(certificates, "SECTION_3", ("sgrld",))
    found = certificates.certify_named(Ask())
    claim = certificates.claim_of(found, "x", "x", "x")
    assert claim.verdict == "not reproduced"
    assert claim.figures["largest_residual"] > 1e-2
    certificates.picture_of(found)


def test_noise_that_does_not_reach_everything_keeps_the_law():
    residual = Check(certificates.RESIDUAL, True, 1e-17, 1e-12, "")
    reach = Check("noise reaches everything", False, 1, 2, "")
    stuck = certificates.Certified("x", "random", Report("", (residual, reach)))
    assert (stuck.is_kept, stuck.is_reached) == (True, False)
    assert certificates.claim_of([stuck], "x", "x", "x").verdict == "reproduced"


def test_plans_are_drawn_by_seed():
    assert draw_plan([0, 1]) == draw_plan([0, 1])
    assert len({draw_plan([0, i]) for i in range(20)}) > 10


def other_way(mass=1.0):
    return eg.Recipe(energy={"momentum": eg.Gaussian(mass)}, curl={("momentum", "position"): eg.Constant(-1.0)})


def test_a_changed_sign_changes_the_rebuilt_curl(monkeypatch):
    monkeypatch.setattr(eg, "hmc", other_way)
    only = {"hmc": processes.named()["hmc"]}
    monkeypatch.setattr(rebuilt, "named", lambda: only)
    (found,) = rebuilt.rebuild_named(Ask())
    assert found.curl.passed
    assert found.gap == pytest.approx(2, abs=1e-6)
    assert rebuilt.named_claim([found]).verdict == "not reproduced"


def test_a_process_without_its_law_is_refused(monkeypatch):
    wrong = processes.flat_sde(eg.sgrld(eg.Constant(1.0)), eg.Density(lambda q: q @ q / 2, init=np.zeros(2)))
    process = processes.Process(lambda z: -2.0 * z, wrong.diffusion, wrong.hamiltonian)
    monkeypatch.setattr(rebuilt, "named", lambda: {"hmc": wrong})
    monkeypatch.setattr(rebuilt, "of", lambda sde: process)
    found = rebuilt.rebuild_named(Ask())
    claim = rebuilt.named_claim(found)
    assert claim.verdict == "not reproduced"
    assert "refused" in claim.explanation
    assert rebuilt.errors_table(found, []).rows[0][3] is False


def test_condition_of_theorem_2():
    claim = rebuilt.condition_claim(0)
    assert claim.verdict == "reproduced"
    assert claim.figures["growth_of_shells"] == pytest.approx(4)
    assert claim.figures["time_to_infinity"] == pytest.approx(1 / np.hypot(1, 0.5))
