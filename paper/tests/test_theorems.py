"""Items theorem-1 and theorem-2: verdicts follow from the figures, and a wrong recipe changes them."""

import numpy as np
import pytest

import ergodica as eg
from ergodica.integrators import splitting
from ergodica.integrators.friction import decay
from ergodica.operators import act, entrywise
from ergodica.report import Check, Report
from ergodica_paper.flat import flat_sde
from ergodica_paper.printed import RIGHT, WRONG
from ergodica_paper.processes import Bowl, Linear, Process, of, ornstein_uhlenbeck
from ergodica_paper.random_recipes import draw_plan
from ergodica_paper.result import Ask
from ergodica_paper.theorem_1 import admissible, certificates, naive_sghmc
from ergodica_paper.theorem_2 import pictures, processes, random_processes, rebuilt, tables
from paper.tests import flipped
from tests.selection import long_unless


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


def test_without_noise_in_the_gradient_nothing_heats_up(moments):
    silent = [m._replace(spread=0 * m.spread) for m in moments]
    claim = naive_sghmc.naive_claim(silent, seed=0)
    assert claim.verdict == "not reproduced"
    assert claim.rule == naive_sghmc.naive_claim(moments, seed=0).rule


def test_a_certificate_that_passes_naive_sghmc_is_seen(moments, monkeypatch):
    monkeypatch.setattr(naive_sghmc, "WRONG", {"sghmc_naive": RIGHT[WRONG["sghmc_naive"].twin]})
    claim = naive_sghmc.naive_claim(moments, seed=0)
    assert claim.verdict == "not reproduced"
    assert "passes the SDE" in claim.explanation


def test_half_eps_v_mends_it_and_the_printed_friction_does_not(moments):
    claim = naive_sghmc.friction_claim(moments)
    assert claim.verdict == "reproduced under conditions"
    half, printed = claim.figures.values()
    assert claim.conditions == next(iter(claim.figures))
    assert list(half["order"].values()) == pytest.approx([2, 2], abs=0.05)
    # by hand: the splitting's momentum has variance 1 / (1 - eps^2/4) at the end of a step
    assert half["variance_at_smallest_step"]["V=1"] == pytest.approx(1 / (1 - 0.025**2 / 4), rel=1e-6)
    assert list(printed["variance_at_smallest_step"].values()) == pytest.approx([0.5, 0.5], abs=1e-3)
    naive_sghmc.pictured(moments)
    shown, each = naive_sghmc.long_run_tables(moments)
    assert len(shown.rows) * len(naive_sghmc.STEP_SIZES) == len(each.rows) == len(moments)


class Anew(eg.Recipe):
    """The same recipe of another type, so that nothing compiled for the right one is used."""


def other_sghmc(friction):
    return Anew(
        energy={"momentum": eg.Gaussian(1.0)},
        diffusion={"momentum": eg.Constant(friction)},
        curl={("momentum", "position"): eg.Constant(1.0)},
    )


def drive(diffusion, energy, layout, time, temperature, momentum, normal):
    """Friction with the sign of its drag changed: it speeds up."""
    factor = decay(diffusion, energy, layout, time, temperature).factor
    return act(entrywise(lambda a: 1 / a, factor), momentum)


def test_friction_of_the_wrong_sign_does_not_mend_it(moments, monkeypatch):
    monkeypatch.setattr(eg, "sghmc", other_sghmc)
    right = naive_sghmc.friction_claim(moments)
    monkeypatch.setattr(splitting, "exact_friction", drive)
    claim = naive_sghmc.friction_claim(naive_sghmc.all_moments(Ask()))
    assert claim.verdict == "not reproduced"
    assert "without end" in claim.explanation
    assert claim.rule == right.rule


def test_twice_the_friction_does_not_mend_it(monkeypatch):
    right = eg.sghmc
    monkeypatch.setattr(eg, "sghmc", lambda friction: right(friction=2 * friction))
    assert naive_sghmc.friction_claim(naive_sghmc.all_moments(Ask())).verdict == "not reproduced"


def test_naive_sghmc_with_friction_does_not_heat_up(monkeypatch):
    right = eg.sghmc
    monkeypatch.setattr(eg, "sghmc", lambda friction: right(friction=friction + 0.1))
    assert naive_sghmc.naive_claim(naive_sghmc.all_moments(Ask()), seed=0).verdict == "not reproduced"


