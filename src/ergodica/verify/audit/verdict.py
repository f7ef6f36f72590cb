"""From estimates to checks and words. Words follow from the estimates with their intervals, never from names."""

from typing import Any

import numpy as np

from ergodica.report import Check
from ergodica.verify.audit.features import BENT, FOURTH, THIRD
from ergodica.verify.audit.laws import Laws, LawTest
from ergodica.verify.audit.moments import Balance
from ergodica.verify.audit.noise import Noise
from ergodica.verify.audit.result import FALSE_ALARM, Estimate
from ergodica.verify.audit.tails import DETECTION, any_of, each_of, normal_score, threshold, two_sided

Names = tuple[str, ...]  # of the coordinates
Pairs = tuple[Any, Any]  # indices of coordinates

ALIKE = 4.0  # standard errors within which coordinates count as alike
UNDECIDED = 1.0  # relative error of the temperature that must be seen
SHAPES = ("skewness", "kurtosis", "bend")
SIZES = {
    "mean": "a mean off by {} deviations", "covariance": "a correlation of {}", "skewness": "a skewness of {}",
    "kurtosis": "an excess kurtosis of {}", "bend": "a bend of {}", "triples": "a product of three coordinates of {}",
}  # fmt: skip
NEAR = 0.1  # relative width of an interval that may be called a number by name


def level(checks: int) -> float:
    """The level of each of so many statistical checks, for FALSE_ALARM overall."""
    return each_of(FALSE_ALARM, max(checks, 1))


def law_checks(
    laws: Laws, names: Names, pairs: Pairs, triples: tuple[Any, Any, Any], asked: float, alpha: float
) -> list[Check]:
    """The tests of the stationary law. Of its shape it is told what is wrong only where mean and scale are right: it is
    measured on the claimed ones."""
    checks: list[Check] = []
    for test in laws.tests:
        k, p = test.worst, test.p_value
        score, bound = float(abs(test.scores[k])), threshold(each_of(alpha, test.count))
        is_told = p < alpha and all(check.passed for check in checks)
        words = _law_words(test, k, laws, names, pairs, triples, asked, is_told)
        checks.append(Check(test.name, p >= alpha, score, bound, words, p))
    return checks


def _law_words(
    test: LawTest, k: int, laws: Laws, names: Names, pairs: Pairs, triples: tuple[Any, Any, Any], asked: float,
    is_told: bool,
) -> str:  # fmt: skip
    estimate, at = test.limit.estimate(k), int(test.which[k])
    if test.name == "triples":
        return _triple_words(estimate, float(test.expected[k]), [names[int(i[at])] for i in triples])
    if test.name == "covariance":
        return f"{between(names, pairs, at)} are correlated beyond the claimed law by {estimate}"
    if test.name == "shape":
        return _shape_words(estimate, float(test.expected[k]), at, names, is_told)
    where = names[at]
    if test.name == "temperature":
        return f"samples at temperature {scaled(estimate, asked)}, asked for {asked:g}"
    if test.name == "equipartition":
        mean = float(laws.tests[0].limit.value[0])
        own = scaled(Estimate(*(mean + x - test.expected[k] for x in estimate)), asked)
        return f"{where} has temperature {own}, all coordinates together {asked * mean:.3g}"
    if test.name == "mean":
        return f"the mean of {where} is {estimate} deviations from that of the claimed law"
    ratio = Estimate(*(x - test.expected[k] + 1 for x in estimate))
    return f"the variance of {where}, beyond what its temperature explains, is {ratio} of the claimed one"


def _shape_words(estimate: Estimate, expected: float, at: int, names: Names, is_told: bool) -> str:
    """Of the bounded functions of `Features`, in units of the moments that they are close to."""
    kind, k = divmod(at, len(names))
    factor = (THIRD, FOURTH, BENT)[kind]
    held = f"{scaled(estimate, factor)}, claimed {round(factor * expected, 3) + 0.0:g}"
    others = names[1 - k] if len(names) == 2 else "the other coordinates"
    name = ("skewness", "excess kurtosis", f"product with the squares of {others}")[kind]
    how = ("is skewed", "has other tails", "is bent")[kind]
    begin = f"the law {how} in {names[k]}: its {name}" if is_told else f"the {name} of {names[k]}"
    return f"{begin}, far values held down, is {held}"


