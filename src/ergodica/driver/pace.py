"""How many steps to make before looking up: a second or two, at most three, whatever a step takes."""

import time

SECONDS = 1.5
REMEMBERED = 256  # programs whose pace is known from runs before in this process
FIRST = (2, 2, 16)  # the first chunk compiles, the second is measured, and the third is announced before that


_rates: dict[int | None, float] = {}


class Pace:
    """Chunks end at multiples of `length` (and of `refresh`), so that what happens there happens at the same steps in
    every run; in between a slow chain may be looked at more often."""

    def __init__(self, length: int, total: int, refresh: int | None = None, program: int | None = None):
        self.length, self.total, self.refresh, self.program = length, total, refresh, program
        self.rate = _rates.get(program)  # steps per second
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
        if self._made > 1 or self.rate is not None:
            self.rate = count / max(seconds, 1e-9)
            if self.program is not None:
                _rates.pop(self.program, None)
                _rates[self.program] = self.rate
                while len(_rates) > REMEMBERED:
                    _rates.pop(next(iter(_rates)), None)


def now() -> float:
    return time.monotonic()
