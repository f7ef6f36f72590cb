"""eg.certify: right recipes pass, each kind of wrong one fails the check that is meant for it, in words."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import ergodica as eg
from ergodica.tree import Layout
from ergodica.verify.certificate.hypoellipticity import reach
from ergodica.verify.sde import from_recipe
from tests.builders import BENT, POSITIVE, TREE, TWO_PEAKS


def failed(report):
    return [check.name for check in report.checks if not check.passed]


def metric(z):
    return 0.7 + 0.4 * jnp.sin(z.position) ** 2


# -- right ------------------------------------------------------------------------------------------------------------


def test_passes_at_temperature_two_with_a_tree():
    report = eg.certify(
        eg.sgrld(eg.Elementwise(lambda z: jax.tree.map(lambda q: 1 + q**2, z.position))), TREE, None, 2.0
    )
    assert report.passed, str(report)
    assert "T = 2" in str(report)


def test_a_position_dependent_mass_needs_its_log_determinant():
    def energy(z, log_determinant):
        mass = 1.5 + jnp.sin(z.position)
        return jnp.sum(z.momentum**2 / mass) / 2 + log_determinant * z.temperature * jnp.sum(jnp.log(mass)) / 2

    def draw(key, z):
        return jnp.sqrt(z.temperature * (1.5 + jnp.sin(z.position))) * jax.random.normal(key, z.position.shape)

    def recipe(log_determinant):
        return eg.Recipe(
            energy={"momentum": eg.Energy(lambda z: energy(z, log_determinant), draw)},
            diffusion={"momentum": eg.Constant(1.0)},
            curl={("momentum", "position"): eg.Constant(1.0)},
        )

    right, wrong = (eg.certify(recipe(x), BENT, temperature=1.7) for x in (1.0, 0.0))
    assert right.passed, str(right)
    assert failed(wrong) == ["law of momentum"]
    assert "log det" in wrong["law of momentum"].explanation


def test_same_seed_same_report():
    assert str(eg.certify(eg.sgld(), BENT, seed=3)) == str(eg.certify(eg.sgld(), BENT, seed=3))


# -- wrong ------------------------------------------------------------------------------------------------------------


def test_draws_of_another_law():
    energy = eg.Energy(lambda z: jnp.sum(z.momentum**2) / 2, lambda key, z: 1.1 * jax.random.normal(key, (2,)))
    recipe = eg.Recipe(
        {"momentum": energy}, {"momentum": eg.Constant(1.0)}, {("momentum", "position"): eg.Constant(1.0)}
    )
    assert failed(eg.certify(recipe, BENT)) == ["draws of momentum"]


def test_elementwise_that_is_not():
    report = eg.certify(eg.sgrld(eg.Elementwise(lambda z: 1.5 + jnp.sin(z.position[::-1]))), BENT)
    assert failed(report) == ["D PSD, Q skew"]
    assert "eg.Diagonal" in str(report)


def test_diffusion_that_is_negative_somewhere():
    report = eg.certify(eg.sgrld(eg.Scaled(lambda z: z.position[0] + 0.1)), BENT, jnp.array([0.6, -0.3]))
    assert failed(report) == ["D PSD, Q skew"]


def test_a_position_kept_by_the_potential():
    kept = {}

    def potential(q):
        kept["q"] = q
        return jnp.sum(q**2) / 2

    recipe = eg.sgrld(eg.Scaled(lambda z: 1 + kept["q"][0] ** 2))
    report = eg.certify(recipe, eg.Density(potential, init=jnp.array([0.6, -0.3])))
    assert failed(report) == ["fields read the phase"]


def test_a_position_held_by_closure():
    start = jnp.array([0.6, -0.3])
    report = eg.certify(eg.sgrld(eg.Elementwise(lambda z: 1 + start**2)), eg.Density(lambda q: jnp.sum(q**2), start))
    assert failed(report) == ["fields read the phase"]
    assert "'start'" in str(report)


def test_a_constant_of_ones_own_may_be_held():
    scale = jnp.array([0.5, 2.0])
    assert eg.certify(eg.sgrld(eg.Elementwise(lambda z: scale * metric(z))), BENT).passed


def test_a_position_read_past_the_view():
    report = eg.certify(eg.sgrld(eg.Elementwise(lambda z: 1 + z._slots["position"] ** 2)), BENT)
    assert failed(report) == ["correction", "Fokker-Planck residual"]


def test_offset_below_the_potential_is_named():
    report = eg.certify(eg.gsgrhmc(offset=0.5), TWO_PEAKS)
    assert not report.passed
    assert "offset" in str(report)


def test_noise_that_misses_a_direction():
    report = eg.certify(eg.sgld(np.array([1.0, 0.0])), BENT)
    assert failed(report) == ["noise reaches everything"]
    assert "position[1]" in str(report)


def test_flow_through_a_face():
    recipe = eg.irreversible_langevin(np.array([[0.0, -1.0], [1.0, 0.0]]))
    report = eg.certify(recipe, POSITIVE)
    assert failed(report) == ["flux at the faces"]


def test_flow_that_vanishes_at_the_faces():
    def curl(z):
        x = z.position[0] * z.position[1]
        return jnp.stack([jnp.stack([0 * x, -x]), jnp.stack([x, 0 * x])])

    recipe = eg.Recipe(diffusion={"position": eg.Constant(1.0)}, curl={("position", "position"): eg.Dense(curl)})
    report = eg.certify(recipe, POSITIVE)
    assert report.passed, str(report)


def test_hmc_is_told_to_resample():
    assert "resampled" in str(eg.certify(eg.hmc(), BENT))


# -- large ------------------------------------------------------------------------------------------------------------

WIDE = eg.Density(lambda q: jnp.sum(q**4) / 4 + jnp.sum(q[1:] * q[:-1]) / 3, init=jnp.linspace(-1.0, 1.0, 1200))


def test_large_phases_are_probed():
    def mixed(z):
        return 1.5 + jnp.sin(z.position + 0.5 * jnp.roll(z.position, 1))

    right = eg.certify(eg.sgrld(eg.Diagonal(mixed)), WIDE)
    assert right.passed, str(right)
    assert "probes" in right["Fokker-Planck residual"].explanation
    assert right["Fokker-Planck residual"].p_value > 1e-4


def test_large_phases_with_a_missing_correction_fail():
    wrong = eg.certify(eg.sgrld(eg.Elementwise(lambda z: 1.5 + jnp.sin(z._slots["position"]))), WIDE)
    assert failed(wrong) == ["Fokker-Planck residual"]


# -- hypoellipticity --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("recipe", "depth"), [(eg.sgld(), 1), (eg.sghmc(), 2), (eg.sgnht(), 3)], ids=str)
def test_depth_of_brackets(recipe, depth):
    phase = recipe.init(BENT, BENT.init, jax.random.key(0))
    z = Layout.of(phase).ravel(phase)
    found = reach(from_recipe(recipe, BENT, phase), np.stack([z, 0.7 * z + 0.1]))
    assert (found.rank, found.depth) == (found.dim, depth)


# -- bad input --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ((lambda z: z, BENT), "eg.certify_sde"),
        ((eg.sgld(), eg.External(lambda q, b, s: q, iter([]), init=jnp.ones(2))), "potential"),
        ((eg.sgld(), eg.Density(lambda q: jnp.sum(q**2))), "init"),
        ((eg.sgld(), eg.Density(lambda q: jnp.nan * jnp.sum(q)), jnp.ones(2)), "finite"),
        ((eg.sgld(), BENT, None, -1.0), "temperature"),
    ],
    ids=["function", "external", "no position", "nan", "temperature"],
)
def test_bad_input_is_one_line(arguments, words):
    with pytest.raises(eg.InputError, match=words) as caught:
        eg.certify(*arguments)
    assert "\n" not in str(caught.value)


# -- what other checks take for granted -------------------------------------------------------------------------------

STOP = jax.lax.stop_gradient
NORMAL = eg.gallery.gaussian(2)


def own_momentum(draw):
    energy = eg.Energy(lambda z: jnp.sum(z.momentum**2) / 2, draw)
    return eg.Recipe({"momentum": energy}, {"momentum": eg.Constant(1.0)}, {("momentum", "position"): eg.Constant(1.0)})


@pytest.mark.parametrize(
    ("recipe", "target", "check"),
    [
        (eg.sgrld(eg.Elementwise(lambda z: 1 + STOP(z.position) ** 2)), NORMAL, "derivatives are true"),
        (eg.sgrld(eg.Elementwise(lambda z: 2 + jnp.floor(4 * z.position) % 3)), NORMAL, "derivatives are true"),
        (eg.sgld(), eg.Density(lambda q: q @ q / 2 + STOP(q[0]) ** 4, jnp.ones(2)), "derivatives are true"),
        (eg.sgld(), eg.Density(lambda q: -jnp.sum(q**2) / 2, jnp.ones(2)), "exp(-H/T) is a law"),
        (eg.sgld(), eg.Density(lambda q: 0 * jnp.sum(q), jnp.ones(2)), "exp(-H/T) is a law"),
        (
            eg.Recipe(diffusion={"position": eg.Dense(lambda z: jnp.outer(z.position, z.position))}),
            NORMAL,
            "noise reaches everything",
        ),
        (own_momentum(lambda k, z: jax.random.normal(k) * jnp.ones(2)), NORMAL, "draws of momentum"),
        (own_momentum(lambda k, z: jnp.sign(jax.random.normal(k, (2,)))), NORMAL, "draws of momentum"),
    ],
    ids=["stop D", "floor D", "stop U", "minus U", "flat", "radial", "one normal", "signs"],
)
def test_what_looks_right_to_its_own_derivatives(recipe, target, check):
    assert failed(eg.certify(recipe, target)) == [check]


@pytest.mark.parametrize(
    ("recipe", "target"),
    [
        (eg.sgld(), eg.Density(lambda q: jnp.sum(jnp.log1p(q**2)), jnp.ones(2))),
        (eg.sgld(), eg.gallery.funnel()),
        (eg.sghmc(1e3, 1e6), eg.gallery.gaussian(2, covariance=1e-6)),
        (eg.sgld(), eg.gallery.gaussian(2, mean=[1000.0, -1000.0])),
        (eg.sgld(), eg.Density(lambda q: jnp.sum(q**2), jnp.full(2, 0.5), domain=eg.Box(0, 1))),
    ],
    ids=["Cauchy", "funnel", "narrow", "far", "box"],
)
def test_awkward_laws_pass(recipe, target):
    report = eg.certify(recipe, target)
    assert report.passed, str(report)
