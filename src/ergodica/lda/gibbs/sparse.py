"""The Gibbs kernel for many topics: the law of `dense`, at a cost that grows with the topics a document has.

    (A_k + gamma_k) phi_wk = A_k phi_wk + gamma_k phi_wk

The first part, the document's own, is zero but for the topics in it; the second depends on the word alone, and is drawn
from by the running sums of blocks of topics, made once a batch.

With c = 1 / total, the Rao-Blackwell estimate is c gamma_k phi_wk, for all topics, and c A_k phi_wk, for those in the
document. To add up the latter for every word of every document would cost more than all else. So they are represented
by one of them, drawn in proportion, with the weight of all: unbiased, and still without the noise of the second part
and of the choice between the two.
"""

import numba
import numpy as np

from ergodica.lda.gibbs.cached import cached_njit
from ergodica.lda.gibbs.dense import START_GIVEN, START_PHI
from ergodica.lda.gibbs.random_numbers import advance, start_stream, uniform
from ergodica.lda.gibbs.vectors import (
    LANE_COUNT,
    block_sums,
    count_below,
    next_document,
    pick,
    pointer,
    prefetch_some,
    weigh_some,
)

_ONE_TOKEN = np.float32(1)
_NO_TOKEN = np.float32(0)
_BEYOND = np.float32(np.inf)


