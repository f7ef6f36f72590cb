"""The library's step and its twin, side by side: the same phase, random numbers and data in, the same phase out.

Step size, temperature and the numbers of a recipe are arguments of the compiled function on both sides: a number that
the compiler knows would let it fold away what a run cannot.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

import ergodica as eg
from ergodica import tree
from ergodica.phase import Evaluation
from tests.cost import twins

EULER, SPLITTING = eg.Euler(), eg.Splitting()


class Pair(NamedTuple):
    """A recipe as a function of its numbers, the integrator, and the same step by hand.

    `is_positive`: for positions above 0. `is_crossed`: on batches the step is cross-fitted over two of them.
    """

    build: Callable[..., eg.Recipe]
    integrator: Any
    twin: Callable[..., tuple]
    numbers: tuple[float, ...] = ()
    is_positive: bool = False
    is_crossed: bool = False

    @property
    def is_whole_data(self) -> bool:
        """Whether the step serves no batches: its metric looks at the potential, and the pair beside it is crossed."""
        return self.build is eg.gsgrhmc and not self.is_crossed


def _sgrld() -> eg.Recipe:
    return eg.sgrld(eg.expanded_mean())


def _sgrhmc() -> eg.Recipe:
    return eg.sgrhmc(eg.expanded_mean())


PAIRS = {
    "sgld/euler": Pair(eg.sgld, EULER, twins.sgld, (0.7,)),
    "sgrld/euler": Pair(_sgrld, EULER, twins.sgrld, is_positive=True),
    "sghmc/euler": Pair(eg.sghmc, EULER, twins.sghmc_euler, (0.8, 1.7)),
    "sghmc/splitting": Pair(eg.sghmc, SPLITTING, twins.sghmc_splitting, (0.8, 1.7)),
    "sgnht/euler": Pair(eg.sgnht, EULER, twins.sgnht_euler, (0.8,)),
    "sgnht/splitting": Pair(eg.sgnht, SPLITTING, twins.sgnht_splitting, (0.8,)),
    "sgrhmc/euler": Pair(_sgrhmc, EULER, twins.sgrhmc_euler, is_positive=True),
    "sgrhmc/splitting": Pair(_sgrhmc, SPLITTING, twins.sgrhmc_splitting, is_positive=True),
    "gsgrhmc/euler": Pair(eg.gsgrhmc, EULER, twins.gsgrhmc_euler, (1.5, 1.5)),
    "gsgrhmc/splitting": Pair(eg.gsgrhmc, SPLITTING, twins.gsgrhmc_splitting, (1.5, 1.5)),
    "gsgrhmc/euler/pair": Pair(eg.gsgrhmc, EULER, twins.gsgrhmc_euler_pair, (1.5, 1.5), is_crossed=True),
    "gsgrhmc/splitting/pair": Pair(eg.gsgrhmc, SPLITTING, twins.gsgrhmc_splitting_pair, (1.5, 1.5), is_crossed=True),
}


# -- targets ------------------------------------------------------------------------------------------


class Spread(eqx.Module):
    """q^2 / 2 for each number."""

    def __call__(self, position):
        return jnp.sum(position * position) / 2


class PositiveSpread(eqx.Module):
    """q - 3/2 log q for each number: Gamma laws."""

    def __call__(self, position):
        return jnp.sum(position - 1.5 * jnp.log(position))


class LogLikelihood(eqx.Module):
    """Logistic regression."""

    def __call__(self, weights, batch):
        logits = batch["x"] @ weights
        return batch["y"] * logits - jax.nn.softplus(logits)


class LogPrior(eqx.Module):
    """N(0, 1) for each weight."""

    def __call__(self, weights):
        return -jnp.sum(weights * weights) / 2


def separable(pair: Pair) -> eg.Density:
    """One number each: beside so cheap a gradient every operation of the sampler shows."""
    return eg.Density(PositiveSpread(), domain=eg.positive) if pair.is_positive else eg.Density(Spread())


ROWS, FEATURES, BATCH = 1_000, 54, 500


def regression(pair: Pair, dtype: Any) -> eg.Posterior:
    """Logistic regression, a step on 500 rows of 54 features."""
    generator = np.random.default_rng(2015)
    data = {
        "x": generator.normal(size=(ROWS, FEATURES)).astype(dtype),
        "y": generator.integers(0, 2, ROWS).astype(dtype),
    }
    return eg.Posterior(LogPrior(), LogLikelihood(), data, domain=eg.positive if pair.is_positive else None)


def batch_of(target: Any, pair: Pair) -> Any:
    """The rows of a step; a cross-fitted step takes two batches of half the size."""
    if target.size is None:
        return None
    rows = jax.tree.map(jnp.asarray, target.rows(slice(0, BATCH)))
    if not pair.is_crossed:
        return rows
    first, second = (jax.tree.map(lambda x, i=i: x[i::2], rows) for i in range(2))
    return eg.BatchPair(first, second)


# -- the two of a pair --------------------------------------------------------------------------------


# Machine code of the lowest grade: the program that is counted is the same, and takes half the time to compile.
QUICK = {"xla_backend_optimization_level": 0, "xla_llvm_disable_expensive_passes": True}


class Call(NamedTuple):
    """A function and the arguments to compile it for."""

    function: Callable
    arguments: tuple

    def compiled(self, options: dict | None = None) -> Any:
        return jax.jit(self.function).lower(*self.arguments).compile(options)


class Both(NamedTuple):
    library: Call
    twin: Call


def start(pair: Pair, target: Any, size: int, dtype: Any) -> tuple[eg.Kernel, Any, tuple]:
    """The kernel, its state at a start of `size` numbers, some of them close to 0, and the twin's numbers."""
    kernel = eg.Kernel(target, pair.build(*pair.numbers), pair.integrator)
    position = np.linspace(0.002, 1.5, size, dtype=dtype)
    generator = np.random.default_rng(1)
    shapes = jax.eval_shape(lambda: kernel.init(position, jax.random.key(0)))
    state = jax.tree.map(lambda leaf: generator.normal(size=leaf.shape).astype(leaf.dtype), shapes)
    return kernel, state._replace(phase=state.phase._replace(position=position)), tuple(map(dtype, pair.numbers))


