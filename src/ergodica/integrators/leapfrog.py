"""Leapfrog with a Metropolis test: full-data HMC, exact at every step size."""

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, PyTree

from ergodica import tree
from ergodica.energy import Energy
from ergodica.errors import InputError
from ergodica.integrators.base import Setting
from ergodica.integrators.reflection import inverse_mass_of, reflect
from ergodica.operators import act
from ergodica.phase import Phase, Point
from ergodica.recipe import Recipe
from ergodica.targets.base import Target
from ergodica.tree import Combination


class Leapfrog(eqx.Module):
    """Hamiltonian trajectories with a Metropolis test: a fresh momentum, `steps` leapfrog steps, accepted or not.

    Use it with `eg.hmc` and all the data, as the exact reference; `eg.sample` chooses it by itself for D = 0. It does
    not take batches: the test needs the potential of all data.

    Leaves invariant: exp(-H/T), exactly.

    Args:
        steps: leapfrog steps in a trajectory.
        jitter: each trajectory's step size is drawn within this share of the given one. Without it, a direction of a
            Gaussian target whose period is the length of a trajectory would come back to where it was every time.

    Example:
        >>> import jax, ergodica as eg
        >>> kernel = eg.Kernel(eg.gallery.gaussian(2), eg.hmc(), integrator=eg.Leapfrog(steps=4))
        >>> state = kernel.init(kernel.target.init, jax.random.key(0))
        >>> state, info = kernel.step(state, jax.random.key(1), step_size=0.1)
        >>> bool(info.accepted)
        True

    Reference:
        Duane, Kennedy, Pendleton and Roweth (1987), https://doi.org/10.1016/0370-2693(87)91197-X; Neal (2011),
        https://arxiv.org/abs/1206.1901.
    """

    steps: int = eqx.field(static=True, default=16)
    jitter: float = eqx.field(static=True, default=0.2)

    def __check_init__(self):
        if self.steps < 1 or not 0 <= self.jitter < 1:
            raise InputError(f"eg.Leapfrog needs steps >= 1 and 0 <= jitter < 1, got {self.steps} and {self.jitter:g}")

    def refusal(self, recipe: Recipe, phase: Phase) -> str | None:
        """Why a trajectory would not be reversible, with advice; None if it is."""
        point = Point(phase, jax.ShapeDtypeStruct((), tree.common_dtype(phase.position)))
        if recipe.diffusion:
            return "eg.Leapfrog is for D = 0, but this recipe has noise of its own: use eg.Splitting() or eg.Euler()"
        if len(recipe.momenta) != 1 or len(recipe.curl) != 1 or len(recipe.energy) != 1:
            return "eg.Leapfrog needs one momentum, coupled to the position alone: give the recipe a diffusion"
        (key,) = recipe.curl
        if recipe.reads(point, key):
            return (
                "with a curl that depends on the phase leapfrog is not reversible, and the Metropolis test would be "
                "wrong: give the recipe a diffusion (eg.sgrhmc)"
            )
        (name,) = recipe.momenta
        energy = recipe.energy[name]
        if isinstance(energy, Energy) and set(energy.gradient(point, name)) - {name}:
            return "eg.Leapfrog needs a kinetic energy that does not depend on the position"
        return None

    def step(
        self, recipe: Recipe, target: Target, phase: Phase, key: Array, setting: Setting
    ) -> tuple[Phase, Array, PyTree, Array]:
        """The phase after one trajectory, the potential and gradient there, and whether it was accepted."""
        (name,) = recipe.momenta
        k_momentum, k_jitter, k_accept = jax.random.split(key, 3)
        start = recipe.draw_auxiliaries(phase.position, k_momentum, setting.temperature)
        dtype = tree.common_dtype(phase.position)
        wobble = 1 + self.jitter * jax.random.uniform(k_jitter, (), dtype, -1, 1)
        step_size = jnp.asarray(setting.step_size, dtype) * wobble
        curl = recipe.curl_block(recipe.curl_at(Point(start)), name, "position")

        def kick(z: Phase, gradient: PyTree) -> Phase:
            kicked = Combination.of(getattr(z, name)) + act(curl, Combination.of(gradient)).scaled(-step_size / 2)
            return z._replace(**{name: kicked.value()})

        def leap(_, carry: tuple[Phase, Array, PyTree]) -> tuple[Phase, Array, PyTree]:
            z = kick(carry[0], carry[2])
            velocity = recipe.energy[name].slope(Point(z), name)[name]
            moved = Combination.of(z.position) + act(curl.transpose(), velocity).scaled(step_size)
            position, momentum = reflect(
                setting.domain, moved.value(), getattr(z, name), curl, inverse_mass_of(recipe, z)
            )
            potential, gradient = target.evaluate(position)
            return kick(z._replace(position=position, **{name: momentum}), gradient), potential, gradient

        def energy(z: Phase, potential: Array) -> Array:
            return potential + recipe.auxiliary_energy(Point(z, temperature=setting.temperature))

        # kick first: far from the mode the error then lowers the energy, and a chain that starts there is not stuck
        potential, gradient = target.evaluate(start.position)
        end, new_potential, new_gradient = jax.lax.fori_loop(0, self.steps, leap, (start, potential, gradient))
        rise = energy(end, new_potential) - energy(start, potential)
        # an end at which the potential is not defined, or infinite, is refused
        chance = jnp.exp(-rise / tree.cast(setting.temperature, rise))
        accepted = jnp.isfinite(rise) & (jax.random.uniform(k_accept, (), dtype) < chance)
        ends, starts = (end, new_potential, new_gradient), (start, potential, gradient)
        phase, potential, gradient = jax.tree.map(lambda a, b: jnp.where(accepted, a, b), ends, starts)
        return phase, potential, gradient, accepted
