"""`certify_sde`: does a hand-written SDE leave its law invariant, and if not, what is wrong with it?"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import jax
import numpy as np
from jaxtyping import Array

from ergodica.errors import InputError
from ergodica.host.validate import positive_number, whole
from ergodica.report import Check, Report
from ergodica.verify.certificate.assumptions import check_derivatives, check_tails
from ergodica.verify.certificate.fault import Fault, find_fault, of_error
from ergodica.verify.certificate.hypoellipticity import check_reach
from ergodica.verify.certificate.other_law import OtherLaw, find_other_law
from ergodica.verify.certificate.points import Points, find_points
from ergodica.verify.certificate.repairs import Repair, Terms, find_repairs, in_words, terms_at
from ergodica.verify.hand_written import SYMMETRY_SLACK, HandWritten, hand_written, most_negative, refuse_values
from ergodica.verify.sde import at
from ergodica.verify.stationarity import residual_check, rounding

MOST_NUMBERS = 100  # D is a matrix and is differentiated twice
COARSE_SLACK = 1e-5  # SYMMETRY_SLACK if its numbers are float32
COARSE_NOTE = (
    "The functions hold float32 numbers, so the residual is known to float32's rounding only; give them NumPy arrays "
    "of float64 to see more."
)
D_IS_ZERO = "D = 0: the flow keeps the law, but samples it only if something, as the momentum, is resampled."


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

    Use it for equations that you wrote or found in print, before they become code. The Fokker-Planck residual, which
    vanishes everywhere exactly when exp(-H/T) is invariant (https://arxiv.org/abs/1506.04696, Theorem 1), is computed
    in float64 at points where the law lives, at every mode that descents find. Where it does not vanish, the report
    names the repair (a Gamma, a friction or a factor 2 that is missing), the coordinate whose drift is off, and the law
    that the process samples instead.

    Args:
        drift, diffusion, hamiltonian: f(z), shape (dim,), D(z), (dim, dim), and H(z), a scalar: jnp functions of one
            flat vector.
        dim: numbers in z, up to 100.
        temperature: T of the law.
        start: where to start looking for the law; by default around 0.
        seed: of the points; the same seed gives the same report.

    Returns:
        A report with `passed`, `repairs`, `fault` and `other_law`; `print` shows all of it.

    Example:
        >>> import jax.numpy as jnp, ergodica as eg
        >>> report = eg.certify_sde(lambda z: -z, lambda z: 0.5 * jnp.eye(2), lambda z: jnp.sum(z**2) / 2, dim=2)
        >>> report.passed, report.repairs[0].kind, report.repairs[0].factor
        (False, 'diffusion', 2.0)
    """
    if whole("dim", dim, 1) > MOST_NUMBERS:
        raise InputError(f"dim is {dim}: expected at most {MOST_NUMBERS}; for more, write a Recipe: eg.certify")
    temperature, seed = positive_number("temperature", temperature), whole("seed", seed)
    sde = hand_written(drift, diffusion, hamiltonian, dim, temperature)
    with jax.enable_x64(True):
        return _Examination(sde, find_points(hamiltonian, sde.dim, start, sde.temperature, seed), seed).report()


class _Examination:
    """One SDE at its points."""

    def __init__(self, sde: HandWritten, found: Points, seed: int):
        self.sde, self.found, self.seed = sde, found, seed
        self.terms = terms_at(sde, found.places)
        self.dtype = np.float32 if sde.has_float32 else np.float64
        self.tolerance = rounding(self.dtype)
        self.slack = SYMMETRY_SLACK if self.dtype is np.float64 else COARSE_SLACK
        check_values(self.terms, self.slack)

    def report(self) -> SdeCertificate:
        points, temperature = self.terms.points, self.sde.temperature
        title = f"SDE in {self.sde.dim} coordinates against exp(-H/{temperature:g}); {len(points):,} points"
        residual = residual_check(self.terms.residual(), self.terms.per_drift, self.tolerance, points)
        checks = [self.check_psd(), residual]
        notes = [self.found.words, *([COARSE_NOTE] if self.dtype is np.float32 else [])]
        if not residual.passed:
            return self.explained(title, checks, notes)
        checks += self.check_functions()
        if all(check.passed for check in checks):
            reach, more = self.check_reach()
            checks, notes = checks + reach, notes + more
        return SdeCertificate(title, tuple(checks), tuple(notes), {"repair": None})

    def check_psd(self) -> Check:
        worst, least, share = most_negative(self.terms.diffusion)
        words = "D is symmetric and positive semidefinite"
        if not share <= self.slack:
            words = f"D has the eigenvalue {least:.3g} at {at(self.terms.points[worst])}: there is no root of 2 T D"
        return Check("diffusion is PSD", share <= self.slack, max(share, 0.0), self.slack, words)

    def check_functions(self) -> list[Check]:
        """What the residual takes for granted: a law, and derivatives that are those of the functions."""
        drift, diffusion, hamiltonian = self.sde.functions
        points, temperature = self.terms.points, self.sde.temperature

        def values(z: Array) -> dict[str, Array]:
            return {"drift": drift(z), "diffusion": diffusion(z), "hamiltonian": hamiltonian(z)}

        tails = check_tails(lambda z: hamiltonian(z) / temperature, points, self.seed)
        cancels = {"drift": float(np.max(np.abs(self.terms.parts)))}  # a drift is what D grad H and T div D leave of it
        eps = float(np.finfo(self.dtype).eps)
        derivatives = check_derivatives(values, points, self.seed, spread=self.found.width, cancels=cancels, eps=eps)
        return [tails, derivatives]

    def explained(self, title: str, checks: list[Check], notes: list[str]) -> SdeCertificate:
        """With the repair, the coordinate and the other law, for a residual that does not vanish."""
        repairs = find_repairs(self.terms, self.tolerance)
        error = next((e for repair in repairs if (e := repair.misplaced(self.terms)) is not None), None)
        if error is not None:
            fault = of_error(error, self.terms, is_known=True)
        else:
            fault = find_fault(lambda points: terms_at(self.sde, points), self.terms)
        other = find_other_law(self.sde.functions, self.terms, self.tolerance)
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
        modes, relative = self.found.modes, self.terms.residual().relative
        wrong = [k for k in range(modes) if float(np.max(relative[k::modes])) > self.tolerance]
        if len(wrong) == modes:
            return []
        centres = " and ".join(at(np.median(self.terms.points[k::modes], axis=0)) for k in wrong)
        return [f"The residual vanishes at {modes - len(wrong)} of {modes} modes, and not at that around {centres}."]

    def check_reach(self) -> tuple[list[Check], list[str]]:
        """Hormander's condition, where D is singular."""
        values = np.linalg.eigvalsh(self.terms.diffusion)
        if np.max(values) <= 0 and len(self.terms.frozen) < self.sde.dim:
            return [], [D_IS_ZERO]
        if np.all(values[:, 0] > self.slack * values[:, -1]):
            return [], []
        check, notes = check_reach(self.sde, np.asarray(self.terms.points[:3]), self.seed)
        return [check], notes


def check_values(terms: Terms, slack: float) -> None:
    """Refuses values that are not finite, and a D that is not symmetric."""
    values = {
        "drift": terms.parts[:, 0],
        "diffusion": terms.diffusion,
        "the derivative of drift": terms.spreads[:, 0],
        "a derivative of diffusion or hamiltonian": np.concatenate([terms.parts, terms.spreads], axis=1),
    }
    refuse_values(values, terms.points, "where the law lives", slack)
