"""The list of errata, line by line: what is printed, what is right, and the claim that holds it against the theory."""

from collections.abc import Sequence
from typing import NamedTuple

from ergodica_paper.errata.sampler_claims import OLDER, WORDS
from ergodica_paper.printed import SLIPS
from ergodica_paper.result import Claim, Table

SAME = "as printed"
JUDGED = {"reproduced": "right", "not reproduced": "wrong", "reproduced under conditions": "right under conditions"}


class Line(NamedTuple):
    """One line; `item`: where its claim is, if not here."""

    where: str
    printed: str
    right: str
    claim: str
    item: str = "errata"


NAMES = {name: words.claim for name, words in WORDS.items()} | {OLDER: "printed-older-gamma"}
OTHERS = (
    Line(
        "section 2.3, noise",
        "2D - eps B is always PSD for small eps",
        "where B's range lies in D's",
        "noise-psd",
        "theorem-1",
    ),
    Line(
        "section 3.2, naive SGRHMC",
        "not within the framework",
        "for a scalar metric, the recipe for exp(-U) G^1/2",
        "naive-sgrhmc-framework",
    ),
    Line(
        "supplement, 2-D closed form",
        "Q_21 = p^-1 ∫ f_1 p ds - ∫ …",
        "Q_12 = p^-1 ∫ [f_1 p - …] ds, all of it over p",
        "printed-closed-form",
    ),
    Line("supplement, remark after Theorem 2", "-½ e^(-2 pi a z), z > 0", "+½ e^(-2 pi a z)", "printed-remark"),
    Line("supplement, step sizes", "(a (1 + t/b))^-c", "a (1 + t/b)^-c", "printed-schedule"),
    Line("supplement, Gibbs weights", "(gamma + n_dk) theta_kx", "(gamma + n_dk) theta_kx / theta_k.", "printed-gibbs"),
    Line("supplement, synthetic experiments", "C = 0.5", "C > 1 on two peaks", "printed-offset"),
    Line(
        "supplement, LDA by SGRHMC",
        "r - eps theta r, eps = 0.02",
        "exact friction, or eps theta below 2",
        "printed-explicit-friction",
    ),
    Line("section 2.1, Theorem 1", "f = -(D + Q) grad H + Gamma keeps exp(-H)", SAME, "theorem-1-random", "theorem-1"),
    Line("section 2.1, Eq. CorrectDrift", "f = -(D + Q) grad H + Gamma", SAME, "printed-correct-drift"),
    Line("supplement, Fourier construction of Q", "Eq. Soln", SAME, "theorem-2-random", "theorem-2"),
    Line("section 3, D and Q of the samplers", "D, Q", SAME, "map-printed-matrices", "map"),
    Line("section 3, updates of HMC, SGHMC, SGLD, SGNHT", "dz = …", SAME, "printed-section-3-updates"),
    Line("section 3.1, SGNHT's dynamics", "dr = -grad U - xi r, dxi = r'r/d - 1", SAME, "printed-sgnht-drift"),
    Line(
        "section 3.2, algorithm box", "-eps G^-1/2 grad U + eps grad G^-1/2 - eps G^-1 r", SAME, "printed-algorithm-box"
    ),
    Line("supplement, LDA gradient", "(alpha - 1)/theta - 1 + |S|/|S~| E[…]", SAME, "printed-lda-gradient"),
)
LINES = (*(Line(s.where, s.printed, s.right, NAMES[s.name]) for s in SLIPS if s.name in NAMES), *OTHERS)


def lines_table(claims: Sequence[Claim]) -> Table:
    """The list with the verdicts of today."""
    judged = {claim.name: JUDGED[claim.verdict] for claim in claims}
    rows = [
        (line.where, line.printed, line.right, judged.get(line.claim, f"see item {line.item}"), line.claim)
        for line in LINES
    ]
    caption = "The list of errata, line by line, and what is right as printed."
    columns = ("where", "printed", "right", "as printed it is", "claim")
    return Table("lines", caption, columns, rows, shown=True, quoted=("printed",))
