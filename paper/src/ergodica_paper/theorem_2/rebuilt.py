"""Q rebuilt from a sampler's drift, held against the paper's Q; and the process that fails the theorem's condition."""

from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from scipy.integrate import quad

import ergodica as eg
from ergodica.compiling import quick_filter_jit
from ergodica.verify.completeness.rebuild import BULK_DENSITY, CURL_TOLERANCE, SHELL_DECAY, NoCurlError
from ergodica.verify.completeness.rebuilt_curl import RebuiltCurl
from ergodica.verify.hand_written import hand_written
from ergodica_paper.processes import Process, of
from ergodica_paper.result import Ask, Claim
from ergodica_paper.style import LABELS
from ergodica_paper.theorem_2.processes import NOT_INTEGRABLE, PUSH, curl_of_the_push, named
from ergodica_paper.verdict import Answer, all_of, judged, yes_if

RESOLUTION = {2: 256, 3: 64}
PRINTED = np.array([[0.0, -1.0], [1.0, 0.0]])  # the paper's Q of HMC and SGHMC, z = (theta, r)
CLOSE = 1e-6  # of Q, which is 1: rebuilt on a grid, so not to rounding
PIXELS = 101
POINTS, DECADES = 256, (-1.0, 2.0)  # where a Q by hand is looked at: radii by their logarithm
ROUNDING = 1e-12  # of the drift through it


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
        """Largest |Q - the paper's Q| in the bulk; None in three dimensions, where Q is not unique."""
        if self.dim > 2:
            return None
        bulk = self.plane.density >= BULK_DENSITY
        return float(np.abs(self.plane.curl[bulk] - PRINTED).max())

    @property
    def is_back(self) -> bool:
        return self.curl.passed and (self.gap is None or self.gap <= CLOSE)


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
        looked = [np.asarray(a) for a in look(process, q.at, jnp.asarray(points))]
    energy, drift, curl, rebuilt = looked
    density = np.exp(energy.min() - energy)
    size = np.sqrt(np.square(drift[density >= BULK_DENSITY]).sum(axis=1).mean())
    error = np.abs(rebuilt - drift).max(axis=1) / size
    return Plane(x, y, density, drift, curl, error)


class _Both(eqx.Module):
    """D + Q with the rebuilt Q."""

    diffusion: Any
    curl: Any

    def __call__(self, z: Any) -> Any:
        return self.diffusion(z) + self.curl(z)


@quick_filter_jit
def look(process: Process, curl: Any, points: Any) -> Any:
    """H, the drift, Q, and the drift through Q by Eq. `CorrectDrift`."""
    both = _Both(process.diffusion, curl)

    def at(z: Any) -> Any:
        gamma = jnp.einsum("ijj->i", jax.jacfwd(both)(z))
        rebuilt = gamma - both(z) @ jax.grad(process.hamiltonian)(z)
        return process.hamiltonian(z), process.drift(z), curl(z), rebuilt

    return jax.lax.map(at, points, batch_size=512)


# -- claims -------------------------------------------------------------------------------------------


def named_claim(every: list[Rebuilt | Refused]) -> Claim:
    """Asked of every sampler."""
    found = [r for r in every if isinstance(r, Rebuilt)]
    answers = [Answer(LABELS[r.name], yes_if(isinstance(r, Rebuilt) and r.is_back)) for r in every]
    parts = [f"{LABELS[r.name]}: refused, {r.words}" for r in every if isinstance(r, Refused)]
    for r in found:
        words = f"{LABELS[r.name]}: drift within {r.curl.error:.1e}"
        parts.append(words + (f", Q within {r.gap:.1e} of the paper's" if r.gap is not None else " (Q is not unique)"))
    return judged(
        "theorem-2-samplers",
        "The skew Q of a sampler can be had from its drift, D and H: shown for HMC, SGHMC and SGNHT.",
        "Theorem 2, supplement (constructive proof)",
        answers,
        f"{'; '.join(parts)}.",
        {r.name: {"drift_error": r.curl.error, "curl_error": r.gap, "largest_Q": r.curl.largest} for r in found},
        picture=f"curl-{found[0].name}" if found else "",
        rule=f"Sampler by sampler: the drift through the rebuilt Q is within {CURL_TOLERANCE:g} of its size, and in "
        f"two dimensions, where Q is unique, Q is within {CLOSE:g} of the paper's.",
    )


def condition_claim(seed: int) -> Claim:
    """Reproduced if the process that keeps its law on paper is refused for its current alone."""
    try:
        report = eg.rebuild_curl(*NOT_INTEGRABLE, seed=seed).report
    except NoCurlError as error:
        report = error.report
    checks = {check.name: check for check in report.checks}
    off = drift_off(NOT_INTEGRABLE, curl_of_the_push, seed)
    parts = checks["stationary"].passed, not checks["integrable"].passed, off <= ROUNDING
    answers = [Answer("a constant current on a Cauchy law", all_of(map(yes_if, parts)))]
    return judged(
        "theorem-2-condition",
        "Theorem 2 asks for an integrable current, which is enough and not needed: there are processes whose "
        "Fokker-Planck equation keeps exp(-H) and that fail this condition, and one of them has a Q all the same.",
        "Theorem 2, section 2.2: an example of ours",
        answers,
        f"The drift ({PUSH[0]:g}, {PUSH[1]:g}) / p on a Cauchy law has a Fokker-Planck residual of "
        f"{checks['stationary'].figure:.1e}, and in a shell twice as wide {checks['integrable'].figure:.3g} times as "
        f"much current. Its path from 0 is at infinity after {time_to_infinity():.3g} units of time. Yet "
        f"Q_12 = (c_1 z_2 - c_2 z_1) / p satisfies Eq. CorrectDrift, to {off:.1e}.",
        {
            "residual": checks["stationary"].figure,
            "growth_of_shells": checks["integrable"].figure,
            "time_to_infinity": time_to_infinity(),
            "drift_error_of_the_Q_by_hand": off,
        },
        picture="shells",
        kind="ours",
        rule="eg.rebuild_curl finds the Fokker-Planck residual of the process at rounding and refuses it for its "
        f"current, which does not fall below {SHELL_DECAY:g} of itself from shell to shell of doubling width; and a Q "
        f"by hand gives its drift by Eq. CorrectDrift to {ROUNDING:g} of its size.",
    )


def drift_off(process: Process, curl: Any, seed: int) -> float:
    """How far the drift through a Q by hand is off, at most, over its size at the point; at points of many radii."""
    rng = np.random.default_rng([seed, 12])
    angles, radii = rng.uniform(0, 2 * np.pi, POINTS), 10 ** rng.uniform(*DECADES, POINTS)
    points = np.stack([radii * np.cos(angles), radii * np.sin(angles)], axis=-1)
    with jax.enable_x64(True):
        _, drift, _, through = (np.asarray(a) for a in look(process, curl, jnp.asarray(points)))
    return float(np.max(np.linalg.norm(through - drift, axis=1) / np.linalg.norm(drift, axis=1)))


def time_to_infinity() -> float:
    """Of the path from 0 with the speed |c| / p along c."""
    return float(quad(lambda s: (1 + s**2) ** -1.5 / np.linalg.norm(PUSH), 0, np.inf)[0])
