"""A queue of documents that threads draw from: the next number, given to one thread alone."""

from typing import Any

import numba
from llvmlite import ir
from numba import extending
from numba.core import cgutils
from numba.core.typing import signature

intrinsic: Any = extending.intrinsic  # what it makes takes no context, which no type checker can know


@intrinsic
def take(context, counter):
    """The value of counter[0], an int64 array, which rises by one; no two threads get the same."""

    def generate(context, builder, sig, args):
        array = cgutils.create_struct_proxy(sig.args[0])(context, builder, args[0])
        return builder.atomic_rmw("add", array.data, ir.Constant(ir.IntType(64), 1), "monotonic")

    return signature(numba.types.int64, counter), generate


@numba.njit
def next_document(starts, order, counter):
    """The next document that has words, or -1 after the last."""
    while True:
        place = take(counter)
        if place >= len(order):
            return -1
        d = order[place]
        if starts[d] < starts[d + 1]:
            return d
