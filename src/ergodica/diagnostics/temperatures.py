"""Two thermometers of a run: the momenta's, and the positions'. Both should show the temperature asked for, on average
and in each coordinate: an average over many hides one that is too hot."""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from ergodica.diagnostics.columns import Named, number_names, second_half, settled_error, widening
from ergodica.diagnostics.mixing import is_integrator
from ergodica.diagnostics.thresholds import (
    BLUNT_TEMPERATURE,
    FEWEST_DRAWS,
    FEWEST_SEGMENTS,
    LARGEST_BIAS,
    SD_OFF,
    TEMPERATURE_ERRORS,
    TEMPERATURE_OFF,
    largest_t,
    p_value,
)  # fmt: skip
from ergodica.output.labelled import Temperatures
from ergodica.report import Check

BY_COORDINATE, POSITIONS_BY_COORDINATE = "temperature by coordinate", "configurational by coordinate"
SEGMENTS = 64  # of all chains together: few, so that each is longer than what chains remember
WEAK_FRICTION = 1e-3  # of a momentum that friction takes in a step: below it a thousand steps do not refresh one
FEWEST_REFRESHED = 10  # times in a run that friction must refresh a momentum


def kinetic(stats: Named, settings: Named, good: np.ndarray, correlation: float = 0.0) -> Check | None:
    """The mean of `kinetic_temperature` against the temperature asked for; None where there is no momentum."""
    values = stats.get("kinetic_temperature")
    if values is None:
        return None
    values = np.asarray(values, float)[good]
    if values.size == 0 or values.shape[1] < FEWEST_DRAWS or not np.isfinite(values).all():
        return None
    cures = too_hot(settings), too_cold(settings)
    return against("kinetic temperature", values, settings, correlation, "The momenta have", cures)


def configurational(
    positions: np.ndarray,
    gradients: np.ndarray,
    settings: Named,
    correlation: float = 0.0,
    name_of: Callable[[int], str] = str,
) -> list[Check]:
    """E[(q - c) . grad U] / d = T for every constant c, where the density vanishes at the border (by parts).

    The same holds for each number, E[(q_i - c_i) dU/dq_i] = T.

    Both arguments are (chain, draw, d), the gradient that of U on all data. c is the mean of the other chains (of the
    other half of a single one): it makes the error small, and a mean of the same draws would bias the figure.
    """
    chains, draws, size = positions.shape
    if chains > 1:
        means = positions.mean(axis=1)
        centres = ((means.sum(axis=0) - means) / (chains - 1))[:, None]
    else:
        half = draws // 2
        first, second = positions[0, :half].mean(axis=0), positions[0, half:].mean(axis=0)
        centres = np.where(np.arange(draws)[:, None] < half, second, first)[None]
    products = (positions - centres) * gradients
    cures = too_hot(settings, is_momentum=False), too_cold(settings)
    subject = "By E[q . grad U]/d the positions have"
    mean = np.sum(products, axis=2) / size
    found = [against("configurational temperature", mean, settings, correlation, subject, cures)]
    measured = CoordinateTemperatures(POSITIONS_BY_COORDINATE, products, np.ones(draws), name_of)
    each = measured.check(settings, correlation, cures)
    return found if each is None else [*found, each]


def against(
    name: str, values: np.ndarray, settings: Named, correlation: float, subject: str, cures: tuple[str, str]
) -> Check:
    """The check of temperatures (chain, draw); `cures` are for one too high and one too low."""
    asked = float(settings.get("temperature", 1.0))
    measured = float(values.mean())
    error = settled_error(values) * np.sqrt(widening(len(values), correlation))
    z = (measured - asked) / error if error > 0 else 0.0
    off, noise = abs(measured / asked - 1), TEMPERATURE_ERRORS * error / asked if np.isfinite(error) else np.inf
    allowed = max(TEMPERATURE_OFF, noise)
    passed = bool(off <= allowed)
    start = f"{subject} temperature {measured:.4g} where {asked:.4g} was asked for: {off:.1%} or {abs(z):.1f} standard "
    if passed and noise > BLUNT_TEMPERATURE:
        few = f"Too few draws to tell: {TEMPERATURE_ERRORS:.0f} errors are {noise:.0%}. Run longer."
        words = f"{start}errors off. {few}"
        if off > BLUNT_TEMPERATURE:
            words += f" {longer_warmup(settings)}"
        return Check(name, True, off, allowed, words, p_value(z), is_undecided=True)
    words = f"{start}errors off ({TEMPERATURE_OFF:.0%} or {TEMPERATURE_ERRORS:.0f} are allowed)."
    if not passed:
        rest = float(second_half(values).mean())
        is_over = abs(rest / asked - 1) <= max(TEMPERATURE_OFF, np.sqrt(2) * noise)
        was_worse = abs(measured - asked) > abs(rest - asked) + TEMPERATURE_ERRORS * error
        cure = cures[0 if measured > asked else 1]
        if is_over:
            words += f" In the second halves of the chains it is {rest:.4g}. {longer_warmup(settings)}"
        elif was_worse:
            words += f" In the second halves it is {rest:.4g}. {longer_warmup(settings)} {cure}"
        else:
            words += f" {cure}"
    return Check(name, passed, off, allowed, words, p_value(z))


