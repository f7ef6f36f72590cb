"""Claims on the printed formulas that are no samplers with a slip: derived formulas, and what is right as printed."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import ergodica as eg
from ergodica.compiling import quick_filter_jit
from ergodica.targets import Target
from ergodica.verify.specimens import SAMPLERS, bent
from ergodica_paper.errata import formulas
from ergodica_paper.errata.sampler_claims import law_of
from ergodica_paper.errata.samplers import AGREES, certified
from ergodica_paper.errata.samplers import POINTS as PHASES
from ergodica_paper.flat import RESIDUAL, flat_sde, matrices_at
from ergodica_paper.printed import WRONG
from ergodica_paper.printed.potentials import one_peak, two_peaks
from ergodica_paper.printed_samplers import PRINTED
from ergodica_paper.result import Ask, Claim, Table
from ergodica_paper.style import LABELS
from ergodica_paper.verdict import Answer, judged, yes_if

CLOSE = 1e-6
POINTS = ((0.3, 0.5), (0.3, 1.0), (-0.8, 2.0), (1.2, -1.5))
WAVES = (0.5, 1.0, 2.0)
LDA_STEP = 0.02  # of SGRHMC on LDA, the paper's
FRICTIONS = tuple(2.0**k for k in range(13))
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
    claim = judged(
        "naive-sgrhmc-framework",
        "Naive SGRHMC cannot be written within the framework.",
        "section 3.2, below Eq. SGRHMCnaive",
        answers,
        f"For {sum(bool(row[2]) for row in rows)} of {len(rows)} metrics it is the recipe for another law"
        + (f", at a KL divergence from the target of {far}." if far else ".")
        + (f" No law is found for: {without}." if without else ""),
        {row[0]: {"residual": row[1], "other_law": row[2] or None, "kl": row[3]} for row in rows},
        picture="naive-laws",
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
    claim = judged(
        "printed-closed-form",
        "In two dimensions Q has the printed closed form, by an integral of f_1 or of f_2.",
        "supplement, 2-D case",
        answers,
        "The printed Q_12 is off by up to "
        + "; ".join(f"{max(off[w]):.3g} for {w}, where it is {cases[w].curl[0, 1]:g}" for w in cases)
        + f". With the other sign, and all of it over p, as in eg.rebuild_curl, it is right to {right:.1e}.",
        {"printed_off": {w: dict(zip(("f_1", "f_2"), off[w], strict=True)) for w in cases}, "right_off": right},
        picture="formulas",
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
    claim = judged(
        "printed-remark",
        "The inverse transform of k / (2 pi i (k^2 + a^2)) is -½ exp(-2 pi a z) for z > 0.",
        "supplement, remark after Theorem 2",
        [Answer("a = 1", yes_if(minus < CLOSE))],
        f"The transform of the printed g is off by {minus:.3g} of its size, that of its negative by {plus:.1e}.",
        {"printed_off": minus, "right_off": plus},
        picture="formulas",
        kind="print",
        rule=f"The transform of the printed g, by quadrature, is the one it is said to be to {CLOSE:g} of its size.",
    )
    columns = ("k", "k / (2 pi i (k^2 + 1)), imaginary", "of g with +½", "of g as printed")
    return claim, Table("remark", "Fourier transforms by quadrature, a = 1.", columns, rows)


def offset(seed: int) -> Made:
    """gSGRHMC with the printed offset, on both densities of the paper, and with a valid one where it is rejected."""
    densities = {"one peak": eg.gallery.gaussian(1), "two peaks": eg.gallery.two_peaks()}
    reports = {
        (name, PRINTED_OFFSET): certified_with_offset(target, PRINTED_OFFSET, seed)
        for name, target in densities.items()
    }
    answers = [Answer(name, yes_if(report.passed)) for (name, _), report in reports.items()]
    for name in [name for (name, _), report in reports.items() if not report.passed]:
        reports[name, VALID_OFFSET] = certified_with_offset(densities[name], VALID_OFFSET, seed)
    rows = [
        (name, c, r.passed, "; ".join(k.name for k in r.checks if not k.passed)) for (name, c), r in reports.items()
    ]
    claim = judged(
        "printed-offset",
        "gSGRHMC with G^-1 = 1.5 sqrt|U + C|, C = 0.5, leaves the law invariant on both 1-D densities.",
        "supplement, synthetic experiments",
        answers,
        "By eg.certify: "
        + "; ".join(f"{name}, C = {c:g}, {'passed' if passed else 'rejected'}" for name, c, passed, _ in rows)
        + "."
        + "".join(f" {_first_fault(r)}" for r in reports.values() if not r.passed),
        {f"{name}, C = {c:g}, passed": passed for name, c, passed, _ in rows},
        picture="offsets",
        kind="print",
        rule="eg.certify passes the sampler with C = 0.5, asked once for each density.",
    )
    columns = ("density", "C", "passed", "checks not passed")
    return claim, Table("offset", "gSGRHMC with G^-1 = 1.5 sqrt|U + C|, by eg.certify.", columns, rows)


def certified_with_offset(target: Target, shift: float, seed: int) -> Any:
    return eg.certify(eg.gsgrhmc(scale=1.5, offset=shift), target, seed=seed)


def _first_fault(report: Any) -> str:
    """Up to where advice begins."""
    words = next(check.explanation for check in report.checks if not check.passed).split(": ")[0]
    return f"{words[0].upper()}{words[1:]}."


def friction(seed: int) -> Made:
    """Explicit friction is a chain with a law, or it is none; where it loses it is found by bisection."""
    rows = [_friction_row(theta) for theta in FRICTIONS]
    has_law = [row[2] is not None for row in rows]
    answers = [Answer("some theta", yes_if(any(has_law))), Answer("every theta", yes_if(all(has_law)))]
    asked = f"theta from {FRICTIONS[0]:g} to {FRICTIONS[-1]:,.0f}"
    figures: dict[str, Any] = {"exact_friction_largest_bias": max(abs(row[3]) for row in rows)}
    where, words = None, f"It has a law at every {asked}"
    if not has_law[0]:
        words = f"It has no law at theta = {FRICTIONS[0]:g}"
    elif not all(has_law):
        first = has_law.index(False)
        largest = largest_friction(FRICTIONS[first - 1], FRICTIONS[first])
        figures |= {"largest_theta_with_a_law": largest, "eps_theta": LDA_STEP * largest}
        where = f"eps theta < {LDA_STEP * largest:.3g}"
        words = f"It has a law up to theta = {largest:.5g}, eps theta = {LDA_STEP * largest:.5g}; beyond, it amplifies"
        rows = sorted([*rows, _friction_row(largest)])
    claim = judged(
        "printed-explicit-friction",
        f"SGRHMC for LDA can run with explicit friction, r - eps theta r, at eps = {LDA_STEP:g}, whatever theta is.",
        "supplement, LDA; algorithm 1",
        answers,
        f"{words}. The exact friction of eg.Splitting has one at each of {len(FRICTIONS)} {asked}, its variance right "
        f"to {figures['exact_friction_largest_bias']:.1e}.",
        figures | {"explicit_friction_bias": {f"theta = {row[0]:.6g}": row[2] for row in rows}},
        where=where,
        picture="friction",
        kind="print",
        rule=f"eg.exact_law finds a stationary law of the chain on a Gaussian at {asked}, doubled each time; where it "
        "ends at some, the largest theta with a law, by bisection, is the condition.",
    )
    columns = ("friction theta", "eps theta", "error of the variance, explicit", "error, exact friction")
    return claim, Table("friction", f"SGHMC with friction theta, eps = {LDA_STEP:g}; empty: no law.", columns, rows)


def _friction_row(theta: float) -> tuple[float, float, float | None, float]:
    exact = formulas.friction_law(theta, eg.Splitting(), LDA_STEP).largest_bias
    return theta, LDA_STEP * theta, explicit_bias(theta), exact


def explicit_bias(theta: float) -> float | None:
    """Of the variance, over the right one; None where the chain has no law."""
    try:
        return formulas.friction_law(theta, eg.Euler(), LDA_STEP).largest_bias
    except eg.InputError:
        return None


def largest_friction(low: float, high: float) -> float:
    """With a law: there is one at `low` and none at `high`."""
    while high - low > CLOSE * high:
        middle = (low + high) / 2
        low, high = (low, middle) if explicit_bias(middle) is None else (middle, high)
    return low


def schedule(seed: int) -> Made:
    """The printed schedule at t = 0."""
    a, b, c = formulas.SCHEDULE
    rows = [(t, formulas.printed_schedule(t), formulas.right_schedule(t)) for t in (0.0, 1000.0, 10_000.0)]
    claim = judged(
        "printed-schedule",
        "Step sizes follow (a (1 + t/b))^-c.",
        "supplement, LDA",
        [Answer("Patterson and Teh's a, b, c", yes_if(bool(np.isclose(rows[0][1], a))))],
        f"With a = {a:g} the printed form starts at {rows[0][1]:.3g}, {rows[0][1] / a:,.0f} times a; a (1 + t/b)^-c "
        f"starts at {rows[0][2]:.3g}.",
        {"printed_off": abs(rows[0][1] / a - 1), "right_off": abs(rows[0][2] / a - 1)},
        picture="formulas",
        kind="print",
        rule="At t = 0 the step is a, for the a, b, c of Patterson and Teh's code.",
    )
    caption = f"Step sizes, a = {a:g}, b = {b:g}, c = {c:g}."
    return claim, Table("schedule", caption, ("t", "printed", "right"), rows)


def gibbs(seed: int) -> Made:
    """The printed weights of a token's topic against Bayes' rule."""
    bayes, printed, right = formulas.topic_weights(seed)
    off, good = (float(np.abs(weights - bayes).sum() / 2) for weights in (printed, right))
    claim = judged(
        "printed-gibbs",
        "The topic of a token has the weights (gamma + n_dk) theta_kx.",
        "supplement, LDA",
        [Answer("random topics", yes_if(off < CLOSE))],
        f"The printed weights are off by {off:.3f} in total variation; divided by theta_k., the sum over words, by "
        f"{good:.1e}.",
        {"printed_off": off, "right_off": good},
        picture="formulas",
        kind="print",
        rule=f"The printed weights are those of Bayes' rule, for {len(bayes)} random topics, to {CLOSE:g}.",
    )
    rows = [(k + 1, *(float(w[k]) for w in (bayes, printed, right))) for k in range(len(bayes))]
    return claim, Table("gibbs", "P(topic of a token).", ("topic", "Bayes' rule", "printed", "right"), rows)


# -- right as printed, and no twin of a slip: updates of section 3, and the gradient for LDA ---------------


def update_gaps(seed: int) -> dict[str, float]:
    """How far the drifts of the library's recipes are from the printed ones, by sampler, over their size."""
    return {name: _gap(name, printed.drift, seed) for name, printed in PRINTED.items() if printed.drift is not None}


