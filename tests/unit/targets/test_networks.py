"""Networks as positions: of each kind, what functions see, what draws are, and what is refused."""

import sys

import equinox as eqx
import haiku
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import nnx

import ergodica as eg
from ergodica.compiling import quick_filter_jit
from ergodica.driver.constrained import as_begun, kept_function
from ergodica.driver.request import Request
from ergodica.driver.starts import Starts
from ergodica.targets.coordinates import begun_at, sampled
from ergodica.targets.networks import is_start_function
from tests.selection import long_unless

RNG = np.random.default_rng(5)
ROWS = {"x": RNG.normal(size=(40, 2)), "y": RNG.normal(size=40)}
SHORT = {"steps": 20, "step_size": 1e-3, "batch_size": 4, "chains": 2, "progress": False}


class Flax(nnx.Module):
    """With all that a network may hold beside its parameters."""

    def __init__(self, rngs):
        self.layers = nnx.List([nnx.Linear(2, 3, rngs=rngs), nnx.Linear(3, 1, rngs=rngs)])
        self.normalised = nnx.BatchNorm(3, use_running_average=True, rngs=rngs)
        self.dropped = nnx.Dropout(0.0, rngs=rngs)

    def __call__(self, x):
        return self.layers[1](jnp.tanh(self.dropped(self.normalised(self.layers[0](x)))))[:, 0]


class Wide(eqx.Module):
    """An Equinox module with functions and Python's numbers among its leaves."""

    layers: list
    activation: object
    power: int

    def __init__(self, key):
        first, second = jax.random.split(key)
        self.layers = [eqx.nn.Linear(2, 3, key=first), eqx.nn.Linear(3, "scalar", key=second)]
        self.activation, self.power = jnp.tanh, 1

    def __call__(self, x):
        return jax.vmap(lambda row: self.layers[1](self.activation(self.layers[0](row)) ** self.power))(x)


def small(x, layers):
    """The same by hand."""
    (w, b), (v, c) = layers
    return np.tanh(np.asarray(x) @ w + b) @ v + c


def equinox_arrays(network):
    first, second = ((np.asarray(one.weight), np.asarray(one.bias)) for one in network.layers)
    return [(first[0].T, first[1]), (second[0][0], second[1][0])]


def flax_arrays(network):
    (first, second), by = network.layers, network.normalised
    scale = np.asarray(by.scale[...]) / np.sqrt(np.asarray(by.var[...]) + by.epsilon)
    w = np.asarray(first.kernel[...]) * scale
    b = (np.asarray(first.bias[...]) - np.asarray(by.mean[...])) * scale + np.asarray(by.bias[...])
    return [(w, b), (np.asarray(second.kernel[...])[:, 0], np.asarray(second.bias[...])[0])]


def flax_network(seed=0):
    network = Flax(nnx.Rngs(seed))
    # statistics as training leaves them: a run keeps them
    network.normalised.mean[...] = jnp.asarray([0.1, 0.2, 0.3], network.normalised.mean[...].dtype)
    return wide(network)


def wide(network):
    """In float64: layers of Flax are float32."""
    graph, state = nnx.split(network)
    is_floating = lambda leaf: jnp.issubdtype(leaf.dtype, np.floating)  # noqa: E731
    return nnx.merge(graph, jax.tree.map(lambda x: x.astype(float) if is_floating(x) else x, state))


def haiku_arrays(params):
    first, second = (jax.tree.map(np.asarray, params[f"mlp/~/linear_{i}"]) for i in range(2))
    return [(first["w"], first["b"]), (second["w"][:, 0], second["b"][0])]


WHOLE, GRAPH = Wide(jax.random.key(1)), nnx.graphdef(flax_network())
FREE, FIXED = eqx.partition(WHOLE, eqx.is_inexact_array)


def floating(network):
    return [leaf for leaf in jax.tree.leaves(network) if eqx.is_inexact_array(leaf)]


def of_flax(function):
    """Without the statistics, which are no parameters."""
    return lambda network: function(nnx.state(network, nnx.Param))


def prior(network):
    return -sum(jnp.sum(leaf**2) for leaf in floating(network)) / 2


def likelihood(network, batch):
    return -((network(batch["x"]) - batch["y"]) ** 2) / 2


HAIKU = haiku.without_apply_rng(haiku.transform(lambda x: haiku.nets.MLP([3, 1], activation=jnp.tanh)(x)[:, 0]))

