"""The Gibbs kernel that looks at every topic: p(z_i = k) is proportional to (A_k + gamma) phi_wk, A without token i.

(The paper's supplement on online LDA, with phi instead of theta as docs/paper/errata.md has it.)

A draw is a chain of some hundred cycles in which each step waits for the last one, and the next draw waits for its
counts. So a thread works on two documents at a time, a token of one and a token of the other: the processor fills the
waiting of either with the work of the other.
"""

from typing import Any, NamedTuple

import numba
import numpy as np

from ergodica.lda.gibbs.cached import cached_njit
from ergodica.lda.gibbs.random_numbers import advance, start_stream, uniform
from ergodica.lda.gibbs.vectors import (
    LANE_COUNT,
    accumulate,
    as_float,
    as_integers,
    next_document,
    pick,
    pointer,
    round_row,
    weigh,
)

SLOT_ROOM = 2 * LANE_COUNT  # numbers that a slot needs beside two rows
_ONE_TOKEN = np.float32(1)
_BITS_OF_INFINITY = np.uint32(0x7F800000)
START_UNIFORM, START_PHI, START_GIVEN = 0, 1, 2
_NOT_COUNTED, _BY_CELL, _BY_DOCUMENT, _BY_DRAW = 0, 1, 2, 3


class KernelBatch(NamedTuple):
    """What all documents share; pointers, but for the padded number of topics and the number of sweeps counted.

    `sums` are those of the cells, or of the documents where only these are wanted. `place` is, by token, its cell, or
    its place in `drawn`. `scales` are those of the rows, `unit` and `alpha` of `OwnCounts`.
    """

    width: Any
    gamma: Any
    rows: Any
    row_of: Any
    place: Any
    z: Any
    sums: Any
    drawn: Any
    counted: Any
    scales: Any
    unit: Any
    alpha: Any


class DocumentSlot(NamedTuple):
    """Pointers to what one document is worked on with."""

    count: Any
    weights: Any
    running: Any


@cached_njit(nogil=True, error_model="numpy")
def scale_rows(phi, words, rows, scales):
    """rows[i] = scales[i] phi[words[i]], its largest entry 1, padded by zeros: no draw changes, products stay in range.

    Returns:
        The first word whose row is negative or not finite somewhere, or zero everywhere; -1 if there is none.
    """
    topics, width, p_phi, p_rows = phi.shape[1], rows.shape[1], pointer(phi), pointer(rows)
    for i in range(len(words)):
        first, place = np.int64(words[i]) * topics, i * width
        largest = _largest(p_phi, first, topics)
        if not largest > 0:
            return words[i]
        scales[i] = np.float32(1) / largest
        for k in range(topics):
            p_rows[place + k] = p_phi[first + k] / largest
        for k in range(topics, width):
            p_rows[place + k] = 0
    return -1


@numba.njit
def _largest(numbers, first, size):
    """The largest of these numbers, or -1 if one is negative or not finite."""
    # as whole numbers, floats that are not negative have the same order, and all others are above them: one
    # comparison for everything, which LLVM makes a vector of
    bits, most = as_integers(numbers), np.uint32(0)
    for k in range(first, first + size):
        most = max(most, np.uint32(bits[k]))
    if most < _BITS_OF_INFINITY:
        return as_float(most)
    largest = np.float32(0)
    for k in range(first, first + size):
        if not 0 <= numbers[k] < np.inf:
            return np.float32(-1)
        largest = max(largest, numbers[k])
    return largest


