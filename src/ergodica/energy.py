"""Energies of the auxiliary slots: g in H = U + g, with the law exp(-g/T) drawn exactly.

The position keeps the law exp(-U/T) only if the integral of exp(-g/T) over the auxiliary slots does not depend on it.
All energies here but `eg.Energy` see to that by not reading the position at all.
"""

from abc import abstractmethod
from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, PyTree

from ergodica import tree
from ergodica.errors import InputError
from ergodica.fields import Constant, as_number
from ergodica.operators import Operator, ScalarOperator, act, apply_scaled, entrywise, is_entrywise, root
from ergodica.phase import Point, View
from ergodica.tree import Combination, Layout


class AuxiliaryEnergy(eqx.Module):
    """The energy of one auxiliary slot; it may read the position and the slots before it."""

    @abstractmethod
    def value(self, point: Point, name: str) -> Array:
        """g at this point."""

    @abstractmethod
    def slope(self, point: Point, name: str) -> dict[str, Combination]:
        """dg/dz by slot, not yet added up; a slot that is absent has no gradient here."""

    def gradient(self, point: Point, name: str) -> dict[str, PyTree]:
        """dg/dz by slot."""
        return {slot: share.value() for slot, share in self.slope(point, name).items()}

    @abstractmethod
    def draw(self, key: Array, point: Point, name: str) -> PyTree:
        """An exact draw of the slot from exp(-g/T) given the slots before it: its shape is the slot's shape."""


class Gaussian(AuxiliaryEnergy):
    """A momentum's kinetic energy, r^T M^-1 r / 2, the slot shaped like the position.

    The energy to give a momentum unless there is a reason not to: friction on it is solved exactly by `eg.Splitting`.
    The slot is drawn from N(0, T M).

    Args:
        mass: M, a scalar, a vector shaped like the position, or a dense matrix; the identity if left out.

    Example:
        >>> import ergodica as eg
        >>> recipe = eg.Recipe(
        ...     energy={"momentum": eg.Gaussian(mass=2.0)},
        ...     diffusion={"momentum": eg.Constant(1.0)},
        ...     curl={("momentum", "position"): eg.Constant(1.0)},
        ... )
    """

    mass: Constant | None
    inverse_mass: Constant | None  # of a matrix: derived once, not in every step

    def __init__(self, mass: Any = None):
        self.mass = None if mass is None else Constant(mass)
        if self.mass is not None:
            _refuse_negative("eg.Gaussian: mass", self.mass, strict=True)
        # a square array is a matrix, or a diagonal for a slot of that shape: which one is known once the slot is
        is_square = self.mass is not None and self.mass.root_entries is not None
        self.inverse_mass = Constant(_inverse(self.mass.entries)) if is_square else None  # pyright: ignore

    def mass_operator(self, layout: Layout) -> Operator:
        if self.mass is None:
            return ScalarOperator(jnp.ones((), layout.dtype), layout)
        return self.mass.operator(self.mass.entries, layout, layout)

    def inverse_operator(self, layout: Layout) -> Operator:
        mass = self.mass_operator(layout)
        if is_entrywise(mass):
            return entrywise(lambda m: 1 / m, mass)
        assert self.inverse_mass is not None
        return self.inverse_mass.operator(self.inverse_mass.entries, layout, layout)

    def value(self, point, name):
        return tree.dot(point.slot(name), self.gradient(point, name)[name]) / 2

    def slope(self, point, name):
        momentum = Combination.of(point.slot(name))
        return {name: momentum if self.mass is None else act(self.inverse_operator(_layout(point, name)), momentum)}

    def draw(self, key, point, name):
        position = point.slot("position")
        normal = tree.normal_like(key, position)
        return apply_scaled(root(self.mass_operator(Layout.of(position))), jnp.sqrt(point.temperature), normal)


def _layout(point: Point, name: str) -> Layout:
    return Layout.of(point.slot(name))


