"""Bad input gets one clear message: what was got, what was expected, what to do. At construction, or before a run."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import ergodica as eg
from ergodica.fields import Root

KEY = jax.random.key(0)
START = jnp.array([0.3, -0.2])
NORMAL = eg.gallery.gaussian(2)
TWO_PEAKS = eg.gallery.two_peaks()
EXTERNAL = eg.External(lambda position, batch, seed: position, [0], init=START)
LOGISTIC = eg.gallery.logistic_regression(rows=20, features=2)
INDEFINITE = np.array([[1.0, 2.0], [2.0, 1.0]])
GAUSSIAN, ONE = eg.Gaussian(), eg.Constant(1.0)
MOVE = {("momentum", "position"): ONE}


def on_position(field):
    return eg.Recipe(diffusion={"position": field})


def with_momentum(curl=None, energy=GAUSSIAN, **more):
    return eg.Recipe(energy={"momentum": energy, **more}, diffusion={"momentum": ONE}, curl=curl or MOVE)


def rows(n):
    return {"x": np.ones((n, 2)), "y": np.ones(n)}


def words_of(action):
    """The message of the InputError that the action raises: one line."""
    with pytest.raises(eg.InputError) as caught:
        action()
    message = str(caught.value)
    assert "\n" not in message
    assert len(message) < 400
    return message


def check(action, words):
    message = words_of(action)
    missing = [word for word in words if word not in message]
    assert not missing, f"{missing} not in: {message}"


CONSTRUCTION = {
    "negative diffusion": (lambda: eg.sgld(-1.0), ["diffusion['position']", "semidefinite", "-1"]),
    "negative entry": (lambda: eg.sgld(np.array([1.0, -0.5])), ["diffusion['position']", "-0.5", "at least 0"]),
    "NaN diffusion": (lambda: eg.sghmc(np.nan), ["diffusion['momentum']", "NaN"]),
    "no numbers": (lambda: eg.sgld(None), ["expected a number", "None"]),
    "not numbers": (lambda: eg.sgld("one"), ["expected numbers", "'one'"]),
    "negative mass": (lambda: eg.sghmc(mass=-2), ["mass must be positive", "-2"]),
    "zero mass": (lambda: eg.hmc(np.array([1.0, 0.0])), ["mass must be positive", "0"]),
    "negative speed": (lambda: eg.relativistic_sghmc(speed=-1), ["speed must be positive", "-1"]),
    "centers": (lambda: eg.Thermostat(np.ones(2)), ["center must be a number", "(2,)"]),
    "negative scale": (lambda: eg.gsgrhmc(scale=-1), ["scale", "positive", "-1"]),
    "no such slot in D": (lambda: eg.Recipe(diffusion={"momentum": ONE}), ["no slot 'momentum'", "position"]),
    "no such slot in Q": (lambda: eg.Recipe(curl=MOVE), ["curl", "no slot 'momentum'", "the slots are position"]),
    "a pair in diffusion": (
        lambda: eg.Recipe(energy={"momentum": GAUSSIAN}, diffusion={("momentum", "position"): ONE}),
        ["diffusion", "('momentum', 'position')", "curl"],
    ),
    "a slot in curl": (lambda: eg.Recipe(curl={"position": ONE}), ["curl", "pairs", "'position'", "diffusion"]),
    "both triangles": (
        lambda: with_momentum({**MOVE, ("position", "momentum"): ONE}),
        ["both", "('momentum', 'position')", "('position', 'momentum')", "minus its transpose"],
    ),
    "a scalar on the diagonal of Q": (
        lambda: eg.Recipe(curl={("position", "position"): ONE}),
        ["diagonal of Q", "eg.Dense", "skew", "Constant"],
    ),
    "a coupling in D": (lambda: on_position(eg.Coupling(lambda z: z.position)), ["eg.Coupling", "curl"]),
    "a number for a field": (lambda: on_position(2.0), ["expected a field such as eg.Constant(2.0)", "float"]),
    "a number for an energy": (lambda: eg.Recipe(energy={"momentum": 1.0}), ["energy['momentum']", "eg.Gaussian"]),
    "a reserved name": (lambda: eg.Recipe(energy={"potential": GAUSSIAN}), ["'potential' is reserved"]),
    "a name that is no word": (lambda: eg.Recipe(energy={"my slot": GAUSSIAN}), ["plain word", "'my slot'"]),
    "V and B0 of other trees": (
        lambda: eg.sgfs({"a": np.ones(2)}, 0.1, damping={"b": np.ones(2)}),
        ["eg.sgfs", "gradient_noise and damping"],
    ),
    "negative V": (lambda: eg.Kernel(NORMAL, eg.sgld(), gradient_noise=-1.0), ["gradient noise", "at least 0", "-1"]),
    "memory of no batch": (lambda: eg.PerExample(memory=0), ["memory", "at least 1", "0"]),
    "resampling for trajectories": (
        lambda: eg.Kernel(NORMAL, eg.hmc(), resample_every=5),
        ["resample_every=5 has no effect", "draws a fresh momentum for every trajectory", "Leave it out"],
    ),
    "resampling every 0 steps": (lambda: eg.Kernel(NORMAL, eg.sghmc(), resample_every=0), ["every 1 or more", "0"]),
    "an integrator's class": (lambda: eg.Kernel(NORMAL, eg.sgld(), eg.Euler), ["the class Euler", "eg.Euler()"]),
    "a trajectory of no steps": (lambda: eg.Leapfrog(steps=0), ["eg.Leapfrog", "steps >= 1", "0"]),
    "NaN in the data": (
        lambda: eg.Posterior(lambda q: 0.0, lambda q, b: b * q, np.array([1.0, np.nan])),
        ["data", "NaN", "row 1"],
    ),
}


@pytest.mark.parametrize("name", CONSTRUCTION)
def test_at_construction(name):
    check(*CONSTRUCTION[name])


def momentum(z):
    return z.momentum


def reversed_metric(z):
    return 1 + z.position[::-1] ** 2


def thermostated(field):
    return with_momentum({**MOVE, ("momentum", "thermostat"): field}, thermostat=eg.Thermostat())


# recipe, words; the start is (0.3, -0.2) on a normal target
VALUES = {
    "dense D not PSD": (eg.sgld(INDEFINITE), ["diffusion['position']", "semidefinite", "eigenvalue is -1", "entry 0"]),
    "dense D(z) not PSD": (
        on_position(eg.Dense(lambda z: jnp.diag(z.position))),
        ["diffusion['position']", "semidefinite", "eigenvalue is -0.2", "entry 1"],
    ),
    "diagonal D(z) not PSD": (
        on_position(eg.Diagonal(lambda z: z.position)),
        ["diffusion['position']", "semidefinite", "-0.2 at entry [1]"],
    ),
    "scalar D(z) not PSD": (on_position(eg.Scaled(lambda z: z.position[1])), ["semidefinite", "-0.2"]),
    "D not symmetric": (
        eg.sgld(np.array([[1.0, 0.5], [0.0, 1.0]])),
        ["not symmetric", "(0, 1) = 0.5", "(1, 0) = 0", "differ by 0.5"],
    ),
    "D(z) not finite": (on_position(eg.Diagonal(lambda z: jnp.sqrt(z.position))), ["not finite", "entry [1]"]),
    "mass not positive definite": (eg.hmc(INDEFINITE), ["mass of 'momentum'", "positive definite", "-1"]),
    "Q not skew": (
        eg.irreversible_langevin(np.array([[0.0, 1.0], [1.0, 0.0]])),
        ["curl[('position', 'position')]", "not skew", "(0, 1) = 1", "(1, 0) = 1", "sum is 2"],
    ),
    "Q(z) not skew": (
        eg.Recipe(diffusion={"position": ONE}, curl={("position", "position"): eg.Dense(lambda z: jnp.eye(2))}),
        ["not skew", "(0, 0) = 1", "sum is 2"],
    ),
    "vector of another shape": (eg.sgld(np.ones(3)), ["(3,)", "2 and 2 numbers", "2 x 2 matrix"]),
    "matrix of another shape": (eg.sgld(np.eye(3)), ["(3, 3)", "2 x 2 matrix"]),
    "mass of another shape": (eg.sghmc(mass=np.ones(3)), ["(3,)", "2 and 2 numbers"]),
    "dense fn of another shape": (on_position(eg.Dense(lambda z: jnp.eye(3))), ["eg.Dense", "(3, 3)", "(2, 2)"]),
    "diagonal fn of another shape": (on_position(eg.Diagonal(lambda z: jnp.ones(3))), ["eg.Diagonal", "(3,)", "(2,)"]),
    "scaled fn not scalar": (on_position(eg.Scaled(lambda z: z.position)), ["eg.Scaled", "(2,)", "a scalar"]),
    "coupling to a slot that is no scalar": (
        with_momentum({("momentum", "position"): eg.Coupling(lambda z: z.momentum)}),
        ["eg.Coupling", "scalar slot", "(2,)", "eg.Dense"],
    ),
    "scaled between slots of other shapes": (
        thermostated(eg.Scaled(lambda z: 1.0)),
        ["eg.Scaled", "same shapes", "eg.Coupling"],
    ),
    "constant between slots of other shapes": (thermostated(ONE), ["eg.Constant", "2 and 1 numbers", "2 x 1 matrix"]),
    "elementwise that is not": (
        on_position(eg.Elementwise(reversed_metric)),
        ["diffusion['position']", "eg.Elementwise", "entry", "z.position", "eg.Diagonal"],
    ),
    "root of an elementwise that is not": (
        with_momentum({("momentum", "position"): Root(eg.Elementwise(reversed_metric))}),
        ["curl[('momentum', 'position')]", "eg.Elementwise", "eg.Diagonal"],
    ),
    "elementwise coupling that is not": (
        thermostated(eg.Coupling(lambda z: z.momentum[::-1], elementwise=True)),
        ["eg.Coupling", "z.momentum", "elementwise=True"],
    ),
    "a slot that fields cannot read": (on_position(eg.Scaled(lambda z: z.speed)), ["z.speed", "z.position"]),
    "an energy that reads the potential": (
        with_momentum(energy=eg.Energy(lambda z: z.potential * jnp.sum(z.momentum), lambda key, z: START)),
        ["energy['momentum']", "z.potential", "H = U + g"],
    ),
    "an energy that is no number": (
        with_momentum(energy=eg.Energy(lambda z: z.momentum**2, lambda key, z: START)),
        ["energy['momentum']", "(2,)", "jnp.sum"],
    ),
    "a draw of integers": (
        with_momentum(energy=eg.Energy(lambda z: jnp.sum(z.momentum), lambda key, z: [1, 2])),
        ["energy['momentum']", "draw", "int", "floating"],
    ),
}


@pytest.mark.parametrize("name", VALUES)
def test_in_recipe_init_with_values(name):
    recipe, words = VALUES[name]
    check(lambda: recipe.init(NORMAL, START, KEY), words)


@pytest.mark.parametrize("recipe", [eg.gsgrhmc(offset=0.5), eg.sgrld(eg.potential_scaled(offset=0.5))])
def test_an_offset_that_is_too_small_is_named_with_one_that_is_not(recipe):
    start = jnp.array([1.0])  # U = -1
    check(lambda: recipe.init(TWO_PEAKS, start, KEY), ["U = -1", "offset 0.5", "offset > 1", "such as 2"])
    eg.gsgrhmc(offset=2.0).init(TWO_PEAKS, start, KEY)


@pytest.mark.parametrize(
    ("start", "words"),
    [
        (jnp.array([0.3, jnp.nan]), ["position[1] = nan", "finite"]),
        (jnp.array([1, 2]), ["int", "floating"]),
        (jnp.ones(3), ["(3,)", "(2,)"]),
    ],
)
def test_a_start_that_is_not_one(start, words):
    check(lambda: eg.sgld().init(NORMAL, start, KEY), words)


@pytest.mark.parametrize("value", [0.0, -1.0, np.nan, np.inf])
def test_a_temperature_that_is_not_positive(value):
    kernel = eg.Kernel(NORMAL, eg.sgld())
    state = kernel.init(START, KEY)
    words = ["temperature", "positive", f"{value:g}"]
    check(lambda: eg.sgld().init(NORMAL, START, KEY, temperature=value), words)
    check(lambda: kernel.init(START, KEY, value), words)
    check(lambda: kernel.step(state, KEY, 0.1, temperature=value), words)


@pytest.mark.parametrize("value", [0.0, -0.1, np.nan, None, "small", np.ones(2)])
def test_a_step_size_that_is_not_a_positive_number(value):
    kernel = eg.Kernel(NORMAL, eg.sgld())
    state = kernel.init(START, KEY)
    check(lambda: kernel.step(state, KEY, value), ["step size", "number"])


SETUPS = {
    "Euler with D = 0": (NORMAL, eg.hmc(), eg.Euler(), ["Euler with D = 0", "no stationary law", "eg.Leapfrog"]),
    "Euler with a D of zeros": (NORMAL, eg.sghmc(0.0), eg.Euler(), ["D = 0", "eg.sghmc"]),
    "Leapfrog with D > 0": (NORMAL, eg.sghmc(), eg.Leapfrog(), ["eg.Leapfrog is for D = 0", "eg.Splitting()"]),
    "Splitting with D = 0": (NORMAL, eg.hmc(), eg.Splitting(), ["needs D on 'momentum'", "eg.Leapfrog()"]),
    "Splitting without momentum": (NORMAL, eg.sgld(), eg.Splitting(), ["splitting", "eg.Euler()"]),
    "a potential that is not there": (EXTERNAL, eg.gsgrhmc(), None, ["z.potential", "gradients only", "eg.sghmc"]),
    "a Metropolis test without potential": (EXTERNAL, eg.hmc(), None, ["eg.Leapfrog", "gradients only", "eg.sghmc"]),
}


@pytest.mark.parametrize("name", SETUPS)
def test_what_does_not_go_together(name):
    target, recipe, integrator, words = SETUPS[name]
    check(lambda: eg.Kernel(target, recipe, integrator).init(START, KEY), words)


def mixed_energy(z):
    return jnp.sum(z.momentum**2) + 0.5 * z.momentum[0] * z.momentum[1]


@pytest.mark.parametrize(
    ("recipe", "words"),
    [
        (eg.irreversible_langevin(np.array([[0.0, 1.0], [-1.0, 0.0]])), ["does not vanish", "face", "position[0] = 0"]),
        (
            with_momentum(energy=eg.Energy(mixed_energy, lambda key, z: START)),
            ["energy['momentum'] changes", "coordinate 0", "even in each coordinate"],
        ),
        (
            with_momentum({("momentum", "position"): eg.Constant(np.eye(2))}, eg.Relativistic()),
            ["dense curl", "eg.Gaussian", "eg.Relativistic"],
        ),
    ],
)
def test_what_reflection_cannot_serve(recipe, words):
    target = eg.Density(lambda q: jnp.sum(q), domain=eg.positive)
    check(lambda: eg.Kernel(target, recipe, eg.Euler()).init(jnp.ones(2), KEY), words)


def test_momentum_to_resample_that_is_not_there():
    check(lambda: eg.Kernel(NORMAL, eg.sgld(), resample_every=3).init(START, KEY), ["no momentum to resample"])


@pytest.mark.parametrize(("noise", "words"), [(INDEFINITE, ["semidefinite", "-1"]), (np.ones(3), ["(3,)", "2 x 2"])])
def test_gradient_noise_that_is_no_covariance(noise, words):
    check(lambda: eg.Kernel(NORMAL, eg.sgld(), gradient_noise=noise).init(START, KEY), words)


BATCHES = {
    "for a density": (NORMAL, eg.sgld(), np.ones(3), ["Density", "no data", "eg.Posterior"]),
    "larger than the data": (LOGISTIC, eg.sgld(), rows(21), ["21 rows", "20"]),
    "for a Metropolis test": (LOGISTIC, eg.hmc(), rows(4), ["eg.Leapfrog", "all data", "eg.sghmc"]),
    "alone for a recipe that reads the potential": (
        LOGISTIC,
        eg.gsgrhmc(offset=100.0),
        rows(4),
        ["z.potential", "biased", "eg.BatchPair"],
    ),
}


@pytest.mark.parametrize("name", BATCHES)
def test_a_batch_that_does_not_serve(name):
    target, recipe, batch, words = BATCHES[name]
    kernel = eg.Kernel(target, recipe)
    state = kernel.init(target.init, KEY)
    check(lambda: kernel.step(state, KEY, 0.01, batch), words)


def test_a_batch_size_larger_than_the_data():
    for action in (LOGISTIC.check_batch_size, lambda n: eg.gradient_noise(LOGISTIC, LOGISTIC.init, n)):
        check(lambda action=action: action(21), ["21", "from 1 to 20"])


def test_the_right_twins_start():
    """None of the messages above comes from the setup that they share."""
    for recipe in (on_position(eg.Dense(lambda z: jnp.eye(2))), with_momentum(), thermostated(eg.Coupling(momentum))):
        recipe.init(NORMAL, START, KEY)


def swapped(z, key):
    return jax.random.normal(key, z.position.shape)


NOT_TRACEABLE = {
    "NumPy in a potential": (eg.sgld(), eg.Density(lambda q: np.sum(np.asarray(q) ** 2), START), ["target", "jnp"]),
    "an if in a potential": (eg.sgld(), eg.Density(lambda q: q @ q if q[0] > 0 else -q[0], START), ["target", "where"]),
    "NumPy in a field": (on_position(eg.Scaled(lambda z: np.sin(np.asarray(z.position))[0])), NORMAL, ["field", "jnp"]),
    "arguments of draw swapped": (
        with_momentum(energy=eg.Energy(lambda z: z.momentum @ z.momentum / 2, swapped)), NORMAL, ["draw(key, z)"],
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", NOT_TRACEABLE)
def test_functions_that_jax_cannot_trace(name):
    recipe, target, words = NOT_TRACEABLE[name]
    check(lambda: recipe.init(target, START, KEY), words)
    check(lambda: eg.certify(recipe, target), words)


def test_an_integrator_by_name():
    check(lambda: eg.Kernel(NORMAL, eg.sgld(), "euler"), ["'euler'", "eg.Euler()"])


def test_points_that_are_not_numbers():
    plane = (lambda z: -z, lambda z: jnp.eye(2), lambda z: z @ z / 2)
    check(lambda: eg.certify_sde(*plane, dim=2, start="here"), ["start = 'here'", "2 finite numbers"])
    check(lambda: eg.rebuild_curl(*plane, resolution=32).curl("here"), ["curl takes a point", "'here'"])
