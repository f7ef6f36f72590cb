"""The Gibbs kernel for many topics: the law of `dense`, at a cost that grows with the topics a document has.

    (A_k + gamma_k) phi_wk = A_k phi_wk + gamma_k phi_wk

The first part, the document's own, is zero but for the topics in it; the second depends on the word alone, and is drawn
from by the running sums of blocks of topics, made once a batch.

With c = 1 / total, the Rao-Blackwell estimate is c gamma_k phi_wk, for all topics, and c A_k phi_wk, for those in the
document. To add up the latter for every word of every document would cost more than all else. So they are represented
by one of them, drawn in proportion, with the weight of all: unbiased, and still without the noise of the second part
and of the choice between the two.
"""

from typing import Any, NamedTuple

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


class SparseBatch(NamedTuple):
    """What all documents share: pointers, the numbers of topics, blocks and sweeps counted, and what is wanted."""

    every: Any
    block_count: Any
    counted: Any
    rao_blackwell: Any
    keeps_weights: Any
    rounds: Any
    phi: Any
    gamma: Any
    blocks: Any
    totals: Any
    shifts: Any
    words: Any
    row_of: Any
    place_of: Any
    z: Any
    topics: Any
    weights: Any
    rounded: Any
    unit: Any
    alpha: Any


class TopicList(NamedTuple):
    """Pointers to the topics in a document.

    listed: in any order; slot_of: where in that list a topic is, from 1 on; count: how many tokens each has; weight,
    running: of a draw.
    """

    listed: Any
    slot_of: Any
    count: Any
    weight: Any
    running: Any


@cached_njit(nogil=True, error_model="numpy")
def run(phi, tables, layout, plan, own, z, shifts, draws, numbers, whole, queue):
    """Documents of a batch until the queue is empty, in one thread.

    Args:
        tables: blocks and totals. layout, plan, own, draws: as tuples. z, shifts, queue: as in `dense.run`.
        numbers: (2 K padded + dense.SLOT_ROOM,) zeros, float32. whole: (2 K padded,) zeros, int32.
    """
    blocks, totals = tables
    words, _, _, starts, order, row_of, _, place_of, _ = layout
    gamma, sweeps, burn_in, seed, visit, start, rao_blackwell = plan
    topics, weights, rounded = draws
    batch = SparseBatch(
        phi.shape[1], blocks.shape[1], sweeps - burn_in, rao_blackwell, len(weights) > 0, len(rounded) > 0,
        pointer(phi), pointer(gamma), pointer(blocks), pointer(totals), pointer(shifts), pointer(words),
        pointer(row_of), pointer(place_of), pointer(z), pointer(topics), pointer(weights), pointer(rounded),
        pointer(own[1]), own[2],
    )  # fmt: skip
    # Nothing that is pointed to is allocated here: Numba would free it while pointers to it are in use.
    room, p_queue = len(whole) // 2, pointer(queue)
    listed = TopicList(
        pointer(whole[:room]), pointer(whole[room:]), pointer(numbers[:room]), pointer(numbers[room : 2 * room]),
        pointer(numbers[2 * room :]),
    )  # fmt: skip
    while True:
        d = next_document(starts, order, p_queue)
        if d < 0:
            break
        first, last = starts[d], starts[d + 1]
        taken = own[0][d] if len(own[0]) > 0 else _NO_TOKEN
        a, b = start_stream(seed, visit + np.uint64(d))
        a, b, used = _begin(batch, listed, start, first, last, a, b)
        for sweep in range(sweeps):
            for i in range(first, last):
                ahead = i + 1 if sweep == 0 and i + 1 < last else -1
                a, b, used = _token(batch, listed, sweep - burn_in, taken, i, ahead, used, a, b)
        _clear(listed, used)


@numba.njit
def _begin(batch, topics, start, first, last, a, b):
    """Topics for the first sweep, and their list; how many they are."""
    used = 0
    for i in range(first, last):
        if start != START_GIVEN:
            u = uniform(a, b)
            a, b = advance(a, b)
            if start == START_PHI:
                row = np.int64(batch.row_of[i])
                batch.z[i] = np.uint16(_of_prior(batch, row, u * batch.totals[row]))
            else:
                batch.z[i] = np.uint16(min(int(u * np.float32(batch.every)), batch.every - 1))
        used = _join(topics.listed, topics.count, topics.slot_of, used, np.int64(batch.z[i]))
    return a, b, used