class Thermostat(AuxiliaryEnergy):
    """A thermostat's energy, (d/2) (xi - center)^2, with d the number of entries of the position.

    Use it with a curl that couples the thermostat to a momentum, as `eg.sgnht` does: xi becomes a friction that adapts
    to gradient noise. The paper prints 1/(2d) instead of d/2 (docs/paper/errata.md).

    Args:
        center: A, the thermostat's mean.
        per_coordinate: one thermostat for each coordinate, (1/2) sum_i (xi_i - center)^2, shaped like the position.

    Example:
        >>> import ergodica as eg
        >>> recipe = eg.Recipe(  # SGNHT
        ...     energy={"momentum": eg.Gaussian(), "thermostat": eg.Thermostat(center=2.0)},
        ...     diffusion={"momentum": eg.Constant(2.0)},
        ...     curl={
        ...         ("momentum", "position"): eg.Constant(1.0),
        ...         ("momentum", "thermostat"): eg.Coupling(lambda z: z.momentum, elementwise=True, shared=True),
        ...     },
        ... )
    """

    center: Array
    per_coordinate: bool = eqx.field(static=True)

    def __init__(self, center: Any = 1.0, per_coordinate: bool = False):
        self.center = as_number(center)
        if self.center.ndim:
            raise InputError(f"eg.Thermostat: center must be a number, got an array of shape {self.center.shape}")
        self.per_coordinate = per_coordinate

    def _weight(self, point: Point) -> int:
        return 1 if self.per_coordinate else tree.size(point.slot("position"))

    def _excess(self, point: Point, name: str) -> PyTree:
        return jax.tree.map(lambda leaf: leaf - tree.cast(self.center, leaf), point.slot(name))

    def value(self, point, name):
        excess = self._excess(point, name)
        return tree.dot(excess, excess) * (self._weight(point) / 2)

    def slope(self, point, name):
        return {name: Combination.of(self._excess(point, name)).scaled(self._weight(point))}

    def draw(self, key, point, name):
        position = point.slot("position")
        like = position if self.per_coordinate else jax.ShapeDtypeStruct((), tree.common_dtype(position))
        spread = jnp.sqrt(point.temperature / self._weight(point))
        return jax.tree.map(
            lambda leaf: tree.cast(self.center, leaf) + tree.cast(spread, leaf) * leaf, tree.normal_like(key, like)
        )


class Relativistic(AuxiliaryEnergy):
    """A kinetic energy with a speed limit, sum_i m c^2 sqrt(r_i^2 / (m c)^2 + 1): no coordinate moves faster than c.

    Use it where a few huge gradients would throw a Gaussian momentum far away. Friction on it has no closed form, so
    its integrators are a little less accurate. The slot is drawn exactly, by rejection.

    Args:
        mass: m, a positive number.
        speed: c, a positive number.

    Example:
        >>> import ergodica as eg
        >>> recipe = eg.Recipe(
        ...     energy={"momentum": eg.Relativistic(mass=1.0, speed=2.0)},
        ...     diffusion={"momentum": eg.Constant(1.0)},
        ...     curl={("momentum", "position"): eg.Constant(1.0)},
        ... )

    Reference:
        Lu, Perrone, Hasenclever, Teh and Vollmer (2017), https://arxiv.org/abs/1609.04388.
    """

    mass: Array
    speed: Array

    def __init__(self, mass: Any = 1.0, speed: Any = 1.0):
        for name, number in (("mass", mass), ("speed", speed)):
            _refuse_negative(f"eg.Relativistic: {name}", Constant(number), strict=True)
        self.mass, self.speed = as_number(mass), as_number(speed)

    def _rapidity(self, leaf: Array) -> Array:
        return leaf / tree.cast(self.mass * self.speed, leaf)

    def value(self, point, name):
        rest = self.mass * self.speed**2
        energies = jax.tree.map(lambda r: tree.cast(rest, r) * jnp.sqrt(self._rapidity(r) ** 2 + 1), point.slot(name))
        return tree.dot(energies, tree.ones_like(energies))

    def slope(self, point, name):
        velocity = jax.tree.map(lambda r: r / jnp.sqrt(self._rapidity(r) ** 2 + 1), point.slot(name))
        return {name: Combination.of(velocity).scaled(1 / self.mass)}

    def draw(self, key, point, name):
        leaves, treedef = jax.tree.flatten(point.slot("position"))
        keys = jax.random.split(key, len(leaves))
        rest = self.mass * self.speed**2

        def drawn_like(k, leaf):
            b = tree.cast(rest, leaf) / tree.cast(point.temperature, leaf)
            return tree.cast(self.mass * self.speed, leaf) * hyperbolic(k, b, leaf.shape, leaf.dtype)

        drawn = [drawn_like(k, leaf) for k, leaf in zip(keys, leaves, strict=True)]
        return jax.tree.unflatten(treedef, drawn)


