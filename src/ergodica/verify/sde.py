"""A sampler as a stochastic differential equation on flat vectors: what every certificate looks at.

dz = f(z) dt + sqrt(2 T D(z)) dW,  claimed to leave exp(-H/T) invariant

Everything is computed in float64 (`widened`): in float32 a residual says nothing below 1e-3.
"""

from abc import abstractmethod
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, PyTree

from ergodica.energy import Gaussian
from ergodica.errors import InputError
from ergodica.fields import Constant
from ergodica.host.validate import kind_of
from ergodica.phase import Evaluation, Phase, Point
from ergodica.recipe import Recipe
from ergodica.targets import Target
from ergodica.targets.coordinates import begun_at, sampled
from ergodica.tree import Layout, entry, named_leaves

MOST_NAMES = 1000  # coordinates that are called by their names


class Sde(eqx.Module):
    """f, D, H as functions of one flat vector. D is given by what it does, so that no d x d matrix is needed.

    A module, handed to what is compiled as an argument: data that are closed over would be folded into the program.
    """

    temperature: float
    slots: tuple[int, ...] = eqx.field(static=True)  # how many numbers each slot has; one slot if hand-written
    names: tuple[str, ...] = eqx.field(static=True)  # of the coordinates, for words; empty where there are too many

    @abstractmethod
    def drift(self, z: Array, key: Array | None = None) -> Array:
        """f(z). `key`: for a recipe above fields.EXACT_LIMIT numbers, whose correction takes a random probe."""

    @abstractmethod
    def diffuse(self, z: Array, v: Array) -> Array:
        """D(z) v."""

    @abstractmethod
    def hamiltonian(self, z: Array) -> Array:
        """H(z)."""

    @property
    def dim(self) -> int:
        return sum(self.slots)

    def spread(self, z: Array, key: Array | None = None) -> Array:
        """div D, (div D)_i = sum_j d/dz_j D_ij(z); with a key an unbiased probe of it, one derivative.

        From D alone, not by the fields' own divergence: a Gamma that is wrong in the drift must not cancel here.
        """

        def along(v: Array) -> Array:
            return jax.jvp(lambda point: self.diffuse(point, v), (z,), (v,))[1]

        if key is None:
            return jnp.sum(jax.vmap(along)(jnp.eye(self.dim, dtype=z.dtype)), axis=0)
        return along(jax.random.rademacher(jax.random.fold_in(key, 1), z.shape, z.dtype))

    def diffusion(self, z: Array) -> Array:
        """D(z) as a matrix."""
        return jax.vmap(lambda e: self.diffuse(z, e), out_axes=1)(jnp.eye(self.dim, dtype=z.dtype))

    def current(self, z: Array, key: Array | None = None) -> Array:
        """c = f + D grad H - T div D: the probability current over p = exp(-H/T).

        J = f p - T div(D p) = c p. Theorem 1 is c = -Q grad H + T div Q with a skew Q.
        """
        return jnp.sum(self.parts(z, key), axis=0)

    def parts(self, z: Array, key: Array | None = None) -> Array:
        """The three terms of the current, (3, dim): they cancel where there is no curl."""
        slope = jax.grad(self.hamiltonian)(z)
        return jnp.stack([self.drift(z, key), self.diffuse(z, slope), -self.temperature * self.spread(z, key)])

    def name(self, i: int) -> str:
        return self.names[i] if self.names else f"z[{i}]"


class RecipeSde(Sde):
    """The SDE of a recipe on a target, on its phases made flat."""

    recipe: Recipe
    target: Target
    layout: Layout = eqx.field(static=True)

    def point(self, phase: Phase) -> Point:
        """What fields and energies are given there."""
        return self.recipe.point_at(self.target, phase, self.temperature)

    def drift(self, z, key=None):
        at = self.layout.unravel(z)
        potential, gradient = self.target.evaluate(at.position, None)
        evaluations = (Evaluation(gradient, potential, gradient),)
        moves = self.recipe.moves(at, evaluations, self.temperature, 1.0, key)
        return self.layout.ravel(_filled(at, {slot: value.value() for slot, value in moves.items()}))

    def diffuse(self, z, v):
        operators = self.recipe.diffusion_at(self.point(self.layout.unravel(z)))
        vectors = self.layout.unravel(v)
        applied = {slot: operator.apply(getattr(vectors, slot)) for slot, operator in operators.items()}
        return self.layout.ravel(_filled(vectors, applied))

    def hamiltonian(self, z):
        return self.recipe.hamiltonian(self.target, self.layout.unravel(z), temperature=self.temperature)


def from_recipe(recipe: Recipe, target: Target, phase: Phase, temperature: float = 1.0) -> RecipeSde:
    """The SDE of a recipe; `phase` is an example of the phases."""
    slots = tuple(Layout.of(slot).size for slot in phase)
    return RecipeSde(temperature, slots, coordinate_names(phase), recipe, target, Layout.of(phase))


def _filled(phase: Phase, slots: dict[str, PyTree]) -> Phase:
    """These slots as a phase, zero elsewhere."""
    return jax.tree.map(jnp.zeros_like, phase)._replace(**slots)


def coordinate_names(phase: PyTree, root: str = "", limit: float = MOST_NAMES) -> tuple[str, ...]:
    """position[0], momentum['w'][1, 2], ...: the coordinates of the flat phase by the names that users gave."""
    names: list[str] = []
    for name, leaf in named_leaves(phase, root):
        if leaf.size + len(names) > limit:
            return ()
        names += [entry(name.removeprefix("."), index) for index in np.ndindex(leaf.shape)]
    return tuple(names)


def checked_position(
    who: str, target: Target, position: PyTree, advice: str, temperature: float
) -> tuple[Target, PyTree]:
    """The target at this temperature, and the position to look at, as chains hold it, by default the target's `init`;
    refuses a target without a potential."""
    if not isinstance(target, Target) or not target.has_potential:
        raise InputError(
            f"{who} needs a target with a potential (eg.Density, eg.Posterior), got {kind_of(target)}: {advice}"
        )
    if position is None and target.init is None:
        raise InputError(f"no position: give {who} position=, an example of it, or give the target an `init`")
    target = begun_at(target, position).tempered(temperature)
    return target, target.init if position is None else sampled(target, position)


def widened(x: PyTree) -> PyTree:
    """The same with all floating numbers in float64; roots and inverses of matrices are derived again. Needs x64."""

    def widen(leaf: Any) -> Any:
        if isinstance(leaf, Constant):
            return Constant(widened(leaf.entries))
        if isinstance(leaf, Gaussian):
            return Gaussian(None if leaf.mass is None else widened(leaf.mass.entries))
        is_array = isinstance(leaf, np.ndarray | np.generic | jax.Array)
        return jnp.asarray(leaf, jnp.float64) if is_array and jnp.issubdtype(leaf.dtype, jnp.floating) else leaf

    return jax.tree.map(widen, x, is_leaf=lambda leaf: isinstance(leaf, Constant | Gaussian))


def at(point: np.ndarray) -> str:
    """A point in words."""
    return "z = (" + ", ".join(f"{float(x):.4g}" for x in point) + ")"
