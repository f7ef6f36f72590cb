"""Random processes of several kinds, made without a recipe: Q rebuilt from the drift of each, and the claim on that."""

from collections.abc import Callable
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

import ergodica as eg
from ergodica.compiling import quick_filter_jit
from ergodica.errors import InputError
from ergodica.verify.completeness.rebuild import CURL_TOLERANCE
from ergodica_paper.processes import ConstantMatrix, Process, circling, ornstein_uhlenbeck
from ergodica_paper.result import Ask, Claim
from ergodica_paper.theorem_2.rebuilt import BULK_DENSITY, CLOSE, RESOLUTION, look
from ergodica_paper.verdict import Answer, judged, yes_if

POINTS = 1_000  # drawn in the box of the bulk, where drift and Q are compared


class Kind(NamedTuple):
    """One way of making a process.

    Args:
        words: how its law is known.
        draw: seed -> the process, and z -> the Q that it must have, in two dimensions.
        counts: of processes, (quick, full).
    """

    name: str
    words: str
    dim: int
    draw: Callable[[Any], tuple[Process, Any]]
    counts: tuple[int, int]


class StreamCurl(eqx.Module):
    """z -> [[0, s], [-s, 0]]."""

    entry: Any

    def __call__(self, z: Any) -> Any:
        s, zero = self.entry(z), jnp.zeros((), z.dtype)
        return jnp.stack([jnp.stack([zero, s]), jnp.stack([-s, zero])])


def from_stream(seed: Any) -> tuple[Process, Any]:
    process, entry = circling(seed)
    return process, StreamCurl(entry)


def linear(dim: int) -> Callable[[Any], tuple[Process, Any]]:
    """Ornstein-Uhlenbeck processes."""

    def draw(seed: Any) -> tuple[Process, Any]:
        process, curl = ornstein_uhlenbeck(seed, dim)
        return process, ConstantMatrix(curl)

    return draw


BY_LYAPUNOV = (
    "random linear drift and constant D, which may be singular; the law solves a Lyapunov equation, no Q is put in"
)
KINDS = (
    Kind(
        "stream function, 2 dimensions",
        "D grad H, and a current along the level lines of a random stream function, which is its Q written out",
        2, from_stream, (3, 100),
    ),
    Kind("Ornstein-Uhlenbeck, 2 dimensions", BY_LYAPUNOV, 2, linear(2), (6, 100)),
    Kind("Ornstein-Uhlenbeck, 3 dimensions", BY_LYAPUNOV, 3, linear(3), (2, 30)),
)  # fmt: skip


class RandomProcess(NamedTuple):
    """A random process, and what came of it.

    Args:
        passed: all checks of eg.rebuild_curl.
        error: of the drift through the rebuilt Q, largest over its root mean square; infinite where it was refused.
        gap: of Q to the one that it must be, largest over the size of D + Q; None where Q is not unique.
        refused: why there is no Q, or "".
    """

    kind: Kind
    passed: bool
    error: float
    gap: float | None
    refused: str = ""

    @property
    def is_finite(self) -> bool:
        return bool(np.isfinite(self.error) and (self.gap is None or np.isfinite(self.gap)))

    @property
    def is_back(self) -> bool:
        return self.passed and self.error <= CURL_TOLERANCE and (self.gap is None or self.gap <= CLOSE)


def rebuild_random(ask: Ask) -> list[RandomProcess]:
    asked = [(kind, i) for kind in KINDS for i in range(kind.counts[ask.full])]
    found = []
    for done, (kind, i) in enumerate(asked):
        ask.report(0.5 + 0.45 * done / len(asked), f"random process {done + 1} of {len(asked)}: {kind.name}")
        process, curl = kind.draw([ask.seed, 2, KINDS.index(kind), i])
        found.append(drawn(kind, process, curl, [ask.seed, 3, KINDS.index(kind), i]))
    return found


def drawn(kind: Kind, process: Process, curl: Any, seed: list[int]) -> RandomProcess:
    """`curl` is the Q that it must have, where that is one."""
    is_unique = kind.dim == 2
    try:
        q = eg.rebuild_curl(*process, resolution=RESOLUTION[kind.dim], seed=seed[0])
    except InputError as error:
        return RandomProcess(kind, False, np.inf, np.inf if is_unique else None, str(error))
    low, high = np.array(q.bulk).T
    points = np.random.default_rng(seed).uniform(low, high, (POINTS, kind.dim))
    with jax.enable_x64(True):
        points = jnp.asarray(points)
        energy, drift, rebuilt_curl, rebuilt = (np.asarray(a) for a in look(process, q.at, points))
        given, diffusion = (np.asarray(a) for a in _matrices(curl, process.diffusion, points))
    bulk = energy <= energy.min() - np.log(BULK_DENSITY)
    size = np.sqrt(np.square(drift[bulk]).sum(axis=1).mean())
    error = float(np.sqrt(np.square(rebuilt - drift)[bulk].sum(axis=1)).max() / size)
    gap = float(np.abs(rebuilt_curl - given)[bulk].max() / np.abs(given + diffusion)[bulk].max())
    return RandomProcess(kind, q.passed, error, gap if is_unique else None)


@quick_filter_jit
def _matrices(curl: Any, diffusion: Any, points: Any) -> Any:
    return jax.vmap(lambda z: (curl(z), diffusion(z)))(points)


class KindSummary(NamedTuple):
    """Of one kind: how many were made, came back and have a Q with finite errors, and the largest of these errors."""

    kind: Kind
    made: int
    back: int
    finite: int
    error: float | None
    gap: float | None

    @classmethod
    def of(cls, kind: Kind, found: list[RandomProcess]) -> "KindSummary":
        mine = [r for r in found if r.kind is kind]
        finite = [r for r in mine if r.is_finite]
        error = max((r.error for r in finite), default=None)
        gap = max((r.gap for r in finite if r.gap is not None), default=None)
        return cls(kind, len(mine), sum(r.is_back for r in mine), len(finite), error, gap)

    def __str__(self) -> str:
        words = f"{self.kind.name}: {self.back} of {self.made}"
        words += "" if self.error is None else f", drift within {self.error:.1e}"
        return words + ("" if self.gap is None else f", Q within {self.gap:.1e}")


def summaries(found: list[RandomProcess]) -> list[KindSummary]:
    return [KindSummary.of(kind, found) for kind in KINDS if any(r.kind is kind for r in found)]


def random_claim(found: list[RandomProcess]) -> Claim:
    """Asked of each kind of process."""
    kinds = summaries(found)
    answers = [Answer(s.kind.name, yes_if(s.back == s.made)) for s in kinds]
    return judged(
        "theorem-2-random",
        "Every process with the law exp(-H) and an integrable current is a recipe for some skew Q.",
        "Theorem 2, section 2.2",
        answers,
        f"Random processes that come back through the rebuilt Q: {'; '.join(map(str, kinds))}. The law of "
        "Ornstein-Uhlenbeck processes comes from a Lyapunov equation: no Q is put in.",
        {
            s.kind.name: {
                "how": s.kind.words, "made": s.made, "came_back": s.back, "finite": s.finite,
                "largest_drift_error": s.error, "largest_curl_error": s.gap,
                "refused": [r.refused for r in found if r.kind is s.kind and r.refused],
            }
            for s in kinds
        },
        picture="random",
        rule="Kind by kind, every process comes back: eg.rebuild_curl gives a Q, the drift through it is within "
        f"{CURL_TOLERANCE:g} of its size, and in two dimensions, where Q is unique, Q within {CLOSE:g} of what it must "
        "be.",
    )  # fmt: skip