@pytest.fixture(scope="module")
def steps():
    every = admissible.cases()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(admissible, "cases", lambda: {name: every[name] for name in ("sgld", "sghmc", "hmc")})
        return admissible.all_admissible(Ask())


def test_largest_step(steps):
    claim = admissible.admissible_claim(steps)
    assert claim.verdict == "reproduced under conditions"
    assert claim.conditions == "the range of B lies in that of D"
    assert claim.figures["no_step"] == ["HMC"]
    # SGLD: B = D D, so 2 / lambda_max(D); SGHMC: B = 1 on the momentum, so 2 C
    matrix = np.array([[1.2, 0.5], [0.5, 0.8]])
    assert claim.figures["largest_step"]["sgld"] == pytest.approx(2 / np.linalg.eigvalsh(matrix)[1])
    assert claim.figures["largest_step"]["sghmc"] == pytest.approx(1.6)
    some, none = [a for a in steps if a.name != "hmc"], [a for a in steps if a.name == "hmc"]
    assert [(c.verdict, c.conditions) for c in map(admissible.admissible_claim, (some, none))] == [
        ("reproduced", ""),
        ("not reproduced", ""),
    ]


def test_where_the_range_does_not_tell_them_apart_the_samplers_are_named(steps):
    odd = [a._replace(outside=1.0) if a.name == "sgld" else a for a in steps]
    assert admissible.admissible_claim(odd).conditions == "SGLD; SGHMC"


def test_share_outside_the_range():
    d, b = np.diag([1.0, 0.0]), np.array([[3.0, 0.0], [0.0, 4.0]])
    assert admissible.share_outside(d, b) == pytest.approx(4 / 5)
    assert admissible.share_outside(np.eye(2), b) == pytest.approx(0)


def test_a_sign_of_gamma_is_seen(monkeypatch):
    monkeypatch.setattr(eg, "sgrld", flipped.sgrld)
    monkeypatch.setattr(certificates, "SECTION_3", ("sgrld", "sgld"))
    found = certificates.certify_named(Ask())
    claim = certificates.named_claim(found)
    assert (claim.verdict, claim.conditions) == ("reproduced under conditions", "SGLD")
    assert certificates.named_claim(found[:1]).verdict == "not reproduced"
    assert claim.explanation.startswith("1 of 2 recipes")
    assert claim.figures["largest_residual"] > 1e-2
    certificates.picture_of(found)


def certified(is_kept=True):
    residual = Check(certificates.RESIDUAL, is_kept, 1e-17 if is_kept else 0.1, certificates.BOUND, "")
    reach = Check("noise reaches everything", False, 1, 2, "")
    return certificates.Certified("x", "random", Report("", (residual, reach)))


def test_noise_that_does_not_reach_everything_keeps_the_law():
    stuck = certified()
    assert (stuck.is_kept, stuck.is_reached) == (True, False)
    assert certificates.random_claim([stuck]).verdict == "reproduced"


def test_one_random_recipe_that_fails_is_enough():
    claim = certificates.random_claim([certified(), certified(False)])
    assert claim.verdict == "not reproduced"
    assert "x (Fokker-Planck residual" in claim.explanation


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


def test_a_sampler_without_its_law_is_refused(monkeypatch):
    wrong = flat_sde(eg.sgrld(eg.Constant(1.0)), eg.Density(lambda q: q @ q / 2, init=np.zeros(2)))
    process = Process(lambda z: -2.0 * z, wrong.diffusion, wrong.hamiltonian)
    monkeypatch.setattr(rebuilt, "named", lambda: {"hmc": wrong})
    monkeypatch.setattr(rebuilt, "of", lambda sde: process)
    found = rebuilt.rebuild_named(Ask())
    claim = rebuilt.named_claim(found)
    assert claim.verdict == "not reproduced"
    assert "refused" in claim.explanation
    assert tables.summary_table(found, []).rows[0][4:6] == (1, 0)


def test_condition_of_theorem_2():
    claim = rebuilt.condition_claim(0)
    assert (claim.verdict, claim.kind) == ("reproduced", "ours")
    assert claim.figures["growth_of_shells"] == pytest.approx(4)
    assert claim.figures["time_to_infinity"] == pytest.approx(1 / np.hypot(1, 0.5))
    assert claim.figures["drift_error_of_the_Q_by_hand"] < 1e-12
    assert len(claim.explanation.split()) <= 60