@cached_njit(nogil=True, error_model="numpy")
def run(rows, scales, layout, topics, plan, own, z, shifts, sums, shares, drawn, room, queue):
    """Documents of a batch until the queue is empty, in one thread.

    Args:
        rows: (m, K padded) phi of the batch's words, each row in a scale of its own: `scales` (m,).
        layout, plan, own: as tuples; of `own` no weights: nothing is taken out.
        z: (tokens,) the topics at the start, if they are given; those at the end are left there.
        shifts: (m,) of the words (`counting`).
        sums: (cells, K padded), written: the topics of each cell, over the sweeps counted, as whole numbers, int32 in
            the same memory; no rows: not wanted.
        shares: (n, K padded) zeros, the same for each document.
        drawn: (tokens, sweeps counted), written: the topics drawn; no rows: not wanted, but the other two.
        room: (2, 2 K padded + SLOT_ROOM) zeros, a part for each slot.
        queue: (1,) how many documents have been taken, by all threads.
    """
    width = rows.shape[1]
    _, _, _, starts, order, row_of, cell, place_of, _ = layout
    gamma, sweeps, burn_in, seed, visit, start, _ = plan
    by_cell, counted = len(sums) > 0, sweeps - burn_in
    batch = KernelBatch(
        width, pointer(gamma), pointer(rows), pointer(row_of), pointer(cell if by_cell else place_of), pointer(z),
        pointer(sums) if by_cell else pointer(shares), pointer(drawn), counted, pointer(scales),
        pointer(own[1]), own[2],
    )  # fmt: skip
    one = DocumentSlot(pointer(room[0, :width]), pointer(room[0, width : 2 * width]), pointer(room[0, 2 * width :]))
    two = DocumentSlot(pointer(room[1, :width]), pointer(room[1, width : 2 * width]), pointer(room[1, 2 * width :]))
    # by slot: the document in hand or -1, its sweep and token, the topic just drawn, and the state of its stream
    d, sweep, at, left = -np.ones(2, np.int64), np.zeros(2, np.int64), np.zeros(2, np.int64), np.zeros(2, np.int64)
    joined, what, into = np.zeros(2, np.int64), np.zeros(2, np.int64), np.zeros(2, np.int64)
    taken, owns = np.zeros(2, np.float32), len(own[0]) > 0
    how = _BY_DRAW if len(drawn) else _BY_CELL if by_cell else _BY_DOCUMENT
    p_queue = pointer(queue)
    state = np.zeros((2, 2), np.uint64)
    while True:
        for s in range(2):
            if d[s] >= 0 and at[s] == starts[d[s] + 1]:
                sweep[s] += 1
                at[s] = starts[d[s]]
                if sweep[s] == sweeps:
                    if by_cell:
                        if len(shares):
                            _add_cells(sums, cell[starts[d[s]] : starts[d[s] + 1]], shares[d[s]])
                        _round_cells(batch, shifts, starts[d[s]], starts[d[s] + 1], state[s])
                    d[s] = -1
            if d[s] < 0:
                d[s] = next_document(starts, order, p_queue)
                if d[s] >= 0:
                    sweep[s], at[s], joined[s] = 0, starts[d[s]], -1
                    room[s] = 0
                    state[s, 0], state[s, 1] = start_stream(seed, visit + np.uint64(d[s]))
                    _begin(batch, two if s else one, topics, start, starts[d[s]], starts[d[s] + 1], state[s])
            taken[s] = own[0][d[s]] if owns and d[s] >= 0 else np.float32(0)
            left[s] = starts[d[s] + 1] - at[s] if d[s] >= 0 else 0
            # where the document's row begins, or which of the sweeps counted this is
            into[s] = d[s] * width if how == _BY_DOCUMENT else sweep[s] - burn_in
            what[s] = _NOT_COUNTED if sweep[s] < burn_in else how
        if d[0] < 0 and d[1] < 0:
            break
        together = min(left[0], left[1])
        alone0, alone1 = left[0] if d[1] < 0 else together, left[1] if d[0] < 0 else together
        a0, b0, a1, b1, k0, k1 = state[0, 0], state[0, 1], state[1, 0], state[1, 1], joined[0], joined[1]
        at0, at1, into0, into1, what0, what1 = at[0], at[1], into[0], into[1], what[0], what[1]
        taken0, taken1 = taken[0], taken[1]
        for j in range(together):
            a0, b0, k0 = _token(batch, one, what0, into0, taken0, at0 + j, k0, a0, b0)
            a1, b1, k1 = _token(batch, two, what1, into1, taken1, at1 + j, k1, a1, b1)
        for j in range(together, alone0):
            a0, b0, k0 = _token(batch, one, what0, into0, taken0, at0 + j, k0, a0, b0)
        for j in range(together, alone1):
            a1, b1, k1 = _token(batch, two, what1, into1, taken1, at1 + j, k1, a1, b1)
        at[0] += alone0
        at[1] += alone1
        state[0, 0], state[0, 1], state[1, 0], state[1, 1], joined[0], joined[1] = a0, b0, a1, b1, k0, k1


