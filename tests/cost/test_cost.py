"""A sampler from (H, D, Q) costs what the same step costs written by hand; never d x d; compiled once.

Costs are XLA's counts for the compiled program, not seconds: benchmarks/step_cost.py measures those.
"""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import ergodica as eg
from ergodica.gradients.noise import MICRO_BATCH_NUMBERS
from tests.cost.pairs import FEATURES, PAIRS, QUICK, Pair, cost, regression, separable, twins, update, whole_step

SIZE = 400_000
WITH_BATCHES = [name for name, pair in PAIRS.items() if not pair.is_whole_data]
WITHOUT_BATCHES = [name for name, pair in PAIRS.items() if not pair.is_crossed]

WHOLE_STEP = 1.01  # the library's operations in a whole step, over the twin's
NUMBERS = 200  # bytes that the update may move beyond the twin's: the recipe's own numbers, read as scalars
UPDATE = 1.05  # operations of the update, over the twin's: SGRHMC's Gamma, T (1/2 sqrt theta), costs a product


# -- against the twins --------------------------------------------------------------------------------


def outputs(call):
    return [np.asarray(leaf) for leaf in jax.tree.leaves(call.compiled(QUICK)(*call.arguments))]


def assert_same_numbers(both):
    for mine, by_hand in zip(outputs(both.library), outputs(both.twin), strict=True):
        assert mine.dtype == by_hand.dtype == np.float64
        np.testing.assert_allclose(mine, by_hand, rtol=1e-12, atol=1e-12)


# a step of 0.3, so that some coordinates close to 0 are reflected
@pytest.mark.parametrize("name", PAIRS)
def test_the_update_computes_the_twins_numbers(name):
    pair = PAIRS[name]
    assert_same_numbers(update(pair, separable(pair), 40, np.float64, step_size=0.3))


@pytest.mark.parametrize("name", WITH_BATCHES)
def test_the_step_on_a_batch_computes_the_twins_numbers(name):
    pair = PAIRS[name]
    target = regression(pair, np.float64)
    assert_same_numbers(whole_step(pair, target, FEATURES, np.float64, step_size=1e-4, with_potential=True))


def ratio(both):
    return cost(both.library).operations / cost(both.twin).operations


@pytest.mark.parametrize("name", WITHOUT_BATCHES)
def test_a_whole_step_has_the_twins_operations(name):
    pair = PAIRS[name]
    assert ratio(whole_step(pair, separable(pair), SIZE, np.float32)) <= WHOLE_STEP


@pytest.mark.parametrize("name", WITH_BATCHES)
def test_a_step_on_a_batch_has_the_twins_operations(name):
    pair = PAIRS[name]
    assert ratio(whole_step(pair, regression(pair, np.float32), FEATURES, np.float32)) <= WHOLE_STEP


def test_the_potential_that_a_step_reports_costs_its_own_value():
    pair = PAIRS["sghmc/splitting"]
    target = regression(pair, np.float32)
    assert ratio(whole_step(pair, target, FEATURES, np.float32, with_potential=True)) <= WHOLE_STEP


@pytest.mark.parametrize("name", PAIRS)
def test_the_update_moves_the_twins_bytes(name):
    pair = PAIRS[name]
    library, twin = (cost(call) for call in update(pair, separable(pair), SIZE, np.float32))
    assert library.bytes <= twin.bytes + NUMBERS
    assert library.operations <= UPDATE * twin.operations


def test_a_diffusion_held_as_an_array_is_found_out():
    wasteful = Pair(lambda number: eg.sgld(np.full(SIZE, number)), eg.Euler(), twins.sgld, (0.7,))
    target = separable(wasteful)
    assert ratio(whole_step(wasteful, target, SIZE, np.float32)) > WHOLE_STEP
    library, twin = (cost(call) for call in update(wasteful, target, SIZE, np.float32))
    assert library.bytes >= twin.bytes + 4 * SIZE


# -- a million numbers --------------------------------------------------------------------------------

MILLION = 1_000_000
COPIES = 4  # arrays of a step may be as large as so many positions: two 32-bit words of a 64-bit draw, and to spare


def vector(low, high):
    return np.linspace(low, high, MILLION, dtype=np.float32)