KINDS = {
    "equinox": (WHOLE, prior, likelihood, equinox_arrays),
    "partitioned": (
        FREE,
        prior,
        lambda free, batch: likelihood(eqx.combine(free, FIXED), batch),
        equinox_arrays,
    ),
    "flax": (flax_network(), of_flax(prior), likelihood, flax_arrays),
    "flax state": (
        nnx.state(flax_network()),
        lambda state: prior(nnx.filter_state(state, nnx.Param)),
        lambda state, batch: likelihood(nnx.merge(GRAPH, state), batch),
        lambda state: flax_arrays(nnx.merge(GRAPH, state)),
    ),
    "haiku": (
        jax.tree.map(lambda x: x.astype(float), HAIKU.init(jax.random.key(2), ROWS["x"])),
        prior,
        lambda params, batch: -((HAIKU.apply(params, batch["x"]) - batch["y"]) ** 2) / 2,
        haiku_arrays,
    ),
}


def sampled_numbers(kind, network):
    """Of the parameters, in the order of the draws."""
    if kind.startswith("flax"):
        state = network if kind == "flax state" else nnx.state(network)
        return jax.tree.leaves(nnx.filter_state(state, nnx.Param))
    return floating(network) if kind != "haiku" else jax.tree.leaves(network)


@quick_filter_jit
def potential(target, u):
    return target.potential(u)


@pytest.mark.parametrize("kind", long_unless(KINDS, "equinox", "flax"))
def test_a_network_is_sampled_and_comes_back(kind, tmp_path):
    network, log_prior, log_likelihood, arrays = KINDS[kind]
    target = eg.Posterior(log_prior, log_likelihood, ROWS, init=network)

    def by_hand(network):
        misfit = np.sum((small(ROWS["x"], arrays(network)) - ROWS["y"]) ** 2) / 2
        return misfit + sum(float(np.sum(np.square(leaf))) for leaf in sampled_numbers(kind, network)) / 2

    assert potential(target, target.init) == pytest.approx(by_hand(network), rel=1e-6)
    run = eg.sample(target, eg.sghmc(), **SHORT)
    drawn = run.draw(1, 7)
    assert type(drawn) is type(network)
    for leaf, draws in zip(sampled_numbers(kind, drawn), jax.tree.leaves(run.posterior), strict=True):
        np.testing.assert_array_equal(leaf, draws[1, 7])
    assert potential(target, sampled(target, drawn)) == pytest.approx(by_hand(drawn), rel=1e-6)

    run.save(tmp_path / "run.nc")
    again = eg.load(tmp_path / "run.nc", like=network)
    assert type(again.draw(1, 7)) is type(network)
    assert jax.tree.structure(again.posterior) == jax.tree.structure(run.posterior)
    with pytest.raises(eg.InputError, match=r"run.nc (has no|holds) [a-z]"):
        eg.load(tmp_path / "run.nc", like={"w": np.ones(2)})
    if kind == "equinox":
        names = "layers.0.weight (3, 2), layers.0.bias (3,), layers.1.weight (1, 3), layers.1.bias (1,)"
        assert str(run) == f"Run(2 chains of 20 draws: {names})"
        with pytest.raises(eg.InputError, match=r"layers.1.weight has shape \(1, 3\) in .*, but \(3, 3\)"):
            eg.load(tmp_path / "run.nc", like=eqx.nn.MLP(2, 1, 3, 2, key=jax.random.key(0)))
    for one, other in zip(sampled_numbers(kind, again.draw(0, 3)), sampled_numbers(kind, run.draw(0, 3)), strict=True):
        np.testing.assert_array_equal(one, other)


STARTS = {
    "a network": WHOLE,
    "the same": eg.same(WHOLE),
    "a function": Wide,
    "arrays of one": FREE,
}


@pytest.mark.parametrize("start", STARTS)
def test_a_target_without_init_takes_its_coordinates_from_the_start(start):
    """Where it was given one, another start of its kind will do; a network is never called."""
    init = STARTS[start]
    target = eg.Posterior(prior, likelihood, ROWS, init=WHOLE if start == "arrays of one" else None)
    request = as_begun(Request(target, eg.sghmc(), init, **SHORT))
    starts = Starts(eg.Kernel(request.target, request.recipe), request)
    for chain in range(2):
        seen = request.target.coordinates.seen(starts._given(chain))
        assert isinstance(seen, Wide)
        assert seen.activation is jnp.tanh
        is_here = np.array_equal(seen.layers[0].weight, WHOLE.layers[0].weight)
        assert is_here == (start != "a function")
    assert starts.is_spread == (start in ("a network", "arrays of one"))


