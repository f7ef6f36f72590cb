"""The law that a process does leave invariant, where it is not exp(-H/T): energies of a few shapes, solved for.

Against exp(-E), E = sum_k x_k E_k, the residual of dz = f dt + sqrt(2 T D) dW is quadratic in x,

    -div f + T div div D + sum_k x_k [(f - T div D) . e_k - T div(D e_k)] + sum_kl x_k x_l T e_k' D e_l,  e_k = grad E_k

and must vanish at every point. The E_k are H/T (another temperature), log det D (a density with respect to a volume:
the naive SGRHMC), and every z_i and z_i^2 / 2 (another Gaussian factor: SGNHT's printed energy).
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from ergodica.verify.certificate.assumptions import energies_at
from ergodica.verify.certificate.repairs import Terms, nearness
from ergodica.verify.hand_written import Functions

START_FACTORS = (1.0, 0.5, 2.0, 0.2, 5.0)  # of H / T to set out from
NEWTON_STEPS = 40
NEARLY_SIMPLE = 1e-3
HELD_BACK = 1e-6  # the factor of H moves only if it must: where H is a quadratic itself, others could take its place
FAR_OUT = (8.0, 16.0)  # where the energy must have risen, in distances of the points
MOST_GAUSSIAN = 40  # numbers up to which the Gaussian factors are tried


class FactorResidual(NamedTuple):
    """The residual as a function of x at n points: constant (n,), linear (n, m), square (n, m, m); `sizes` (n, m+1):
    the sum of the sizes of what cancels in the constant and in each linear coefficient."""

    constant: np.ndarray
    linear: np.ndarray
    square: np.ndarray
    sizes: np.ndarray

    def take(self, rows: slice, active: list[int]) -> "FactorResidual":
        return FactorResidual(
            self.constant[rows],
            self.linear[rows][:, active],
            self.square[rows][:, active][:, :, active],
            self.sizes[rows][:, [0, *(k + 1 for k in active)]],
        )

    def at(self, x: np.ndarray) -> np.ndarray:
        return self.constant + self.linear @ x + np.einsum("nkl,k,l->n", self.square, x, x)

    def scale(self, x: np.ndarray) -> np.ndarray:
        size = np.abs(x)
        total = self.sizes @ np.concatenate([[1.0], size]) + np.einsum("nkl,k,l->n", np.abs(self.square), size, size)
        return np.where(total == 0, 1.0, total)


@dataclass(frozen=True)
class OtherLaw:
    """exp(-hamiltonian/T), in words and as a function; `factors`: of H/T, log det D, z and z^2/2 in its energy."""

    words: str
    factors: tuple[float, ...]
    figure: float  # largest relative residual at points that were not used to find the factors
    hamiltonian: Callable[[Array], Array] = field(repr=False)


def find_other_law(functions: Functions, terms: Terms, tolerance: float) -> OtherLaw | None:
    """The first law of the list that is left invariant and whose energy rises outwards, as far as was looked."""
    still = still_directions(terms)
    quadratic = residual_of_factors(terms, still)
    half = len(terms.points) // 2
    for active in active_sets(terms.points.shape[1], has_volume=still is not None):
        known, fresh = quadratic.take(slice(half), active), quadratic.take(slice(half, None), active)
        for found in solutions(known, nearness(tolerance)):
            figure = float(np.max(np.abs(fresh.at(found)) / fresh.scale(found)))
            if not figure <= tolerance:
                continue
            factors = np.zeros(quadratic.linear.shape[1])
            factors[active] = found
            held = still if factors[1] else None
            energy = OtherEnergy(functions, factors, held, np.asarray(terms.temperature))
            if is_confining(energy, terms.points):
                words = in_words(factors, held, terms.temperature)
                return OtherLaw(words, tuple(factors.tolist()), figure, energy.hamiltonian)
    return None


def active_sets(dim: int, has_volume: bool) -> Iterator[list[int]]:
    """Which factors to solve for, the simplest first."""
    gaussian = list(range(2, 2 + 2 * dim)) if dim <= MOST_GAUSSIAN else []
    yield [0]
    if has_volume:
        yield [0, 1]
    if gaussian:
        yield [0, *gaussian]
    if has_volume and gaussian:
        yield [0, 1, *gaussian]


def solutions(quadratic: FactorResidual, near: float) -> Iterator[np.ndarray]:
    """Where Gauss-Newton steps from several starts lead; a factor near a quarter of a whole number is that."""
    costs = np.where(np.arange(quadratic.linear.shape[1]) == 0, HELD_BACK, 1.0)
    for start in START_FACTORS:
        x = np.zeros(quadratic.linear.shape[1])
        x[0] = start
        for _ in range(NEWTON_STEPS):
            scale = quadratic.scale(x)
            slope = quadratic.linear + 2 * np.einsum("nkl,l->nk", quadratic.square, x)
            step = costs * np.linalg.lstsq(costs * slope / scale[:, None], -quadratic.at(x) / scale, rcond=1e-13)[0]
            # far from the solution a whole step may overshoot
            x = x + step / max(1.0, float(np.max(np.abs(step))))
            if np.max(np.abs(step)) < 1e-15 * (1 + np.max(np.abs(x))):
                break
        simple = np.round(4 * x) / 4
        for close in (NEARLY_SIMPLE, near):  # the simpler law first, where the residual cannot tell the two apart
            yield np.where(np.abs(x - simple) < close, simple, x)


def still_directions(terms: Terms) -> np.ndarray | None:
    """A basis (dim, m) of the directions without noise, if they are the same everywhere; None: they are not, or D is
    constant, so that log det D, on the others, is no function or a constant."""
    diffusion = terms.diffusion
    size = np.max(np.abs(diffusion))
    if size == 0 or np.max(np.abs(diffusion - diffusion[0])) <= 1e-10 * size:
        return None
    values, vectors = np.linalg.eigh(diffusion.mean(axis=0))
    still = vectors[:, values <= 1e-10 * values[-1]]
    least = np.linalg.eigvalsh(diffusion + still @ still.T)[:, 0]
    return still if np.all(least > 1e-10 * size) else None


def volume_terms(terms: Terms, still: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The gradient e of log det D (n, dim), e_k = tr(D^-1 d_k D), and sum_ij D_ij d_i e_j (n,)."""
    inverse = np.linalg.inv(terms.diffusion + still @ still.T)
    turned = np.einsum("nab,nbck->nack", inverse, terms.jacobian)
    bend = np.einsum("nab,nab->n", inverse, terms.bend)
    return np.einsum("naak->nk", turned), bend - np.einsum("nij,nabi,nbaj->n", terms.diffusion, turned, turned)


