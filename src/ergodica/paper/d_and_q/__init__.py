"""The supplement's discussion of the choice of D and Q, measured: escapes over a barrier and crossings of it."""

from collections.abc import Iterator

import numpy as np

from ergodica.paper.d_and_q import claims, peaks, pictures
from ergodica.paper.d_and_q.answers import BEYOND
from ergodica.paper.d_and_q.chains import Choice, compiled
from ergodica.paper.d_and_q.trials import CHAINS, SEEDS, Figures, Search, grid, search, try_all
from ergodica.paper.result import Ask, Item, Result
from ergodica.paper.two_dimensional.trials import BOUND, grid_error

LENGTH = {False: 3000, True: 16_000}  # steps of a chain, quick and full
STEPS = {False: grid(8), True: grid(16)}
HEIGHTS = (1.0, 4.0)  # of the barrier; the paper's density has 1
SIZES = (0.125, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0)
RESAMPLED = (0.125, 1.0, 8.0)  # sizes of D with which momentum resampling is tried
EVERY = (10, 30, 100)
NEAR_MODE_CHAINS = 1008  # that biases near the modes are small takes more chains to see


class _Progress:
    """How far the item has come, by the chains that have been run."""

    def __init__(self, ask: Ask, expected: float):
        self.ask, self.expected, self.done, self.words = ask, expected, 0, ""

    def __call__(self, words: str) -> None:
        self.words = words
        self.tell(0)

    def tell(self, chains: int) -> None:
        self.done += chains
        self.ask.report(min(0.97, self.done / self.expected), self.words)


def run(ask: Ask) -> Result:
    """Every choice at its best step within the bound, in gradient evaluations."""
    seeds, steps = _seeds(ask.seed), STEPS[ask.full]
    alone = [Choice(h, 1.0, grows, False, has_momentum=False) for h in HEIGHTS for grows in (False, True)]
    plain = [Choice(h, s, d, q) for h in HEIGHTS for s in SIZES for d in (False, True) for q in (False, True)]
    never = [c for c in plain if c.size in RESAMPLED and c.diffusion_grows == c.curl_grows]
    drawn = [c._replace(every=n) for c in never for n in EVERY]
    # as many chains as there would be without extensions, and some for them
    progress = _Progress(ask, 1.4 * SEEDS * (len(steps) + CHAINS) * len(alone + plain + drawn))
    progress("no Q")
    count_without = compiled(False, LENGTH[ask.full], progress.tell)
    without = search(count_without, alone, steps, seeds)
    progress("D and Q of every size")
    count = compiled(True, LENGTH[ask.full], progress.tell)
    found = search(count, plain, steps, seeds)
    progress("momentum resampling")
    resampled = search(count, drawn, steps, seeds)
    best = {**without.best, **found.best, **resampled.best}
    progress("accuracy near the modes")
    pairs = {**_near_mode(count_without, without, 1.0, next(seeds)), **_near_mode(count, found, 1.0, next(seeds))}
    ask.report(0.98, "pictures")
    judge = claims.Judge(best, grid_error(steps))
    accuracy, accuracy_table = pictures.accuracy(pairs)
    return Result(
        text=_text(judge),
        claims=[
            judge.diffusion_escapes(HEIGHTS),
            judge.adaptive_diffusion(HEIGHTS),
            claims.near_mode(pairs),
            judge.curl_traverses(HEIGHTS),
            judge.adaptive_curl(HEIGHTS),
            judge.resampling(never, _words),
        ],
        pictures=[
            pictures.times(best, HEIGHTS, "escape", "escape time, gradient evaluations", _ESCAPE),
            pictures.times(best, HEIGHTS, "crossing", "crossing time, gradient evaluations", _CROSSING),
            accuracy,
            pictures.resampling(best, never, _words),
        ],
        tables=[pictures.table(best), accuracy_table],
        settings=_settings(ask),
        non_finite={"no Q": without.lost, "D and Q": found.lost, "momentum resampling": resampled.lost},
    )


_ESCAPE = (
    "Gradient evaluations from the bottom of one well to that of the other, against the size of D for a Q of mean 1 "
    "(or against 1 over the size of Q for a D of mean 1: a common factor is the unit of the step size), each choice at "
    "its best step size; fewer is better."
)
_CROSSING = (
    "Gradient evaluations that a crossing spends between the inflection points of U, where the density is low, for the "
    "same choices and steps."
)


