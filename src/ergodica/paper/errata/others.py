"""Claims on the printed formulas that are no samplers of their own."""

from collections.abc import Sequence
from typing import Any

import numpy as np

import ergodica as eg
from ergodica.paper.errata import formulas
from ergodica.paper.errata.claims import law_of
from ergodica.paper.errata.samplers import certified
from ergodica.paper.flat import RESIDUAL
from ergodica.paper.printed import WRONG
from ergodica.paper.printed.potentials import one_peak, two_peaks
from ergodica.paper.result import Ask, Claim, Table
from ergodica.paper.verdict import Answer, conditions, verdict, yes_if

CLOSE = 1e-6
POINTS = ((0.3, 0.5), (0.3, 1.0), (-0.8, 2.0), (1.2, -1.5))
WAVES = (0.5, 1.0, 2.0)
LDA_STEP = 0.02  # of SGRHMC on LDA, the paper's
FRICTIONS = (50.0, 99.0, 101.0, 200.0)
PRINTED_OFFSET, VALID_OFFSET = 0.5, 1.5
Made = tuple[Claim, Table]


def all_claims(ask: Ask) -> tuple[list[Claim], list[Table]]:
    makers = (framework, closed_form, remark, offset, friction, schedule, gibbs)
    claims, tables = [], []
    for i, maker in enumerate(makers):
        ask.report(0.7 + 0.2 * i / len(makers), maker.__name__.replace("_", " "))
        claim, table = maker(ask.seed)
        claims.append(claim)
        tables.append(table)
    return claims, tables


def framework(seed: int) -> Made:
    """The paper says no law; where the certificate finds one, naive SGRHMC is the recipe for it."""
    peaks = {
        "scalar metric: one peak, C = 0.5": (one_peak, 0.5, ()),
        "scalar metric: two peaks, C = 0.5": (two_peaks, 0.5, formulas.CUSPS),
        "scalar metric: two peaks, C = 1.5": (two_peaks, 1.5, ()),
    }
    rows: list[tuple[Any, ...]] = []
    for metric, (potential, shift, cusps) in peaks.items():
        report = certified(formulas.naive_sgrhmc(potential, shift), seed)
        law = report.other_law
        far = None if law is None else formulas.divergence(law.hamiltonian, potential, cusps)
        rows.append((metric, report[RESIDUAL].figure, law_of(report), far))
    for name, metric in (("sgrhmc_separable_naive", "separable metric"), ("sgrhmc_dense_naive", "dense metric")):
        report = certified(WRONG[name], seed)
        rows.append((metric, report[RESIDUAL].figure, law_of(report), None))
    answers = [Answer(row[0], yes_if(not row[2])) for row in rows]
    far = "; ".join(f"{row[3]:.5f} ({row[0].split(': ')[1]})" for row in rows if row[3] is not None)
    without = ", ".join(row[0] for row in rows if not row[2])
    claim = Claim(
        "naive-sgrhmc-framework",
        "Naive SGRHMC cannot be written within the framework.",
        "section 3.2, below Eq. SGRHMCnaive",
        verdict(answers),
        f"For {sum(bool(row[2]) for row in rows)} of {len(rows)} metrics it is the recipe for another law"
        + (f", at a KL divergence from the target of {far}." if far else ".")
        + (f" No law is found for: {without}." if without else ""),
        {row[0]: {"residual": row[1], "other_law": row[2] or None, "kl": row[3]} for row in rows},
        conditions(answers),
        rule="eg.certify_sde finds no law that it leaves invariant, asked once for each metric.",
    )
    columns = ("metric", "residual", "law that it leaves invariant instead", "KL(sampled, target)")
    caption = "Naive SGRHMC, which has no Gamma, by eg.certify_sde; D_rr = G^-1."
    return claim, Table("naive-sgrhmc", caption, columns, rows, shown=True)


