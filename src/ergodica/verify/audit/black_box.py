"""A black-box step as a function that runs many chains: in JAX traced once, in NumPy called in a loop; and its cost.

Positions are flat vectors here, in the order of `ravel_pytree`; only the user's functions see their pytrees.
"""

import functools
import inspect
import itertools
import math
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, PyTree

from ergodica.errors import InputError
from ergodica.host import tracing
from ergodica.targets import Target
from ergodica.tree import Layout

KEY_NAMES = ("key", "rng", "seed", "generator")  # what an argument that holds one is called, or a part of it
MOST_TRACED = 16  # steps whose traces are kept

STATE_HINT = "does it take a state of its own? Then give init= and read="
NOTHING_RETURNED = "step returned nothing, expected the position: is there a return?"

# Work is counted in units of one multiplication; random bits and special functions as measured on one core, to a
# factor of two.
HEAVY_WORK = {"random_bits": 60.0, "threefry2x32": 60.0, "erf_inv": 10.0, "exp": 5.0, "log": 5.0, "pow": 10.0}
HEAVY_WORK |= dict.fromkeys(("cholesky", "lu", "qr", "triangular_solve", "householder_product"), 40.0)
HEAVY_WORK |= dict.fromkeys(("eigh", "svd"), 150.0)
MULTIPLY_ADD = 0.2  # in a matrix product
CHAINS_COUNTED = 64  # side by side in the trace that is counted
UNKNOWN_LENGTH = 10  # turns that a loop of unknown length is taken for

_TRACED: dict[Any, tuple[str, "Step"]] = {}


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
    ways = [_in_jax(step, init, read, wide), _in_jax(step, init, read, own), _in_numpy(step, init, read, wide)]
    vector = np.asarray(own.ravel(jax.tree.map(jnp.asarray, position)), float)
    reasons = []
    for way in ways:
        try:
            trace = _try(way, vector, step_size)
        except InputError:
            raise
        except Exception as error:  # the user's code: anything may come out of it
            reasons.append(error)
        else:
            found = way if trace is None else _unless_baked(way, ways[-1], vector, step_size)
            return _compiled((step, init, read), found, trace) if found.is_jax else _guarded(found)
    raise InputError(_refusal(reasons, init))


def one_line(error: Exception) -> str:
    """An exception from the user's code, as words."""
    return f"{type(error).__name__}: {' '.join(str(error).split())[:160]}"


def _refusal(reasons: list[Exception], init: Callable[..., Any] | None) -> str:
    after = "step(key, state, step_size), after init(key, position) or init(position),"
    call = "step(key, position, step_size)" if init is None else after
    said = (
        f"{call} raised, traced by JAX: {one_line(reasons[0])}; called with NumPy arrays and a Generator as key: "
        f"{one_line(reasons[-1])}"
    )
    return said if init is not None or not all(map(_misses_a_state, reasons)) else f"{said}; {STATE_HINT}"


def _misses_a_state(error: Exception) -> bool:
    """Whether it may come of an array where a state was expected: state.position, state["x"], x, r = state."""
    return isinstance(error, AttributeError | IndexError | KeyError | TypeError) or "unpack" in str(error)


def _compiled(functions: tuple[Any, ...], fresh: Step, trace: Any) -> Step:
    """The step that was made of these functions before, which is compiled already, if they still do the same: what
    they read from objects, closures and globals may have changed."""
    # with addresses in the text: functions that differ by them alone, as host callbacks do, are not the same
    name, mark = (*functions, fresh.layout), tracing.digest(str(trace.jaxpr), *tracing.constants(trace))
    try:
        before = _TRACED.pop(name, None)
    except TypeError:  # functions that cannot be hashed
        return fresh
    step = before[1] if before is not None and before[0] == mark else fresh
    while len(_TRACED) >= MOST_TRACED:
        _TRACED.pop(next(iter(_TRACED)))
    _TRACED[name] = mark, step
    return step


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


def _try(step: Step, vector: np.ndarray, step_size: float) -> Any:
    """One step; in JAX its trace."""
    if step.is_jax:

        def once(key: Array, x: Array, h: Array) -> tuple[Any, Any, Array]:
            state = step.start(key, x)
            after = step.move(key, state, h)
            return state, after, step.place(after)

        h = jnp.asarray(step_size, step.layout.dtype)
        trace, (_, _, end) = jax.make_jaxpr(once, return_shape=True)(jax.random.key(0), vector, h)
    else:
        rng = np.random.default_rng(0)
        trace, end = None, step.place(step.move(rng, step.start(rng, vector), step_size))
    if end.shape != (step.dim,):
        raise InputError(f"after a step the position has shape {end.shape} when flat, expected ({step.dim},)")
    return trace


def _guarded(step: Step) -> Step:
    """A NumPy step that says at which call it raised, if one of the many does: the trial call did not."""
    calls = itertools.count(1)

    def move(key: Any, state: Any, step_size: float) -> Any:
        number = next(calls)
        try:
            return step.move(key, state, step_size)
        except InputError:
            raise
        except Exception as error:
            raise InputError(
                f"step raised at call {number:,}, at step size {step_size:g}: {one_line(error)}"
            ) from error

    return step._replace(move=move)


def _starter(init: Callable[..., Any] | None) -> Callable[[Any, Any], Any]:
    """init(position), init(key, position), or init(position, key) where the names of its arguments say so."""
    if init is None:
        return lambda key, position: position
    needed = needed_arguments(init)
    if needed is None:
        return init
    if len(needed) > 2:
        raise InputError(f"init needs {len(needed)} arguments: expected init(position) or init(key, position)")
    if len(needed) == 2 and is_key_name(needed[1]) and not is_key_name(needed[0]):
        return lambda key, position: init(position, **{needed[1]: key})
    return (lambda key, position: init(position)) if len(needed) == 1 else init