@numba.njit
def _clear(topics, used):
    for slot in range(used):
        topics.slot_of[topics.listed[slot]] = 0
        topics.listed[slot], topics.count[slot] = 0, _NO_TOKEN


@numba.njit(forceinline=True, error_model="numpy")
def _token(batch, topics, sweep, taken, i, ahead, used, a, b):
    """A draw for token i in one of the sweeps counted, or before them if it is negative.

    `ahead` is the next token, of which nothing is in the cache yet, or -1; `taken` how much of n the token itself is.
    """
    listed, slot_of, count, weight, running = topics
    every, phi = batch.every, batch.phi
    left = np.int64(batch.z[i])
    used = _leave(listed, count, slot_of, used, left)
    row = np.int64(batch.row_of[i])
    width = -(-used // LANE_COUNT) * LANE_COUNT
    if ahead >= 0:
        prefetch_some(width, listed, phi, np.int64(batch.words[batch.row_of[ahead]]) * every)
    own = weigh_some(width, count, listed, phi, np.int64(batch.words[row]) * every, weight, running)
    prior = batch.totals[row]
    total = own + prior
    u = uniform(a, b)
    a, b = advance(a, b)
    # a number of its own: what u has left may be too coarse for rare topics
    v = uniform(a, b)
    a, b = advance(a, b)
    chosen = np.int64(listed[_safely(width, weight, running, u * own)])
    place = np.int64(batch.place_of[i]) * batch.counted + sweep
    if sweep >= 0 and batch.rao_blackwell:
        batch.topics[place] = np.uint16(chosen)
        if batch.keeps_weights:
            batch.weights[place] = own / total
        if batch.rounds:  # up or down at random, by v, which has nothing to do with the topic
            batch.rounded[place] = np.int32(own / total * np.float32(np.int32(1) << batch.shifts[row]) + v)
    if v * total >= own:
        chosen = _of_prior(batch, row, u * prior)
    if taken > 0 and chosen == left:
        # n without the token itself: its topic is refused in proportion to what it has less
        before = phi[np.int64(batch.words[row]) * every + left]
        kept = max(before - taken * batch.unit[left], batch.alpha * batch.unit[left]) / before
        u = uniform(a, b)
        a, b = advance(a, b)
        if u >= kept:
            chosen = _drawn_without(batch, topics, row, used, left, kept, uniform(a, b))
            a, b = advance(a, b)
    if sweep >= 0 and not batch.rao_blackwell:
        batch.topics[place] = np.uint16(chosen)
    batch.z[i] = np.uint16(chosen)
    return a, b, _join(listed, count, slot_of, used, chosen)


@numba.njit
def _drawn_without(batch, topics, row, used, left, kept, u):
    """A draw from all topics, `left` with the fraction `kept` of its weight: one by one, as it is seldom needed."""
    listed, count, weights, first = topics.listed, topics.count, topics.weight, np.int64(batch.words[row]) * batch.every
    prior, own = np.float32(0), np.float32(0)
    for k in range(batch.every):
        prior += batch.gamma[k] * batch.phi[first + k] * (kept if k == left else _ONE_TOKEN)
        weights[k] = prior
    for slot in range(used):
        own += count[slot] * batch.phi[first + listed[slot]] * (kept if listed[slot] == left else _ONE_TOKEN)
    u *= prior + own
    for slot in range(used):
        u -= count[slot] * batch.phi[first + listed[slot]] * (kept if listed[slot] == left else _ONE_TOKEN)
        if u < 0:
            return np.int64(listed[slot])
    for k in range(batch.every):
        if u < weights[k]:
            return np.int64(k)
    return left


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
def _of_prior(batch, row, u):
    """The topic at u in the running sum of gamma_k phi_wk: its block, then its place in it."""
    every, gamma, phi, blocks = batch.every, batch.gamma, batch.phi, batch.blocks
    table, word = row * batch.block_count, np.int64(batch.words[row]) * every
    block = min(count_below(batch.block_count, blocks, table, u), (every - 1) // LANE_COUNT)
    rest, reached, at = u, _NO_TOKEN, block * LANE_COUNT
    if block > 0:
        rest -= blocks[table + block - 1]
    for k in range(at, min(at + LANE_COUNT, every)):
        reached += gamma[k] * phi[word + k]
        if rest < reached:
            return k
    # u fell on the rounding of a sum
    best = 0
    for k in range(every):
        if gamma[k] * phi[word + k] > gamma[best] * phi[word + best]:
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
