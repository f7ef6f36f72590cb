"""The noise a step injects, less what the stochastic gradient already brings: N(0, S - F V F^T).

A step with exact gradients injects N(0, S). A minibatch adds an error n to the gradient, with covariance V, which
reaches the phase as F n. The two are independent, so their covariances add, and injecting S - F V F^T makes the sum S
again. To first order in the step nothing more of n matters than its covariance.

For Euler S = 2 eps T D and F = eps (D + Q)[:, position], so that S - F V F^T = eps (2 T D - eps B) (paper, Eq. 8; with
temperature, docs/explanation/mathematics.md); the splittings have an S and an F of their own. Noise can be added but
not taken away: where the difference is not PSD it is cut at zero, and the cut is counted.
"""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, PyTree

from ergodica import tree
from ergodica.errors import InputError
from ergodica.operators import DenseOperator, Operator, ScalarOperator, entrywise, is_entrywise, product, row_layout
from ergodica.phase import Phase
from ergodica.tree import Layout

JOINT_LIMIT = 1_000  # numbers up to which noise that enters several slots is compensated jointly, as one matrix


class StepReport(NamedTuple):
    """What an integrator reports of a step: directions of noise cut at zero, the largest step without a cut; and if
    the step has friction between two equal kicks, the phase right after it, and the mean of the momenta on both sides
    of it."""

    cuts: Array
    largest_step: Array
    after_friction: Phase = None
    mean_momentum: PyTree = None


def no_cuts(dtype: Any) -> StepReport:
    return StepReport(jnp.zeros((), jnp.int32), jnp.asarray(jnp.inf, dtype))


def inject(variance: Operator, through: Operator, noise: Operator, normal: PyTree) -> tuple[PyTree, Array]:
    """N(0, S - F V F^T) from standard normals, cut at zero, and the number of directions cut."""
    if is_entrywise(variance, through, noise):
        left = entrywise(lambda s, f, v: s - f * f * v, variance, through, noise)
        spread = entrywise(lambda x: jnp.sqrt(jnp.maximum(x, 0)), left)
        return spread.apply(normal), _count(entrywise(lambda x: x < 0, left))
    gradient_part = product(product(through, noise), through.transpose())
    layout = row_layout(through)
    spread, cuts = cut_root(variance.to_dense() - gradient_part.to_dense())
    return DenseOperator(spread, layout, layout).apply(normal), cuts


def cut_root(matrix: Array) -> tuple[Array, Array]:
    """The root of a symmetric matrix with its negative eigenvalues cut at zero, and how many there were."""
    values, vectors = jnp.linalg.eigh(matrix)
    rounding = 10 * len(matrix) * jnp.finfo(matrix.dtype).eps * jnp.max(jnp.abs(values))
    spread = vectors * jnp.sqrt(jnp.maximum(values, 0))[None, :]
    return spread @ vectors.T, jnp.sum(values < -rounding, dtype=jnp.int32)


def _count(flags: Operator) -> Array:
    """The number of coordinates flagged; a scalar operator has one flag for all."""
    leaves = jax.tree.leaves(flags.value)  # pyright: ignore[reportAttributeAccessIssue]
    total = sum((jnp.sum(flag, dtype=jnp.int32) for flag in leaves), start=jnp.zeros((), jnp.int32))
    return total * row_layout(flags).size if isinstance(flags, ScalarOperator) else total


def largest_step(diffusion: Operator, through: Operator, noise: Operator, temperature: Any) -> Array:
    """The largest eps with 2 T D - eps B PSD, B = F V F^T: 2 T / lambda_max(D^+1/2 B D^+1/2).

    In the range of D, multiply 2 T D - eps B by D^+1/2 from both sides: 2 T - eps D^+1/2 B D^+1/2 must be PSD. Outside,
    D has nothing to subtract B from, and no step is small enough: 0 where B leaves the range of D.
    """
    if is_entrywise(diffusion, through, noise):

        def entry(d, f, v):
            b = f * f * v
            ratio = 2 * d / jnp.where(b > 0, b, jnp.ones_like(b))
            return jnp.min(jnp.where(b > 0, ratio, jnp.inf))

        steps = entrywise(entry, diffusion, through, noise).value  # pyright: ignore[reportAttributeAccessIssue]
        least = jnp.min(jnp.stack([jnp.asarray(x, row_layout(through).dtype) for x in jax.tree.leaves(steps)]))
        return tree.cast(temperature, least) * least
    b = product(product(through, noise), through.transpose()).to_dense()
    return largest_step_dense(diffusion.to_dense(), b, temperature)


def largest_step_dense(d: Array, b: Array, temperature: Any) -> Array:
    values, vectors = jnp.linalg.eigh(d)
    rounding = 10 * len(d) * jnp.finfo(d.dtype).eps
    inside = values > rounding * jnp.max(jnp.abs(values))
    inner = vectors.T @ b @ vectors
    weight = jnp.where(inside, 1 / jnp.sqrt(jnp.where(inside, values, jnp.ones_like(values))), 0)
    top = jnp.max(jnp.linalg.eigvalsh(weight[:, None] * inner * weight[None, :]))
    leaves_range = jnp.any(~inside & (jnp.diagonal(inner) > rounding * jnp.trace(b)))
    step = jnp.where(top > 0, 2 * tree.cast(temperature, d) / top, jnp.inf)
    return jnp.where(leaves_range, jnp.zeros_like(step), step)


def joint_layout(parts: dict[str, PyTree]) -> Layout:
    """The layout of several slots taken as one, where gradient noise enters more than one of them."""
    layout = Layout.of(parts)
    if layout.size > JOINT_LIMIT:
        raise InputError(
            f"gradient noise enters the slots {', '.join(parts)} together, {layout.size} numbers: compensating for it "
            f"needs one dense matrix, which is done up to {JOINT_LIMIT}; run with gradient_noise=None and smaller steps"
        )
    return layout