def closed_form(seed: int) -> Made:
    """Both printed integrals against the Q of two linear processes, which is known."""
    cases = {"HMC": formulas.HMC, "a linear process with noise": formulas.NOISY}
    rows: list[tuple[Any, ...]] = []
    for words, process in cases.items():
        rebuilt = formulas.rebuilt_curl(process)
        for z in POINTS:
            printed = [formulas.printed_curl(process, z, row) for row in (0, 1)]
            rows.append((words, *z, float(process.curl[0, 1]), *printed, float(rebuilt.curl(z)[0, 1])))
    off = {w: [max(abs(r[i] - r[3]) for r in rows if r[0] == w) for i in (4, 5)] for w in cases}
    right = max(abs(row[6] - row[3]) for row in rows)
    answers = [Answer(f"{w}, integral of f_{i + 1}", yes_if(off[w][i] < CLOSE)) for w in cases for i in (0, 1)]
    claim = Claim(
        "printed-closed-form",
        "In two dimensions Q has the printed closed form, by an integral of f_1 or of f_2.",
        "supplement, 2-D case",
        verdict(answers),
        "The printed Q_12 is off by up to "
        + "; ".join(f"{max(off[w]):.3g} for {w}, where it is {cases[w].curl[0, 1]:g}" for w in cases)
        + f". With the other sign, and all of it over p, as in eg.rebuild_curl, it is right to {right:.1e}.",
        {"printed_off": {w: dict(zip(("f_1", "f_2"), off[w], strict=True)) for w in cases}, "right_off": right},
        conditions(answers),
        kind="print",
        rule=f"Both integrals, taken from where the density vanishes, give the known Q_12 to {CLOSE:g} at "
        f"{len(POINTS)} points, for HMC on a Gaussian and for a linear process with D > 0.",
    )
    columns = (
        "process", "z_1", "z_2", "Q_12", "as printed, by f_1", "as printed, by f_2", "eg.rebuild_curl, closed form",
    )  # fmt: skip
    return claim, Table("closed-form", "The closed form of Q_12 in two dimensions.", columns, rows)


def remark(seed: int) -> Made:
    """The transform of the printed g against the one that it is said to be."""
    rows = [(k, formulas.transform(k), formulas.transform_of_g(k), -formulas.transform_of_g(k)) for k in WAVES]
    plus, minus = (max(abs(row[i] / row[1] - 1) for row in rows) for i in (2, 3))
    claim = Claim(
        "printed-remark",
        "The inverse transform of k / (2 pi i (k^2 + a^2)) is -½ exp(-2 pi a z) for z > 0.",
        "supplement, remark after Theorem 2",
        verdict([Answer("a = 1", yes_if(minus < CLOSE))]),
        f"The transform of the printed g is off by {minus:.3g} of its size, that of its negative by {plus:.1e}.",
        {"printed_off": minus, "right_off": plus},
        kind="print",
        rule=f"The transform of the printed g, by quadrature, is the one it is said to be to {CLOSE:g} of its size.",
    )
    columns = ("k", "k / (2 pi i (k^2 + 1)), imaginary", "of g with +½", "of g as printed")
    return claim, Table("remark", "Fourier transforms by quadrature, a = 1.", columns, rows)


def offset(seed: int) -> Made:
    """gSGRHMC with the printed offset, on both densities of the paper, and with a valid one where it is rejected."""
    densities = {"one peak": eg.gallery.gaussian(1), "two peaks": eg.gallery.two_peaks()}
    reports = {(name, PRINTED_OFFSET): _certified(target, PRINTED_OFFSET, seed) for name, target in densities.items()}
    answers = [Answer(name, yes_if(report.passed)) for (name, _), report in reports.items()]
    for name, outcome in answers:
        if outcome == "no":
            reports[name, VALID_OFFSET] = _certified(densities[name], VALID_OFFSET, seed)
    rows = [
        (name, c, r.passed, "; ".join(k.name for k in r.checks if not k.passed)) for (name, c), r in reports.items()
    ]
    claim = Claim(
        "printed-offset",
        "gSGRHMC with G^-1 = 1.5 sqrt|U + C|, C = 0.5, leaves the law invariant on both 1-D densities.",
        "supplement, synthetic experiments",
        verdict(answers),
        "By eg.certify: "
        + "; ".join(f"{name}, C = {c:g}, {'passed' if passed else 'rejected'}" for name, c, passed, _ in rows)
        + "."
        + "".join(f" {_first_fault(r)}" for r in reports.values() if not r.passed),
        {f"{name}, C = {c:g}, passed": passed for name, c, passed, _ in rows},
        conditions(answers),
        kind="print",
        rule="eg.certify passes the sampler with C = 0.5, asked once for each density.",
    )
    columns = ("density", "C", "passed", "checks not passed")
    return claim, Table("offset", "gSGRHMC with G^-1 = 1.5 sqrt|U + C|, by eg.certify.", columns, rows)


