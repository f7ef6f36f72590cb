"""Momentum resampling, as a wrapper around any integrator, at the temperature of the run."""

from typing import Any, NamedTuple

import equinox as eqx
import jax
from jaxtyping import Array

from ergodica.errors import InputError
from ergodica.integrators.base import Integrator, Setting
from ergodica.phase import Phase, Point
from ergodica.recipe import Recipe


class Draws(NamedTuple):
    """The inner integrator's random numbers and a key for the momentum."""

    inner: Any
    key: Array


class Resampled(Integrator):
    """Every `every` steps the momentum is drawn anew from exp(-g/T), given the other slots.

    Leaves invariant: what the inner integrator does; drawing a slot from its conditional law changes no law.
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
        return Draws(self.inner.draw(recipe, phase, inner, setting), momentum)

    def probe(self, recipe, phase, draws, setting):
        is_due = setting.number % self.every == 0
        phase = jax.lax.cond(is_due, lambda z: resample(recipe, z, draws.key, setting), lambda z: z, phase)
        return self.inner.probe(recipe, phase, draws.inner, setting)

    def finish(self, recipe, phase, evaluations, draws, setting, noise):
        return self.inner.finish(recipe, phase, evaluations, draws.inner, setting, noise)


def resample(recipe: Recipe, phase: Phase, key: Array, setting: Setting) -> Phase:
    """The phase with every momentum drawn anew."""
    keys = jax.random.split(key, len(recipe.momenta))
    for k, name in zip(keys, recipe.momenta, strict=True):
        point = Point(phase, temperature=setting.temperature)
        phase = phase._replace(**{name: recipe.energy[name].draw(k, point, name)})
    return phase