def moment(position):
    return 1 + position**2 + jnp.roll(position, 1) ** 2


STRUCTURED = {
    "sgld": lambda: eg.sgld(),
    "sgld/vector": lambda: eg.sgld(vector(0.5, 1.5)),
    "sgfs/vector": lambda: eg.sgfs(vector(1.0, 2.0), 0.01),
    "sgrld/expanded_mean": lambda: eg.sgrld(eg.expanded_mean()),
    "sgrld/scaled": lambda: eg.sgrld(eg.Scaled(lambda z: 1 + jnp.mean(z.position) ** 2)),
    "psgld": lambda: eg.psgld(moment),
    "hmc": lambda: eg.hmc(),
    "sghmc": lambda: eg.sghmc(),
    "sghmc/vector": lambda: eg.sghmc(vector(0.5, 1.5), vector(1.0, 2.0)),
    "relativistic_sghmc": lambda: eg.relativistic_sghmc(),
    "sgnht": lambda: eg.sgnht(),
    "coordinate_sgnht": lambda: eg.coordinate_sgnht(),
    "riemannian_sgnht": lambda: eg.riemannian_sgnht(eg.expanded_mean()),
    "sgrhmc/expanded_mean": lambda: eg.sgrhmc(eg.expanded_mean()),
    "gsgrhmc": lambda: eg.gsgrhmc(),
}


def sub_jaxprs(value):
    """The programs inside an equation's parameters: branches, bodies of loops, what jit calls."""
    for leaf in jax.tree.leaves(value, is_leaf=lambda x: hasattr(x, "jaxpr") or hasattr(x, "eqns")):
        if hasattr(leaf, "jaxpr") or hasattr(leaf, "eqns"):
            yield getattr(leaf, "jaxpr", leaf)


def largest_array(jaxpr):
    """The number of entries of the largest array that the program makes, before any of it is compiled."""
    sizes = [variable.aval.size for equation in jaxpr.eqns for variable in equation.outvars if variable.aval.shape]
    inner = [largest_array(sub) for equation in jaxpr.eqns for sub in sub_jaxprs(equation.params)]
    return max([*sizes, *inner], default=1)


def largest_of_step(kernel, position, batch=None):
    arrays, static = eqx.partition(kernel, eqx.is_array)
    key = jax.random.key(0)

    def step(arrays, position, batch):
        kernel = eqx.combine(arrays, static)
        return kernel.step(kernel.init(position, key), key, jnp.float32(0.01), batch)

    return largest_array(jax.make_jaxpr(step)(arrays, position, batch).jaxpr)


@pytest.mark.parametrize("name", STRUCTURED)
def test_a_million_numbers_never_make_a_matrix(name):
    recipe = STRUCTURED[name]()
    position = jax.ShapeDtypeStruct((MILLION,), jnp.float32)
    target = eg.Density(lambda q: jnp.sum(q**2) / 2, domain=eg.positive if "expanded_mean" in name else None)
    integrators = [eg.Leapfrog()] if not recipe.diffusion else [eg.Euler()] + [eg.Splitting()] * len(recipe.momenta)
    for integrator in integrators:
        for noise in [None, vector(0.1, 0.2)] if recipe.diffusion else [None]:
            kernel = eg.Kernel(target, recipe, integrator, noise)
            assert largest_of_step(kernel, position) <= COPIES * MILLION


def test_a_matrix_is_found_out():
    n = 300
    kernel = eg.Kernel(eg.Density(lambda q: jnp.sum(q**2) / 2), eg.sghmc(), gradient_noise=np.eye(n))
    assert largest_of_step(kernel, jax.ShapeDtypeStruct((n,), jnp.float32)) >= n * n


