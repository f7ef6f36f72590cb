"""blackjax's stochastic-gradient kernels for `eg.audit` and `eg.audit_family`, with exact gradients.

    from ergodica.interop import blackjax as adapters
    eg.audit_family(adapters.sghmc(alpha=0.5))

`sgld`, `sghmc` and `sgnht` each return `build(potential, temperature)`; `step` takes any other kernel of theirs.
"""

from collections.abc import Callable
from typing import Any

import jax
from jaxtyping import Array, PyTree

try:
    import blackjax
except ImportError as missing:
    raise ImportError("blackjax is not installed: pip install blackjax") from missing

Potential = Callable[[PyTree], Array]
Step = Callable[[Array, Any, Array], Any]  # (key, state, step size) -> state
Build = Callable[[Potential, float], Step]


def sgld() -> Build:
    """`blackjax.sgld`: its state is the position."""

    def build(potential: Potential, temperature: float) -> Step:
        return step(blackjax.sgld(gradient_of(potential)).step, temperature)

    return build


def sghmc(num_integration_steps: int = 10, alpha: float = 0.01, beta: float = 0.0) -> Build:
    """`blackjax.sghmc` with its own defaults: its state is the position, with a fresh momentum at every step."""

    def build(potential: Potential, temperature: float) -> Step:
        kernel = blackjax.sghmc(gradient_of(potential), num_integration_steps, alpha, beta)
        return step(kernel.step, temperature)

    return build


def sgnht(alpha: float = 0.01, beta: float = 0.0) -> Callable[[Potential, float], tuple[Callable, Step, Callable]]:
    """`blackjax.sgnht` with its own defaults. It has a state of its own: build returns (init, step, read)."""

    def build(potential: Potential, temperature: float) -> tuple[Callable, Step, Callable]:
        kernel = blackjax.sgnht(gradient_of(potential), alpha, beta)
        return (
            lambda key, position: kernel.init(position, key),
            step(kernel.step, temperature),
            lambda state: state.position,
        )

    return build


def step(kernel_step: Callable, temperature: float = 1.0, minibatch: PyTree = None) -> Step:
    """A blackjax step(key, state, minibatch, step_size, temperature) as an audit calls it, (key, state, step_size)."""
    return lambda key, state, step_size: kernel_step(key, state, minibatch, step_size, temperature)


def gradient_of(potential: Potential) -> Callable[[PyTree, PyTree], PyTree]:
    """The gradient of the log density -U as blackjax asks for it, with a minibatch that is ignored."""
    uphill = jax.grad(lambda position: -potential(position))
    return lambda position, minibatch: uphill(position)
