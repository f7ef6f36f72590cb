"""The bias that halving the step states, against the exact law of the discrete chain: no sampling."""

import jax.numpy as jnp
import numpy as np
import pytest

import ergodica as eg
from ergodica.diagnostics.bias import bias, known_order, order_of
from ergodica.diagnostics.columns import Effective
from ergodica.driver.request import Request
from ergodica.fields import Times, times
from ergodica.gradients.control import referenced

CURVATURE = np.array([0.3, 1.0])
BOWL = eg.Density(lambda q: jnp.sum(CURVATURE * q**2) / 2, init=np.zeros(2))
FEATURES = np.random.default_rng(2).normal(size=(400, 3))
LINE = eg.Posterior(
    lambda q: -jnp.sum(q**2) / 2,
    lambda q, rows: -((rows[:, 0] - rows[:, 1:] @ q) ** 2) / 2,
    np.column_stack([FEATURES @ [1.0, -1.0, 0.5] + np.random.default_rng(3).normal(size=400), FEATURES]),
    init=np.zeros(3),
)


@pytest.fixture
def requested():
    """The request of a call of eg.sample, without the run."""
    return lambda *arguments, **settings: Request(*arguments, steps=100, warmup=10, thin=2, **settings)


def as_found(sds, worth=np.nan) -> Effective:
    """Draws of this width that are known without error."""
    n = np.full(len(sds), np.nan)
    return Effective(
        [f"q[{i}]" for i in range(len(sds))], 0 * n, np.asarray(sds), n, n, n, n, np.full(len(sds), worth), n, n
    )


def stated(laws, settings, halved, worth=np.nan):
    """The bias of sds at the larger step, by what a diagnosis says."""
    first, second = (as_found(np.sqrt(np.diag(law.covariance)), worth) for law in laws)
    steps = settings["step_size"], halved["step_size"]
    known = known_order(first, second, (settings, halved), steps)
    return bias(first, second, *(known or (order_of(settings), None))).sd_bias


def half(requested, recipe, settings):
    """Recipe and settings of the run that `halve` makes, as the driver records them."""
    request: Request = requested(BOWL, recipe, step_size=settings["step_size"]).halved(settings)
    (field,) = request.recipe.diffusion.values()
    return request, settings | {"step_size": request.step_size, "friction": float(field.entries)}


@pytest.mark.parametrize(("friction", "step"), [(0.5, 0.5), (2.0, 0.5), (8.0, 0.5), (1.0, 1.2), (20.0, 0.2)])
@pytest.mark.parametrize("noise", [0.2, 3.0])
def test_the_stated_bias_of_gradient_noise_is_right_at_any_friction(requested, friction, step, noise):
    settings = {"integrator": "Splitting()", "batch_size": 10, "friction": friction, "step_size": step}
    recipe = eg.sghmc(friction)
    request, halved = half(requested, recipe, settings)
    assert (request.steps, request.warmup, request.thin) == (200, 40, 4)
    laws = [
        eg.exact_law(r, BOWL, h, gradient_noise=noise, compensate=False)
        for r, h in ((recipe, step), (request.recipe, request.step_size))
    ]
    true = np.sqrt(np.diag(laws[0].covariance) * CURVATURE) - 1
    np.testing.assert_allclose(stated(laws, settings, halved), true, rtol=1e-6)
    # the same for a run that was made apart, with half the step and the same friction
    apart = eg.exact_law(recipe, BOWL, step / 2, gradient_noise=noise, compensate=False)
    again = stated([laws[0], apart], settings, settings | {"step_size": step / 2})
    np.testing.assert_allclose(again, true, rtol=1e-6)


@pytest.mark.parametrize(("friction", "step"), [(0.25, 0.4), (2.0, 0.5), (1.0, 0.9)])
def test_control_variates_have_their_own_factor(requested, friction, step):
    """Noise that grows with the width of the law: 4 would state too large a bias."""
    mode = eg.find_mode(LINE)
    precision = np.linalg.inv(np.asarray(mode.covariance(LINE)))
    recipe, batch = eg.sghmc(friction * precision, mass=precision), 12
    settings = {"integrator": "Splitting()", "batch_size": batch, "friction": friction, "step_size": step}
    settings |= {"estimator": "ControlVariates()", "chains": 1, "steps": 1_000_000}
    request = requested(LINE, recipe, step_size=step, batch_size=batch).halved(settings)
    target = referenced(LINE, mode.position)
    laws = [
        eg.exact_law(r, target, h, batch_size=batch) for r, h in ((recipe, step), (request.recipe, request.step_size))
    ]
    true = np.sqrt(np.diag(laws[0].covariance) / np.diag(np.linalg.inv(precision))) - 1
    assert true.max() > 0.02
    halved = settings | {"step_size": step / 2, "friction": 2 * friction}
    worth = settings["steps"] * step**2 / 4 / np.tanh(friction * step / 2)  # the time of the mean is 4 / (h^2 c)
    np.testing.assert_allclose(stated(laws, settings, halved, worth), true, rtol=0.01)


def test_others_are_halved_as_they_were(requested):
    for recipe in (eg.sgld(), eg.sgnht(), eg.relativistic_sghmc()):
        request = requested(BOWL, recipe, step_size=0.1).halved({"integrator": "Splitting()", "friction": None})
        assert (request.steps, request.warmup, request.thin, request.step_size) == (200, 20, 4, 0.05)
        assert request.recipe is recipe


def test_a_schedule_keeps_its_pace(requested):
    settings = {"integrator": "Splitting()", "friction": 1.0}
    request = requested(BOWL, eg.sghmc(), step_size=lambda step: 1.0 + step).halved(settings)
    sizes = np.asarray([request.step_size(jnp.asarray(i)) for i in (0, 3, 4, 39, 40, 41, 42, 239)])
    np.testing.assert_array_equal(2 * sizes - 1, [0, 0, 1, 9, 10, 10, 11, 109])


def test_a_field_is_doubled_with_its_divergence():
    """Noise that depends on the position has a Gamma, and a matrix knows its root: both are doubled with it."""
    doubled = times(2.0, eg.Scaled(lambda z: 1.0 + jnp.sum(z.position**2)))
    assert isinstance(doubled, Times)
    assert eg.certify(eg.Recipe(diffusion={"position": doubled}), BOWL).passed
    matrix = np.array([[2.0, 0.5], [0.5, 1.0]])
    root = times(2.0, eg.Constant(matrix)).root_entries
    np.testing.assert_allclose(root @ root.T, 2 * matrix)