def test_gradients_of_single_rows_go_through_in_micro_batches():
    rows = 64  # 64 gradients of a million numbers are 256 MB, and a micro-batch is to hold 16 MB of them
    target = eg.Posterior(
        lambda q: -jnp.sum(q**2) / 2,
        lambda q, batch: -((batch["y"] - jnp.mean(jnp.tanh(batch["x"][:, None] * q[None, :]), axis=1)) ** 2),
        {"x": np.linspace(-1, 1, 1000, dtype=np.float32), "y": np.zeros(1000, np.float32)},
    )
    arrays, static = eqx.partition(eg.Kernel(target.without_data(), eg.sgld(), None, eg.PerExample()), eqx.is_array)

    def update(arrays, position, batch):
        kernel = eqx.combine(arrays, static)
        return kernel.gradient_noise.update(kernel.gradient_noise.init(position), kernel.target, position, batch)

    batch = {name: jax.ShapeDtypeStruct((rows,), jnp.float32) for name in ("x", "y")}
    arguments = arrays, jax.ShapeDtypeStruct((MILLION,), jnp.float32), batch
    assert largest_array(jax.make_jaxpr(update)(*arguments).jaxpr) <= MICRO_BATCH_NUMBERS
    held = jax.jit(update).lower(*arguments).compile(QUICK).memory_analysis().temp_size_in_bytes
    assert held <= 4 * (4 * MICRO_BATCH_NUMBERS)


# -- compiled once ------------------------------------------------------------------------------------


def sgfs(number):
    return eg.sgfs(number, 0.01)


BUILDERS_OF_A_NUMBER = {
    "sgld": eg.sgld,
    "sgfs": sgfs,
    "irreversible_langevin": lambda number: eg.irreversible_langevin(number * np.array([[0.0, 1.0], [-1.0, 0.0]])),
    "hmc": eg.hmc,
    "sghmc": eg.sghmc,
    "relativistic_sghmc": eg.relativistic_sghmc,
    "sgnht": eg.sgnht,
    "coordinate_sgnht": eg.coordinate_sgnht,
    "sgrld": lambda number: eg.sgrld(number),
    "sgrld/expanded_mean": lambda number: eg.sgrld(eg.expanded_mean()),
    "psgld": lambda number: eg.psgld(moment, damping=number),
    "sgrhmc": eg.sgrhmc,
    "sgrhmc/expanded_mean": lambda number: eg.sgrhmc(eg.expanded_mean()),
    "riemannian_sgnht": lambda number: eg.riemannian_sgnht(eg.expanded_mean()),
    "gsgrhmc": lambda number: eg.gsgrhmc(number, 2.0),
}


def traces_of(recipes, dtype):
    """How often the potential is traced over steps with each recipe at several step sizes and temperatures."""
    count = [0]

    def potential(position):
        count[0] += 1
        return jnp.sum(position**2) / 2

    @eqx.filter_jit(compiler_options=QUICK)
    def step(kernel, state, key, step_size, temperature):
        return kernel.step(state, key, step_size, None, temperature)

    @eqx.filter_jit(compiler_options=QUICK)
    def begin(kernel, position):
        return kernel.init(position, jax.random.key(0))

    target, counts = eg.Density(potential), []
    for recipe in recipes:
        kernel = eg.Kernel(target, recipe)
        state = begin(kernel, jnp.asarray([0.4, 0.9], dtype))
        count[0] = 0
        for i, (step_size, temperature) in enumerate([(0.1, 1.0), (0.2, 1.0), (0.2, 2.0)]):
            state, info = step(kernel, state, jax.random.key(i), jnp.asarray(step_size), jnp.asarray(temperature))
        assert state.phase.position.dtype == info.potential.dtype == dtype
        counts.append(count[0])
    return counts


IN_FLOAT32 = ["sgld", "sghmc", "sgnht", "sgrhmc/expanded_mean", "gsgrhmc"]


@pytest.mark.parametrize(
    ("name", "dtype"),
    [(name, jnp.float64) for name in BUILDERS_OF_A_NUMBER] + [(name, jnp.float32) for name in IN_FLOAT32],
)
def test_a_step_compiles_once(name, dtype):
    build = BUILDERS_OF_A_NUMBER[name]
    first, again, other = traces_of([build(1.0), build(1.0), build(2.0)], dtype)
    assert first > 0
    assert again == other == 0


def test_another_structure_compiles_again():
    scalar, diagonal = traces_of([eg.sgld(1.0), eg.sgld(np.array([1.0, 2.0]))], jnp.float64)
    assert scalar > 0
    assert diagonal > 0