def test_a_function_that_is_kept_gets_a_network():
    target = eg.Posterior(prior, likelihood, ROWS, init=WHOLE)
    kept = kept_function(Request(target, keep=lambda network: network(jnp.ones((1, 2)))))
    np.testing.assert_array_equal(kept(target.init), WHOLE(jnp.ones((1, 2))))
    assert kept_function(Request(target)) is None  # nothing lies between but the object


def test_what_is_a_function_of_a_key():
    for network in (WHOLE, FREE, flax_network(), WHOLE.layers[0]):
        assert callable(network)
        assert not is_start_function(network)
    for function in (
        Wide,
        lambda key: key,
        eqx.Partial(jnp.add, jnp.ones(2)),
        jax.tree_util.Partial(jnp.add, jnp.ones(1)),
    ):
        assert is_start_function(function)
    for position in ({"w": np.ones(2)}, np.ones(2)):
        assert not is_start_function(position)


def test_networks_in_a_plain_tree_with_a_transform():
    def log_prior(q):
        return prior(q["network"]) - q["sigma"]

    def log_likelihood(q, batch):
        return likelihood(q["network"], batch) / q["sigma"] ** 2 - jnp.log(q["sigma"])

    start = {"network": WHOLE, "sigma": np.asarray(0.7)}
    target = eg.Posterior(log_prior, log_likelihood, ROWS, transform={"sigma": eg.transforms.log})
    begun = begun_at(target, start)
    u = sampled(begun, start)
    assert u["sigma"] == pytest.approx(np.log(0.7))
    seen = begun.coordinates.seen(u)
    assert isinstance(seen["network"], Wide)
    assert seen["sigma"] == pytest.approx(0.7)
    by_hand = -log_prior(start) - jnp.sum(log_likelihood(start, ROWS)) - jnp.log(0.7)
    assert begun.potential(u) == pytest.approx(float(by_hand), rel=1e-12)
    bad = start | {"network": eqx.tree_at(lambda one: one.power, WHOLE, jnp.ones(2, jnp.int32))}
    with pytest.raises(eg.InputError, match=r"position\['network'\].power is an array of int32 in a network"):
        eg.sample(target, eg.sghmc(), bad, **SHORT)


class Counting(eqx.Module):
    weight: jax.Array
    count: jax.Array


@pytest.mark.parametrize(
    ("leaf", "kind"), [(jnp.arange(3), "int"), (jax.random.key(0), "key<fry>"), (jnp.ones(2, bool), "bool")]
)
def test_arrays_that_cannot_be_sampled_are_refused_by_name(leaf, kind):
    with pytest.raises(eg.InputError, match=rf"position.count is an array of {kind}.*eqx.partition") as raised:
        eg.Density(lambda q: jnp.sum(q.weight), init=Counting(jnp.ones(2), leaf))
    assert "\n" not in str(raised.value)


def test_another_network_is_refused_by_name():
    target = eg.Posterior(prior, likelihood, ROWS, init=WHOLE)
    thin = eqx.tree_at(lambda one: one.layers[0].bias, WHOLE, jnp.zeros(4))
    with pytest.raises(eg.InputError, match=r"position.layers\[0\].bias has shape \(4,\), but in the target's init"):
        eg.sample(target, eg.sgld(), thin, **SHORT)
    with pytest.raises(eg.InputError, match=r"position.layers\[1\].bias is missing"):
        eg.sample(target, eg.sgld(), eqx.tree_at(lambda one: one.layers[1].bias, WHOLE, None), **SHORT)
    for other in (flax_network(), {"w": np.ones(2)}):
        with pytest.raises(eg.InputError, match="is not in the target's init"):
            eg.sample(target, eg.sgld(), other, **SHORT)


def test_gradients_from_outside_get_a_network_of_numpy_arrays():
    seen = []

    def gradient(network, batch, seed):
        seen.append(network)
        return network  # that of |x|^2 / 2

    target = eg.External(gradient, [0], init=WHOLE)
    found = target.gradient_at(target.init, 0, 0)
    assert isinstance(seen[0], Wide)
    assert isinstance(seen[0].layers[0].weight, np.ndarray)
    assert jax.tree.structure(found) == jax.tree.structure(target.init)
    with pytest.raises(eg.InputError, match="no potential to correct"):
        eg.External(gradient, [0], init=WHOLE, transform=eg.transforms.log)


def test_flax_is_not_needed_by_others(monkeypatch):
    monkeypatch.setitem(sys.modules, "flax", None)  # as if it were not there
    target = eg.Density(lambda q: jnp.sum(q.layers[0].weight ** 2), init=WHOLE)
    assert target.potential(target.init) > 0
    assert is_start_function(Wide)
