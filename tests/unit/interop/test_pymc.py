"""PyMC models as targets: potentials are PyMC's, draws are constrained and named by variable."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import ergodica as eg

# ArviZ, which PyMC imports, warns of its own next version; PyTensor of a BLAS that it did not find
pytestmark = pytest.mark.filterwarnings("ignore")
# not in the dev group: it asks for another numba
pm = pytest.importorskip("pymc", exc_type=ImportError)

RNG = np.random.default_rng(7)
X = RNG.normal(size=(40, 2))
Y = X @ [1.0, -0.5] + 0.3 * RNG.normal(size=40)


def regression():
    with pm.Model() as model:
        weights = pm.Normal("weights", 0.0, 1.0, shape=2)
        high = pm.Gamma("high", 4.0, 1.0)
        pm.Uniform("low", 0.0, high)  # an interval whose end is another variable
        noise = pm.HalfNormal("noise", 1.0)
        pm.Deterministic("precision", noise**-2)
        pm.Potential("sum", -((weights.sum() - 0.5) ** 2))
        pm.Normal("y", pm.math.dot(X, weights), noise, observed=Y)
        shares = pm.Dirichlet("shares", np.ones(3))
        pm.Categorical("kind", shares, observed=np.array([0, 1, 1, 2, 2, 2]))
    return model


@pytest.fixture(scope="module")
def made(promotion):
    from ergodica.interop import pymc as bridge

    model = regression()
    return model, bridge.target(model)


def position(target, seed):
    rng = np.random.default_rng(seed)
    return jax.tree.map(lambda leaf: jnp.asarray(rng.normal(size=leaf.shape)), target.init)


def test_the_potential_is_pymcs(made):
    model, target = made
    logp = model.compile_fn(model.logp(), inputs=model.value_vars, point_fn=True, mode="FAST_COMPILE")
    for seed in range(3):
        u = position(target, seed)
        values = {model.rvs_to_values[variable].name: np.asarray(u[variable.name]) for variable in model.free_RVs}
        np.testing.assert_allclose(target.potential(u), -logp(values), rtol=1e-10)
        assert not np.isclose(target.potential(u) + target.coordinates.log_jacobian(u), -logp(values), rtol=1e-6)


def test_there_and_back(made):
    _, target = made
    u = position(target, 1)
    draw = target.coordinates.drawn(u)
    assert set(draw) == {"weights", "high", "low", "noise", "precision", "shares"}
    assert 0 < draw["low"] < draw["high"]
    back = target.coordinates.undrawn(draw)
    jax.tree.map(lambda got, expected: np.testing.assert_allclose(got, expected, atol=1e-9), back, u)


def test_draws_are_named_by_variable(made):
    _, target = made
    run = eg.sample(target, eg.sghmc(), steps=20, step_size=0.02, chains=1, progress=False)
    assert run.posterior["shares"].shape == (1, 20, 3)
    np.testing.assert_allclose(run.posterior["shares"].sum(axis=-1), 1.0, rtol=1e-9)


def test_what_cannot_be_sampled_is_refused_by_name():
    from ergodica.interop import pymc as bridge

    with pm.Model() as discrete:
        pm.Bernoulli("label", 0.5)
    with pytest.raises(eg.InputError, match=r"^variable 'label' is discrete"):
        bridge.target(discrete)
    with pytest.raises(eg.InputError, match=r"^the model is a function: expected a pymc.Model$"):
        bridge.target(regression)
    with pm.Model() as empty, pytest.raises(eg.InputError, match="no free variable"):
        bridge.target(empty)
