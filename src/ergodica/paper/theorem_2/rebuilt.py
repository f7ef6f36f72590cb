"""Q rebuilt from the drift, held against the Q that the process was made with; and the claims on that."""

from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from scipy.integrate import quad

import ergodica as eg
from ergodica.compiling import quick_filter_jit
from ergodica.paper.result import Ask, Claim, Table
from ergodica.paper.samplers import LABELS
from ergodica.paper.theorem_2.processes import NOT_INTEGRABLE, PUSH, Process, named, of, random
from ergodica.verify.completeness.rebuild import TOLERANCE, NoCurlError
from ergodica.verify.completeness.rebuilt import RebuiltCurl
from ergodica.verify.functions import hand_written

RESOLUTION = {2: 256, 3: 64}
PRINTED = np.array([[0.0, -1.0], [1.0, 0.0]])  # the paper's Q of HMC and SGHMC, z = (theta, r)
CLOSE = 1e-6  # of Q, which is 1: rebuilt on a grid, so not to rounding
PIXELS = 101


class Plane(NamedTuple):
    """The plane of the first two coordinates through the mode: axes, density, given drift, rebuilt Q, drift error."""

    x: np.ndarray
    y: np.ndarray
    density: np.ndarray
    drift: np.ndarray
    curl: np.ndarray
    error: np.ndarray  # of the drift through the rebuilt Q, over its root mean square in the bulk


class Rebuilt(NamedTuple):
    """A sampler, the curl that Theorem 2 gives it, and a plane to look at."""

    name: str
    curl: RebuiltCurl
    plane: Plane

    @property
    def dim(self) -> int:
        return len(self.curl.box)

    @property
    def gap(self) -> float | None:
        """Largest |Q - the paper's Q| where the density is above 1e-4; None in three dimensions, where Q is not one."""
        if self.dim > 2:
            return None
        bulk = self.plane.density >= 1e-4
        return float(np.abs(self.plane.curl[bulk] - PRINTED).max())


class Refused(NamedTuple):
    """A sampler that Theorem 2 does not apply to, and why."""

    name: str
    dim: int
    words: str


def rebuild_named(ask: Ask) -> list[Rebuilt | Refused]:
    found: list[Rebuilt | Refused] = []
    for i, (name, sde) in enumerate(named().items()):
        ask.report(0.15 * i, f"Q of {LABELS[name]} from its drift")
        try:
            q = eg.rebuild_curl(*of(sde), resolution=RESOLUTION[sde.dim], seed=ask.seed)
        except NoCurlError as error:
            found.append(Refused(name, sde.dim, str(error)))
        else:
            found.append(Rebuilt(name, q, plane_of(q, of(sde))))
    return found


def plane_of(q: RebuiltCurl, process: Process) -> Plane:
    sides = [(max(a, c), min(b, d)) for (a, b), (c, d) in zip(q.bulk, q.box, strict=True)]
    x, y = (np.linspace(low, high, PIXELS) for low, high in sides[:2])
    points = np.zeros((PIXELS**2, len(sides)))
    points[:, 0], points[:, 1] = np.tile(x, PIXELS), np.repeat(y, PIXELS)
    if len(sides) == 3:  # the momentum's energy, and so the mode, does not move with the third
        line = np.linspace(*sides[2], 201)
        heights = hand_written(*process, len(sides)).energies(np.stack([0 * line + 1, 0 * line, line], axis=-1))
        points[:, 2] = line[np.argmin(heights)]
    with jax.enable_x64(True):
        looked = [np.asarray(a) for a in _look(process, q.at, jnp.asarray(points))]
    energy, drift, curl, rebuilt = looked
    density = np.exp(energy.min() - energy)
    size = np.sqrt(np.square(drift[density >= 1e-4]).sum(axis=1).mean())
    error = np.abs(rebuilt - drift).max(axis=1) / size
    return Plane(x, y, density, drift, curl, error)


class _Both(eqx.Module):
    """D + Q with the rebuilt Q."""

    diffusion: Any
    curl: Any

    def __call__(self, z: Any) -> Any:
        return self.diffusion(z) + self.curl(z)


@quick_filter_jit
def _look(process: Process, curl: Any, points: Any) -> Any:
    """H, the drift, Q, and the drift through Q by Eq. `CorrectDrift`."""
    both = _Both(process.diffusion, curl)

    def at(z: Any) -> Any:
        gamma = jnp.einsum("ijj->i", jax.jacfwd(both)(z))
        rebuilt = gamma - both(z) @ jax.grad(process.hamiltonian)(z)
        return process.hamiltonian(z), process.drift(z), curl(z), rebuilt

    return jax.lax.map(at, points, batch_size=512)


class RandomRebuilt(NamedTuple):
    """A random process: the error of the drift, and of Q against the Q that was put in, at points of the bulk."""

    passed: bool
    error: float
    gap: float


def rebuild_random(ask: Ask) -> list[RandomRebuilt]:
    count, found = (100 if ask.full else 6), []
    for i in range(count):
        ask.report(0.5 + 0.45 * i / count, f"random process {i + 1} of {count}")
        process, stream = random([ask.seed, 2, i])
        q = eg.rebuild_curl(*process, seed=ask.seed)
        low, high = np.array(q.bulk).T
        points = np.random.default_rng([ask.seed, 3, i]).uniform(low, high, (400, 2))
        with jax.enable_x64(True):
            energy, curl, put = (
                np.asarray(a) for a in _entries(process.hamiltonian, q.at, stream, jnp.asarray(points))
            )
        bulk = energy <= energy.min() + np.log(1e4)
        found.append(RandomRebuilt(q.passed, q.error, float(np.abs(curl - put)[bulk].max())))
    return found