def residual_of_factors(terms: Terms, still: np.ndarray | None) -> FactorResidual:
    """The residual's coefficients, with T div(D e) = (T div D) . e + T sum_ij D_ij d_i e_j."""
    n, dim = terms.points.shape
    drift, _, correction = np.moveaxis(terms.parts, 1, 0)
    slopes, bends = np.zeros((n, 2 + 2 * dim, dim)), np.zeros((n, 2 + 2 * dim))  # e_k; T sum_ij D_ij d_i e_kj
    slopes[:, 0] = terms.slope
    bends[:, 0] = terms.spreads[:, 1].sum(axis=-1) - np.sum(correction * terms.slope, axis=-1)
    if still is not None:
        slopes[:, 1], bend = volume_terms(terms, still)
        bends[:, 1] = terms.temperature * bend
    each = np.arange(dim)
    slopes[:, 2 + each, each] = 1.0
    slopes[:, 2 + dim + each, each] = terms.points
    bends[:, 2 + dim :] = terms.temperature * np.einsum("nii->ni", terms.diffusion)
    along = slopes * (drift - 2 * correction)[:, None, :]
    constant = terms.spreads[:, 2] - terms.spreads[:, 0]
    return FactorResidual(
        constant.sum(axis=-1),
        along.sum(axis=-1) - bends,
        terms.temperature * np.einsum("nki,nij,nlj->nkl", slopes, terms.diffusion, slopes),
        np.concatenate([np.abs(constant).sum(axis=-1)[:, None], np.abs(along).sum(axis=-1) + np.abs(bends)], axis=1),
    )


class OtherEnergy(eqx.Module):
    """E = sum_k x_k E_k as a jnp function of z. A module: its numbers are arguments of what is compiled."""

    functions: Functions
    factors: np.ndarray
    still: np.ndarray | None  # None where log det D has no part in it
    temperature: np.ndarray

    def __call__(self, z: Array) -> Array:
        _, diffusion, hamiltonian = self.functions
        factors, temperature = (jnp.asarray(x, z.dtype) for x in (self.factors, self.temperature))
        linear, square = jnp.split(factors[2:], 2)
        volume = 0.0
        if self.still is not None:
            still = jnp.asarray(self.still, z.dtype)
            volume = factors[1] * jnp.linalg.slogdet(diffusion(z) + still @ still.T)[1]
        return factors[0] * hamiltonian(z) / temperature + volume + jnp.dot(linear, z) + jnp.dot(square, z**2) / 2

    def hamiltonian(self, z: Array) -> Array:
        """H' with exp(-H'/T) = exp(-E)."""
        return jnp.asarray(self.temperature, z.dtype) * self(z)


def is_confining(energy: OtherEnergy, points: np.ndarray) -> bool:
    """Whether the energy is higher far out, in the directions of all points, than where the points are.

    An energy that falls is no law: friction of the wrong sign leaves exp(+H) invariant. Where H is not finite there is
    no mass.
    """
    if energy.factors[0] <= 0:
        return False
    centre, spans = points.mean(axis=0), points.std(axis=0)
    rays = (points - centre) / spans
    rays /= np.sqrt(np.mean(rays**2, axis=-1, keepdims=True))  # as far out as the points are, in mean square
    here, *there = (
        np.asarray(energies_at(energy, jnp.asarray(places)))
        for places in (points, *(centre + far * spans * rays for far in FAR_OUT))
    )
    return all(bool(np.all(~np.isfinite(values) | (values > np.max(here)))) for values in there)


def in_words(factors: np.ndarray, still: np.ndarray | None, temperature: float) -> str:
    """exp(-H/T') det(D)^a exp(-polynomial), with what is not trivial."""
    linear, square = np.split(factors[2:], 2)
    terms = [f"{x:+.6g} z[{i}]" for i, x in enumerate(linear) if x]
    terms += [f"{x / 2:+.6g} z[{i}]^2" for i, x in enumerate(square) if x]
    words = f"exp(-H/{temperature / factors[0]:.6g})" if temperature != factors[0] else "exp(-H)"
    if factors[1]:
        words += f" det(D)^({-factors[1]:.6g})"
    if terms:
        words += f" exp(-[{' '.join(terms).removeprefix('+')}])"
    if still is not None and still.shape[1]:
        words += ", det over the directions that have noise,"
    return words