def whole_step(
    pair: Pair, target: Any, size: int, dtype: Any, step_size: float = 0.01, with_potential: bool = False
) -> Both:
    """From key, phase and batch to the next phase; `with_potential`: and the potential that the step has met."""
    kernel, state, numbers = start(pair, target, size, dtype)
    arrays, static = eqx.partition(eqx.tree_at(lambda k: k.target, kernel, target.without_data()), eqx.is_array)
    batch = batch_of(target, pair)

    def library(arrays, state, key, step_size, temperature, batch):
        state, info = eqx.combine(arrays, static).step(state, key, step_size, batch, temperature)
        return (state.phase, info.potential) if with_potential else state.phase

    def twin(numbers, phase, key, step_size, temperature, batch):
        normal = tree.normal_like(key, phase[0])  # as the library: what is compared is what is made of them
        met = []

        def evaluate(position):
            values = [jax.value_and_grad(potential_of(target))(position, part) for part in parts_of(batch)]
            met.extend(potential for potential, _ in values)
            return values if pair.is_crossed else values[0]

        phase = pair.twin(phase, evaluate, normal, step_size, temperature, *numbers)
        return (phase, sum(met[1:], start=met[0]) / len(met)) if with_potential else phase

    rest = (jax.random.key(2), dtype(step_size), dtype(1.3), batch)
    return Both(Call(library, (arrays, state, *rest)), Call(twin, (numbers, tuple(state.phase), *rest)))


def potential_of(target: Any) -> Callable:
    """The target's potential by hand: U~ = -(N/n) sum log p(row) - log p."""
    if target.size is None:
        return lambda position, batch: target.function(position)

    def potential(position, batch):
        terms = target.log_likelihood(position, batch)
        return -(target.size / terms.size) * jnp.sum(terms) - target.log_prior(position)

    return potential


def parts_of(batch: Any) -> tuple:
    return tuple(batch) if isinstance(batch, eg.BatchPair) else (batch,)


def update(pair: Pair, target: Any, size: int, dtype: Any, step_size: float = 0.01) -> Both:
    """The update alone: potentials, gradients and normals are given."""
    kernel, state, numbers = start(pair, target, size, dtype)
    arrays, static = eqx.partition(kernel, eqx.is_array)
    gradients = [np.linspace(-1, 1 + i, size, dtype=dtype) for i in range(2 if pair.is_crossed else 1)]
    values = [(dtype(3.0 + i), gradient) for i, gradient in enumerate(gradients)]
    (slot,) = kernel.recipe.diffusion
    draws = {slot: np.random.default_rng(2).normal(size=size).astype(dtype)}

    def library(arrays, state, values, draws, step_size, temperature):
        kernel = eqx.combine(arrays, static)
        others = reversed(values) if pair.is_crossed else values
        evaluations = tuple(Evaluation(g, u, h) for (_, g), (u, h) in zip(values, others, strict=True))
        probed = kernel.probe(state, draws, step_size, temperature)
        return kernel.finish(probed, evaluations, draws, step_size, None, temperature)[0].phase

    def twin(numbers, phase, values, draws, step_size, temperature):
        (normal,) = draws.values()
        evaluation = values if pair.is_crossed else values[0]
        return pair.twin(phase, lambda position: evaluation, normal, step_size, temperature, *numbers)

    rest = (values, draws, dtype(step_size), dtype(1.3))
    return Both(Call(library, (arrays, state, *rest)), Call(twin, (numbers, tuple(state.phase), *rest)))


class Cost(NamedTuple):
    """What the compiler counts: arithmetic of any kind, and bytes moved between its fused loops."""

    operations: float
    bytes: float


def cost(call: Call) -> Cost:
    """By XLA's own analysis of the optimised program: an operation is counted in every loop that repeats it."""
    counted = call.compiled(QUICK).cost_analysis()
    return Cost(counted.get("flops", 0.0) + counted.get("transcendentals", 0.0), counted["bytes accessed"])