def needed_arguments(function: Callable[..., Any]) -> list[str] | None:
    """Names of the arguments that a function must be given; None where it has no signature to look at."""
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return None
    return [p.name for p in parameters if p.default is p.empty and p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD)]


def is_key_name(name: str) -> bool:
    return any(part in name.lower() for part in KEY_NAMES)


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
    begin, reader = _starter(init), _reader(read, init is not None)

    def start(key: Array, vector: Array) -> Any:
        return jax.tree.map(_strong, begin(key, layout.unravel(vector)))

    def move(key: Array, state: Any, step_size: Array) -> Any:
        after = step(key, state, jnp.asarray(step_size, layout.dtype))
        if after is None and init is not None:  # in place, as NumPy's may: to be tried there
            raise TypeError("step returned nothing, expected the state")
        return _like(after, state)

    def place(state: Any) -> Array:
        leaves = _matching(reader(state), layout)
        return jnp.concatenate([jnp.ravel(jnp.asarray(leaf)).astype(jnp.float64) for leaf in leaves])

    return Step(start, move, place, layout, is_jax=True, is_bare=init is None)


def _in_numpy(step: Any, init: Any, read: Any, layout: Layout) -> Step:
    begin, reader = _starter(init), _reader(read, init is not None)

    def start(key: np.random.Generator, vector: np.ndarray) -> Any:
        pieces = np.split(vector, np.cumsum([math.prod(shape) for shape in layout.shapes])[:-1])
        leaves = [piece.reshape(shape).copy() for piece, shape in zip(pieces, layout.shapes, strict=True)]
        return begin(key, jax.tree.unflatten(layout.treedef, leaves))

    def place(state: Any) -> np.ndarray:
        # a copy: a step may move its arrays in place
        return np.concatenate([np.ravel(leaf) for leaf in _matching(reader(state), layout)]).astype(float)

    def move(key: np.random.Generator, state: Any, step_size: float) -> Any:
        after = step(key, state, step_size)
        if after is None and init is None:
            raise InputError(NOTHING_RETURNED)
        # a step that works in place returns nothing
        return state if after is None else after

    return Step(start, move, place, layout, is_jax=False, is_bare=init is None)


def _strong(leaf: Any) -> Any:
    """An array of its dtype for good: a loop refuses a state whose weak types turn strong."""
    array = jnp.asarray(leaf)
    return array if jnp.issubdtype(array.dtype, jax.dtypes.prng_key) else jnp.asarray(leaf, array.dtype)


def _like(after: Any, before: Any) -> Any:
    """`after` in the dtypes of `before`; refused where structure or shapes differ."""
    if after is None:
        raise InputError(NOTHING_RETURNED)
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
        if jnp.iscomplexobj(new) and not jnp.iscomplexobj(old):
            raise InputError(f"step returned complex numbers ({new.dtype}), expected real ones ({old.dtype})")
        cast.append(new if new.dtype == old.dtype else new.astype(old.dtype))
    return jax.tree.unflatten(expected, cast)


def _matching(position: PyTree, layout: Layout) -> list[Any]:
    leaves = jax.tree.leaves(position)
    shapes = tuple(np.shape(leaf) for leaf in leaves)
    if shapes != layout.shapes:
        raise InputError(f"the position after a step has arrays of shapes {shapes}, expected {layout.shapes}")
    if any(np.iscomplexobj(leaf) for leaf in leaves):
        raise InputError("the position after a step holds complex numbers, expected real ones")
    return leaves


def work_of_gradient(target: Target, layout: Layout) -> float:
    """Of one evaluation of potential and gradient."""
    x = jax.ShapeDtypeStruct((layout.size,), jnp.float64)
    return _work(jax.make_jaxpr(lambda x: target.evaluate(layout.unravel(x)))(x).jaxpr)


@functools.lru_cache(maxsize=16)
def work(step: Step) -> float:
    """Of one step of one chain, for each number of the position; about 75 for Langevin."""
    # vmapped, as it will run: what does not depend on the chain is done once for all
    keys = jax.random.split(jax.random.key(0), CHAINS_COUNTED)
    states = jax.eval_shape(jax.vmap(step.start), keys, jax.ShapeDtypeStruct((CHAINS_COUNTED, step.dim), jnp.float64))
    trace = jax.make_jaxpr(jax.vmap(step.move, (0, 0, None)))(keys, states, jnp.asarray(1.0, jnp.float64))
    return max(_work(trace.jaxpr) / (CHAINS_COUNTED * step.dim), 1.0)


def _work(jaxpr: Any) -> float:
    total = 0.0
    for equation in jaxpr.eqns:
        inner = [_work(x) for x in _inside(equation.params)]
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


def _inside(params: dict[str, Any]) -> list[Any]:
    """Programs among an equation's parameters: bodies of loops, branches, functions compiled on their own."""
    values = itertools.chain.from_iterable(x if isinstance(x, tuple | list) else (x,) for x in params.values())
    programs = (getattr(value, "jaxpr", value) for value in values)
    return [program for program in programs if hasattr(program, "eqns")]


def _alone(equation: Any, name: str) -> float:
    size = sum(math.prod(var.aval.shape) for var in equation.outvars)
    if name == "dot_general":
        (contracted, _), _ = equation.params["dimension_numbers"]
        size *= MULTIPLY_ADD * math.prod(equation.invars[0].aval.shape[i] for i in contracted)
    return size * HEAVY_WORK.get(name, 1.0)
