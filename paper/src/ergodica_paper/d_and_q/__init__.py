"""The supplement's discussion of the choice of D and Q, measured: escapes over a barrier and crossings of it."""

from ergodica_paper import best_step
from ergodica_paper.best_step import BOUND, BestStep, NoStep, grid, seeds
from ergodica_paper.d_and_q import claims, peaks, pictures
from ergodica_paper.d_and_q.chains import Choice, compiled
from ergodica_paper.d_and_q.trials import CHAINS, SEEDS, Figures, search, try_all
from ergodica_paper.result import Ask, PaperItem, Result

LENGTH = {False: 3000, True: 16_000}  # steps of a chain, quick and full
STEPS = grid(0.1, 1.6, 8)  # in units of `trials.unit`
HEIGHTS = (1.0, 4.0)  # of the barrier; the paper's density has 1
SIZES = (0.125, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0)
RAISED = ((0.125, 1.0), (1.0, 8.0))  # sizes of D that are set against each other
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
    new_seeds = seeds(ask.seed, 0xD0)
    alone = [Choice(h, 1.0, grows, False, has_momentum=False) for h in HEIGHTS for grows in (False, True)]
    plain = [Choice(h, s, d, q) for h in HEIGHTS for s in SIZES for d in (False, True) for q in (False, True)]
    never = [c for c in plain if c.size in RESAMPLED and c.diffusion_grows == c.curl_grows]
    drawn = [c._replace(every=n) for c in never for n in EVERY]
    # as many chains as there would be with one grid, one finer one and one confirmation, and some more
    progress = _Progress(ask, 1.4 * SEEDS * (2 * len(STEPS) + CHAINS) * len(alone + plain + drawn))
    progress("no Q")
    count_without = compiled(False, LENGTH[ask.full], progress.tell)
    without = search(count_without, alone, STEPS, new_seeds)
    progress("D and Q of every size")
    count = compiled(True, LENGTH[ask.full], progress.tell)
    with_curl = search(count, plain, STEPS, new_seeds)
    progress("momentum resampling")
    resampled = search(count, drawn, STEPS, new_seeds)
    progress("accuracy near the modes")
    pairs = {**_near_mode(count_without, without, next(new_seeds)), **_near_mode(count, with_curl, next(new_seeds))}
    ask.report(0.98, "pictures")
    searches = {"no Q": without, "D and Q": with_curl, "momentum resampling": resampled}
    lost = {name: sum(f.lost for f in found.values()) for name, found in searches.items()}
    return _result(ask, {**without, **with_curl, **resampled}, never, pairs, lost)


def _result(
    ask: Ask, found: dict[Choice, BestStep[Figures]], never: list[Choice], pairs: claims.Pairs, lost: dict[str, int]
) -> Result:  # fmt: skip
    judge = claims.Judge(found)
    best = {c: f.best for c, f in found.items()}
    made = [
        judge.diffusion_escapes(HEIGHTS, RAISED),
        judge.adaptive_diffusion(HEIGHTS),
        claims.near_mode(pairs),
        judge.curl_traverses(HEIGHTS),
        judge.adaptive_curl(HEIGHTS),
        judge.resampling(never, _words),
    ]
    accuracy, accuracy_table = pictures.accuracy(pairs)
    ratios, ratios_table = pictures.ratios([claim for claim in made if claim.picture != accuracy.name])
    return Result(
        text=_text(judge, ask.full),
        claims=made,
        pictures=[
            pictures.times(best, HEIGHTS, "escape", "escape time, gradient evaluations", _ESCAPE),
            pictures.times(best, HEIGHTS, "crossing", "crossing time, gradient evaluations", _CROSSING),
            accuracy,
            pictures.resampling(best, never, _words),
            ratios,
        ],
        tables=[pictures.table(found), accuracy_table, ratios_table],
        settings=_settings(ask),
        non_finite=lost,
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


def _near_mode(count, found: dict[Choice, BestStep[Figures]], seed: int) -> claims.Pairs:
    """Constant and growing D of mean 1 with a constant Q or none, at the smaller of their best steps."""
    jobs, words = [], {}
    for height in HEIGHTS:
        both = [c for c in found if (c.height, c.size, c.curl_grows) == (height, 1.0, False)]
        steps = [f.step_size for c in both if (f := found[c].best) is not None]
        has_steps = len(steps) == len(both)
        jobs += [(c, min(steps)) for c in sorted(both, key=lambda c: c.diffusion_grows) if has_steps]
        words["constant Q" if both[0].has_momentum else "no Q", f"barrier {height:g}"] = has_steps
    made = iter(try_all(count, jobs, NEAR_MODE_CHAINS, seed, SEEDS))
    return {w: (next(made), next(made)) if has_steps else None for w, has_steps in words.items()}


def _words(choice: Choice) -> tuple[str, str]:
    kind = "growing" if choice.diffusion_grows else "constant"
    return f"both {kind}, D {choice.size:g}", f"barrier {choice.height:g}"


def _text(judge: claims.Judge, full: bool) -> list[str]:
    escapes = []
    for height in HEIGHTS:
        top = judge.at_best_size(height=height)
        if isinstance(top, NoStep) or top[1].best is None:
            continue
        choice, escape = top[0], top[1].best.escape.value
        kinds = " and ".join(
            f"{name} {'growing with U' if grows else 'constant'}"
            for name, grows in (("D", choice.diffusion_grows), ("Q", choice.curl_grows))
        )
        resampled = f", momentum redrawn every {choice.every} steps" if choice.every else ""
        where = f"{kinds}, D of mean {choice.size:g}{resampled}" if choice.has_momentum else f"no Q, {kinds[:-11]}"
        escapes.append(f"barrier {height:g}: {escape} ({where})")
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
        "At a large step some chains go far out now and then, and the mean of U is then theirs. The more and "
        f"longer the chains are (here {SEEDS * CHAINS} of {LENGTH[full]:,} steps), the smaller is a step that is "
        "limited so.",
        f"Fastest escapes of all choices, in gradient evaluations: {'; '.join(escapes)}.",
    ]


def _settings(ask: Ask) -> dict:
    return {
        "heights of the barrier": HEIGHTS,
        "means of D": SIZES,
        "mean of Q": 1.0,
        "steps between momentum resamplings": EVERY,
        "step sizes, in units of 1/w (with Q) or 1/(w^2 D), w^2 = 8 h": [float(f"{x:.4g}") for x in STEPS],
        "starts": "drawn from the law",
        "seeds": SEEDS,
        "chains of a seed": CHAINS,
        "chains of a seed, near the modes": NEAR_MODE_CHAINS // SEEDS,
        **best_step.search_settings(LENGTH[ask.full]),
    }


ITEM = PaperItem(
    name="d-and-q",
    title="The choice of D and Q",
    source="supplement, 'Discussion of Choice of D and Q'",
    run=run,
    code=(
        "ergodica_paper/d_and_q/__init__.py",
        "ergodica_paper/d_and_q/peaks.py",
        "ergodica_paper/d_and_q/chains.py",
        "ergodica_paper/d_and_q/trials.py",
        "ergodica_paper/d_and_q/claims.py",
        "ergodica_paper/best_step.py",
        "ergodica_paper/ratios.py",
    ),
    seconds=(30, 160),
)
