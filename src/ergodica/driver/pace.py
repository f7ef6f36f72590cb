"""How many steps to make before looking up: a second or two, at most three, whatever a step takes."""

import time

SECONDS = 1.5
FIRST = (2, 2, 16)  # the first chunk compiles, the second is measured, and the third is announced before that


class Pace:
    """Chunks end at multiples of `length` (and of `refresh`), so that what happens there happens at the same steps in
    every run; in between a slow chain may be looked at more often."""

    def __init__(self, length: int, total: int, refresh: int | None = None):
        self.length, self.total, self.refresh = length, total, refresh
        self.rate: float | None = None  # steps per second
        self._planned, self._made = 0, 0

    def count(self, step: int) -> int:
        """The number of steps of the chunk that begins at `step`."""
        stops = [self.total, (step // self.length + 1) * self.length]
        if self.refresh is not None:
            stops.append((step // self.refresh + 1) * self.refresh)
        wanted = FIRST[min(self._planned, len(FIRST) - 1)] if self.rate is None else int(SECONDS * self.rate)
        self._planned += 1
        rest = min(stops) - step
        # random numbers are drawn for a whole length whatever is made of it: better at once than in two parts
        return rest if rest <= 2 * wanted else max(1, wanted)

    def made(self, count: int, seconds: float) -> None:
        """Told what a chunk took."""
        self._made += 1
        if self._made > 1:
            self.rate = count / max(seconds, 1e-9)


def now() -> float:
    return time.monotonic()
