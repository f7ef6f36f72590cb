"""The few steps of a draw that must be vectors: LLVM finds neither the running sums nor the branch-free search itself.

A row of K weights is looked at as K / 16 vectors of 16 lanes. Lanes are added up first, so that a search is over 16
running sums in one register, then over the K / 16 weights of one lane: the topics are searched in another order than
their numbers, which leaves the law as it is.

They take pointers: for an array handed to a function Numba counts references, which costs more than a draw.
"""

from typing import Any

import numba
from llvmlite import ir
from numba import extending, types
from numba.core import cgutils
from numba.core.typing import signature

from ergodica.lda.gibbs.layout import LANES

intrinsic: Any = extending.intrinsic  # what it makes takes no context, which no type checker can know
_FLOAT, _INT, _WHOLE = ir.FloatType(), ir.IntType(32), ir.IntType(64)
_VECTOR, _NUMBERS = ir.VectorType(_FLOAT, LANES), ir.VectorType(_INT, LANES)
_ZERO = ir.Constant(_VECTOR, [0.0] * LANES)
_ONES, _MINUS = ir.Constant(_VECTOR, [1.0] * LANES), ir.Constant(_VECTOR, [-1.0] * LANES)
_IOTA = ir.Constant(_NUMBERS, list(range(LANES)))


@intrinsic
def pointer(context, array):
    """To the first number of an array, which must outlive it."""

    def generate(context, builder, sig, args):
        return cgutils.create_struct_proxy(sig.args[0])(context, builder, args[0]).data

    return signature(types.CPointer(array.dtype), array), generate


def _vector(builder: ir.IRBuilder, data: Any, first: Any) -> Any:
    """A pointer to the 16 numbers from `first` on."""
    return builder.bitcast(builder.gep(data, [first]), _VECTOR.as_pointer())


def _splat(builder: ir.IRBuilder, number: Any, kind: ir.VectorType) -> Any:
    """A vector with this number in every lane."""
    nothing = ir.Constant(kind, ir.Undefined)
    one = builder.insert_element(nothing, number, ir.Constant(_INT, 0))
    return builder.shuffle_vector(one, nothing, ir.Constant(_NUMBERS, [0] * LANES))


def _is_topic(builder: ir.IRBuilder, topic: Any, at: Any) -> Any:
    """In which lane of the vector that begins at topic `at` this topic is."""
    return builder.icmp_signed("==", _IOTA, _splat(builder, builder.trunc(builder.sub(topic, at), _INT), _NUMBERS))


def _each_vector(builder: ir.IRBuilder, width: Any) -> Any:
    return cgutils.for_range_slice(builder, ir.Constant(_WHOLE, 0), width, ir.Constant(_WHOLE, LANES), _WHOLE)


def _running(builder: ir.IRBuilder, lanes: Any, running: Any) -> Any:
    """running[16:] = the running sums of the lanes; their total."""
    sums, shift = lanes, 1
    while shift < LANES:
        # lanes below `shift` take an element of the first operand, which is zero
        moved = ir.Constant(_NUMBERS, [i - shift + LANES if i >= shift else 0 for i in range(LANES)])
        sums = builder.fadd(sums, builder.shuffle_vector(_ZERO, sums, moved))
        shift *= 2
    builder.store(sums, _vector(builder, running, ir.Constant(_WHOLE, LANES)), align=4)
    return builder.extract_element(sums, ir.Constant(_INT, LANES - 1))