@quick_filter_jit
def _entries(hamiltonian: Any, curl: Any, stream: Any, points: Any) -> Any:
    return jax.vmap(lambda z: (hamiltonian(z), curl(z)[0, 1], stream(z)))(points)


# -- claims -------------------------------------------------------------------------------------------


def named_claim(every: list[Rebuilt | Refused]) -> Claim:
    """Reproduced if every drift comes back and, where Q is one, so does the paper's Q."""
    found = [r for r in every if isinstance(r, Rebuilt)]
    good = len(found) == len(every) and all(r.curl.passed and (r.gap is None or r.gap < CLOSE) for r in found)
    parts = [f"{LABELS[r.name]}: refused, {r.words}" for r in every if isinstance(r, Refused)]
    for r in found:
        words = f"{LABELS[r.name]}: drift within {r.curl.error:.1e} of its size"
        parts.append(words + (f", Q within {r.gap:.1e} of the paper's" if r.gap is not None else ""))
    free = ", ".join(LABELS[r.name] for r in found if r.gap is None)
    return Claim(
        "theorem-2-samplers",
        "The skew Q of a sampler can be had from its drift, D and H: shown for HMC, SGHMC and SGNHT.",
        "Theorem 2, supplement (constructive proof)",
        "reproduced" if good else "not reproduced",
        "; ".join(parts)
        + (f". In three dimensions ({free}) Q is not unique, so drifts are compared." if free else "."),
        {r.name: {"drift_error": r.curl.error, "curl_error": r.gap, "largest_Q": r.curl.largest} for r in found},
        picture=f"curl-{found[0].name}" if found else "",
    )


def random_claim(found: list[RandomRebuilt]) -> Claim:
    """Reproduced if the drift of every process comes back within the tolerance of rebuild_curl."""
    passed = sum(r.passed for r in found)
    return Claim(
        "theorem-2-random",
        "Every process with the law exp(-H) and an integrable current is a recipe for some skew Q.",
        "Theorem 2, section 2.2",
        "reproduced" if passed == len(found) else "not reproduced",
        f"{passed} of {len(found)} random processes in two dimensions, made from a stream function and not from a "
        f"recipe, come back through the rebuilt Q: the drift within {max(r.error for r in found):.1e} of its size "
        f"(tolerance {TOLERANCE:g}), Q itself within {max(r.gap for r in found):.1e}.",
        {
            "processes": len(found),
            "passed": passed,
            "largest_drift_error": max(r.error for r in found),
            "largest_curl_error": max(r.gap for r in found),
        },
        picture="",
    )


def condition_claim(seed: int) -> Claim:
    """Reproduced if the process that keeps its law on paper is refused for its current alone."""
    try:
        report = eg.rebuild_curl(*NOT_INTEGRABLE, seed=seed).report
    except NoCurlError as error:
        report = error.report
    checks = {check.name: check for check in report.checks}
    fails = checks["stationary"].passed and not checks["integrable"].passed
    speed = np.linalg.norm(PUSH)
    time = quad(lambda s: (1 + s**2) ** -1.5 / speed, 0, np.inf)[0]
    return Claim(
        "theorem-2-condition",
        "Theorem 2 asks for an integrable current: where it is not, the construction does not apply.",
        "Theorem 2, section 2.2, and the remark below it",
        "reproduced" if fails else "not reproduced",
        f"The drift {PUSH[0]:g}, {PUSH[1]:g} over p on a Cauchy law has a Fokker-Planck residual of "
        f"{checks['stationary'].figure:.1e}, but its current over a shell twice as wide is "
        f"{checks['integrable'].figure:.3g} times as large. eg.rebuild_curl "
        f"{'refuses it' if fails else 'does not refuse it'}. Its path from 0 runs off to infinity in {time:.3g} units "
        "of time, so that no process keeps the law for ever. The condition is enough, and not shown to be needed: here "
        "Q_12 = (c_1 z_2 - c_2 z_1) / p, for the drift c / p, satisfies Eq. CorrectDrift.",
        {
            "residual": checks["stationary"].figure,
            "growth_of_shells": checks["integrable"].figure,
            "time_to_infinity": time,
        },
        picture="shells",
    )


def errors_table(every: list[Rebuilt | Refused], others: list[RandomRebuilt]) -> Table:
    rows: list[tuple] = []
    for r in every:
        head = (LABELS[r.name], r.dim, RESOLUTION[r.dim])
        tail = (False, None, None, None)
        if isinstance(r, Rebuilt):
            tail = (r.curl.passed, r.curl.error, r.gap, r.curl.largest)
        rows.append(head + tail)
    rows += [(f"random {i + 1}", 2, RESOLUTION[2], r.passed, r.error, r.gap, None) for i, r in enumerate(others)]
    columns = (
        "process", "dimensions", "points a side", "passed", "error of drift over its size", "error of Q", "largest Q",
    )  # fmt: skip
    return Table("errors", "Q rebuilt from the drift, D and H by eg.rebuild_curl.", columns, rows, shown=True)
