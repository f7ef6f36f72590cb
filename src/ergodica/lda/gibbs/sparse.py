"""The Gibbs kernel for many topics: the law of `dense`, at a cost that grows with the topics a document has.

    (A_k + gamma_k) phi_wk = A_k phi_wk + gamma_k phi_wk

The first part, the document's own, is zero but for the topics in it; the second depends on the word alone, and is drawn
from by its running sums, made once a batch.

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
from ergodica.lda.gibbs.vectors import LANE_COUNT, next_document, pick, pointer, weigh_some

_ONE_TOKEN = np.float32(1)


def room_for(tokens: int, cells: int, counted: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Where the documents leave what is to be added up: topics, weights, inverse.

    topics, weights (tokens, sweeps counted): a topic for every draw and what it counts for, tokens sorted by cell.
    inverse (cells,): the sum of 1 / total over a cell's draws; 0 for the sampled estimator.
    """
    shape = (tokens, counted)
    return np.empty(shape, np.int32), np.empty(shape, np.float32), np.zeros(cells, np.float32)


@cached_njit(nogil=True, parallel=True)
def running_sums(phi, words, gamma, out):
    """out[i, k] = sum of gamma_j phi[words[i], j] for j <= k; the last is -1 where a number is negative."""
    for i in numba.prange(len(words)):
        total, smallest = np.float32(0), np.float32(0)
        for k in range(phi.shape[1]):
            total += gamma[k] * phi[words[i], k]
            smallest = min(smallest, phi[words[i], k])
            out[i, k] = total
        if smallest < 0:
            out[i, -1] = -1


@cached_njit(nogil=True, parallel=True)
def run(phi, tables, layout, plan, z, found, numbers, whole, threads):
    """All documents of a batch, by threads that take them one by one.

    Args:
        tables: the running sums. z: as in `dense.run`.
        numbers: (threads, 2 K padded + dense.SLOT_ROOM) zeros, float32. whole: (threads, 2 K padded) zeros, int32.
    """
    counter = np.zeros(1, np.int64)
    for t in numba.prange(threads):
        _work(phi, tables, layout, plan, found, z, numbers[t], whole[t], pointer(counter))


