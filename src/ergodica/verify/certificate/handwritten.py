"""`certify_sde`: does a hand-written SDE leave its law invariant, and if not, what is wrong with it?"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import jax
import numpy as np
from jaxtyping import Array

from ergodica import structure
from ergodica.errors import InputError
from ergodica.report import Check, Report
from ergodica.verify.certificate import hypoellipticity
from ergodica.verify.certificate.derivatives import check_derivatives
from ergodica.verify.certificate.fault import Fault, find_fault, of_error
from ergodica.verify.certificate.otherlaw import OtherLaw, find_other_law
from ergodica.verify.certificate.places import Places, find_places
from ergodica.verify.certificate.repairs import Repair, find_repairs, in_words
from ergodica.verify.certificate.tails import check_tails
from ergodica.verify.certificate.terms import Functions, Terms, terms_at
from ergodica.verify.functions import at, has_float32, mismatch
from ergodica.verify.sde import from_functions
from ergodica.verify.stationarity import rounding

LIMIT = 100  # numbers; D is a matrix and is differentiated twice
SLACK = 1e-10  # of the size of D, by which it may miss being symmetric and PSD
COARSE_SLACK = 1e-5  # if its numbers are float32
COARSE = (
    "The functions hold float32 numbers, so the residual is known to float32's rounding only; give them NumPy arrays "
    "of float64 to see more."
)


@dataclass(frozen=True)
class SdeCertificate(Report):
    """The checks of a hand-written SDE, and for one that does not pass, what is wrong.

    Args:
        repairs: slips that explain all that was seen, the one to name first; empty: no simple repair.
        fault: the coordinate whose drift is off.
        other_law: the law that the process leaves invariant instead, where one was found.
    """

    repairs: tuple[Repair, ...] = ()
    fault: Fault | None = None
    other_law: OtherLaw | None = None


def certify_sde(
    drift: Callable[[Array], Array],
    diffusion: Callable[[Array], Array],
    hamiltonian: Callable[[Array], Array],
    dim: int,
    *,
    temperature: float = 1.0,
    start: Sequence[float] | None = None,
    seed: int = 0,
) -> SdeCertificate:
    """Does dz = f dt + sqrt(2 T D) dW leave exp(-H/T) invariant? If not: where is it off, and which repair helps?

    The Fokker-Planck residual (Eq. `FokkerPlank`) is computed in float64 at points where the law lives.

    Args:
        drift, diffusion, hamiltonian: f(z), shape (dim,), D(z), (dim, dim), and H(z), a scalar: jnp functions of one
            flat vector.
        start: where to start looking for the law; by default around 0.

    Example:
        >>> import jax.numpy as jnp, ergodica as eg
        >>> report = eg.certify_sde(lambda z: -z, lambda z: 0.5 * jnp.eye(2), lambda z: jnp.sum(z**2) / 2, dim=2)
        >>> report.passed, report.repairs[0].kind, report.repairs[0].factor
        (False, 'diffusion', 2.0)
    """
    functions = drift, diffusion, hamiltonian
    _check_input(functions, dim)
    structure.check_temperature(temperature)
    structure.check_seed(seed)
    with jax.enable_x64(True):
        places = find_places(hamiltonian, dim, start, float(temperature), seed)
        return _Examination(functions, places, float(temperature), seed).report()


def _check_input(functions: Functions, dim: Any) -> None:
    if not isinstance(dim, int | np.integer) or isinstance(dim, bool) or not 1 <= dim <= LIMIT:
        raise InputError(
            f"dim = {dim!r}: expected a whole number from 1 to {LIMIT}; for more, write a Recipe: eg.certify"
        )
    drift, diffusion, hamiltonian = functions
    named: dict[str, Callable] = {"drift": drift, "diffusion": diffusion, "hamiltonian": hamiltonian}
    for name, function in named.items():
        if not callable(function):
            raise InputError(f"{name} is {function!r}: expected a jnp function of one flat vector")
    wrong = mismatch(named, int(dim))
    if wrong:
        raise InputError(f"{wrong}; with dim = {dim} the functions take one vector of {dim} numbers")


class _Examination:
    """One SDE at its points."""

    def __init__(self, functions: Functions, places: Places, temperature: float, seed: int):
        self.functions, self.temperature, self.seed = functions, temperature, seed
        self.places, self.dim = places, places.points.shape[1]
        self.terms = self.evaluate(places.points)
        self.is_coarse = any(has_float32(function, self.dim) for function in functions)
        self.tolerance = rounding(np.float32 if self.is_coarse else np.float64)
        self.slack = COARSE_SLACK if self.is_coarse else SLACK
        check_values(self.terms, self.slack)

    def evaluate(self, points: np.ndarray) -> Terms:
        return terms_at(self.functions, points, self.temperature)

    def report(self) -> SdeCertificate:
        title = f"SDE in {self.dim} coordinates against exp(-H/{self.temperature:g}); {len(self.terms.points):,} points"
        residual = check_residual(self.terms, self.tolerance)
        checks = [check_psd(self.terms, self.slack), residual]
        notes = [self.places.words, *([COARSE] if self.is_coarse else [])]
        if not residual.passed:
            return self.explained(title, checks, notes)
        checks += self.check_functions()
        if not all(check.passed for check in checks):
            return SdeCertificate(title, tuple(checks), tuple(notes), {"repair": None})
        reach, more = self.check_reach()
        return SdeCertificate(title, (*checks, *reach), (*notes, *more), {"repair": None})

    def check_functions(self) -> list[Check]:
        """What the residual takes for granted: a law, and derivatives that are those of the functions."""
        drift, diffusion, hamiltonian = self.functions
        points = self.terms.points

        def values(z: Array) -> dict[str, Array]:
            return {"drift": drift(z), "diffusion": diffusion(z), "hamiltonian": hamiltonian(z)}

        tails = check_tails(lambda z: hamiltonian(z) / self.temperature, points, self.seed)
        eps = float(np.finfo(np.float32 if self.is_coarse else np.float64).eps)
        cancels = {"drift": float(np.max(np.abs(self.terms.parts)))}  # a drift is what D grad H and T div D leave of it
        derivatives = check_derivatives(values, points, self.seed, spread=self.places.width, cancels=cancels, eps=eps)
        return [tails, derivatives]

    def explained(self, title: str, checks: list[Check], notes: list[str]) -> SdeCertificate:
        """With the repair, the coordinate and the other law, for a residual that does not vanish."""
        repairs = find_repairs(self.terms, self.tolerance)
        error = next((e for repair in repairs if (e := repair.misplaced(self.terms)) is not None), None)
        fault = find_fault(self.evaluate, self.terms) if error is None else of_error(error, self.terms, is_known=True)
        other = find_other_law(self.functions, self.terms, self.tolerance)
        notes = [*notes, *self.only_at_some_modes(), in_words(repairs), fault.words]
        notes += [f"z[{k}] never moves: it has neither drift nor noise." for k in self.terms.frozen]
        if other is not None:
            notes.append(f"The process leaves {other.words} invariant instead.")
        figures = {
            "repair": repairs[0].kind if repairs else None,
            "factor": repairs[0].factor if repairs else None,
            "coordinate": fault.coordinate,
            "drift_error": fault.sizes,
            "other_law": None if other is None else other.words,
        }
        return SdeCertificate(title, tuple(checks), tuple(notes), figures, tuple(repairs), fault, other)

    def only_at_some_modes(self) -> list[str]:
        """Where the drift is right at one mode and wrong at another."""
        modes = self.places.modes
        worst = [float(np.max(self.terms.residual().relative[k::modes])) for k in range(modes)]
        wrong = [k for k in range(modes) if worst[k] > self.tolerance]
        if len(wrong) == modes:
            return []
        centres = " and ".join(at(np.median(self.terms.points[k::modes], axis=0)) for k in wrong)
        return [f"The residual vanishes at {modes - len(wrong)} of {modes} modes, and not at that around {centres}."]

    def check_reach(self) -> tuple[list[Check], list[str]]:
        """Hormander's condition, where D is singular."""
        values = np.linalg.eigvalsh(self.terms.diffusion)
        if np.max(values) <= 0 and len(self.terms.frozen) < self.dim:
            return [], [
                "D = 0: the flow keeps the law, but samples it only if something, as the momentum, is resampled."
            ]
        if np.all(values[:, 0] > self.slack * values[:, -1]):
            return [], []
        if self.dim > hypoellipticity.LIMIT:
            return [], [f"Hormander's condition was not looked at: {self.dim} numbers, limit {hypoellipticity.LIMIT}."]
        sde = from_functions(*self.functions, self.dim, self.temperature)
        found = hypoellipticity.reach(sde, np.asarray(self.terms.points[:3]), self.seed)
        words = f"D is singular; brackets to depth {found.depth} span {found.rank} of {found.dim} directions"
        if not found.is_full:
            words += f", least of all {sde.name(found.missed or 0)}: its law depends on the start"
        notes = [hypoellipticity.SMOOTH_IS_NOT_ERGODIC] if found.is_full else []
        return [Check(hypoellipticity.NAME, found.is_full, found.rank, found.dim, words)], notes