def _triple_words(estimate: Estimate, expected: float, three: list[str]) -> str:
    held = f"{estimate}, claimed {round(expected, 3) + 0.0:g}"
    return f"the product of {three[0]}, {three[1]} and {three[2]}, far values held down, is {held}"


def between(names: Names, pairs: Pairs, at: int) -> str:
    return f"{names[int(pairs[0][at])]} and {names[int(pairs[1][at])]}"


def scaled(estimate: Estimate, factor: float) -> str:
    return str(Estimate(*(factor * x for x in estimate)))


def percent(share: float) -> str:
    """With two digits, and whole numbers above ten."""
    return f"{100 * share:.2g} %" if share < 0.1 else f"{100 * share:,.0f} %"


def balance_check(found: Balance, names: Names, alpha: float) -> Check:
    """Do drift and noise of one step balance under the claimed law?"""
    scores = balance_scores(found)
    k, count = int(np.argmax(np.abs(scores))), len(scores)
    p = any_of(float(two_sided(scores[k])), count)
    bound = threshold(each_of(alpha, count))
    return Check("one step", p >= alpha, float(abs(scores[k])), bound, _balance_words(found, k, names), p)


def balance_scores(found: Balance) -> np.ndarray:
    beyond = np.sign(found.residual) * np.maximum(np.abs(found.residual) - found.leftover, 0)
    return normal_score(beyond / found.error, found.clusters)


def _balance_words(found: Balance, k: int, names: Names) -> str:
    error = float(np.hypot(found.error[k], found.leftover[k]))
    alone, errors = found.residual[: len(names)], found.error[: len(names)]
    is_mean = found.has_mean and k == len(found.residual) - 1
    if len(names) > 1 and (k < len(names) or is_mean) and np.all(np.abs(alone - alone.mean()) < ALIKE * errors):
        narrow = error if is_mean else float(errors.max() / np.sqrt(len(names)) + found.leftover[k])
        return f"drift is {Estimate.of(1 - alone.mean(), narrow)} of what the noise asks for, alike in every coordinate"
    if is_mean:
        ratio = Estimate.of(1 - found.residual[k], error)
        return f"drift is {ratio} of what the noise asks for, in the mean over coordinates"
    if k < len(names):
        ratio = Estimate.of(1 - found.residual[k], error)
        return f"drift of {names[k]} is {ratio} of what its noise asks for"
    both, missed = between(names, found.pairs, k - len(names)), Estimate.of(found.residual[k], error)
    return f"drift and noise between {both} miss each other by {missed} of the noise"


def noise_check(found: Noise, alpha: float) -> Check:
    """Is the noise of consecutive steps independent?"""
    if found.p_value >= alpha:
        words = "noise of consecutive steps is uncorrelated with the step number: no key or batch is held"
    elif found.is_redrawn:
        words = f"a momentum is drawn anew every {found.period} steps"
    elif found.is_cycle:
        words = f"does different things with period {found.period}, and holds no key or batch"
    else:
        listed = ", ".join(f"{c:.2f}" for c in found.correlations[:6])
        words = (
            f"noise of consecutive steps is correlated, and by the step number ({listed}"
            f"{', ...' if found.period > 6 else ''}): a key or a batch used for {found.period} steps"
        )
    p = 1.0 if found.p_value < alpha and (found.is_redrawn or found.is_cycle) else found.p_value
    return Check("noise", p >= alpha, threshold(p), threshold(alpha), words, p)


def decision_check(seen: dict[str, Any], longest: int | None, is_rough: bool, unrelaxed: str | None = None) -> Check:
    """Would a temperature off by a factor of two have been seen? If not, passing the others means nothing; nor does it
    where no chain has forgotten its start, however well one step balances. `longest`: steps that chains were run for
    in vain. `is_rough`: only a bias that may still fall explains what was seen. `unrelaxed`: what stayed as it was."""
    figure = float(seen["temperature"])
    if unrelaxed is not None:
        return Check("decides", False, figure, UNDECIDED, f"undecided: {unrelaxed}; give more effort")
    if longest is not None:
        steps = "step" if longest == 1 else "steps"
        words = (
            f"undecided: at no step size had the chains forgotten their start after {longest:,} {steps}, when the "
            "budget was spent, so that what they sample is not known; give more effort"
        )
        return Check("decides", False, figure, UNDECIDED, words)
    if is_rough:
        words = (
            "undecided: at the step sizes within the budget the law is off by more than can be extrapolated: that is "
            "a bias that falls slowly with the step, or an error that stays; give more effort"
        )
        return Check("decides", False, figure, UNDECIDED, words)
    if figure < UNDECIDED:
        words = f"would have seen a temperature off by {percent(figure)}, in the check {seen['by']!r}"
        return Check("decides", True, figure, UNDECIDED, words)
    words = f"undecided: a temperature off by {percent(figure)} would not have been seen; give more effort"
    return Check("decides", False, figure, UNDECIDED, words)


