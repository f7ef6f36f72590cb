"""Momentum resampling, as a wrapper around any integrator, at the temperature of the run."""

from typing import Any, NamedTuple

import equinox as eqx
import jax
from jaxtyping import Array

from ergodica.errors import InputError
from ergodica.integrators.base import Integrator, Setting
from ergodica.phase import Phase, Point
from ergodica.recipe import Recipe


class ResampledDraws(NamedTuple):
    """The inner integrator's random numbers and a key for the momentum."""

    inner: Any
    key: Array


class Resampled(Integrator):
    """Another integrator, with a fresh momentum from exp(-g/T) at every N-th step.

    Use it where friction is weak and a chain keeps circling at one energy. `eg.sample(..., resample_every=N)` does the
    same. Under strong friction it changes nothing worth having.

    Leaves invariant: what the inner integrator does; drawing a slot from its conditional law changes no law.

    Args:
        inner: `eg.Splitting()` or `eg.Euler()`.
        every: N.

    Example:
        >>> import ergodica as eg
        >>> integrator = eg.Resampled(eg.Splitting(), every=50)
        >>> kernel = eg.Kernel(eg.gallery.gaussian(2), eg.sghmc(friction=0.1), integrator)
    """

    inner: Integrator
    every: int = eqx.field(static=True)

    def __check_init__(self):
        if self.every < 1:
            raise InputError(f"momentum resampling must happen every 1 or more steps, got {self.every}")

    def refusal(self, recipe, phase):
        if not recipe.momenta:
            return "there is no momentum to resample: this recipe moves the position without one"
        return self.inner.refusal(recipe, phase)

    def draw(self, recipe, phase, key, setting):
        inner, momentum = jax.random.split(key)
        return ResampledDraws(self.inner.draw(recipe, phase, inner, setting), momentum)

    def probe(self, recipe, phase, draws, setting):
        is_due = setting.number % self.every == 0
        phase = jax.lax.cond(is_due, lambda z: resample(recipe, z, draws.key, setting), lambda z: z, phase)
        return self.inner.probe(recipe, phase, draws.inner, setting)

    def finish(self, recipe, phase, evaluations, draws, setting, noise):
        return self.inner.finish(recipe, phase, evaluations, draws.inner, setting, noise)


def resample(recipe: Recipe, phase: Phase, key: Array, setting: Setting) -> Phase:
    """The phase with a fresh draw of every momentum."""
    keys = jax.random.split(key, len(recipe.momenta))
    for k, name in zip(keys, recipe.momenta, strict=True):
        point = Point(phase, temperature=setting.temperature)
        phase = phase._replace(**{name: recipe.energy[name].draw(k, point, name)})
    return phase
