"""The few steps of a draw that must be vectors: LLVM finds neither the running sums nor the branch-free search itself.

A row of K weights is looked at as K / 16 vectors of 16 lanes. Lanes are added up first, so that a search is over 16
running sums in one register, then over the K / 16 weights of one lane: the topics are searched in another order than
their numbers, which leaves the law as it is.

They take pointers: for an array handed to a function Numba counts references, which costs more than a draw.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numba
from llvmlite import ir
from numba import extending, types
from numba.core import cgutils

LANE_COUNT = 16  # topics are padded to a multiple of this, one register of float32

intrinsic: Any = extending.intrinsic  # what it makes takes no context, which no type checker can know
_FLOAT_32, _INT_32, _INT_64 = ir.FloatType(), ir.IntType(32), ir.IntType(64)
_FLOAT_VECTOR, _INT_VECTOR = ir.VectorType(_FLOAT_32, LANE_COUNT), ir.VectorType(_INT_32, LANE_COUNT)
_ONLY_ZEROS = ir.Constant(_FLOAT_VECTOR, [0.0] * LANE_COUNT)
_ONLY_ONES, _MINUS_ONES = (ir.Constant(_FLOAT_VECTOR, [value] * LANE_COUNT) for value in (1.0, -1.0))
_LANE_NUMBERS = ir.Constant(_INT_VECTOR, list(range(LANE_COUNT)))


@intrinsic
def _pointer_at(context, address, array):
    kind = types.CPointer(array.dtype)

    def generate(context, builder, sig, args):
        return builder.inttoptr(args[0], context.get_value_type(kind))

    return kind(address, array), generate


@numba.njit
def pointer(array):
    """To the first number of an array, which must outlive it."""
    return _pointer_at(array.ctypes.data, array)


@intrinsic
def as_integers(context, numbers):
    """The same memory as int32."""
    kind = types.CPointer(types.int32)

    def generate(context, builder, sig, args):
        return builder.bitcast(args[0], context.get_value_type(kind))

    return kind(numbers), generate


@intrinsic
def as_float(context, bits):
    """The float32 that these 32 bits are."""

    def generate(context, builder, sig, args):
        return builder.bitcast(args[0], _FLOAT_32)

    return types.float32(types.uint32), generate


@intrinsic
def take(context, counter):
    """The int64 at this pointer, which rises by one; no two threads get the same."""

    def generate(context, builder, sig, args):
        return builder.atomic_rmw("add", args[0], ir.Constant(_INT_64, 1), "monotonic")

    return types.int64(counter), generate


@numba.njit
def next_document(starts, order, counter):
    """The next document that has words, or -1 after the last: a queue that threads draw from."""
    while True:
        place = take(counter)
        if place >= len(order):
            return -1
        d = order[place]
        if starts[d] < starts[d + 1]:
            return d


def _vector(builder: ir.IRBuilder, data: Any, first: Any) -> Any:
    """A pointer to the 16 numbers from `first` on."""
    return builder.bitcast(builder.gep(data, [first]), _FLOAT_VECTOR.as_pointer())


def _gather(builder, topics, at, row, first):
    numbers = builder.load(builder.bitcast(builder.gep(topics, [at]), _INT_VECTOR.as_pointer()), align=4)
    wide = ir.VectorType(_INT_64, LANE_COUNT)
    base = builder.add(builder.ptrtoint(row, _INT_64), builder.mul(first, ir.Constant(_INT_64, 4)))
    offsets = builder.mul(builder.zext(numbers, wide), ir.Constant(wide, [4] * LANE_COUNT))
    pointers = ir.VectorType(_FLOAT_32.as_pointer(), LANE_COUNT)
    where = builder.inttoptr(builder.add(_splat(builder, base, wide), offsets), pointers)
    mask = ir.VectorType(ir.IntType(1), LANE_COUNT)
    kind = ir.FunctionType(_FLOAT_VECTOR, [pointers, _INT_32, mask, _FLOAT_VECTOR])
    load = cgutils.get_or_insert_function(builder.module, kind, "llvm.masked.gather.v16f32.v16p0")
    return builder.call(load, [where, ir.Constant(_INT_32, 4), ir.Constant(mask, [1] * LANE_COUNT), _ONLY_ZEROS])


def _splat(builder: ir.IRBuilder, number: Any, kind: ir.VectorType) -> Any:
    """A vector with this number in every lane."""
    nothing = ir.Constant(kind, ir.Undefined)
    one = builder.insert_element(nothing, number, ir.Constant(_INT_32, 0))
    return builder.shuffle_vector(one, nothing, ir.Constant(_INT_VECTOR, [0] * LANE_COUNT))


def _is_topic(builder: ir.IRBuilder, topic: Any, at: Any) -> Any:
    """In which lane of the vector that begins at topic `at` this topic is."""
    lane = builder.trunc(builder.sub(topic, at), _INT_32)
    return builder.icmp_signed("==", _LANE_NUMBERS, _splat(builder, lane, _INT_VECTOR))


class _Loop:
    """`at`: where the vector begins. `total`: of the lanes before it; to be set to that with its own."""

    def __init__(self, at: Any, total: Any):
        self.at, self.total = at, total


@contextmanager
def _each_vector(builder: ir.IRBuilder, width: Any, kind: Any = _FLOAT_VECTOR) -> Iterator[_Loop]:
    """What is written in the block is done for every vector of a row of this width."""
    before = builder.block
    test, inside, after = (builder.append_basic_block(name) for name in ("vector.test", "vector.do", "vector.end"))
    builder.branch(test)
    builder.position_at_end(test)
    at, total = builder.phi(_INT_64), builder.phi(kind)
    at.add_incoming(ir.Constant(_INT_64, 0), before)
    total.add_incoming(ir.Constant(kind, None), before)
    builder.cbranch(builder.icmp_signed("<", at, width), inside, after)
    builder.position_at_end(inside)
    loop = _Loop(at, total)
    yield loop
    at.add_incoming(builder.add(at, ir.Constant(_INT_64, LANE_COUNT)), builder.block)
    total.add_incoming(loop.total, builder.block)
    builder.branch(test)
    builder.position_at_end(after)
    loop.total = total


def _folded(builder: ir.IRBuilder, lanes: Any, joined: Callable[[Any, Any], Any]) -> Any:
    """All lanes joined into one number, halves with halves."""
    size = LANE_COUNT // 2
    while size:
        moved = ir.Constant(_INT_VECTOR, [(i + size) % LANE_COUNT for i in range(LANE_COUNT)])
        lanes = joined(lanes, builder.shuffle_vector(lanes, lanes, moved))
        size //= 2
    return builder.extract_element(lanes, ir.Constant(_INT_32, 0))


def _sum_of_lanes(builder: ir.IRBuilder, lanes: Any) -> Any:
    return _folded(builder, lanes, builder.fadd)


def _running(builder: ir.IRBuilder, lanes: Any, running: Any) -> Any:
    """running[16:] = the running sums of the lanes; their total."""
    sums, shift = lanes, 1
    while shift < LANE_COUNT:
        # lanes below `shift` take an element of the first operand, which is zero
        moved = ir.Constant(_INT_VECTOR, [i - shift + LANE_COUNT if i >= shift else 0 for i in range(LANE_COUNT)])
        sums = builder.fadd(sums, builder.shuffle_vector(_ONLY_ZEROS, sums, moved))
        shift *= 2
    builder.store(sums, _vector(builder, running, ir.Constant(_INT_64, LANE_COUNT)), align=4)
    return builder.extract_element(sums, ir.Constant(_INT_32, LANE_COUNT - 1))


@intrinsic
def weigh(context, width, count, joined, left, rows, first, gamma, at_left, weights, running):
    """The weights of a draw, (count + gamma) * rows[first : first + width], the count having been brought up to date.

    `gamma` is the prior of every topic.

    One token has joined topic `joined` (-1: none), one has left topic `left`. Every number of the count is written,
    at addresses that depend on nothing: a write to the one that changes would hold up all reads until it is known
    which. running[16:] are the running sums of the lanes, and the total is returned; running[15] must be 0. `at_left`
    stands for rows[first + left].
    """

    def generate(context, builder, sig, args):
        width, count, joined, left, rows, first, gamma, at_left, weights, running = args
        instead = _splat(builder, at_left, _FLOAT_VECTOR)
        with _each_vector(builder, width) as loop:
            where = _vector(builder, count, loop.at)
            counted = builder.load(where, align=4)
            for topic, change in ((left, _MINUS_ONES), (joined, _ONLY_ONES)):
                changed = builder.select(_is_topic(builder, topic, loop.at), change, _ONLY_ZEROS)
                counted = builder.fadd(counted, changed)
            builder.store(counted, where, align=4)
            row = builder.load(_vector(builder, rows, builder.add(first, loop.at)), align=4)
            row = builder.select(_is_topic(builder, left, loop.at), instead, row)
            prior = builder.load(_vector(builder, gamma, loop.at), align=4)
            product = builder.fmul(builder.fadd(counted, prior), row)
            builder.store(product, _vector(builder, weights, loop.at), align=4)
            loop.total = builder.fadd(loop.total, product)
        return _running(builder, loop.total, running)

    return types.float32(width, count, joined, left, rows, first, gamma, at_left, weights, running), generate


@intrinsic
def block_sums(context, width, row, first, gamma, sums, place):
    """sums[place + j] = the sum of gamma * row[first:] over the j-th vector; the smallest number of the row, or 0."""

    def generate(context, builder, sig, args):
        width, row, first, gamma, sums, place = args
        with _each_vector(builder, width) as loop:
            part = builder.load(_vector(builder, row, builder.add(first, loop.at)), align=4)
            product = builder.fmul(part, builder.load(_vector(builder, gamma, loop.at), align=4))
            block = builder.sdiv(loop.at, ir.Constant(_INT_64, LANE_COUNT))
            builder.store(_sum_of_lanes(builder, product), builder.gep(sums, [builder.add(place, block)]))
            loop.total = builder.select(builder.fcmp_ordered("<", part, loop.total), part, loop.total)
        return _folded(builder, loop.total, lambda a, b: builder.select(builder.fcmp_ordered("<", a, b), a, b))

    return types.float32(width, row, first, gamma, sums, place), generate


@intrinsic
def prefetch_some(context, width, topics, row, first):
    """Asks for row[first + topics] to be brought into the cache."""

    def generate(context, builder, sig, args):
        width, topics, row, first = args
        byte = ir.IntType(8).as_pointer()
        kind = ir.FunctionType(ir.VoidType(), [byte, _INT_32, _INT_32, _INT_32])
        fetch = cgutils.get_or_insert_function(builder.module, kind, "llvm.prefetch.p0")
        with _each_vector(builder, width) as loop:
            for lane in range(LANE_COUNT):
                number = builder.load(builder.gep(topics, [builder.add(loop.at, ir.Constant(_INT_64, lane))]))
                where = builder.gep(row, [builder.add(first, builder.sext(number, _INT_64))])
                builder.call(fetch, [builder.bitcast(where, byte)] + [ir.Constant(_INT_32, x) for x in (0, 3, 1)])
        return context.get_dummy_value()

    return types.void(width, topics, row, first), generate


@intrinsic
def weigh_some(context, width, count, topics, row, first, weights, running):
    """weights = count * row[first + topics], for the topics listed; the rest as `weigh`."""

    def generate(context, builder, sig, args):
        width, count, topics, row, first, weights, running = args
        with _each_vector(builder, width) as loop:
            gathered = _gather(builder, topics, loop.at, row, first)
            product = builder.fmul(builder.load(_vector(builder, count, loop.at), align=4), gathered)
            builder.store(product, _vector(builder, weights, loop.at), align=4)
            loop.total = builder.fadd(loop.total, product)
        return _running(builder, loop.total, running)

    return types.float32(width, count, topics, row, first, weights, running), generate


@intrinsic
def _lane_of(context, running, u):
    """How many of the running sums, but for the last, are at most u."""

    def generate(context, builder, sig, args):
        running, u = args
        sums = builder.load(_vector(builder, running, ir.Constant(_INT_64, LANE_COUNT)), align=4)
        below = builder.fcmp_ordered("<=", sums, _splat(builder, u, _FLOAT_VECTOR))
        bits = builder.zext(builder.bitcast(below, ir.IntType(LANE_COUNT)), _INT_64)
        return builder.ctpop(builder.and_(bits, ir.Constant(_INT_64, 2 ** (LANE_COUNT - 1) - 1)))

    return types.int64(running, u), generate


@numba.njit(forceinline=True)
def pick(width, weights, running, u):
    """The topic at u in [0, total): its lane by the running sums, then its place in the lane."""
    lane = _lane_of(running, u)
    rest = u - running[LANE_COUNT - 1 + lane]
    reached, place = numba.float32(0), 0
    for j in range(width // LANE_COUNT - 1):
        reached += weights[j * LANE_COUNT + lane]
        place += rest >= reached
    return place * LANE_COUNT + lane


@intrinsic
def accumulate(context, width, sums, first, weights, scale, is_first):
    """sums[first : first + width] += scale * weights; or = if it is the first, and what was there is nothing."""

    def generate(context, builder, sig, args):
        width, sums, first, weights, scale, is_first = args
        factor = _splat(builder, scale, _FLOAT_VECTOR)
        with _each_vector(builder, width) as loop:
            where = _vector(builder, sums, builder.add(first, loop.at))
            product = builder.fmul(builder.load(_vector(builder, weights, loop.at), align=4), factor)
            before = builder.select(is_first, _ONLY_ZEROS, builder.load(where, align=4))
            builder.store(builder.fadd(before, product), where, align=4)
        return context.get_dummy_value()

    return types.void(width, sums, first, weights, scale, types.boolean), generate


@intrinsic
def round_row(context, width, numbers, first, unit, u):
    """numbers[first : first + width] * unit + u, rounded down, as int32 in the same memory."""

    def generate(context, builder, sig, args):
        width, numbers, first, unit, u = args
        factor, more = _splat(builder, unit, _FLOAT_VECTOR), _splat(builder, u, _FLOAT_VECTOR)
        with _each_vector(builder, width) as loop:
            where = _vector(builder, numbers, builder.add(first, loop.at))
            scaled = builder.fadd(builder.fmul(builder.load(where, align=4), factor), more)
            builder.store(builder.bitcast(builder.fptosi(scaled, _INT_VECTOR), _FLOAT_VECTOR), where, align=4)
        return context.get_dummy_value()

    return types.void(width, numbers, first, unit, u), generate


@intrinsic
def count_below(context, width, sums, first, u):
    """How many of sums[first : first + width] are at most u."""

    def generate(context, builder, sig, args):
        width, sums, first, u = args
        bound = _splat(builder, u, _FLOAT_VECTOR)
        with _each_vector(builder, width, ir.IntType(64)) as loop:
            part = builder.load(_vector(builder, sums, builder.add(first, loop.at)), align=4)
            below = builder.fcmp_ordered("<=", part, bound)
            bits = builder.zext(builder.bitcast(below, ir.IntType(LANE_COUNT)), _INT_64)
            loop.total = builder.add(loop.total, builder.ctpop(bits))
        return loop.total

    return types.int64(width, sums, first, u), generate