def _gap(name: str, printed: Callable, seed: int) -> float:
    recipe, target = (make() for make in SAMPLERS[name])
    at = matrices_at(recipe, target, PHASES, seed)
    with jax.enable_x64(True):
        phases = jnp.asarray(at.phases)
        slopes = np.asarray(_each(jax.grad(bent), phases[:, at.spans["position"]]))
        ours = np.asarray(_each(flat_sde(recipe, target).drift, phases))
    theirs = np.array([printed(z, slope) for z, slope in zip(at.phases, slopes, strict=True)])
    return float(np.abs(ours - theirs).max() / np.abs(theirs).max())


@quick_filter_jit
def _each(function: Callable, points: Any) -> Any:
    return jax.vmap(function)(points)


def update_claim(gaps: dict[str, float]) -> tuple[Claim, Table]:
    """Reproduced where the library's recipe, whose certificate is in item theorem-1, has the printed drift."""
    answers = [Answer(LABELS[name], yes_if(gap < AGREES)) for name, gap in gaps.items()]
    others = [answer.words for answer in answers if answer.outcome == "no"]
    claim = judged(
        "printed-section-3-updates",
        f"The updates of {', '.join(LABELS[name] for name in gaps)} are right as printed.",
        "section 3 and supplement",
        answers,
        f"{len(answers) - len(others)} of {len(answers)} drifts are those of the library's recipes; the largest "
        f"distance is {max(gaps.values()):.1e} of their size."
        + (f" Not the same: {', '.join(others)}." if others else ""),
        {"printed_off": gaps},
        picture="formulas",
        kind="print",
        rule=f"They are those of the library's recipe, which item theorem-1 certifies, to {AGREES:g} of their size at "
        f"{PHASES} phases; asked once for each sampler.",
    )
    rows = [(LABELS[name], gap) for name, gap in gaps.items()]
    return claim, Table("updates", "Printed drifts against the library's.", ("sampler", "drift off by"), rows)


def gradient_claim(seed: int) -> Claim:
    """The printed gradient against that of the log posterior, summed over all topics of all tokens."""
    right, printed = formulas.lda_gradients(seed)
    off = float(np.abs(printed - right).max() / np.abs(right).max())
    return judged(
        "printed-lda-gradient",
        "The printed gradient for LDA is that of the log posterior, on average over the minibatches.",
        "supplement, LDA",
        [Answer("two short documents", yes_if(off < AGREES))],
        f"It is off by {off:.1e} of its size.",
        {"printed_off": off},
        picture="formulas",
        kind="print",
        rule="On two short documents, where all topics of all tokens can be listed, it is the derivative to "
        f"{AGREES:g} of its size.",
    )
