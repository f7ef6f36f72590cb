"""How much work a step is, by counting what its trace does: the same number on every machine, unlike a clock."""

import functools
import math
from typing import Any

import jax
import jax.numpy as jnp

from ergodica.tree import Layout
from ergodica.verify.audit.steps import Step
from ergodica.verify.audit.traces import inside

# In units of one multiplication; random bits and special functions as measured on one core, to a factor of two.
HEAVY = {"random_bits": 60.0, "threefry2x32": 60.0, "erf_inv": 10.0, "exp": 5.0, "log": 5.0, "pow": 10.0}
HEAVY |= dict.fromkeys(("cholesky", "lu", "qr", "triangular_solve", "householder_product"), 40.0)
HEAVY |= dict.fromkeys(("eigh", "svd"), 150.0)
MULTIPLY_ADD = 0.2  # in a matrix product
TRACED = 64  # chains side by side in the trace that is counted
UNKNOWN_LENGTH = 10  # turns that a loop of unknown length is taken for


def work_of_gradient(target: Any, layout: Layout) -> float:
    """Of one evaluation of potential and gradient."""
    x = jax.ShapeDtypeStruct((layout.size,), jnp.float64)
    return _work(jax.make_jaxpr(lambda x: target.evaluate(layout.unravel(x)))(x).jaxpr)


@functools.lru_cache(maxsize=16)
def work(step: Step) -> float:
    """Of one step of one chain, for each number of the position; about 75 for Langevin."""
    # vmapped, as it will run: what does not depend on the chain is done once for all
    keys = jax.random.split(jax.random.key(0), TRACED)
    states = jax.eval_shape(jax.vmap(step.start), keys, jax.ShapeDtypeStruct((TRACED, step.dim), jnp.float64))
    trace = jax.make_jaxpr(jax.vmap(step.move, (0, 0, None)))(keys, states, jnp.asarray(1.0, jnp.float64))
    return max(_work(trace.jaxpr) / (TRACED * step.dim), 1.0)


def _work(jaxpr: Any) -> float:
    total = 0.0
    for equation in jaxpr.eqns:
        inner = [_work(getattr(x, "jaxpr", x)) for x in inside(equation.params)]
        name = equation.primitive.name
        if name == "scan":
            total += equation.params["length"] * sum(inner)
        elif name == "while":
            total += UNKNOWN_LENGTH * sum(inner)
        elif name == "cond":
            total += max(inner)
        elif inner:
            total += sum(inner)
        else:
            total += _alone(equation, name)
    return total


def _alone(equation: Any, name: str) -> float:
    size = sum(math.prod(var.aval.shape) for var in equation.outvars)
    if name == "dot_general":
        (contracted, _), _ = equation.params["dimension_numbers"]
        size *= MULTIPLY_ADD * math.prod(equation.invars[0].aval.shape[i] for i in contracted)
    return size * HEAVY.get(name, 1.0)