@numba.njit
def _begin(batch, slot, topics, start, first, last, state):
    """Topics for the first sweep, and their counts."""
    a, b = state[0], state[1]
    for i in range(first if start != START_GIVEN else last, last):
        u = uniform(a, b)
        a, b = advance(a, b)
        if start == START_PHI:
            row = np.int64(batch.row_of[i]) * batch.width
            total = weigh(
                batch.width, slot.count, -1, -1, batch.rows, row, batch.gamma, np.float32(0), slot.weights, slot.running
            )  # fmt: skip
            batch.z[i] = np.uint16(pick(batch.width, slot.weights, slot.running, u * total))
        else:
            batch.z[i] = np.uint16(min(int(u * np.float32(topics)), topics - 1))
    for i in range(first, last):
        slot.count[batch.z[i]] += _ONE_TOKEN
    state[0], state[1] = a, b


@numba.njit(forceinline=True, error_model="numpy")
def _token(batch, slot, what, into, taken, i, joined, a, b):
    """A draw for token i; `joined` is the topic drawn before it, `taken` how much of n the token itself is."""
    width, gamma, rows, row_of, place, z, sums, drawn, counted, scales, unit, alpha = batch
    count, weights, running = slot
    left, row = np.int64(z[i]), np.int64(row_of[i])
    at_left = rows[row * width + left]
    if taken > 0:
        one = unit[left] * scales[row]
        at_left = max(at_left - taken * one, alpha * one)
    total = weigh(width, count, joined, left, rows, row * width, gamma, at_left, weights, running)
    chosen = pick(width, weights, running, uniform(a, b) * total)
    if weights[chosen] <= 0:  # u fell on the rounding of a sum
        chosen = _heaviest(width, weights)
    z[i] = np.uint16(chosen)
    if what == _BY_DRAW:
        drawn[np.int64(place[i]) * counted + into] = np.uint16(chosen)
    elif what != _NOT_COUNTED:
        # without a jump, which would be taken or not at random
        is_first = (what == _BY_CELL) & (into == 0) & ((i == 0) | (place[i] != place[i - (i > 0)]))
        first = into if what == _BY_DOCUMENT else np.int64(place[i]) * width
        accumulate(width, sums, first, weights, _ONE_TOKEN / total, is_first)
    a, b = advance(a, b)
    return a, b, chosen


@numba.njit
def _heaviest(width, weights):
    best = 0
    for k in range(width):
        if weights[k] > weights[best]:
            best = k
    return best


@numba.njit
def _round_cells(batch, shifts, first, last, state):
    """Sums of cells to whole numbers, up or down at random: on average the sum, however small it is."""
    a, b = state[0], state[1]
    for i in range(first, last):
        if i == first or batch.place[i] != batch.place[i - 1]:
            unit, u = np.float32(np.int32(1) << shifts[batch.row_of[i]]), uniform(a, b)
            a, b = advance(a, b)
            round_row(batch.width, batch.sums, np.int64(batch.place[i]) * batch.width, unit, u)


@numba.njit
def _add_cells(sums, cells, share):
    """A document's share is the sum of its cells."""
    for i in range(len(cells)):
        if i == 0 or cells[i] != cells[i - 1]:
            for k in range(len(share)):
                share[k] += sums[cells[i], k]
