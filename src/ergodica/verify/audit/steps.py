"""A black-box step as a function that runs many chains: in JAX traced once, in NumPy called in a loop.

Positions are flat vectors here, in the order of `ravel_pytree`; only the user's functions see his pytrees.
"""

import functools
import inspect
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, PyTree

from ergodica.errors import InputError
from ergodica.tree import Layout


class Step(NamedTuple):
    """The user's three functions, on flat positions: start(key, vector) -> state, move(key, state, step size) -> state,
    place(state) -> vector. `is_jax`: they can be traced. `is_bare`: the state is the position and nothing else."""

    start: Callable[[Any, Any], Any]
    move: Callable[[Any, Any, Any], Any]
    place: Callable[[Any], Any]
    layout: Layout
    is_jax: bool
    is_bare: bool

    @property
    def dim(self) -> int:
        return self.layout.size


def as_step(
    step: Callable[..., Any],
    init: Callable[..., Any] | None,
    read: Callable[[Any], PyTree] | None,
    position: PyTree,
    step_size: float,
) -> Step:
    """The user's functions, tried out: in JAX with float64, then in the position's own dtypes, then in NumPy."""
    for name, function in (("step", step), ("init", init), ("read", read)):
        if function is not None and not callable(function):
            raise InputError(f"{name} is {function!r}: expected a function")
    own = Layout.of(position)
    wide = own._replace(dtypes=(jnp.dtype("float64"),) * len(own.dtypes))
    # A vector of its own type: what the user's code does with NumPy's arrays and JAX's differs.
    trials = [_in_jax(step, init, read, wide), _in_jax(step, init, read, own), _in_numpy(step, init, read, wide)]
    vector = np.asarray(own.ravel(jax.tree.map(jnp.asarray, position)), float)
    reasons = []
    for trial in trials:
        try:
            _try(trial, vector, step_size)
        except InputError:
            raise
        except Exception as error:  # the user's code: anything may come out of it
            reasons.append(error)
        else:
            return _unless_baked(trial, trials[-1], vector, step_size) if trial.is_jax else trial
    raise InputError(_refusal(reasons, init is not None))


def _refusal(reasons: list[Exception], has_state: bool) -> str:
    call = "step(key, state, step_size)" if has_state else "step(key, position, step_size)"
    jax_way, numpy_way = (f"{type(e).__name__}: {' '.join(str(e).split())[:160]}" for e in (reasons[0], reasons[-1]))
    return f"{call} raised, traced by JAX: {jax_way}; called with NumPy arrays and a Generator as key: {numpy_way}"


def _unless_baked(traced: Step, called: Step, vector: np.ndarray, step_size: float) -> Step:
    """NumPy's own random numbers pass through JAX's tracing as constants: then the step must be called, not traced."""
    state = jax.eval_shape(traced.start, jax.random.key(0), vector)
    jaxpr = jax.make_jaxpr(traced.move)(jax.random.key(0), state, step_size).jaxpr
    if any(jaxpr.invars[0] is var for equation in jaxpr.eqns for var in equation.invars):
        return traced
    try:
        rng = np.random.default_rng(0)
        ends = [called.place(called.move(rng, called.start(rng, vector), step_size)) for _ in range(2)]
    except Exception:  # it is a JAX step after all, one that does not look at its key
        return traced
    return traced if np.array_equal(*ends) else called


def _try(step: Step, vector: np.ndarray, step_size: float) -> None:
    if step.is_jax:

        def once(key: Array, x: Array, h: Array) -> tuple[Any, Any, Array]:
            state = step.start(key, x)
            after = step.move(key, state, h)
            return state, after, step.place(after)

        state, after, end = jax.eval_shape(once, jax.random.key(0), vector, jnp.asarray(step_size, step.layout.dtype))
    else:
        rng = np.random.default_rng(0)
        state = step.start(rng, vector)
        after = step.move(rng, state, step_size)
        end = step.place(after)
    if end.shape != (step.dim,):
        raise InputError(f"after a step the position has shape {end.shape} when flat, expected ({step.dim},)")