def check_values(terms: Terms, slack: float) -> None:
    """Refuses values that are not finite, and a D that is not symmetric."""
    n = len(terms.points)
    values = {
        "drift": terms.parts[:, 0],
        "diffusion": terms.diffusion,
        "the derivative of drift": terms.spreads[:, 0],
        "a derivative of diffusion or hamiltonian": np.concatenate([terms.parts, terms.spreads], axis=1),
    }
    for name, value in values.items():
        bad = np.argwhere(~np.isfinite(value.reshape(n, -1)))
        if len(bad):
            row, entry = bad[0]
            index = ", ".join(str(i) for i in np.unravel_index(entry, value.shape[1:]))
            which = f"{name}[{index}]" if name in ("drift", "diffusion") else name
            raise InputError(
                f"{which} is {value.reshape(n, -1)[row, entry]} at {at(terms.points[row])}, and not finite at "
                f"{len(np.unique(bad[:, 0])):,} of {n:,} points where the law lives: it must be finite there"
            )
    skew = np.abs(terms.diffusion - np.swapaxes(terms.diffusion, 1, 2))
    size = np.abs(terms.diffusion).max(axis=(1, 2), keepdims=True)
    if np.any(skew > slack * size):
        row, i, j = np.unravel_index(np.argmax(skew - slack * size), skew.shape)
        raise InputError(
            f"diffusion is not symmetric: at {at(terms.points[row])} D[{i}, {j}] = {terms.diffusion[row, i, j]:.6g} "
            f"and D[{j}, {i}] = {terms.diffusion[row, j, i]:.6g}; a skew part belongs into the drift"
        )


