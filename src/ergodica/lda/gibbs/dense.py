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
from ergodica.lda.gibbs.vectors import LANE_COUNT, accumulate, next_document, pick, pointer, tally, weigh

SLOT_ROOM = 2 * LANE_COUNT  # numbers that a slot needs beside two rows
_ONE_TOKEN = np.float32(1)
START_UNIFORM, START_PHI, START_GIVEN = 0, 1, 2
_NOT_COUNTED, _COUNT_PROBABILITIES, _COUNT_DRAWS = 0, 1, 2


class KernelBatch(NamedTuple):
    """What all documents share; pointers, but for the padded number of topics.

    `sums` are those of the cells, or of the documents where only these are wanted; `target` says which, by token.
    """

    width: Any
    gamma: Any
    rows: Any
    cell_word: Any
    tokens: Any
    z: Any
    sums: Any


class DocumentSlot(NamedTuple):
    """Pointers to what one document is worked on with."""

    count: Any
    weights: Any
    running: Any


@cached_njit(nogil=True, parallel=True)
def run(rows, layout, topics, plan, z, sums, shares, room, threads):
    """All documents of a batch, by threads that take them one by one.

    Args:
        rows: (m, K padded) phi of the batch's words, each row in a scale of its own.
        layout, plan: as tuples.
        z: (tokens,) the topics at the start, if they are given; those at the end are left there.
        sums: (cells, K padded), added to: the topics of each cell, over the sweeps counted; no rows: not wanted.
        shares: (n, K padded), the same for each document.
        room: (threads, 2, 2 K padded + SLOT_ROOM) zeros.
    """
    counter = np.zeros(1, np.int64)
    for t in numba.prange(threads):
        _work(rows, layout, topics, plan, sums, shares, z, room[t], pointer(counter))


@cached_njit(nogil=True, error_model="numpy")
def _work(rows, layout, topics, plan, sums, shares, z, room, counter):
    width = rows.shape[1]
    _, _, cell_word, starts, tokens, order, _, _ = layout
    gamma, sweeps, burn_in, seed, visit, start, rao_blackwell = plan
    by_cell = len(sums) > 0
    into = pointer(sums) if by_cell else pointer(shares)
    batch = KernelBatch(width, pointer(gamma), pointer(rows), pointer(cell_word), pointer(tokens), pointer(z), into)
    one = DocumentSlot(pointer(room[0, :width]), pointer(room[0, width : 2 * width]), pointer(room[0, 2 * width :]))
    two = DocumentSlot(pointer(room[1, :width]), pointer(room[1, width : 2 * width]), pointer(room[1, 2 * width :]))
    # by slot: the document in hand or -1, its sweep and token, the topic just drawn, and the state of its stream
    d, sweep, at, left = -np.ones(2, np.int64), np.zeros(2, np.int64), np.zeros(2, np.int64), np.zeros(2, np.int64)
    joined, what, share = np.zeros(2, np.int64), np.zeros(2, np.int64), np.zeros(2, np.int64)
    state = np.zeros((2, 2), np.uint64)
    while True:
        for s in range(2):
            if d[s] >= 0 and at[s] == starts[d[s] + 1]:
                sweep[s] += 1
                at[s] = starts[d[s]]
                if sweep[s] == sweeps:
                    if by_cell:
                        _add_cells(sums, tokens[starts[d[s]] : starts[d[s] + 1]], shares[d[s]])
                    d[s] = -1
            if d[s] < 0:
                d[s] = next_document(starts, order, counter)
                if d[s] >= 0:
                    sweep[s], at[s], joined[s] = 0, starts[d[s]], -1
                    room[s] = 0
                    state[s, 0], state[s, 1] = start_stream(seed, visit + np.uint64(d[s]))
                    _begin(batch, two if s else one, topics, start, starts[d[s]], starts[d[s] + 1], state[s])
            left[s] = starts[d[s] + 1] - at[s] if d[s] >= 0 else 0
            share[s] = -1 if by_cell else d[s]
            what[s] = _NOT_COUNTED if sweep[s] < burn_in else _COUNT_PROBABILITIES if rao_blackwell else _COUNT_DRAWS
        if d[0] < 0 and d[1] < 0:
            break
        together = min(left[0], left[1])
        alone0, alone1 = left[0] if d[1] < 0 else together, left[1] if d[0] < 0 else together
        a0, b0, a1, b1, k0, k1 = state[0, 0], state[0, 1], state[1, 0], state[1, 1], joined[0], joined[1]
        at0, at1, share0, share1, what0, what1 = at[0], at[1], share[0], share[1], what[0], what[1]
        for j in range(together):
            a0, b0, k0 = _token(batch, one, what0, share0, at0 + j, k0, a0, b0)
            a1, b1, k1 = _token(batch, two, what1, share1, at1 + j, k1, a1, b1)
        for j in range(together, alone0):
            a0, b0, k0 = _token(batch, one, what0, share0, at0 + j, k0, a0, b0)
        for j in range(together, alone1):
            a1, b1, k1 = _token(batch, two, what1, share1, at1 + j, k1, a1, b1)
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
            row = batch.cell_word[batch.tokens[i]] * batch.width
            total = weigh(batch.width, slot.count, -1, -1, batch.rows, row, batch.gamma, slot.weights, slot.running)
            batch.z[i] = np.uint16(pick(batch.width, slot.weights, slot.running, u * total))
        else:
            batch.z[i] = np.uint16(min(int(u * np.float32(topics)), topics - 1))
    for i in range(first, last):
        slot.count[batch.z[i]] += _ONE_TOKEN
    state[0], state[1] = a, b


@numba.njit(forceinline=True, error_model="numpy")
def _token(batch, slot, what, share, i, joined, a, b):
    """A draw for token i; `joined` is the topic drawn before it."""
    width, gamma, rows, cell_word, tokens, z, sums = batch
    count, weights, running = slot
    cell = tokens[i]
    total = weigh(width, count, joined, np.int64(z[i]), rows, cell_word[cell] * width, gamma, weights, running)
    chosen = pick(width, weights, running, uniform(a, b) * total)
    if weights[chosen] <= 0:  # u fell on the rounding of a sum
        chosen = _heaviest(width, weights)
    z[i] = np.uint16(chosen)
    place = (cell if share < 0 else share) * width
    if what == _COUNT_PROBABILITIES:
        accumulate(width, sums, place, weights, _ONE_TOKEN / total)
    elif what == _COUNT_DRAWS:
        tally(width, sums, place, chosen)
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
def _add_cells(sums, tokens, share):
    """A document's share is the sum of its cells; tokens of a cell are neighbours."""
    for i in range(len(tokens)):
        if i == 0 or tokens[i] != tokens[i - 1]:
            for k in range(len(share)):
                share[k] += sums[tokens[i], k]
