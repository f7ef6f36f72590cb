"""Claims on the printed samplers, from the certificates of `samplers`."""

from typing import NamedTuple

from ergodica.verify.certificate.sde_certificate import SdeCertificate
from ergodica_paper.errata.samplers import AGREES, Examined, certified, repairs_of
from ergodica_paper.flat import RESIDUAL
from ergodica_paper.printed import equations
from ergodica_paper.result import Claim
from ergodica_paper.verdict import Answer, judged, yes_if

RULE = "eg.certify_sde passes the printed form: its Fokker-Planck residual is at rounding."


class SlipWords(NamedTuple):
    """The claim on one slip, in words; `symbol`: coordinates of the certificate by the paper's letters."""

    claim: str
    statement: str
    source: str
    symbol: tuple[str, str] = ("", "")


WORDS = {
    "sgnht_printed_energy": SlipWords(
        "printed-sgnht-energy",
        "SGNHT has the law of the printed energy, with (xi - A)^2 / (2d).",
        "section 3.1 and supplement, both paragraphs on SGNHT",
        ("z[4]", "xi"),
    ),
    "sgrhmc_dense_printed": SlipWords(
        "printed-exsgrhmc",
        "SGRHMC as printed, -eps [G^-1/2 grad U + grad G^-1/2 - G^-1 r], leaves exp(-H) invariant.",
        "section 3.2, Eq. ExSGRHMC",
    ),
    "sgrld_printed": SlipWords(
        "printed-sgrld",
        "SGRLD as printed, -eps [G^-1 grad U + Gamma], leaves exp(-U) invariant.",
        "section 3.1, Eq. SGRLD",
    ),
    "dense_3d_printed": SlipWords(
        "printed-updates",
        "The updates as printed, -eps [(D + Q) grad H + Gamma], leave exp(-H) invariant.",
        "section 2.3, Eqs. simple-update and true-update",
    ),
    "sghmc_printed_friction": SlipWords(
        "printed-sghmc-friction",
        "Gradient noise N(0, eps^2 V) is D = eps V, which asks for the friction eps V M^-1 r.",
        "section 3.1 and supplement, both paragraphs on SGHMC",
    ),
    "own_batch": SlipWords(
        "printed-own-batch",
        "G may be computed from the potential of the minibatch that the gradient is from.",
        "supplement, synthetic experiments",
    ),
}
OLDER, WITHOUT_2 = "sgrld_older_correction", "sgrld_geometric_correction"


def slip_claims(found: list[Examined]) -> list[Claim]:
    """As printed: reproduced if the certificate passes it."""
    return [_slip_claim(e, WORDS[e.slip.name]) for e in found if e.slip.name in WORDS]


def _slip_claim(e: Examined, words: SlipWords) -> Claim:
    answers = [Answer(e.slip.printed, yes_if(e.printed.passed))]
    said = finding(e.printed).replace(*words.symbol) if words.symbol[0] else finding(e.printed)
    return judged(
        words.claim,
        words.statement,
        words.source,
        answers,
        f"{'Accepted' if e.printed.passed else 'Rejected'}, residual {e.printed[RESIDUAL].figure:.2g}: {said}. Right: "
        f"{e.slip.right}, residual {e.right[RESIDUAL].figure:.1e}{library_words(e)}",
        {
            "residual_printed": e.printed[RESIDUAL].figure,
            "residual_right": e.right[RESIDUAL].figure,
            "library_off_the_right_form": e.gap,
        },
        picture="slips",
        kind="print",
        rule=RULE,
    )


def finding(report: SdeCertificate) -> str:
    """The repairs that the certificate names, else the law that it finds."""
    if report.passed:
        return "nothing is wrong"
    if report.repairs:
        return repairs_of(report)
    if report.other_law is not None:
        return f"it leaves `{law_of(report)}` invariant instead"
    return "no simple repair and no other law is found"


def law_of(report: SdeCertificate) -> str:
    """The law found, short; nothing where none is."""
    return "" if report.other_law is None else report.other_law.words.split(", ")[0]


def library_words(e: Examined) -> str:
    if e.is_library_right:
        return f"; the library's recipe is the same{f' to {e.gap:.1e}' if e.gap else ''}."
    return f"; the library's recipe is another, off by {e.gap:.2g} of its size."


