"""Claims on the printed formulas that are no samplers of their own."""

from collections.abc import Sequence
from typing import Any

import numpy as np

import ergodica as eg
from ergodica.paper.errata import formulas
from ergodica.paper.errata.samplers import RESIDUAL, certified
from ergodica.paper.printed import WRONG
from ergodica.paper.printed.potentials import one_peak, two_peaks
from ergodica.paper.result import Ask, Claim, Table, Verdict

CLOSE = 1e-6
MOMENTA = (0.5, 1.0, 2.0, 3.0)
WAVES = (0.5, 1.0, 2.0)
FRICTIONS = (50.0, 99.0, 101.0, 200.0)


def all_claims(ask: Ask) -> tuple[list[Claim], list[Table]]:
    makers = (framework, closed_form, remark, offset, friction, schedule, gibbs)
    claims, tables = [], []
    for i, maker in enumerate(makers):
        ask.report(0.7 + 0.3 * i / len(makers), maker.__name__.replace("_", " "))
        claim, table = maker(ask.seed)
        claims.append(claim)
        tables.append(table)
    return claims, tables


def _verdict(holds: bool) -> Verdict:
    return "reproduced" if holds else "not reproduced"


def framework(seed: int) -> tuple[Claim, Table]:
    """Reproduced if the certificate finds no law for any of them; under conditions if for some."""
    peaks = {
        "one peak, C = 0.5": (one_peak, 0.5, ()),
        "two peaks, C = 0.5": (two_peaks, 0.5, formulas.CUSPS),
        "two peaks, C = 1.5": (two_peaks, 1.5, ()),
    }
    rows: list[list[Any]] = []
    for words, (potential, shift, cusps) in peaks.items():
        report = certified(formulas.naive_sgrhmc(potential, shift), seed)
        law = report.other_law
        far = None if law is None else formulas.divergence(law.hamiltonian, potential, cusps)
        rows.append([words, report[RESIDUAL].figure, "" if law is None else law.words.split(", ")[0], far])
    report = certified(WRONG["sgrhmc_dense_naive"], seed)
    law = report.other_law
    rows.append(["dense metric, 2-D", report[RESIDUAL].figure, "" if law is None else law.words.split(", ")[0], None])
    with_law = [row for row in rows if row[2]]
    verdict: Verdict = "reproduced"
    if with_law:
        verdict = "not reproduced" if len(with_law) == len(rows) else "reproduced under conditions"
    words = "; ".join(f"{row[0]}: {row[2]}, KL {row[3]:.5f} from the target" for row in with_law if row[3] is not None)
    rest = [row[0] for row in rows if not row[2]]
    claim = Claim(
        "naive-sgrhmc-framework",
        "Naive SGRHMC cannot be written within the framework.",
        "section 3.2, below Eq. SGRHMCnaive",
        verdict,
        (f"It is the recipe for another law, which eg.certify_sde names: {words}. " if words else "")
        + (f"No law is found for: {', '.join(rest)}." if rest else ""),
        {row[0]: {"residual": row[1], "other_law": row[2] or None, "kl": row[3]} for row in rows},
        conditions="a metric that is neither scalar nor separable" if verdict.endswith("conditions") else "",
        picture="",
    )
    columns = ("metric", "residual", "law that it leaves invariant instead", "KL(sampled, target)")
    return claim, Table("naive-sgrhmc", "Naive SGRHMC without Gamma, by eg.certify_sde.", columns, rows, shown=True)


def closed_form(seed: int) -> tuple[Claim, Table]:
    """Reproduced if the printed integral gives the Q_12 that the paper has for HMC."""
    q = formulas.hmc_curl("closed form")
    rows = []
    for r in MOMENTA:
        right = float(q.curl((0.3, r))[0, 1])
        edge, zero = -formulas.closed_form_integral(-10.0, r), formulas.closed_form_integral(0.0, r)
        rows.append((r, -1.0, right, float(edge), float(zero)))
    off = max(abs(row[3] + 1) for row in rows)
    good = max(abs(row[2] + 1) for row in rows)
    claim = Claim(
        "printed-closed-form",
        "In two dimensions Q has the printed closed form.",
        "supplement, 2-D case",
        _verdict(off < CLOSE),
        f"For HMC on a Gaussian, where the paper has Q_12 = -1, the printed integral from the lower edge gives "
        f"{rows[0][3]:+.4f}, off by {off:.3g}; with the other sign, as in eg.rebuild_curl, Q_12 is right to "
        f"{good:.1e}. From 0 in place of the edge the right sign gives {rows[-1][4]:.3g} at r = {rows[-1][0]:g}.",
        {"printed_off": off, "right_off": good},
    )
    columns = ("r", "Q_12, the paper's HMC", "eg.rebuild_curl", "as printed, from the edge", "right sign, from 0")
    table = Table("closed-form", "Q_12 of HMC at theta = 0.3.", columns, rows, quoted=(columns[1],))
    return claim, table