def test_a_wrong_curl_by_hand_is_seen(monkeypatch):
    right = rebuilt.curl_of_the_push
    monkeypatch.setattr(rebuilt, "curl_of_the_push", lambda z: -right(z))
    claim = rebuilt.condition_claim(0)
    assert claim.figures["drift_error_of_the_Q_by_hand"] == pytest.approx(2)
    assert claim.verdict == "not reproduced"


def test_a_current_that_falls_off_is_no_example(monkeypatch):
    monkeypatch.setattr(rebuilt, "NOT_INTEGRABLE", of(processes.named()["hmc"]))
    claim = rebuilt.condition_claim(0)
    assert claim.verdict == "not reproduced"


STREAM, PLANE, SPACE = random_processes.KINDS
SEED = [0, 5]


def test_the_law_of_an_ornstein_uhlenbeck_process_solves_its_equation():
    ranks = set()
    for i in range(10):
        process, q = ornstein_uhlenbeck([7, i], 3)
        a, d, s = process.drift.matrix, process.diffusion.value, np.linalg.inv(process.hamiltonian.precision)
        assert a @ s + s @ a.T + 2 * d == pytest.approx(np.zeros((3, 3)), abs=1e-10)
        assert q == pytest.approx(-q.T, abs=1e-10)
        ranks.add(int(np.linalg.matrix_rank(d)))
    assert ranks == {2, 3}


@pytest.mark.parametrize(
    "kind",
    long_unless(random_processes.KINDS, "Ornstein-Uhlenbeck, 2 dimensions", name=lambda kind: kind.name),
    ids=lambda kind: kind.name,
)
def test_every_kind_of_random_process_comes_back(kind):
    found = random_processes.drawn(kind, *kind.draw(SEED), SEED)
    assert found.is_back
    assert found.error < 1e-6
    assert (found.gap is None) == (kind.dim == 3)
    claim = random_processes.random_claim([found])
    assert claim.verdict == "reproduced"
    assert "1 of 1" in claim.explanation


@pytest.mark.parametrize("kind", [PLANE, SPACE], ids=lambda kind: kind.name)
def test_a_process_with_the_law_of_another_is_refused(kind):
    process, q = kind.draw(SEED)
    wider = process._replace(hamiltonian=Bowl(0.8 * process.hamiltonian.precision))
    found = random_processes.drawn(kind, wider, q, SEED)
    assert not found.is_back
    assert "does not leave exp(-H) invariant" in found.refused
    right = random_processes.drawn(PLANE, *PLANE.draw(SEED), SEED)
    claims = [random_processes.random_claim(answers) for answers in ([found], [right, found])]
    assert claims[0].verdict == "not reproduced"
    assert claims[1].verdict == ("reproduced under conditions" if kind is SPACE else "not reproduced")
    assert claims[0].rule == claims[1].rule
    assert tables.random_table([found]).rows[0][3:6] == (False, None, None)
    assert tables.summary_table([], [right, found]).rows[-1][-4:-2] == ((1, 0) if kind is SPACE else (2, 1))
    pictures.errors_of([right, found])


def test_a_curl_of_the_wrong_sign_is_seen():
    """Run backwards the process has the same law, and its drift comes back; but its Q is another."""
    process, q = PLANE.draw(SEED)
    back = -(process.diffusion.value - q.value) @ process.hamiltonian.precision
    found = random_processes.drawn(PLANE, process._replace(drift=Linear(back)), q, SEED)
    assert found.passed
    assert found.gap > 0.1
    assert random_processes.random_claim([found]).verdict == "not reproduced"


def test_an_error_that_is_no_number_does_not_pass():
    lost = random_processes.RandomProcess(SPACE, True, float("nan"), None)
    assert not lost.is_back
    claim = random_processes.random_claim([lost])
    assert claim.verdict == "not reproduced"
    assert claim.figures[SPACE.name]["largest_drift_error"] is None


def test_the_page_shows_one_row_for_each_kind():
    others = [
        random_processes.RandomProcess(kind, True, 1e-9, None) for kind in random_processes.KINDS for _ in range(40)
    ]
    assert len(tables.summary_table([], others).rows) == len(random_processes.KINDS)
    each = tables.random_table(others)
    assert (len(each.rows), each.shown) == (len(others), False)
