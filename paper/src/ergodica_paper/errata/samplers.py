"""Printed SDEs through `eg.certify_sde`, beside the right form by hand and what the library's recipe computes."""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

import ergodica as eg
from ergodica.compiling import quick_filter_jit
from ergodica.verify.certificate.sde_certificate import SdeCertificate
from ergodica_paper.flat import RESIDUAL, flat_sde
from ergodica_paper.printed import RIGHT, SLIPS, WRONG, HandwrittenSde, Slip
from ergodica_paper.printed.equations import MASS
from ergodica_paper.printed.potentials import bent, dense, two_peaks
from ergodica_paper.result import Ask, Table

POINTS = 64
AGREES = 1e-10  # of the size of the drift: a matrix root in the library, a matrix by hand


# -- the library's recipe for the right form -----------------------------------------------------------


def _square(matrix: Callable, first: int = 0) -> Callable:
    """The lower right part of a hand-written D as a function of the phase; D reads the position alone."""

    def of_phase(z: Any) -> Any:
        return matrix(jnp.pad(z.position, (0, first)))[first:, first:]

    return of_phase


def sghmc_noise() -> tuple[eg.Recipe, Any]:
    recipe = eg.Recipe(
        energy={"momentum": eg.Gaussian(mass=MASS)},
        diffusion={"momentum": eg.Dense(_square(RIGHT["sghmc_noise"].diffusion, 1))},
        curl=eg.sghmc().curl,
    )
    return recipe, eg.Density(two_peaks, init=np.array([0.5]))


def dense_3d() -> tuple[eg.Recipe, Any]:
    diffusion, curl = dense(3, seed=3)
    recipe = eg.Recipe(
        diffusion={"position": eg.Dense(lambda z: diffusion(z.position))},
        curl={("position", "position"): eg.Dense(lambda z: curl(z.position))},
    )
    return recipe, eg.Density(bent, init=np.zeros(3))


def sgnht() -> tuple[eg.Recipe, Any]:
    with jax.enable_x64(True):
        level = float(RIGHT["sgnht"].diffusion(jnp.zeros(5))[2, 2])
    return eg.sgnht(level), eg.Density(bent, init=np.zeros(2))


def langevin(name: str) -> Callable[[], tuple[eg.Recipe, Any]]:
    def make() -> tuple[eg.Recipe, Any]:
        recipe = eg.sgrld(eg.Dense(_square(RIGHT[name].diffusion)))
        return recipe, eg.Density(RIGHT[name].hamiltonian, init=np.zeros(2))

    return make


def sgrhmc_dense() -> tuple[eg.Recipe, Any]:
    recipe = eg.sgrhmc(eg.Dense(_square(RIGHT["sgrhmc_dense"].diffusion, 2)))
    return recipe, eg.Density(bent, init=np.zeros(2))


LIBRARY: dict[str, Callable[[], tuple[eg.Recipe, Any]]] = {
    "sgnht": sgnht,
    "sgrhmc_dense": sgrhmc_dense,
    "sgrld": langevin("sgrld"),
    "dense_3d": dense_3d,
    "sghmc_noise": sghmc_noise,
    "independent_batch": langevin("independent_batch"),
}


def library_gap(twin: str, seed: int) -> float:
    """How far the recipe's drift, D and grad H are from the right form's, at most, over the size of each."""
    right, sde = RIGHT[twin], flat_sde(*LIBRARY[twin]())
    with jax.enable_x64(True):
        points = jnp.asarray(right.points(seed, POINTS))
        pairs = [
            _values(s.drift, s.diffusion, s.hamiltonian, points)  # pyright: ignore[reportArgumentType]
            for s in (sde, right)
        ]
    gaps = [np.abs(np.asarray(a - b)).max() / np.abs(np.asarray(b)).max() for a, b in zip(*pairs, strict=True)]
    return float(max(gaps))


@quick_filter_jit
def _values(drift: Callable, diffusion: Callable, hamiltonian: Callable, points: Any) -> Any:
    return jax.vmap(lambda z: (drift(z), diffusion(z), jax.grad(hamiltonian)(z)))(points)


# -- the slips -----------------------------------------------------------------------------------------


class Examined(NamedTuple):
    """A slip, the certificates of both forms, and how far the library is from the right one."""

    slip: Slip
    printed: SdeCertificate
    right: SdeCertificate
    gap: float

    @property
    def is_right_accepted(self) -> bool:
        return self.right[RESIDUAL].passed

    @property
    def is_library_right(self) -> bool:
        return self.gap < AGREES


def certified(sde: HandwrittenSde, seed: int = 0) -> SdeCertificate:
    return eg.certify_sde(sde.drift, sde.diffusion, sde.hamiltonian, dim=sde.dim, seed=seed)


def repairs_of(report: SdeCertificate) -> str:
    """What the certificate names, in its words; nothing where it knows none."""
    repairs = report.repairs
    rest = [repair.words for repair in repairs[1:] if not repair.kind.startswith(repairs[0].kind)]
    same = f" (here the same as: {'; '.join(rest)})" if rest else ""
    return f"{repairs[0].words}{same}" if repairs else ""


def said(report: SdeCertificate) -> str:
    """The repairs that the certificate names, and the law that it finds."""
    words, other = repairs_of(report) or "no simple repair", report.other_law
    law = "no other law found" if other is None else f"leaves `{other.words.split(', ')[0]}` invariant instead"
    return f"{words}; {law}"


def examine(ask: Ask) -> list[Examined]:
    right: dict[str, SdeCertificate] = {}
    gaps: dict[str, float] = {}
    found = []
    for i, slip in enumerate(SLIPS):
        ask.report(0.7 * i / len(SLIPS), slip.where)
        twin = WRONG[slip.name].twin
        if twin not in right:
            right[twin], gaps[twin] = certified(RIGHT[twin], ask.seed), library_gap(twin, ask.seed)
        found.append(Examined(slip, certified(WRONG[slip.name], ask.seed), right[twin], gaps[twin]))
    return found


def slips_table(found: list[Examined]) -> Table:
    rows = [
        (
            e.slip.where, "accepted" if e.printed.passed else "rejected", e.printed[RESIDUAL].figure,
            e.right[RESIDUAL].figure, e.gap, said(e.printed),
        )
        for e in found
    ]  # fmt: skip
    columns = (
        "where", "as printed it is", "residual, printed", "residual, right form", "library off the right form",
        "eg.certify_sde says of the printed form",
    )  # fmt: skip
    caption = (
        "Printed samplers by eg.certify_sde: the largest Fokker-Planck residual over the size of what cancels in it (0 "
        "up to rounding where the law is left invariant), and how far drift, D and grad H of the library's recipe are "
        "from the right form."
    )
    return Table("slips", caption, columns, rows, shown=True)
