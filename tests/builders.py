"""Every builder with a small target that suits it: one line here, and a sampler is in every battery of tests.

Names are "builder/variant". Targets have no symmetry that could hide an error, and their `init` is not a special point.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

import ergodica as eg
from ergodica.samplers.preconditioned import scaled_recipe
from ergodica.tree import Layout
from ergodica.verify.specimens import coupled_gammas, curved, information, second_moment

EULER, SPLITTING, LEAPFROG = eg.Euler(), eg.Splitting(), eg.Leapfrog(steps=4)
INTEGRATORS = (EULER, SPLITTING, LEAPFROG)


class Builder(NamedTuple):
    """A recipe, a target that it samples, and the integrators that serve it; the others refuse it."""

    recipe: eg.Recipe
    target: Any
    integrators: tuple[Any, ...]

    @property
    def position(self) -> Any:
        return self.target.init

    def phases(self, seed: int, n: int) -> Any:
        """n phases with a leading axis: positions about `init` and inside the domain, auxiliaries of order one."""
        rng = np.random.default_rng(seed)
        draw = lambda q: self.recipe.draw_auxiliaries(q, jax.random.key(0), 1.0)  # noqa: E731
        shapes = jax.eval_shape(draw, self.position)
        normals = jax.tree.map(lambda leaf: rng.normal(size=(n, *leaf.shape)).astype(leaf.dtype), shapes)
        shift = jax.tree.map(lambda x: 0.6 * x, normals.position)
        is_free = self.target.domain is None
        around = jax.tree.map(
            lambda x, s: np.asarray(x) + s if is_free else np.asarray(x) * np.exp(s), self.position, shift
        )
        return normals._replace(position=around)


class FlatSde(NamedTuple):
    """f, D and H of a recipe as functions of one vector (z, T), for the oracle.

    The temperature rides along as a coordinate that stands still, so that one compiled function serves them all.
    """

    drift: Callable
    diffusion: Callable
    hamiltonian: Callable


def flat_sde(recipe: eg.Recipe, target: Any, layout: Layout) -> FlatSde:
    """`layout`: that of the phase."""

    def at_rest(vector):
        return jnp.concatenate([vector, jnp.zeros(1, vector.dtype)])

    def drift(x):
        return at_rest(layout.ravel(recipe.drift(target, layout.unravel(x[:-1]), temperature=x[-1])))

    def diffusion(x):
        matrix, _ = recipe.matrices(target, layout.unravel(x[:-1]), temperature=x[-1])
        return jnp.pad(matrix, ((0, 1), (0, 1)))

    def hamiltonian(x):
        return recipe.hamiltonian(target, layout.unravel(x[:-1]), temperature=x[-1])

    return FlatSde(drift, diffusion, hamiltonian)


def flat_points(phases: Any, temperature: float) -> np.ndarray:
    """Phases with a leading axis as points (n, dim + 1) of `flat_sde`."""
    leaves = [np.asarray(leaf).reshape(len(leaf), -1) for leaf in jax.tree.leaves(phases)]
    points = np.concatenate(leaves, axis=1)
    return np.concatenate([points, np.full((len(points), 1), temperature)], axis=1)


# -- targets ------------------------------------------------------------------------------------------


def bent(theta):
    """A skewed, correlated, non-Gaussian potential in two dimensions or more."""
    first, rest = theta[0], theta[1:]
    return 0.1 * first**4 + 0.3 * first**2 + 0.2 * first + jnp.sum((rest - 0.3 * first**2 + 0.4) ** 2)


def tree_potential(q):
    return bent(jnp.concatenate([q["matrix"].reshape(-1), q["vector"]]))


BENT = eg.Density(bent, init=jnp.array([0.6, -0.3]))
POSITIVE = eg.Density(coupled_gammas, init=jnp.array([1.3, 2.1]), domain=eg.positive)
TREE = eg.Density(tree_potential, init={"matrix": jnp.array([[0.6, -0.3], [0.2, 0.4]]), "vector": jnp.array([-0.1])})
TWO_PEAKS = eg.gallery.two_peaks()


# -- metrics and matrices -----------------------------------------------------------------------------


def elementwise_metric(z):
    return jax.tree.map(lambda q: 0.7 + 0.4 * jnp.sin(q) ** 2, z.position)


FISHER = eg.fisher(information, damping=0.1)
PSD = np.array([[1.2, 0.5], [0.5, 0.8]])
OTHER_PSD = np.array([[0.9, -0.3], [-0.3, 1.5]])
SKEW = np.array([[0.0, -1.3], [1.3, 0.0]])
TREE_ENTRIES = {"matrix": np.array([[0.5, 1.0], [1.5, 0.7]]), "vector": np.array([2.0])}


# -- the registry -------------------------------------------------------------------------------------

_POSITION = (EULER,)  # noise on the position
_MOMENTUM = (EULER, SPLITTING)  # noise on a momentum
_BARE = (LEAPFROG,)  # no noise

BUILDERS: dict[str, Builder] = {
    "sgld/scalar": Builder(eg.sgld(0.7), BENT, _POSITION),
    "sgld/vector": Builder(eg.sgld(np.array([0.4, 1.3])), BENT, _POSITION),
    "sgld/dense": Builder(eg.sgld(PSD), BENT, _POSITION),
    "sgfs/vector": Builder(eg.sgfs(np.array([2.0, 5.0]), 0.05, damping=0.4), BENT, _POSITION),
    "sgfs/dense": Builder(eg.sgfs(4 * OTHER_PSD, 0.05, damping=PSD), BENT, _POSITION),
    "sgrld/elementwise": Builder(eg.sgrld(eg.Elementwise(elementwise_metric)), TREE, _POSITION),
    "sgrld/expanded_mean": Builder(eg.sgrld(eg.expanded_mean()), POSITIVE, _POSITION),
    "sgrld/fisher": Builder(eg.sgrld(FISHER), BENT, _POSITION),
    "sgrld/potential_scaled": Builder(eg.sgrld(eg.potential_scaled()), BENT, _POSITION),
    "psgld/mixed": Builder(eg.psgld(second_moment, damping=0.3), BENT, _POSITION),
    "irreversible_langevin/dense": Builder(eg.irreversible_langevin(SKEW, PSD), BENT, _POSITION),
    "hmc/scalar": Builder(eg.hmc(1.7), BENT, _BARE),
    "hmc/dense": Builder(eg.hmc(PSD), BENT, _BARE),
    "sghmc/scalar": Builder(eg.sghmc(0.8, 1.7), BENT, _MOMENTUM),
    "sghmc/tree": Builder(eg.sghmc(0.8, TREE_ENTRIES), TREE, _MOMENTUM),
    "sghmc/dense": Builder(eg.sghmc(OTHER_PSD, PSD), BENT, _MOMENTUM),
    "preconditioned/frozen": Builder(
        scaled_recipe(eg.preconditioned(eg.sghmc(0.8, 1.7)), np.array([0.6, 1.9])), BENT, _MOMENTUM
    ),
    "relativistic_sghmc/scalar": Builder(eg.relativistic_sghmc(0.8, mass=0.6, speed=1.4), BENT, _MOMENTUM),
    "sgnht/scalar": Builder(eg.sgnht(0.8), BENT, _MOMENTUM),
    "sgnht/vector": Builder(eg.sgnht(np.array([0.8, 1.4])), BENT, _MOMENTUM),
    "coordinate_sgnht/scalar": Builder(eg.coordinate_sgnht(0.8), BENT, _MOMENTUM),
    "riemannian_sgnht/elementwise": Builder(eg.riemannian_sgnht(eg.Elementwise(elementwise_metric)), BENT, _MOMENTUM),
    "riemannian_sgnht/fisher": Builder(eg.riemannian_sgnht(FISHER), BENT, _MOMENTUM),
    "sgrhmc/constant": Builder(eg.sgrhmc(PSD), BENT, _MOMENTUM),
    "sgrhmc/scaled": Builder(eg.sgrhmc(eg.Scaled(curved)), BENT, _MOMENTUM),
    "sgrhmc/expanded_mean": Builder(eg.sgrhmc(eg.expanded_mean()), POSITIVE, _MOMENTUM),
    "sgrhmc/fisher": Builder(eg.sgrhmc(FISHER), BENT, _MOMENTUM),
    "sgrhmc/friction": Builder(eg.sgrhmc(eg.expanded_mean(), friction=2.0), POSITIVE, _MOMENTUM),
    "gsgrhmc/bent": Builder(eg.gsgrhmc(), BENT, _MOMENTUM),
    "gsgrhmc/two_peaks": Builder(eg.gsgrhmc(scale=1.5, offset=1.5), TWO_PEAKS, _MOMENTUM),
}
