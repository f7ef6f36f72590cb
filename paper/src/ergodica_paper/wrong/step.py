"""One update rule as data: a discrete step, its state, and the potential and temperature that show what is wrong."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import jax
import jax.numpy as jnp

from ergodica.targets import gallery
from ergodica.verify.audit.audit_step import audit
from ergodica.verify.audit.report import Audit

RuleFamily = tuple["UpdateRule", ...]  # a right step first, then the wrong ones made from it


def with_momentum(key, position):
    """The state (position, momentum) with a standard momentum."""
    return position, jax.random.normal(key, position.shape, position.dtype)


def first(state):
    """The position of a state that begins with it."""
    return state[0]


@dataclass(frozen=True)
class UpdateRule:
    """build(potential, temperature) -> step(key, state, step_size) -> state, which claims exp(-potential/temperature).

    potential is a jnp function of a flat vector of any length, and what build makes of it is plain JAX unless
    `numpy` says otherwise: that one knows its potential, the standard Gaussian's. init(key, position) -> state and
    read(state) -> position, where it has a state of its own. `source` says whose slip it is. `twin` is the name of the
    right step in `RIGHT_STEPS`. `temperature`: where the slip can be seen; one that is ignored cannot be seen at 1.
    `effort`: of an audit that sees the slip, in the plane.
    """

    name: str
    build: Callable
    source: str
    twin: str = ""
    init: Callable | None = None
    read: Callable | None = None
    temperature: float = 1.0
    effort: float = 0.05
    numpy: bool = False

    def audit(self, dim: int = 2, **settings) -> Audit:
        """`eg.audit` on the standard Gaussian in `dim` dimensions."""
        step = self.build(lambda position: 0.5 * jnp.sum(position**2), self.temperature)
        options = {"temperature": self.temperature, "effort": self.effort, "progress": False} | settings
        return audit(step, gallery.gaussian(dim), init=self.init, read=self.read, **options)

    def but(self, name: str, source: str, build: Callable, **changes) -> UpdateRule:
        """A wrong step made from this right one."""
        return replace(self, name=name, source=source, build=build, twin=self.name, **changes)


def normal_like(key, values):
    return jax.random.normal(key, values.shape, values.dtype)


def leading(values, factor):
    """Ones, but `factor` for the first coordinate."""
    return jnp.ones_like(values).at[0].set(factor)