@numba.njit(nogil=True, error_model="numpy")
def _work(phi, tables, layout, plan, found, z, numbers, whole, counter):
    words, _, cell_word, starts, tokens, order, cell_tokens, _ = layout
    _, sweeps, burn_in, seed, visit, start, rao_blackwell = plan
    topics, weights, inverse = found
    every, room = phi.shape[1], len(whole) // 2
    # the topics in the document in any order, how many tokens each has, and where in that list a topic is, from 1 on.
    # Nothing is allocated here: Numba would free it while pointers to it are in use.
    p_listed, p_slot_of = pointer(whole[:room]), pointer(whole[room:])
    p_count, p_own, p_running = pointer(numbers[:room]), pointer(numbers[room : 2 * room]), pointer(numbers[2 * room :])
    p_z = pointer(z)
    p_phi, p_tables, p_tokens, p_cell_word, p_words = (
        pointer(phi), pointer(tables), pointer(tokens), pointer(cell_word), pointer(words),
    )  # fmt: skip
    p_cell_tokens, p_topics, p_weights, p_inverse = (
        pointer(cell_tokens), pointer(topics), pointer(weights), pointer(inverse),
    )  # fmt: skip
    counted = sweeps - burn_in
    while True:
        d = next_document(starts, order, counter)
        if d < 0:
            break
        first, length = starts[d], starts[d + 1] - starts[d]
        used = 0
        a, b = start_stream(seed, visit + np.uint64(d))
        for i in range(length):
            table = p_cell_word[p_tokens[first + i]] * every
            if start != START_GIVEN:
                u = uniform(a, b)
                a, b = advance(a, b)
                if start == START_PHI:
                    p_z[first + i] = np.uint16(_searched(p_tables, table, every, u * p_tables[table + every - 1]))
                else:
                    p_z[first + i] = np.uint16(min(int(u * np.float32(every)), every - 1))
            used = _join(p_listed, p_count, p_slot_of, used, np.int64(p_z[first + i]))
        for sweep in range(sweeps):
            within = 0  # the number of the token in its cell
            for i in range(length):
                cell = p_tokens[first + i]
                within = within + 1 if i > 0 and cell == p_tokens[first + i - 1] else 0
                used = _leave(p_listed, p_count, p_slot_of, used, np.int64(p_z[first + i]))
                row = p_cell_word[cell]
                table = row * every
                width = -(-used // LANE_COUNT) * LANE_COUNT
                own = weigh_some(width, p_count, p_listed, p_phi, p_words[row] * every, p_own, p_running)
                all_of_word = p_tables[table + every - 1]
                total = own + all_of_word
                u = uniform(a, b)
                a, b = advance(a, b)
                chosen = p_listed[_safely(width, p_own, p_running, u * own)]
                # a number of its own: what u has left may be too coarse for rare topics
                is_own = uniform(a, b) * total < own
                a, b = advance(a, b)
                place = (p_cell_tokens[cell] + within) * counted + sweep - burn_in
                if sweep >= burn_in and rao_blackwell:
                    p_topics[place], p_weights[place] = chosen, own / total
                    p_inverse[cell] += _ONE_TOKEN / total
                if not is_own:
                    chosen = _searched(p_tables, table, every, u * all_of_word)
                if sweep >= burn_in and not rao_blackwell:
                    p_topics[place], p_weights[place] = chosen, _ONE_TOKEN
                p_z[first + i] = np.uint16(chosen)
                used = _join(p_listed, p_count, p_slot_of, used, chosen)
        for slot in range(used):
            p_slot_of[p_listed[slot]] = 0
            p_listed[slot], p_count[slot] = 0, np.float32(0)


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
    listed[last], count[last] = 0, np.float32(0)
    return last


@numba.njit(forceinline=True)
def _searched(tables, first, size, u):
    """The first place of a word's running sums above u; the last, if none is."""
    low, left = 0, size
    while left > 1:
        half = left // 2
        low += half if tables[first + low + half - 1] <= u else 0
        left -= half
    return low


@cached_njit(nogil=True, parallel=True)
def add_words(phi, layout, found, gamma, counted, counts):
    """counts[w] = [what its draws count for, in their order, + gamma phi_w sum of 1 / total] / sweeps counted."""
    words, word_cells, cell_tokens = layout[0], layout[1], layout[6]
    topics, weights, inverse = found
    for w in numba.prange(len(words)):
        total, rest = np.zeros(phi.shape[1]), 0.0
        for cell in range(word_cells[w], word_cells[w + 1]):
            rest += inverse[cell]
        for token in range(cell_tokens[word_cells[w]], cell_tokens[word_cells[w + 1]]):
            for j in range(topics.shape[1]):
                total[topics[token, j]] += weights[token, j]
        for k in range(phi.shape[1]):
            counts[w, k] = (total[k] + rest * gamma[k] * phi[words[w], k]) / counted


@cached_njit(nogil=True, parallel=True)
def add_documents(phi, layout, found, gamma, counted, shares):
    """The same for documents."""
    words, _, cell_word, starts, tokens, _, cell_tokens, _ = layout
    topics, weights, inverse = found
    for d in numba.prange(len(starts) - 1):
        for i in range(starts[d], starts[d + 1]):
            cell = tokens[i]
            if i > starts[d] and cell == tokens[i - 1]:
                continue
            for token in range(cell_tokens[cell], cell_tokens[cell + 1]):
                for j in range(topics.shape[1]):
                    shares[d, topics[token, j]] += weights[token, j]
            row, scale = words[cell_word[cell]], inverse[cell]
            if scale > 0:
                for k in range(phi.shape[1]):
                    shares[d, k] += scale * gamma[k] * phi[row, k]
        for k in range(phi.shape[1]):
            shares[d, k] /= counted