@cached_njit(nogil=True, error_model="numpy")
def make_tables(phi, words, gamma, blocks, totals, first, last):
    """What the prior part of words[first:last] is drawn from.

    blocks[i, j] = sum of gamma_k phi_wk over the topics before 16 (j + 1), and beyond the last block infinite; totals
    [i] that over all, -1 where a number is negative, and not finite where one is not.
    """
    topics, count = phi.shape[1], blocks.shape[1]
    in_vectors = topics // LANE_COUNT * LANE_COUNT
    p_phi, p_gamma, p_blocks = pointer(phi), pointer(gamma), pointer(blocks)
    for i in range(first, last):
        row = np.int64(words[i]) * topics
        smallest = block_sums(in_vectors, p_phi, row, p_gamma, p_blocks, i * count)
        reached = np.float32(0)
        for block in range(in_vectors // LANE_COUNT):
            reached += p_blocks[i * count + block]
            p_blocks[i * count + block] = reached
        for k in range(in_vectors, topics):
            reached += p_gamma[k] * p_phi[row + k]
            smallest = min(smallest, p_phi[row + k])
        for block in range(in_vectors // LANE_COUNT, count):
            p_blocks[i * count + block] = reached if block * LANE_COUNT < topics else _BEYOND
        totals[i] = np.float32(-1) if smallest < 0 else reached


@cached_njit(nogil=True, error_model="numpy")
def run(phi, tables, layout, plan, z, shifts, draws, numbers, whole, queue):
    """Documents of a batch until the queue is empty, in one thread.

    Args:
        tables: blocks and totals. layout, plan, draws: as tuples. z, shifts, queue: as in `dense.run`.
        numbers: (2 K padded + dense.SLOT_ROOM,) zeros, float32. whole: (2 K padded,) zeros, int32.
    """
    blocks, totals = tables
    words, _, _, starts, order, row_of, _, place_of, _ = layout
    gamma, sweeps, burn_in, seed, visit, start, rao_blackwell = plan
    topics, weights, rounded = draws
    keeps_weights, rounds = len(weights) > 0, len(rounded) > 0
    every, room, block_count = phi.shape[1], len(whole) // 2, blocks.shape[1]
    # the topics in the document in any order, how many tokens each has, and where in that list a topic is, from 1 on.
    # Nothing is allocated here: Numba would free it while pointers to it are in use.
    listed, slot_of = pointer(whole[:room]), pointer(whole[room:])
    count, weight, running = pointer(numbers[:room]), pointer(numbers[room : 2 * room]), pointer(numbers[2 * room :])
    p_z, p_phi, p_gamma, p_blocks, p_totals = pointer(z), pointer(phi), pointer(gamma), pointer(blocks), pointer(totals)
    p_words, p_row, p_place = pointer(words), pointer(row_of), pointer(place_of)
    p_topics, p_weights, p_rounded, p_queue = pointer(topics), pointer(weights), pointer(rounded), pointer(queue)
    p_shifts = pointer(shifts)
    counted = sweeps - burn_in
    while True:
        d = next_document(starts, order, p_queue)
        if d < 0:
            break
        first, last = starts[d], starts[d + 1]
        used = 0
        a, b = start_stream(seed, visit + np.uint64(d))
        for i in range(first, last):
            if start != START_GIVEN:
                u = uniform(a, b)
                a, b = advance(a, b)
                row = np.int64(p_row[i])
                if start == START_PHI:
                    where = np.int64(p_words[row]) * every
                    k = _of_prior(
                        p_blocks, row * block_count, block_count, p_gamma, p_phi, where, every, u * p_totals[row]
                    )
                else:
                    k = min(int(u * np.float32(every)), every - 1)
                p_z[i] = np.uint16(k)
            used = _join(listed, count, slot_of, used, np.int64(p_z[i]))
        for sweep in range(sweeps):
            for i in range(first, last):
                used = _leave(listed, count, slot_of, used, np.int64(p_z[i]))
                row = np.int64(p_row[i])
                where = np.int64(p_words[row]) * every
                width = -(-used // LANE_COUNT) * LANE_COUNT
                if sweep == 0 and i + 1 < last:
                    prefetch_some(width, listed, p_phi, np.int64(p_words[p_row[i + 1]]) * every)
                own = weigh_some(width, count, listed, p_phi, where, weight, running)
                prior = p_totals[row]
                total = own + prior
                u = uniform(a, b)
                a, b = advance(a, b)
                # a number of its own: what u has left may be too coarse for rare topics
                v = uniform(a, b)
                is_own = v * total < own
                a, b = advance(a, b)
                place = np.int64(p_place[i]) * counted + sweep - burn_in
                chosen = np.int64(listed[_safely(width, weight, running, u * own)])
                if sweep >= burn_in and rao_blackwell:
                    p_topics[place] = np.uint16(chosen)
                    if keeps_weights:
                        p_weights[place] = own / total
                    if rounds:  # up or down at random, by v, which has nothing to do with the topic
                        p_rounded[place] = np.int32(own / total * np.float32(np.int32(1) << p_shifts[row]) + v)
                if not is_own:
                    chosen = _of_prior(
                        p_blocks, row * block_count, block_count, p_gamma, p_phi, where, every, u * prior
                    )
                if sweep >= burn_in and not rao_blackwell:
                    p_topics[place] = np.uint16(chosen)
                p_z[i] = np.uint16(chosen)
                used = _join(listed, count, slot_of, used, chosen)
        for slot in range(used):
            slot_of[listed[slot]] = 0
            listed[slot], count[slot] = 0, _NO_TOKEN


@numba.njit(forceinline=True)
def _safely(width, weights, running, u):
    """`pick`, or the heaviest where u fell on the rounding of a sum; 0 where there are none."""
    if width == 0:
        return 0
    chosen = pick(width, weights, running, u)
    if weights[chosen] <= 0:
        chosen = 0
        for slot in range(width):
            if weights[slot] > weights[chosen]:
                chosen = slot
    return chosen


@numba.njit
def _of_prior(blocks, first, block_count, gamma, phi, row, every, u):
    """The topic at u in the running sum of gamma_k phi_wk: its block, then its place in it."""
    block = min(count_below(block_count, blocks, first, u), (every - 1) // LANE_COUNT)
    at, rest = block * LANE_COUNT, u
    if block > 0:
        rest -= blocks[first + block - 1]
    last, reached = min(at + LANE_COUNT, every), np.float32(0)
    for k in range(at, last):
        reached += gamma[k] * phi[row + k]
        if rest < reached:
            return k
    # u fell on the rounding of a sum
    best = 0
    for k in range(every):
        if gamma[k] * phi[row + k] > gamma[best] * phi[row + best]:
            best = k
    return best


@numba.njit(forceinline=True)
def _join(listed, count, slot_of, used, topic):
    slot = slot_of[topic] - 1
    if slot < 0:
        slot_of[topic] = used + 1
        listed[used], count[used] = topic, _ONE_TOKEN
        return used + 1
    count[slot] += _ONE_TOKEN
    return used


@numba.njit(forceinline=True)
def _leave(listed, count, slot_of, used, topic):
    """A topic without tokens gives its slot to the last one; slots beyond have count 0."""
    slot = slot_of[topic] - 1
    count[slot] -= _ONE_TOKEN
    if count[slot] > 0:
        return used
    last = used - 1
    listed[slot], count[slot] = listed[last], count[last]
    slot_of[listed[last]] = slot + 1
    slot_of[topic] = 0
    listed[last], count[last] = 0, _NO_TOKEN
    return last
