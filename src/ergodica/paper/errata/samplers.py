"""Printed SDEs through `eg.certify_sde`, beside the right form by hand and what the library's recipe computes."""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

import ergodica as eg
from ergodica.compiling import quick_filter_jit
from ergodica.paper.flat import flat_sde
from ergodica.paper.printed import RIGHT, SLIPS, WRONG, Sde, Slip
from ergodica.paper.printed.equations import MASS
from ergodica.paper.printed.potentials import bent, dense, two_peaks
from ergodica.paper.result import Ask, Claim, Table
from ergodica.verify.certificate import SdeCertificate

RESIDUAL = "Fokker-Planck residual"
POINTS = 64
AGREES = 1e-10  # of the size of the drift: a matrix root in the library, a matrix by hand
SLUGS = {
    "sgnht_printed_energy": "printed-sgnht-energy",
    "sgrhmc_dense_printed": "printed-exsgrhmc",
    "sgrld_printed": "printed-sgrld",
    "dense_3d_printed": "printed-updates",
    "sghmc_printed_friction": "printed-sghmc-friction",
    "sgrld_older_correction": "printed-older-gamma",
    "own_batch": "printed-own-batch",
}
STATEMENTS = {
    "own_batch": "A metric may be computed from the gradient's own batch.",
}


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


def certified(sde: Sde, seed: int = 0) -> SdeCertificate:
    return eg.certify_sde(sde.drift, sde.diffusion, sde.hamiltonian, dim=sde.dim, seed=seed)


def said(report: SdeCertificate) -> str:
    """The repair that the certificate names, in its words, and the law that it finds."""
    repairs, other = report.repairs, report.other_law
    words = repairs[0].words if repairs else "no simple repair"
    rest = [repair.words for repair in repairs[1:] if not repair.kind.startswith(repairs[0].kind)]
    if rest:
        words += f" (here the same as: {'; '.join(rest)})"
    law = "no other law found" if other is None else f"leaves `{other.words.split(', ')[0]}` invariant instead"
    return f"{words}; {law}"


def examine(ask: Ask) -> list[Examined]:
    right: dict[str, SdeCertificate] = {}
    gaps: dict[str, float] = {}
    found = []
    for i, slip in enumerate(SLIPS):
        ask.report(0.7 * i / len(SLIPS), slip.where)
        twin = WRONG[slip.name].twin
        assert twin is not None  # of every wrong one
        if twin not in right:
            right[twin], gaps[twin] = certified(RIGHT[twin], ask.seed), library_gap(twin, ask.seed)
        found.append(Examined(slip, certified(WRONG[slip.name], ask.seed), right[twin], gaps[twin]))
    return found


def slip_claims(found: list[Examined]) -> list[Claim]:
    """As printed: reproduced if the certificate passes it."""
    by_name = {e.slip.name: e for e in found}
    claims = []
    for name in (e.slip.name for e in found if e.slip.name in SLUGS):
        e, slug = by_name[name], SLUGS[name]
        words = (
            f"eg.certify_sde {'accepts' if e.printed.passed else 'rejects'} it: residual "
            f"{e.printed[RESIDUAL].figure:.2g}; {said(e.printed)}. The right form ({e.slip.right}) has "
            f"{e.right[RESIDUAL].figure:.1e}{_library_words(e)}"
        )
        if name == "sgrld_older_correction":
            words += _measure_words(by_name["sgrld_geometric_correction"])
        statement = STATEMENTS.get(name, f"{e.slip.printed} ({e.slip.where}) leaves the law invariant.")
        figures = {
            "residual_printed": e.printed[RESIDUAL].figure,
            "residual_right": e.right[RESIDUAL].figure,
            "library_off_the_right_form": e.gap,
        }
        verdict = "reproduced" if e.printed.passed else "not reproduced"
        claims.append(Claim(slug, statement, e.slip.where, verdict, words, figures, picture="slips"))
    return claims


def _library_words(e: Examined) -> str:
    if e.is_library_right:
        return f", and the library's recipe is the same{f' to {e.gap:.1e}' if e.gap else ''}."
    return f"; the library's recipe is another: off by {e.gap:.2g} of its size."


def _measure_words(without: Examined) -> str:
    """The older Gamma belongs to another measure, the paper says: so it is, but without its 2."""
    law = without.printed.other_law
    found = "no law is found" if law is None else f"it leaves {law.words.split(', ')[0]} invariant, D = G^-1"
    return f" The paper says that it belongs to a non-Lebesgue measure; without its 2, {found}."


def right_claim(found: list[Examined]) -> Claim:
    """Reproduced if every right form passes, and the library computes it."""
    refused = sorted({e.slip.right for e in found if not e.is_right_accepted})
    others = sorted({e.slip.where for e in found if not e.is_library_right})
    largest = max(e.right[RESIDUAL].figure for e in found)
    words = (
        f"Largest residual of a right form: {largest:.1e}; largest distance of a recipe's drift, D or grad H from it, "
        f"over its size: {max(e.gap for e in found):.1e} (allowed {AGREES:g})."
    )
    words += f" Refused: {'; '.join(refused)}." if refused else ""
    words += f" The library has another form for: {'; '.join(others)}." if others else ""
    return Claim(
        "right-forms",
        "The forms in the right column leave the law invariant, and they are what the library computes.",
        "Theorem 1; docs/paper/errata.md",
        "not reproduced" if refused or others else "reproduced",
        words,
        {"largest_residual": largest, "largest_distance": max(e.gap for e in found), "other_forms": others},
        picture="slips",
    )


def as_printed_claims(found: list[Examined]) -> list[Claim]:
    """Equations that are right as printed, from the same certificates."""
    cases = {
        "sgrhmc_dense_printed": ("printed-algorithm-box", "The algorithm box of gSGRHMC", "algorithm 1"),
        "dense_3d_printed": ("printed-correct-drift", "The drift of Eq. CorrectDrift", "Eq. CorrectDrift"),
        "sgnht_printed_energy": ("printed-sgnht-drift", "The drift of SGNHT (with the right energy)", "section 3.1"),
    }  # fmt: skip
    claims = []
    for e in (e for e in found if e.slip.name in cases):
        slug, what, source = cases[e.slip.name]
        claims.append(
            Claim(
                slug,
                f"{what}, as printed, leaves the law invariant.",
                source,
                "reproduced" if e.is_right_accepted else "not reproduced",
                f"Residual {e.right[RESIDUAL].figure:.1e}{_library_words(e)}",
                {"residual": e.right[RESIDUAL].figure, "library_off": e.gap},
                picture="slips",
            )
        )
    return claims


def slips_table(found: list[Examined]) -> Table:
    rows = [
        (
            e.slip.where, e.slip.printed, e.slip.right, e.printed[RESIDUAL].figure, e.right[RESIDUAL].figure, e.gap,
            "rejected" if not e.printed.passed else "accepted", said(e.printed),
        )
        for e in found
    ]  # fmt: skip
    columns = (
        "where", "as printed", "right", "residual, printed", "residual, right", "library off the right form",
        "printed is", "eg.certify_sde says",
    )  # fmt: skip
    caption = (
        "Printed samplers: the largest Fokker-Planck residual over what cancels in it (0 up to rounding if right)."
    )
    return Table("slips", caption, columns, rows, shown=True, quoted=("as printed",))