def right_claim(found: list[Examined]) -> Claim:
    """What our errata say is right, and what the library does."""
    answers = [Answer(e.slip.where, yes_if(e.is_right_accepted and e.is_library_right)) for e in found]
    refused = sorted({e.slip.right for e in found if not e.is_right_accepted})
    others = sorted({e.slip.where for e in found if not e.is_library_right})
    largest, gap = max(e.right[RESIDUAL].figure for e in found), max(e.gap for e in found)
    words = f"Largest residual of a right form: {largest:.1e}; largest distance of a recipe from it: {gap:.1e}."
    words += f" Refused: {'; '.join(refused)}." if refused else ""
    words += f" The library has another form for: {'; '.join(others)}." if others else ""
    return judged(
        "right-forms",
        "The right forms of the printed samplers leave the law invariant, and the library computes them.",
        "Theorem 1; docs/paper/errata.md",
        answers,
        words,
        {"largest_residual": largest, "largest_distance": gap, "refused": refused, "other_forms": others},
        picture="slips",
        kind="ours",
        rule=f"eg.certify_sde passes each right form, and drift, D and grad H of the library's recipe are within "
        f"{AGREES:g} of its size.",
    )


def as_printed_claims(found: list[Examined]) -> list[Claim]:
    """Equations that are right as printed, from the same certificates."""
    cases = {
        "dense_3d_printed": ("printed-correct-drift", "The drift of Eq. CorrectDrift", "section 2.1, Eq. CorrectDrift"),
        "sgnht_printed_energy": (
            "printed-sgnht-drift", "The drift of SGNHT (with the right energy)", "section 3.1 and supplement, SGNHT"
        ),
        "sgrhmc_dense_printed": ("printed-algorithm-box", "The algorithm box of gSGRHMC", "section 3.2, algorithm 1"),
    }  # fmt: skip
    claims = []
    for e in (e for e in found if e.slip.name in cases):
        slug, what, source = cases[e.slip.name]
        claims.append(
            judged(
                slug,
                f"{what}, as printed, leaves exp(-H) invariant.",
                source,
                [Answer(what, yes_if(e.is_right_accepted))],
                f"Residual {e.right[RESIDUAL].figure:.1e}{library_words(e)}",
                {"residual": e.right[RESIDUAL].figure, "library_off": e.gap},
                picture="slips",
                kind="print",
                rule=RULE,
            )
        )
    return claims


# -- the older Gamma, which is said to belong to another measure ---------------------------------------


def older_claims(found: list[Examined], seed: int) -> list[Claim]:
    """With its 2, as printed, and without."""
    by_name = {e.slip.name: e for e in found}
    separable = certified(equations.sgrld(equations.separable_metric)[2], seed)
    return [
        older_claim({"dense metric": by_name[OLDER].printed, "separable metric": separable}),
        without_2_claim(by_name[WITHOUT_2]),
    ]


def older_claim(reports: dict[str, SdeCertificate]) -> Claim:
    """Reproduced where the law that the certificate finds has a power of det(G) in it."""
    answers = [Answer(metric, yes_if(is_volume(report))) for metric, report in reports.items()]
    told = []
    for metric, report in reports.items():
        law = law_of(report) or ("exp(-U), with no det(G)" if report.passed else "none")
        told.append(f"{metric}: residual {report[RESIDUAL].figure:.2g}, law {law}")
    return judged(
        "printed-older-gamma",
        "The older Gamma, 2 det(G)^-1/2 d(G^-1 det(G)^1/2), belongs to a density with respect to another measure.",
        "section 3.1, text below Eq. SGRLD",
        answers,
        f"By eg.certify_sde, {'; '.join(told)}.",
        {m: {"residual": r[RESIDUAL].figure, "law": law_of(r), "passed": r.passed} for m, r in reports.items()},
        picture="slips",
        kind="print",
        rule="eg.certify_sde, which looks for laws exp(-U/T) det(G)^p times a Gaussian factor, finds one with p other "
        "than 0.",
    )


def without_2_claim(e: Examined) -> Claim:
    """Reproduced if the certificate finds the density with respect to det(G)^1/2."""
    return judged(
        "older-gamma-without-2",
        "Without its 2 the older Gamma leaves exp(-U) det(G)^1/2 invariant, a density with respect to the metric's "
        "volume.",
        "docs/paper/errata.md; on section 3.1",
        [Answer("dense metric", yes_if(is_volume(e.printed, power=0.5)))],
        f"For exp(-U) the residual is {e.printed[RESIDUAL].figure:.2g}; the law found is "
        f"{law_of(e.printed) or 'none'}, where D = G^-1.",
        {"residual": e.printed[RESIDUAL].figure, "law": law_of(e.printed)},
        picture="slips",
        kind="ours",
        rule="eg.certify_sde finds this law and no other factor.",
    )


def is_volume(report: SdeCertificate, power: float | None = None) -> bool:
    """Whether the law found is exp(-H) det(G)^power, of any power but 0 where none is given; D = G^-1."""
    if report.other_law is None:
        return False
    of_energy, of_volume, *gaussian = report.other_law.factors
    if power is None:
        return bool(of_volume)
    return abs(of_volume - power) < AGREES and abs(of_energy - 1) < AGREES and not any(gaussian)