@intrinsic
def weigh(context, width, count, joined, left, rows, first, gamma, weights, running):
    """The weights of a draw, (count + gamma) * rows[first : first + width], the count having been brought up to date.

    One token has joined topic `joined` (-1: none), one has left topic `left`. Every number of the count is written,
    at addresses that hang on nothing: a write to the one that changes would hold up all reads until it is known which.
    running[16:] are the running sums of the lanes, and the total is returned; running[15] must be 0.
    """

    def generate(context, builder, sig, args):
        width, count, joined, left, rows, first, gamma, weights, running = args
        prior = _splat(builder, gamma, _VECTOR)
        lanes = cgutils.alloca_once_value(builder, _ZERO)
        with _each_vector(builder, width) as (at, _):
            where = _vector(builder, count, at)
            counted = builder.load(where, align=4)
            counted = builder.fadd(counted, builder.select(_is_topic(builder, left, at), _MINUS, _ZERO))
            counted = builder.fadd(counted, builder.select(_is_topic(builder, joined, at), _ONES, _ZERO))
            builder.store(counted, where, align=4)
            row = builder.load(_vector(builder, rows, builder.add(first, at)), align=4)
            product = builder.fmul(builder.fadd(counted, prior), row)
            builder.store(product, _vector(builder, weights, at), align=4)
            builder.store(builder.fadd(builder.load(lanes), product), lanes)
        return _running(builder, builder.load(lanes), running)

    return signature(types.float32, width, count, joined, left, rows, first, gamma, weights, running), generate


@intrinsic
def weigh_some(context, width, count, topics, row, first, weights, running):
    """weights = count * row[first + topics], for the topics listed; the rest as `weigh`."""

    def generate(context, builder, sig, args):
        width, count, topics, row, first, weights, running = args
        lanes = cgutils.alloca_once_value(builder, _ZERO)
        with _each_vector(builder, width) as (at, _):
            gathered = _ZERO
            for lane in range(LANES):
                number = builder.load(builder.gep(topics, [builder.add(at, ir.Constant(_WHOLE, lane))]))
                value = builder.load(builder.gep(row, [builder.add(first, builder.sext(number, _WHOLE))]))
                gathered = builder.insert_element(gathered, value, ir.Constant(_INT, lane))
            product = builder.fmul(builder.load(_vector(builder, count, at), align=4), gathered)
            builder.store(product, _vector(builder, weights, at), align=4)
            builder.store(builder.fadd(builder.load(lanes), product), lanes)
        return _running(builder, builder.load(lanes), running)

    return signature(types.float32, width, count, topics, row, first, weights, running), generate


@intrinsic
def _lane_of(context, running, u):
    """How many of the running sums, but for the last, are at most u."""

    def generate(context, builder, sig, args):
        running, u = args
        sums = builder.load(_vector(builder, running, ir.Constant(_WHOLE, LANES)), align=4)
        below = builder.fcmp_ordered("<=", sums, _splat(builder, u, _VECTOR))
        bits = builder.zext(builder.bitcast(below, ir.IntType(LANES)), _WHOLE)
        return builder.ctpop(builder.and_(bits, ir.Constant(_WHOLE, 2 ** (LANES - 1) - 1)))

    return signature(types.int64, running, u), generate


@numba.njit(forceinline=True)
def pick(width, weights, running, u):
    """The topic at u in [0, total): its lane by the running sums, then its place in the lane."""
    lane = _lane_of(running, u)
    rest = u - running[LANES - 1 + lane]
    reached, place = numba.float32(0), 0
    for j in range(width // LANES - 1):
        reached += weights[j * LANES + lane]
        place += rest >= reached
    return place * LANES + lane


@intrinsic
def accumulate(context, width, sums, first, weights, scale):
    """sums[first : first + width] += scale * weights."""

    def generate(context, builder, sig, args):
        width, sums, first, weights, scale = args
        factor = _splat(builder, scale, _VECTOR)
        with _each_vector(builder, width) as (at, _):
            where = _vector(builder, sums, builder.add(first, at))
            product = builder.fmul(builder.load(_vector(builder, weights, at), align=4), factor)
            builder.store(builder.fadd(builder.load(where, align=4), product), where, align=4)
        return context.get_dummy_value()

    return signature(types.void, width, sums, first, weights, scale), generate


@intrinsic
def tally(context, width, sums, first, topic):
    """sums[first + topic] += 1, by whole vectors, for the reason `weigh` gives."""

    def generate(context, builder, sig, args):
        width, sums, first, topic = args
        with _each_vector(builder, width) as (at, _):
            where = _vector(builder, sums, builder.add(first, at))
            one = builder.select(_is_topic(builder, topic, at), _ONES, _ZERO)
            builder.store(builder.fadd(builder.load(where, align=4), one), where, align=4)
        return context.get_dummy_value()

    return signature(types.void, width, sums, first, topic), generate