def check_psd(terms: Terms, slack: float) -> Check:
    values = np.linalg.eigvalsh(terms.diffusion)
    size = np.max(np.abs(values), axis=1)
    below = -values[:, 0] / np.where(size == 0, 1.0, size)
    worst = int(np.argmax(below))
    passed = bool(below[worst] <= slack)
    words = "D is symmetric and positive semidefinite"
    if not passed:
        words = f"D has the eigenvalue {values[worst, 0]:.3g} at {at(terms.points[worst])}: there is no root of 2 T D"
    return Check("diffusion is PSD", passed, max(float(below[worst]), 0.0), slack, words)


def check_residual(terms: Terms, tolerance: float) -> Check:
    residual = terms.residual()
    worst = int(np.argmax(residual.relative))
    figure = float(residual.relative[worst])
    if figure <= tolerance:
        seen = residual.smallest_seen(tolerance)
        error = f"an error of the drift of {seen:.1e} of its size"
        if seen >= 1:  # the drift is itself rounding, of terms that cancel everywhere
            error = f"the drift is zero up to rounding; an error of {tolerance:.1e} of the terms that cancel in it"
        words = f"exp(-H/T) is invariant; {error} would have been seen"
    else:
        words = (
            f"exp(-H/T) is not invariant: the residual is {residual.value[worst]:.3g} at {at(terms.points[worst])}, "
            f"{figure:.2g} of what cancels in it"
        )
    return Check("Fokker-Planck residual", figure <= tolerance, figure, tolerance, words)