def remark(seed: int) -> tuple[Claim, Table]:
    """Reproduced if the transform of the printed g is the one that it is said to be."""
    rows = [(k, formulas.transform(k), formulas.transform_of_g(k), -formulas.transform_of_g(k)) for k in WAVES]
    plus, minus = (max(abs(row[i] / row[1] - 1) for row in rows) for i in (2, 3))
    claim = Claim(
        "printed-remark",
        "The inverse transform of k / (2 pi i (k^2 + a^2)) is -½ exp(-2 pi a z) for z > 0.",
        "remark after Theorem 2, supplement",
        _verdict(minus < CLOSE),
        f"By quadrature the transform of the printed g is off by {minus:.3g} of its size; with +½ it is right to "
        f"{plus:.1e}.",
        {"printed_off": minus, "right_off": plus},
    )
    columns = ("k", "k / (2 pi i (k^2 + 1)), imaginary", "of g with +½", "of g as printed")
    return claim, Table("remark", "Fourier transforms by quadrature, a = 1.", columns, rows)


def offset(seed: int) -> tuple[Claim, Table]:
    """Reproduced if the certificate passes gSGRHMC on two peaks with the printed offset."""
    target = eg.gallery.two_peaks()
    reports = {c: eg.certify(eg.gsgrhmc(scale=1.5, offset=c), target, seed=seed) for c in (0.5, 1.5)}
    failed = next((check.explanation for check in reports[0.5].checks if not check.passed), "")
    claim = Claim(
        "printed-offset",
        "On two peaks gSGRHMC runs with G^-1 = 1.5 sqrt|U + C|, C = 0.5.",
        "supplement, synthetic experiments",
        _verdict(reports[0.5].passed),
        f"eg.certify {_passes(reports[0.5])} C = 0.5"
        + (f": {failed}" if failed else "")
        + f". It {_passes(reports[1.5])} "
        "C = 1.5.",
        {f"passed with C = {c:g}": report.passed for c, report in reports.items()},
    )
    rows = [(c, r.passed, "; ".join(k.name for k in r.checks if not k.passed)) for c, r in reports.items()]
    return claim, Table("offset", "gSGRHMC on two peaks.", ("C", "passed", "checks not passed"), rows)


def _passes(report: Any) -> str:
    return "passes" if report.passed else "rejects"


def friction(seed: int) -> tuple[Claim, Table]:
    """Reproduced if explicit friction has a law at every friction; under conditions if at some."""
    rows = []
    for theta in FRICTIONS:
        exact = formulas.friction_law(theta, eg.Splitting()).largest_bias
        try:
            explicit = formulas.friction_law(theta, eg.Euler()).largest_bias
        except eg.InputError:
            explicit = None
        rows.append((theta, 0.02 * theta, explicit, exact))
    stable = [row[0] for row in rows if row[2] is not None]
    verdict: Verdict = "reproduced" if len(stable) == len(rows) else "reproduced under conditions"
    claim = Claim(
        "printed-explicit-friction",
        "SGRHMC for LDA runs with explicit friction, r - eps theta r, at eps = 0.02.",
        "supplement, LDA",
        verdict if stable else "not reproduced",
        f"On a Gaussian, by eg.exact_law, the chain has a law at friction {_listed(stable) or 'none'} of "
        f"{_listed(FRICTIONS)}. The exact friction of eg.Splitting has one at each, its variance right to "
        f"{max(abs(row[3]) for row in rows):.1e}.",
        {f"{row[0]:g}": {"explicit_bias": row[2], "exact_bias": row[3]} for row in rows},
        conditions=f"eps theta < 2, that is theta < {2 / 0.02:g}" if len(stable) < len(rows) else "",
    )
    columns = ("friction theta", "eps theta", "error of the variance, explicit", "error, exact friction")
    return claim, Table("friction", "SGHMC with friction theta, eps = 0.02; empty: no law.", columns, rows)


def _listed(values: Sequence[float]) -> str:
    return ", ".join(f"{value:g}" for value in values)


def schedule(seed: int) -> tuple[Claim, Table]:
    """Reproduced if the printed schedule starts at a."""
    a = formulas.SCHEDULE[0]
    rows = [(t, formulas.printed_schedule(t), formulas.right_schedule(t)) for t in (0.0, 1000.0, 10_000.0)]
    claim = Claim(
        "printed-schedule",
        "Step sizes follow (a (1 + t/b))^-c.",
        "supplement, LDA",
        _verdict(bool(np.isclose(rows[0][1], a))),
        f"With a = {a:g} the printed form starts at {rows[0][1]:.3g}, {rows[0][1] / a:,.0f} times a; a (1 + t/b)^-c "
        f"starts at {rows[0][2]:.3g}.",
        {"first_step_printed": rows[0][1], "first_step_right": rows[0][2]},
    )
    return claim, Table("schedule", "Step sizes, a = 0.01, b = 1000, c = 0.55.", ("t", "printed", "right"), rows)


def gibbs(seed: int) -> tuple[Claim, Table]:
    """Reproduced if the printed weights are Bayes' rule."""
    bayes, printed, right = formulas.topic_weights(seed)
    off, good = (float(np.abs(weights - bayes).sum() / 2) for weights in (printed, right))
    claim = Claim(
        "printed-gibbs",
        "The topic of a token has the weights (gamma + n_dk) theta_kx.",
        "supplement, LDA",
        _verdict(off < CLOSE),
        f"Against Bayes' rule for {len(bayes)} random topics the printed weights are off by {off:.3f} in total "
        f"variation; divided by theta_k., the sum over words, by {good:.1e}.",
        {"printed_off": off, "right_off": good},
    )
    rows = [(k + 1, *(float(w[k]) for w in (bayes, printed, right))) for k in range(len(bayes))]
    return claim, Table("gibbs", "P(topic of a token).", ("topic", "Bayes' rule", "printed", "right"), rows)