def temperature_words(temperature: Estimate, asked: float, dim: int) -> str:
    """The law that it samples, by its temperature."""
    words = f"it samples at temperature {temperature}, asked for {asked:g}"
    ratio = Estimate(*(x / asked for x in temperature))
    if dim > 2 and ratio.low <= dim <= ratio.high and ratio.high - ratio.low < NEAR * dim:
        times = "" if asked == 1 else f"{asked:g} times "
        words += (
            f": that is {times}the dimension, {dim}, or a factor of {dim} from elsewhere (a momentum that keeps "
            f"{1 - 1 / dim:.2g} of itself): eg.audit_family, in other dimensions, tells which"
        )
    return words


def seen(error: float, leftover: float, bound: float) -> float:
    """The smallest error that 95 of 100 audits like this one would have seen."""
    return (bound + DETECTION) * error + leftover


def sensitivity(laws: Laws, found: Balance | None, alpha: float, dim: int) -> dict[str, Any]:
    """Relative errors that would have been seen: of the temperature, `by` which check, and of one coordinate (the
    median, the worst)."""
    temperature = laws.tests[0]
    result: dict[str, Any] = {"by": temperature.name}
    result["temperature"] = seen(temperature.error[0], temperature.leftover[0], threshold(alpha))
    result["leftover"] = float(temperature.leftover[0])
    even = next((test for test in laws.tests if test.name == "equipartition"), temperature)
    bound = threshold(each_of(alpha, even.count))
    alone = np.array([seen(e, r, bound) for e, r in zip(even.error, even.leftover, strict=True)])
    if found is not None:
        bound = threshold(each_of(alpha, len(found.error)))
        other = np.array([seen(e, r, bound) for e, r in zip(found.error[:dim], found.leftover[:dim], strict=True)])
        alone = np.minimum(alone, other)
        # one step sees a temperature in every coordinate at once
        hot = seen(found.error[-1], found.leftover[-1], bound) if found.has_mean else other.min()
        if hot < result["temperature"]:
            result |= {"temperature": float(hot), "by": "one step"}
    result["coordinate"], result["worst coordinate"] = float(np.median(alone)), float(alone.max())
    return result | _other_sizes(laws, alpha, dim)


def _other_sizes(laws: Laws, alpha: float, dim: int) -> dict[str, float]:
    """What would have been seen of the rest: the median over statistics of a kind, in its own units."""
    found = {}
    for test in laws.tests:
        bound = threshold(each_of(alpha, test.count))
        sizes = np.array([seen(e, r, bound) for e, r in zip(test.error, test.leftover, strict=True)])
        if test.name == "shape":
            kinds = zip(SHAPES, (THIRD, FOURTH, BENT), np.split(sizes, len(sizes) // dim), strict=False)
            found |= {name: float(factor * np.median(part)) for name, factor, part in kinds}
        elif test.name in SIZES:
            found[test.name] = float(np.median(sizes))
    return found


def sensitivity_words(seen: dict[str, Any]) -> str:
    """What the audit would have seen, and so what it would not."""
    listed = [
        f"a temperature off by {percent(seen['temperature'])} (in the check {seen['by']!r})",
        f"that of one coordinate by {percent(seen['coordinate'])} (of the least known one by "
        f"{percent(seen['worst coordinate'])})",
    ]
    for name, words in SIZES.items():
        if name in seen:
            listed.append(words.format(f"{seen[name]:.2g}"))
    return f"would have seen, in 95 of 100 audits, and nothing smaller for sure: {', '.join(listed)}"
