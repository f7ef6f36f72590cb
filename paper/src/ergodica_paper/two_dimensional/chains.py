"""The samplers under comparison, and one compiled function for each that runs many chains of it."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import ergodica as eg
from ergodica_paper.style import LABELS
from ergodica_paper.two_dimensional import density


@dataclass(frozen=True)
class Arm:
    """A sampler with the integrator of its steps.

    Args:
        recipe: from its friction, where there is one to choose.
    """

    sampler: str
    integrator: str
    recipe: Callable[[Any], eg.Recipe]
    has_friction: bool = False

    @property
    def label(self) -> str:
        return f"{LABELS[self.sampler]}, {self.integrator}"


def _gsgrhmc(friction: Any) -> eg.Recipe:
    # D grows with the scale and Q with its root: their ratio, a friction in the metric's own time, with the root too
    return eg.gsgrhmc(scale=density.SCALE * friction**2, offset=density.OFFSET)


def _sgrld(_: Any) -> eg.Recipe:
    return eg.sgrld(eg.potential_scaled(density.SCALE, density.OFFSET))


def arms() -> tuple[Arm, ...]:
    """Euler's step for all four, as in the paper, and the library's splitting where there is a momentum.

    A size of D alone, in SGLD and SGRLD, is the unit of the step size: there is nothing to choose.
    """
    return (
        Arm("sgld", "Euler", lambda _: eg.sgld()),
        Arm("sgrld", "Euler", _sgrld),
        Arm("sghmc", "Euler", lambda friction: eg.sghmc(friction=friction), True),
        Arm("gsgrhmc", "Euler", _gsgrhmc, True),
        Arm("sghmc", "splitting", lambda friction: eg.sghmc(friction=friction), True),
        Arm("gsgrhmc", "splitting", _gsgrhmc, True),
    )


def compiled(arm: Arm, length: int) -> Callable[..., np.ndarray]:
    """(step size, friction, starts (n, 2), seed) -> positions (n, length, 2); compiled once for one n.

    Step size and friction are numbers, or one for each chain.
    """
    target = eg.Density(density.potential)

    def chain(step_size, friction, start, key):
        integrator = eg.Euler() if arm.integrator == "Euler" else eg.Splitting()
        kernel = eg.Kernel(target, arm.recipe(friction), integrator)
        first, others = jax.random.split(key)

        def advance(state, number):
            state, _ = kernel.step(state, jax.random.fold_in(others, number), step_size)
            return state, state.phase.position

        return jax.lax.scan(advance, kernel.init(start, first), jnp.arange(length))[1]

    run = jax.jit(jax.vmap(chain))

    def sample(step_size: Any, friction: Any, starts: np.ndarray, seed: int) -> np.ndarray:
        n = len(starts)
        sizes, frictions = (jnp.asarray(np.broadcast_to(x, n), jnp.float32) for x in (step_size, friction))
        keys = jax.random.split(jax.random.key(seed), n)
        return np.asarray(run(sizes, frictions, jnp.asarray(starts, jnp.float32), keys))

    return sample
