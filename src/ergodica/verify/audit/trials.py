"""First trials: do the chains move, do they look at their keys, and at which step size is there something to see?"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from ergodica.verify.audit.chains import Chains, key_base

TRIAL_STEPS = 8
LITTLE_LEFT, MUCH_LEFT = 0.1, 0.75  # correlation of the fastest coordinate over TRIAL_STEPS steps
SIZE_FACTOR = 4.0
MOST_TRIALS = 24
FORGETFUL_SIZES = 3  # smaller step sizes in a row at which all is forgotten as before: no need to go on, as with NUTS
COARSE_BITS = 11  # significant bits: those of float16; bfloat16 has 8, float32 has 24


class Trial(NamedTuple):
    """The step size to begin with, and what the first steps showed."""

    step_size: float
    is_finite: bool = True
    moves: bool = True
    frozen: tuple[int, ...] = ()
    """Coordinates that never move."""
    heeds_key: bool = True
    heeds_start: bool = True
    """Whether the key of `init` makes a difference."""
    holds_key: bool = False
    """Whether the state holds a key of its own."""
    blows_up: float | None = None
    """The smallest step size tried at which chains become non-finite."""
    coarse: tuple[int, ...] = ()
    """Coordinates that are kept with COARSE_BITS significant bits or fewer."""
    bits: int = 53
    """Significant bits of the coarsest coordinate."""
    escape: float | None = None
    """The time, steps times step size, at which chains run away whatever the step size."""

    @property
    def is_final(self) -> bool:
        """Whether there is nothing more to ask."""
        return not (self.is_finite and self.moves and self.is_random)

    @property
    def is_random(self) -> bool:
        return self.heeds_key or (self.heeds_start and self.holds_key)


def first_trial(
    chains: Chains, starts: Callable[[int], np.ndarray], dim: int, step_size: float | None, seed: int
) -> Trial:
    """Looks for a step size at which the fastest coordinate forgets some of where it was, from `step_size` or 1."""
    x = starts(0)
    first = 1.0 if step_size is None else step_size
    begin = chains.observe(x)[:, :dim]

    def places(h: float, begun: int = 0, run: int = 0) -> np.ndarray:
        """Positions after TRIAL_STEPS and twice as many, from the same start; with keys for `init` and for steps."""
        states, after = chains.start(x, key_base(seed, 4, begun)), []
        if run:
            states = chains.rekeyed(states, key_base(seed, 5, run))
        for k in range(2):
            states, observed = chains.run(states, key_base(seed, 5, run), k * TRIAL_STEPS, h, 1, TRIAL_STEPS)
            after.append(observed[:, :dim])
        return np.stack(after)

    h, blows_up, tried, forgetful = first, None, {}, []
    for _ in range(MOST_TRIALS):
        tried[h] = places(h)
        if np.isfinite(tried[h]).all():
            left = float(_correlation(*tried[h]).min())
            if LITTLE_LEFT <= left <= MUCH_LEFT:
                break
            forgetful = [*forgetful, h] if left < LITTLE_LEFT else []
            if len(forgetful) > FORGETFUL_SIZES:
                h = forgetful[0]
                break
            # chains that stand still have their steps rejected
            is_large = left < LITTLE_LEFT or _standing(tried[h], begin).mean() > 0.5
            following = h / SIZE_FACTOR if is_large else h * SIZE_FACTOR
        else:
            blows_up = h if blows_up is None else min(h, blows_up)
            following = h / SIZE_FACTOR
        if following in tried:
            h = min(h, following)
            break
        h = following
    finite = {size: moved for size, moved in tried.items() if np.isfinite(moved).all()}
    if not finite:
        return Trial(h, is_finite=False, blows_up=blows_up)
    h = first if _is_ignored(finite) and first in finite else h if h in finite else max(finite)
    still = np.all([_standing(moved, begin).all(0) for moved in finite.values()], axis=0)
    if still.all():
        return Trial(h, moves=False, blows_up=blows_up)
    moving = h if not _standing(finite[h], begin).all() else min(finite)
    bits = _significant_bits(chains.moved(x, key_base(seed, 4, 0), key_base(seed, 5, 0), moving))
    frozen, coarse = (tuple(np.flatnonzero(x).tolist()) for x in (still, (bits <= COARSE_BITS) & ~still))
    trial = Trial(h, frozen=frozen, blows_up=blows_up, coarse=coarse, bits=int(bits.min()))
    if not np.array_equal(places(moving, run=1), finite[moving]):
        return trial
    heeds_start = not np.array_equal(places(moving, begun=1), finite[moving])
    holds_key = chains.hold_keys(chains.start(x, key_base(seed, 4, 0)))
    return trial._replace(heeds_key=False, heeds_start=heeds_start, holds_key=holds_key)


def _significant_bits(x: np.ndarray) -> np.ndarray:
    """By coordinate, the most that a chain's position has: where a number is stored in few bits, the rest are zero."""
    whole = np.frexp(np.where(np.isfinite(x), x, 0.0))[0] * 2.0**53
    lowest = np.frexp(np.gcd(np.abs(whole).astype(np.int64), 2**53).astype(float))[1] - 1  # zeros at the end
    return (53 - lowest).max(0)


def _standing(moved: np.ndarray, begin: np.ndarray) -> np.ndarray:
    """Which coordinates of which chains are where they began."""
    return (moved == begin).all(0)


def _correlation(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    x, y = x - x.mean(0), y - y.mean(0)
    return np.abs((x * y).sum(0)) / np.sqrt(np.maximum((x * x).sum(0) * (y * y).sum(0), 1e-300))


def _is_ignored(finite: dict[float, np.ndarray]) -> bool:
    """Whether the step size changes nothing: then the trials wandered for nothing."""
    left = [float(_correlation(*moved).mean()) for moved in finite.values()]
    return len(finite) > 2 and max(left) - min(left) < 0.1