def _seeds(seed: int) -> Iterator[int]:
    rng = np.random.default_rng([seed, 0xD0])
    while True:
        yield int(rng.integers(2**32))


def _near_mode(count, found: Search, size: float, seed: int) -> dict[str, tuple[Figures, Figures]]:
    """Constant and growing D of the same mean with a constant Q or none, at the smaller of their best steps."""
    jobs, words = [], []
    for height in HEIGHTS:
        both = [c for c in found.best if (c.height, c.size, c.curl_grows) == (height, size, False)]
        steps = [f.step_size for c in both if (f := found.best[c]) is not None]
        if len(steps) < len(both):
            continue
        jobs += [(c, min(steps)) for c in sorted(both, key=lambda c: c.diffusion_grows)]
        words.append(f"{'constant Q' if both[0].has_momentum else 'no Q'}, barrier {height:g}")
    made = try_all(count, jobs, NEAR_MODE_CHAINS, seed, SEEDS)
    return {w: (made[2 * k], made[2 * k + 1]) for k, w in enumerate(words)}


def _words(choice: Choice) -> str:
    kind = "growing" if choice.diffusion_grows else "constant"
    return f"D and Q {kind}, D {choice.size:g}, barrier {choice.height:g}"


def _text(judge: claims.Judge) -> list[str]:
    fastest = []
    for height in HEIGHTS:
        top = judge.at_best_size(height=height)
        if top is None:
            continue
        choice, f = top
        kinds = " and ".join(
            f"{name} {'growing with U' if grows else 'constant'}"
            for name, grows in (("D", choice.diffusion_grows), ("Q", choice.curl_grows))
        )
        resampled = f", momentum drawn anew every {choice.every} steps" if choice.every else ""
        where = f"{kinds}, D of mean {choice.size:g}{resampled}" if choice.has_momentum else f"no Q, {kinds[:-11]}"
        fastest.append(f"barrier {height:g}: {f.escape.mean():.0f} ± {pictures.error(f.escape):.1f} ({where})")
    return [
        "U = h (t^4 - 2 t^2) has two peaks and a barrier of height h between them; h = 1 is the paper's density. For "
        "every choice of D and Q: how many gradient evaluations it takes from the bottom of one well to that of the "
        "other, and how many a crossing spends between the inflection points, where the density is low. Each choice "
        f"has its fastest step size at which no mean (of t squared, U, the mass between the inflection points) is off "
        f"by more than {BOUND:g} sds. Growing means with U as in gSGRHMC: D with (U + h + {peaks.ROOM:g}) to the power "
        f"{peaks.DIFFUSION_POWER:g}, Q to the power {peaks.CURL_POWER:g}, both divided by their means over the law.",
        "Only the ratio of D to Q and the step size matter: both doubled at half the step size is the same chain. "
        "Without Q the size of D alone is the unit of the step size. All choices with a momentum take the same kind "
        "of step, the library's for a curl that reads the potential (kick, exact friction, move); those without, "
        "Euler's. Gradients are exact.",
        f"Fastest escapes of all choices, in gradient evaluations: {'; '.join(fastest)}.",
    ]


def _settings(ask: Ask) -> dict:
    return {
        "heights of the barrier": HEIGHTS,
        "means of D": SIZES,
        "mean of Q": 1.0,
        "steps between momentum resamplings": EVERY,
        "step sizes, in units of 1/w (with Q) or 1/(w^2 D), w^2 = 8 h": [float(f"{x:.4g}") for x in STEPS[ask.full]],
        "steps of a chain": LENGTH[ask.full],
        "seeds": SEEDS,
        "chains of a seed": CHAINS,
        "chains of a seed, near the modes": NEAR_MODE_CHAINS // SEEDS,
        "bound on the bias, sds": BOUND,
        "standard errors that count": BEYOND,
        "seed": ask.seed,
    }


ITEM = Item(
    name="d-and-q",
    title="The choice of D and Q",
    source="supplement, 'Discussion of Choice of D and Q'",
    run=run,
    code=(
        "ergodica/paper/d_and_q/__init__.py",
        "ergodica/paper/d_and_q/chains.py",
        "ergodica/paper/d_and_q/trials.py",
        "ergodica/paper/d_and_q/claims.py",
    ),
    seconds=(27, 150),
)