def hyperbolic(key: Array, b: Array, shape: tuple[int, ...], dtype: Any) -> Array:
    """Exact draws of x with density exp(-b sqrt(1 + x^2)), by rejection, accepted two times in three or more.

    With e = sqrt(1 + x^2) - 1 the density is e^-1/2 exp(-b e) (1 + e) / sqrt(2 + e), and
    (1 + e)^2 <= (2 + e) (1/sqrt 2 + sqrt e)^2, so e^-1/2 exp(-b e) (1/sqrt 2 + sqrt e), a mixture of
    Gamma(1/2, b) and Gamma(1, b) with weights sqrt(pi / (2 b)) and 1/b, lies above it everywhere.
    """
    narrow = jnp.sqrt(jnp.pi / (2 * b))
    share = narrow / (narrow + 1 / b)

    def propose(carry):
        key, e, done = carry
        key, k_kind, k_normal, k_exp, k_accept = jax.random.split(key, 5)
        is_narrow = jax.random.uniform(k_kind, shape, dtype) < share
        half = jax.random.normal(k_normal, shape, dtype) ** 2 / 2  # Gamma(1/2, 1)
        candidate = jnp.where(is_narrow, half, jax.random.exponential(k_exp, shape, dtype)) / b
        chance = (1 + candidate) / jnp.sqrt(2 + candidate) / (jnp.sqrt(0.5).astype(dtype) + jnp.sqrt(candidate))
        accepted = jax.random.uniform(k_accept, shape, dtype) < chance
        return key, jnp.where(done, e, candidate), done | accepted

    key, k_sign = jax.random.split(key)
    start = (key, jnp.zeros(shape, dtype), jnp.zeros(shape, bool))
    _, e, _ = jax.lax.while_loop(lambda carry: ~jnp.all(carry[2]), propose, start)
    return jax.random.rademacher(k_sign, shape, dtype) * jnp.sqrt(e * (e + 2))


class Energy(AuxiliaryEnergy):
    """An energy g of your own, for an auxiliary slot of any shape.

    Use it for heavier tails, or a kinetic energy that depends on the position. The integral of exp(-g/T) over the slot
    must not depend on the position; if it is Z(position), add `z.temperature` * log Z to g. `eg.certify` checks that,
    and that `draw` follows the law.

    Args:
        fn: g(z), a scalar function of the phase.
        draw: draw(key, z), an exact draw of the slot from exp(-g/T) with T = `z.temperature`, given the slots
            before it.

    Example:
        >>> import jax, jax.numpy as jnp, ergodica as eg
        >>> logistic = eg.Energy(  # exp(-g/T) is a logistic density with scale T
        ...     lambda z: jnp.sum(z.momentum + 2 * z.temperature * jax.nn.softplus(-z.momentum / z.temperature)),
        ...     lambda key, z: z.temperature * jax.random.logistic(key, z.position.shape),
        ... )
        >>> recipe = eg.Recipe(
        ...     energy={"momentum": logistic},
        ...     diffusion={"momentum": eg.Constant(1.0)},
        ...     curl={("momentum", "position"): eg.Constant(1.0)},
        ... )
    """

    fn: Callable[[View], Array]
    draw_fn: Callable[[Array, View], PyTree]

    def __init__(self, fn: Callable[[View], Array], draw: Callable[[Array, View], PyTree]):
        self.fn, self.draw_fn = fn, draw

    def value(self, point, name):
        return self._scalar(point, name, set())

    def slope(self, point, name):
        noted: set[str] = set()
        jax.eval_shape(lambda phase: self._scalar(point._replace(phase=phase), name, noted), point.phase)
        slots = {slot: point.slot(slot) for slot in point.phase._fields if slot in noted}
        found = jax.grad(lambda slots: self._scalar(point, name, set(), **slots))(slots)
        return {slot: Combination.of(value) for slot, value in found.items()}

    def _scalar(self, point: Point, name: str, noted: set[str], **changed: PyTree) -> Array:
        value = jnp.asarray(self.fn(point.view(noted, potential=jnp.zeros(()), **changed)))
        if "potential" in noted:
            raise InputError(f"energy[{name!r}] reads z.potential: in H = U + g the energy g is of the phase alone")
        if value.shape != ():
            raise InputError(
                f"energy[{name!r}]: fn returned shape {value.shape}, expected one number: end it with jnp.sum(...)"
            )
        return value

    def draw(self, key, point, name):
        try:
            drawn = jax.tree.map(jnp.asarray, self.draw_fn(key, point.view()))
        except (AttributeError, TypeError) as error:
            raise InputError(
                f"energy[{name!r}]: draw was called as draw(key, z), the key first, and failed: {error}"
            ) from error
        for leaf in jax.tree.leaves(drawn):
            if not jnp.issubdtype(leaf.dtype, jnp.floating):
                raise InputError(f"energy[{name!r}]: draw returned dtype {leaf.dtype}, expected floating arrays")
        return drawn


def _inverse(entries: PyTree) -> Array:
    (matrix,) = jax.tree.leaves(entries)
    inverse = jnp.linalg.inv(jnp.asarray(matrix))
    return (inverse + inverse.T) / 2


def _refuse_negative(what: str, constant: Constant, strict: bool) -> None:
    """Refuse negative (strict: or zero) scalars and vectors; matrices are checked in `recipe.init`."""
    for leaf in jax.tree.leaves(constant.entries):
        if tree.is_traced(leaf) or (leaf.ndim == 2 and leaf.shape[0] == leaf.shape[1]):
            continue
        least = np.asarray(leaf).min()  # not leaf.min(): inside jit that has no value
        if not (least > 0 if strict else least >= 0):
            raise InputError(f"{what} must be {'positive' if strict else 'at least 0'}, got {float(least):g}")