def _certified(target: Any, shift: float, seed: int) -> Any:
    return eg.certify(eg.gsgrhmc(scale=1.5, offset=shift), target, seed=seed)


def _first_fault(report: Any) -> str:
    """Up to where advice begins."""
    words = next(check.explanation for check in report.checks if not check.passed).split(": ")[0]
    return f"{words[0].upper()}{words[1:]}."


def friction(seed: int) -> Made:
    """Explicit friction is a chain with a law, or it is none."""
    rows = []
    for theta in FRICTIONS:
        exact = formulas.friction_law(theta, eg.Splitting(), LDA_STEP).largest_bias
        try:
            explicit = formulas.friction_law(theta, eg.Euler(), LDA_STEP).largest_bias
        except eg.InputError:
            explicit = None
        rows.append((theta, LDA_STEP * theta, explicit, exact))
    answers = [Answer(f"theta = {row[0]:g}", yes_if(row[2] is not None)) for row in rows]
    stable = [row[0] for row in rows if row[2] is not None]
    claim = Claim(
        "printed-explicit-friction",
        "SGRHMC for LDA can run with explicit friction, r - eps theta r, at eps = 0.02.",
        "supplement, LDA; algorithm 1",
        verdict(answers),
        f"It has a law at theta = {_listed(stable) or 'none'} of {_listed(FRICTIONS)}: beyond 2/eps = {2 / LDA_STEP:g} "
        "the friction amplifies. The exact friction of eg.Splitting has one at each, its variance right to "
        f"{max(abs(row[3]) for row in rows):.1e}.",
        {f"{row[0]:g}": {"explicit_bias": row[2], "exact_bias": row[3]} for row in rows},
        conditions(answers),
        kind="print",
        rule="eg.exact_law finds a stationary law of the chain on a Gaussian, asked once for each friction theta.",
    )
    columns = ("friction theta", "eps theta", "error of the variance, explicit", "error, exact friction")
    return claim, Table("friction", "SGHMC with friction theta, eps = 0.02; empty: no law.", columns, rows)


def _listed(values: Sequence[float]) -> str:
    return ", ".join(f"{value:g}" for value in values)


def schedule(seed: int) -> Made:
    """The printed schedule at t = 0."""
    a, b, c = formulas.SCHEDULE
    rows = [(t, formulas.printed_schedule(t), formulas.right_schedule(t)) for t in (0.0, 1000.0, 10_000.0)]
    claim = Claim(
        "printed-schedule",
        "Step sizes follow (a (1 + t/b))^-c.",
        "supplement, LDA",
        verdict([Answer("Patterson and Teh's a, b, c", yes_if(bool(np.isclose(rows[0][1], a))))]),
        f"With a = {a:g} the printed form starts at {rows[0][1]:.3g}, {rows[0][1] / a:,.0f} times a; a (1 + t/b)^-c "
        f"starts at {rows[0][2]:.3g}.",
        {"first_step_printed": rows[0][1], "first_step_right": rows[0][2]},
        kind="print",
        rule="At t = 0 the step is a, for the a, b, c of Patterson and Teh's code.",
    )
    caption = f"Step sizes, a = {a:g}, b = {b:g}, c = {c:g}."
    return claim, Table("schedule", caption, ("t", "printed", "right"), rows)


def gibbs(seed: int) -> Made:
    """The printed weights of a token's topic against Bayes' rule."""
    bayes, printed, right = formulas.topic_weights(seed)
    off, good = (float(np.abs(weights - bayes).sum() / 2) for weights in (printed, right))
    claim = Claim(
        "printed-gibbs",
        "The topic of a token has the weights (gamma + n_dk) theta_kx.",
        "supplement, LDA",
        verdict([Answer("random topics", yes_if(off < CLOSE))]),
        f"The printed weights are off by {off:.3f} in total variation; divided by theta_k., the sum over words, by "
        f"{good:.1e}.",
        {"printed_off": off, "right_off": good},
        kind="print",
        rule=f"The printed weights are those of Bayes' rule, for {len(bayes)} random topics, to {CLOSE:g}.",
    )
    rows = [(k + 1, *(float(w[k]) for w in (bayes, printed, right))) for k in range(len(bayes))]
    return claim, Table("gibbs", "P(topic of a token).", ("topic", "Bayes' rule", "printed", "right"), rows)