# -- coordinate by coordinate ---------------------------------------------------------------------------


class CoordinateTemperatures(NamedTuple):
    """Temperatures (chain, stretch, coordinate), and how much each stretch counts."""

    name: str
    values: np.ndarray
    weights: np.ndarray
    name_of: Callable[[int], str]
    """Of the coordinate at this place of `values`."""

    def segments(self) -> np.ndarray:
        """(chain, segment, coordinate): stretches put together, about SEGMENTS in all."""
        chains, stretches, _ = self.values.shape
        count = min(stretches, max(2, -(-SEGMENTS // chains)))
        edges = np.linspace(0, stretches, count + 1).astype(int)[:-1]
        total = np.add.reduceat(self.values * self.weights[:, None], edges, axis=1)
        return total / np.add.reduceat(self.weights, edges)[:, None]

    def check(
        self, settings: Named, correlation: float, cures: tuple[str, str], allowed: float = SD_OFF
    ) -> Check | None:
        """WRONG where an sd is off by more than is allowed, errors aside; unsure where that may be chance, or errors
        are more than LARGEST_BIAS; None where there is next to nothing to tell errors from."""
        parts = self.segments()
        later = second_half(parts).reshape(-1, parts.shape[2])  # a transient would inflate its own error
        if len(later) < FEWEST_SEGMENTS // 2:
            return None
        asked = float(settings.get("temperature", 1.0))
        mean = np.average(self.values, axis=1, weights=self.weights).mean(axis=0) / asked
        widened = np.sqrt(widening(len(parts), correlation) / (parts.shape[0] * parts.shape[1]))
        error = later.std(axis=0, ddof=1) * widened / asked
        z = largest_t(mean.size, len(later) - 1)
        low, off, high = (np.sqrt(np.maximum(mean + x * error, 0)) - 1 for x in (-z, 0, z))
        least, most = np.maximum(low, -high), np.maximum(high, -low)
        with np.errstate(all="ignore"):
            p = p_value(float(np.nanmax(np.abs(mean - 1) / error, initial=0.0)), mean.size)
        numbers, is_wrong = f"{mean.size:,} {_kind(self, settings)}", bool(np.max(least) > allowed)
        at = int(np.argmax(least if is_wrong else most))
        name, figure = self.name_of(at), float(most[at])
        if is_wrong:
            count, is_wide = int(np.count_nonzero(least > allowed)), off[at] > 0
            words = (
                f"{name} has temperature {mean[at] * asked:.4g} where {asked:.4g} was asked for, as if its sd were "
                f"{abs(off[at]):.0%} too {'wide' if is_wide else 'narrow'}, and {least[at]:.0%} at least, errors aside "
                f"({allowed:.0%} is allowed; {count} of {numbers} {'is' if count == 1 else 'are'} off). "
            )
            is_over = is_wide and np.sqrt(later[:, at].mean() / asked) - 1 <= allowed
            words += longer_warmup(settings) if is_over else cures[0 if is_wide else 1]
            return Check(self.name, False, abs(float(off[at])), allowed, words, p)
        if np.max(np.abs(off)) > allowed or np.max(high - low) > 2 * max(allowed, LARGEST_BIAS):
            words = (
                f"Not known well enough to tell: the sd of {name} may be off by {figure:.0%}, {z:.1f} standard errors "
                f"counted ({allowed:.0%} is allowed). Run longer."
            )
            return Check(self.name, True, figure, allowed, words, p, is_undecided=True)
        words = (
            f"The temperatures of {numbers} imply sds that are off by {figure:.1%} at most, {z:.1f} standard errors "
            f"counted ({name}: {off[at]:+.1%}; {allowed:.0%} is allowed)."
        )
        return Check(self.name, True, figure, allowed, words, p)


def _kind(found: CoordinateTemperatures, settings: Named) -> str:
    return "whitened coordinates" if found.name == BY_COORDINATE and _is_whitened(settings) else "numbers"


def _is_whitened(settings: Named) -> bool:
    return (settings.get("thermometer") or {}).get("coordinates") == "whitened"


def by_coordinate(
    measured: Temperatures | None,
    settings: Named,
    good: np.ndarray,
    correlation: float = 0.0,
    allowed: float = SD_OFF,
) -> Check | None:
    """By what each step moves: 1 + b in every coordinate, at every step size; None where that was not measured."""
    if measured is None or len(measured.values) != len(good) or not np.isfinite(measured.values[good]).all():
        return None

    def name_of(at: int) -> str:
        place = int(measured.places[at])
        if _is_whitened(settings):
            return f"coordinate {place} of R^-1 q (scale=R)"
        return place_name(place, (settings.get("thermometer") or {}).get("leaves", {}))

    cures = too_hot(settings), too_cold(settings)
    found = CoordinateTemperatures(BY_COORDINATE, measured.values[good], measured.steps, name_of)
    return found.check(settings, correlation, cures, allowed)


def place_name(place: int, shapes: Named) -> str:
    """Of the number at this place of the position, whose variables have these shapes."""
    begin = 0
    for name, shape in shapes.items():
        size = int(np.prod(shape))
        if begin <= place < begin + size:
            return number_names(name, np.asarray([place - begin]), tuple(shape))[0]
        begin += size
    return f"number {place} of the position"


def weak_friction(stats: Named, settings: Named) -> str | None:
    """Where friction is orders of magnitude too small for the mass, in words: it has the units of mass over time."""
    friction, sizes = settings.get("least_friction"), stats.get("step_size")
    if friction is None or sizes is None or np.size(sizes) == 0:
        return None
    step = float(np.mean(sizes))
    rate = float(friction) * step
    heat = np.asarray(stats.get("kinetic_temperature", np.nan), float)
    is_hot = bool(np.nanmean(heat) > 2 * float(settings.get("temperature", 1.0))) if np.isfinite(heat).any() else False
    refreshed = rate * float(settings.get("steps") or 0)
    if rate >= WEAK_FRICTION or not (is_hot or refreshed < FEWEST_REFRESHED):
        return None
    return (
        f"Friction is too small by orders of magnitude: friction / mass x step is {rate:.1g} in the weakest direction, "
        f"so that a momentum is refreshed there once in {1 / max(rate, 1e-300):.1g} steps, and the heat of gradient "
        f"noise stays. Friction has the units of mass over time: give about {0.3 / step:.2g} times the mass, or the "
        "widths of the posterior instead of a mass, eg.sghmc(friction=1.0, scale=R), where friction 1 to 3 is right "
        "(docs/how-to/precondition.md)."
    )


# -- advice ---------------------------------------------------------------------------------------------


def calmer_gradients(settings: Named) -> list[str]:
    """What lowers the noise of gradients, or its effect, and is not yet in use."""
    others = ["estimator=eg.ControlVariates()"] if settings.get("estimator") in (None, "minibatch") else []
    if settings.get("gradient_noise") is None:
        others.append("gradient_noise=eg.PerExample()")
    return ["larger batches", *others]


def too_hot(settings: Named, is_momentum: bool = True) -> str:
    """For a temperature above the one asked for."""
    if settings.get("batch_size") is not None:
        cures = [*calmer_gradients(settings), *(["more friction"] if is_momentum else []), "a smaller step"]
        return f"Too hot, by gradient noise or too large a step: try {', '.join(cures[:-1])} or {cures[-1]}."
    if is_integrator(settings, "euler"):
        return "Too hot: Euler's steps heat in proportion to their size. Take a smaller step, or a splitting."
    return "Too hot: the step is too large, or the target's own gradient is noisy. Take a smaller step."


def too_cold(settings: Named) -> str:
    """For a temperature below the one asked for."""
    subtracted = settings.get("gradient_noise") is not None
    noise = ", or more gradient noise is subtracted (gradient_noise) than there is" if subtracted else ""
    return f"Too cold: the step is too large, or the chains have not yet spread out{noise}."


def longer_warmup(settings: Named) -> str:
    """Where the first part of a run spoils a figure."""
    warmup = settings.get("warmup")
    now = f" (it was {warmup})" if warmup is not None else ""
    return f"The chains were still on their way from the start: give a longer warmup={now}, or start from the mode."