def _starter(init: Callable[..., Any] | None) -> Callable[[Any, Any], Any]:
    """init(position), or init(key, position)."""
    if init is None:
        return lambda key, position: position
    try:
        parameters = inspect.signature(init).parameters.values()
    except (TypeError, ValueError):
        parameters = []
    needed = [p for p in parameters if p.default is p.empty and p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    if len(needed) > 2:
        raise InputError(f"init needs {len(needed)} arguments: expected init(position) or init(key, position)")
    return (lambda key, position: init(position)) if len(needed) == 1 else init


def _reader(read: Callable[[Any], PyTree] | None, has_state: bool) -> Callable[[Any], PyTree]:
    def position_of(state: Any) -> PyTree:
        if not hasattr(state, "position"):
            raise InputError(
                f"where is the position in this state ({type(state).__name__})? Give read=, as read=lambda s: s[0]"
            )
        return state.position

    if read is not None:
        return read
    return position_of if has_state else lambda state: state


def _in_jax(step: Any, init: Any, read: Any, layout: Layout) -> Step:
    try:
        return _in_jax_once(step, init, read, layout)
    except TypeError:  # functions that cannot be hashed
        return _in_jax_once.__wrapped__(step, init, read, layout)


@functools.lru_cache(maxsize=16)  # the same functions again, with another seed, need not be compiled again
def _in_jax_once(step: Any, init: Any, read: Any, layout: Layout) -> Step:
    begin, reader = _starter(init), _reader(read, init is not None)

    def start(key: Array, vector: Array) -> Any:
        return jax.tree.map(_strong, begin(key, layout.unravel(vector)))

    def move(key: Array, state: Any, step_size: Array) -> Any:
        after = step(key, state, jnp.asarray(step_size, layout.dtype))
        return _like(after, state)

    def place(state: Any) -> Array:
        return _flat(reader(state), layout)

    return Step(start, move, place, layout, is_jax=True, is_bare=init is None)


def _in_numpy(step: Any, init: Any, read: Any, layout: Layout) -> Step:
    begin, reader = _starter(init), _reader(read, init is not None)

    def start(key: np.random.Generator, vector: np.ndarray) -> Any:
        leaves, at = [], 0
        for shape in layout.shapes:
            count = int(np.prod(shape))
            leaves.append(vector[at : at + count].reshape(shape).copy())
            at += count
        return begin(key, jax.tree.unflatten(layout.treedef, leaves))

    def place(state: Any) -> np.ndarray:
        # a copy: a step may move its arrays in place
        return np.concatenate([np.ravel(leaf) for leaf in _matching(reader(state), layout)]).astype(float)

    def move(key: np.random.Generator, state: Any, step_size: float) -> Any:
        after = step(key, state, step_size)
        # a step that works in place returns nothing
        return state if after is None and init is not None else after

    return Step(start, move, place, layout, is_jax=False, is_bare=init is None)


def _strong(leaf: Any) -> Any:
    """An array of its dtype for good: a loop refuses a state whose weak types turn strong."""
    array = jnp.asarray(leaf)
    return array if jnp.issubdtype(array.dtype, jax.dtypes.prng_key) else jnp.asarray(leaf, array.dtype)


def _like(after: Any, before: Any) -> Any:
    """`after` in the dtypes of `before`; refused where structure or shapes differ."""
    got, expected = jax.tree.structure(after), jax.tree.structure(before)
    if got != expected:
        hint = ""
        if isinstance(after, tuple) and after and jax.tree.structure(after[0]) == expected:
            hint = ": it returns (state, information)? Then give lambda key, state, h: step(key, state, h)[0]"
        raise InputError(f"step returned {got}, expected what it was given, {expected}{hint}")
    pairs = zip(jax.tree.leaves(after), jax.tree.leaves(before), strict=True)
    cast = []
    for new, old in pairs:
        new = jnp.asarray(new)
        if new.shape != old.shape:
            raise InputError(f"step returned an array of shape {new.shape}, expected {old.shape} as it was given")
        cast.append(new if new.dtype == old.dtype else new.astype(old.dtype))
    return jax.tree.unflatten(expected, cast)


def _matching(position: PyTree, layout: Layout) -> list[Any]:
    leaves = jax.tree.leaves(position)
    shapes = tuple(np.shape(leaf) for leaf in leaves)
    if shapes != layout.shapes:
        raise InputError(f"the position after a step has arrays of shapes {shapes}, expected {layout.shapes}")
    return leaves


def _flat(position: PyTree, layout: Layout) -> Array:
    leaves = _matching(position, layout)
    return jnp.concatenate([jnp.ravel(jnp.asarray(leaf)).astype(jnp.float64) for leaf in leaves])
