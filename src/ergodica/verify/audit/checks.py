"""From estimates to checks and words. Words follow from the estimates with their intervals, never from names."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from ergodica.report import Check
from ergodica.verify.audit.black_box import Step
from ergodica.verify.audit.chains import Rung
from ergodica.verify.audit.features import SHAPE_DEVIATIONS, Features
from ergodica.verify.audit.ladder import Ladder, stuck
from ergodica.verify.audit.law_tests import Laws, LawTest
from ergodica.verify.audit.noise import HeldNoise
from ergodica.verify.audit.one_step import Balance
from ergodica.verify.audit.reference import Reference
from ergodica.verify.audit.trials import COARSE_BITS, Trial
from ergodica.verify.sde import coordinate_names
from ergodica.verify.tails import FALSE_ALARM, Estimate, any_of, each_of, normal_score, threshold, two_sided

Names = tuple[str, ...]  # of the coordinates

SAME_WITHIN = 4.0  # standard errors within which coordinates count as the same
UNDECIDED_ABOVE = 1.0  # relative error of the temperature that must be seen
DETECTION_SCORE = 1.645  # beyond the threshold, at which 95 of 100 audits see an error
SHAPE_NAMES = ("skewness", "kurtosis", "bend")
ERROR_WORDS = {
    "mean": "a mean off by {} deviations", "covariance": "a correlation of {}", "skewness": "a skewness of {}",
    "kurtosis": "an excess kurtosis of {}", "bend": "a bend of {}", "triples": "a product of three coordinates of {}",
}  # fmt: skip


class Findings(NamedTuple):
    """All that an audit has seen; `temperature` and `step_size` are those asked for."""

    step: Step
    law: Reference
    features: Features
    ladder: Ladder
    trial: Trial
    balance: Balance | None
    noise: HeldNoise | None
    expected: np.ndarray
    expected_errors: np.ndarray
    temperature: float
    step_size: float | None

    @property
    def names(self) -> Names:
        return coordinate_names(self.step.layout.like(), "position", np.inf)


def all_checks(found: Findings, tested: Laws) -> tuple[list[Check], float, dict[str, Any]]:
    """The checks, the p-value of those with one, and what errors would have been seen."""
    count, names = len(tested.tests) + (found.balance is not None) + (found.noise is not None), found.names
    alpha = each_of(FALSE_ALARM, count)
    checks = [_finite_check(found), _moves_check(found.trial, names)]
    if found.trial.coarse:
        checks.append(resolution_check(found.trial, names))
    if found.balance is not None:
        checks.append(_balance_check(found.balance, names, alpha))
    if found.noise is not None:
        checks.append(noise_check(found.noise, alpha))
    checks += _law_checks(tested, found, names, alpha)
    seen = sensitivity(tested, found.balance, alpha, found.step.dim)
    p_value = 0.0
    if all(check.passed or check.p_value is not None for check in checks):
        p_value = any_of(min(check.p_value for check in checks if check.p_value is not None), count)
    in_vain = max(rung.relaxation for rung in found.ladder.rungs.values())
    longest = None if found.ladder.is_relaxed else in_vain
    return [*checks, decision_check(seen, longest, tested.is_open(alpha), _unrelaxed(found, names))], p_value, seen


# -- what is seen without statistics ----------------------------------------------------------------------------------


def _finite_check(found: Findings) -> Check:
    """Chains blow up from some step size on, if at all; not now and then."""
    top, rungs, step_size = found.ladder.three[0].step_size, list(found.ladder.rungs.values()), found.step_size
    blown = [rung.step_size for rung in rungs if not rung.is_finite]
    if is_now_and_then(rungs):
        words = "non-finite now and then, at no particular step size: chains at larger ones stay finite as long"
        return Check("finite", False, max(blown), 0.0, words)
    if found.trial.blows_up is not None:
        blown.append(found.trial.blows_up)
    from_size = min(blown, default=np.inf)
    words = f"non-finite from step size {from_size:.3g}" if blown else "finite at every step size tried"
    is_fine = step_size is None or step_size < from_size
    return Check("finite", is_fine, top if step_size is None else step_size, from_size, words)


def is_now_and_then(rungs: list[Rung]) -> bool:
    """Whether a step size is finite for about as many steps as one that is smaller by 4, or two that are smaller, take
    to blow up: excursions that a step is too large for get rarer by orders of magnitude as it is halved."""

    def smaller(finite: Rung, ratio: float) -> int:
        blown = [r for r in rungs if not r.is_finite and r.steps <= 2 * finite.steps]
        return sum(finite.step_size >= ratio * r.step_size for r in blown)

    return any(smaller(rung, 4) or smaller(rung, 1) > 1 for rung in rungs if rung.is_finite)


def _moves_check(trial: Trial, names: Names) -> Check:
    words = f"{', '.join(names[i] for i in trial.frozen[:5])} never moves" if trial.frozen else "every coordinate moves"
    return Check("moves", not trial.frozen, len(trial.frozen), 0, words)


def resolution_check(trial: Trial, names: Names) -> Check:
    kind = "bfloat16" if trial.bits <= 8 else "float16"
    words = (
        f"{listed_names(trial.coarse, names)} kept with {trial.bits} significant bits, as {kind} has: moves below "
        f"{percent(0.5**trial.bits)} of a position are rounded away, so that there is no limit of small steps"
    )
    return Check("resolution", False, trial.bits, COARSE_BITS, words)


def _unrelaxed(found: Findings, names: Names) -> str | None:
    """What has not forgotten its start, and so what keeps the audit from passing: it may be slow, or never change."""
    if found.ladder.one_sided:
        return (
            f"{listed_names(found.ladder.one_sided, names)} on one side of the mean for as long as chains were run, in "
            "each of them and at every step size, though how far from it they are is forgotten: changes of side are "
            "rarer than the budget can see, or there are none and the step is not ergodic"
        )
    kept = stuck(found.ladder.three, found.features)
    if not kept.which:
        return None
    about = list(dict.fromkeys(found.features.about(k, names) for k in kept.which))
    return (
        f"{first_three(about, '; ')}: not forgotten within the record (over chains, the averages of its halves are "
        f"correlated by {kept.correlation:.2f}): changes are rarer than the budget can see, or there are none and the "
        "step is not ergodic"
    )


def listed_names(which: tuple[int, ...], names: Names) -> str:
    return f"{first_three([names[i] for i in which])} {'is' if len(which) == 1 else 'are'}"


def first_three(listed: Sequence[str], link: str = ", ") -> str:
    """The first of them, and how many there are more."""
    return link.join(listed[:3]) + (f" and {len(listed) - 3} more" if len(listed) > 3 else "")


def percent(share: float) -> str:
    """With two digits, and whole numbers above ten."""
    return f"{100 * share:.2g} %" if share < 0.1 else f"{100 * share:,.0f} %"


# -- the stationary law -----------------------------------------------------------------------------------------------


def _law_checks(laws: Laws, found: Findings, names: Names, alpha: float) -> list[Check]:
    """The tests of the stationary law. What is wrong with its shape is said only where mean and scale are right: it is
    measured on the claimed ones."""
    checks: list[Check] = []
    for test in laws.tests:
        k, p = test.worst, test.p_value
        score, bound = float(abs(test.scores[k])), threshold(each_of(alpha, test.count))
        is_told = p < alpha and all(check.passed for check in checks)
        checks.append(Check(test.name, p >= alpha, score, bound, _law_words(test, k, laws, found, names, is_told), p))
    return checks


def _law_words(test: LawTest, k: int, laws: Laws, found: Findings, names: Names, is_told: bool) -> str:
    estimate, at, expected, asked = test.limit.estimate(k), int(test.which[k]), test.expected[k], found.temperature
    if test.name == "triples":
        first, second, third = (names[int(i[at])] for i in found.features.triples)
        product = f"the product of {first}, {second} and {third}, far values held down,"
        return f"{product} is {estimate}, claimed {round(float(expected), 3) + 0.0:g}"
    if test.name == "covariance":
        return f"{_between(names, found.features.pairs, at)} are correlated beyond the claimed law by {estimate}"
    if test.name == "shape":
        return _shape_words(estimate, float(expected), at, names, is_told)
    where = names[at]
    if test.name == "temperature":
        return f"samples at temperature {estimate.times(asked)}, asked for {asked:g}"
    if test.name == "equipartition":
        mean = float(laws.tests[0].limit.value[0])
        own = Estimate(*(mean + x - expected for x in estimate)).times(asked)
        return f"{where} has temperature {own}, all coordinates together {asked * mean:.3g}"
    if test.name == "mean":
        return f"the mean of {where} is {estimate} deviations from that of the claimed law"
    ratio = Estimate(*(x - expected + 1 for x in estimate))
    return f"the variance of {where}, beyond what its temperature explains, is {ratio} of the claimed one"


def _shape_words(estimate: Estimate, expected: float, at: int, names: Names, is_told: bool) -> str:
    """Of the bounded functions of `Features`, in units of the moments that they are close to."""
    kind, k = divmod(at, len(names))
    factor = SHAPE_DEVIATIONS[kind]
    others = names[1 - k] if len(names) == 2 else "the other coordinates"
    name = ("skewness", "excess kurtosis", f"product with the squares of {others}")[kind]
    how = ("is skewed", "has other tails", "is bent")[kind]
    begin = f"the law {how} in {names[k]}: its {name}" if is_told else f"the {name} of {names[k]}"
    claimed = round(factor * expected, 3) + 0.0
    return f"{begin}, far values held down, is {estimate.times(factor)}, claimed {claimed:g}"


def _between(names: Names, pairs: tuple[Any, Any], at: int) -> str:
    return f"{names[int(pairs[0][at])]} and {names[int(pairs[1][at])]}"


# -- one step, and the noise of several -------------------------------------------------------------------------------


def _balance_check(found: Balance, names: Names, alpha: float) -> Check:
    """Do drift and noise of one step balance under the claimed law?"""
    beyond = np.sign(found.residual) * np.maximum(np.abs(found.residual) - found.leftover, 0)
    scores = normal_score(beyond / found.error, found.clusters)
    k, count = int(np.argmax(np.abs(scores))), len(scores)
    p = any_of(float(two_sided(scores[k])), count)
    bound = threshold(each_of(alpha, count))
    return Check("one step", p >= alpha, float(abs(scores[k])), bound, _balance_words(found, k, names), p)


def _balance_words(found: Balance, k: int, names: Names) -> str:
    error = float(np.hypot(found.error[k], found.leftover[k]))
    alone, errors = found.residual[: len(names)], found.error[: len(names)]
    is_mean = found.has_mean and k == len(found.residual) - 1
    if len(names) > 1 and (k < len(names) or is_mean) and np.all(np.abs(alone - alone.mean()) < SAME_WITHIN * errors):
        narrow = error if is_mean else float(errors.max() / np.sqrt(len(names)) + found.leftover[k])
        ratio = Estimate.of(1 - alone.mean(), narrow)
        return f"drift is {ratio} of what the noise asks for, equally in every coordinate"
    ratio = Estimate.of(1 - found.residual[k], error)
    if is_mean:
        return f"drift is {ratio} of what the noise asks for, on average over coordinates"
    if k < len(names):
        return f"drift of {names[k]} is {ratio} of what its noise asks for"
    both, missed = _between(names, found.pairs, k - len(names)), Estimate.of(found.residual[k], error)
    return f"drift and noise between {both} miss each other by {missed} of the noise"


def noise_check(found: HeldNoise, alpha: float) -> Check:
    """Is the noise of consecutive steps independent?"""
    p = found.p_value
    if p >= alpha:
        words = "noise of consecutive steps is uncorrelated with the step number: no key or batch is held"
    elif found.is_redrawn:
        p, words = 1.0, f"a momentum is drawn again every {found.period} steps"
    elif found.is_cycle:
        p, words = 1.0, f"does different things with period {found.period}, and holds no key or batch"
    else:
        listed = ", ".join(f"{c:.2f}" for c in found.correlations[:6]) + (", ..." if found.period > 6 else "")
        words = (
            f"noise of consecutive steps is correlated, and by the step number ({listed}): a key or a batch used for "
            f"{found.period} steps"
        )
    return Check("noise", p >= alpha, threshold(p), threshold(alpha), words, p)


# -- what would have been seen ----------------------------------------------------------------------------------------


def decision_check(seen: dict[str, Any], longest: int | None, is_rough: bool, unrelaxed: str | None = None) -> Check:
    """Would a temperature off by a factor of two have been seen? If not, passing the others means nothing; nor does it
    where no chain has forgotten its start, however well one step balances. `longest`: steps that chains were run for
    in vain. `is_rough`: only a bias that may still fall explains what was seen. `unrelaxed`: what stayed as it was."""
    figure = float(seen["temperature"])
    why = None
    if unrelaxed is not None:
        why = unrelaxed
    elif longest is not None:
        why = (
            f"at no step size had the chains forgotten their start after {longest:,} step{'s' * (longest != 1)}, when "
            "the budget was spent, so that what they sample is not known"
        )
    elif is_rough:
        why = (
            "at the step sizes within the budget the law is off by more than can be extrapolated: that is a bias that "
            "falls slowly with the step, or an error that stays"
        )
    elif not figure < UNDECIDED_ABOVE:
        why = f"a temperature off by {percent(figure)} would not have been seen"
    words = f"would have seen a temperature off by {percent(figure)}, in the check {seen.get('by')!r}"
    if why is not None:
        words = f"undecided: {why}; give more effort"
    return Check("decides", why is None, figure, UNDECIDED_ABOVE, words)


def smallest_seen(error: np.ndarray, leftover: np.ndarray, level: float) -> np.ndarray:
    """The smallest errors that 95 of 100 audits like this one would have seen, each tested at this level."""
    return (threshold(level) + DETECTION_SCORE) * error + leftover


def sensitivity(laws: Laws, found: Balance | None, alpha: float, dim: int) -> dict[str, Any]:
    """Relative errors that would have been seen: of the temperature, `by` which check, of one coordinate (the median,
    the worst); and of the rest, the median over statistics of a kind, in its own units."""
    seen = {test.name: smallest_seen(test.error, test.leftover, each_of(alpha, test.count)) for test in laws.tests}
    hot, by = float(seen["temperature"][0]), "temperature"
    alone = seen.get("equipartition", seen["temperature"])
    if found is not None:
        one_step = smallest_seen(found.error, found.leftover, each_of(alpha, len(found.error)))
        alone = np.minimum(alone, one_step[:dim])
        # one step sees a temperature in every coordinate at once
        at_once = float(one_step[-1] if found.has_mean else one_step[:dim].min())
        if at_once < hot:
            hot, by = at_once, "one step"
    sizes = {name: float(np.median(seen[name])) for name in ERROR_WORDS if name in seen}
    if "shape" in seen:
        kinds = np.split(seen["shape"], len(seen["shape"]) // dim)
        named = zip(SHAPE_NAMES, SHAPE_DEVIATIONS, kinds, strict=False)
        sizes |= {name: float(factor * np.median(part)) for name, factor, part in named}
    leftover = float(laws.tests[0].leftover[0])
    result = {"by": by, "temperature": hot, "leftover": leftover}
    return result | {"coordinate": float(np.median(alone)), "worst coordinate": float(alone.max())} | sizes


def sensitivity_words(seen: dict[str, Any]) -> str:
    """What the audit would have seen, and so what it would not."""
    listed = [
        f"a temperature off by {percent(seen['temperature'])} (in the check {seen['by']!r})",
        f"that of one coordinate by {percent(seen['coordinate'])} (of the least known one by "
        f"{percent(seen['worst coordinate'])})",
    ]
    listed += [words.format(f"{seen[name]:.2g}") for name, words in ERROR_WORDS.items() if name in seen]
    return f"would have seen, in 95 of 100 audits, and nothing smaller for sure: {', '.join(listed)}"
