"""Two thermometers of a run: the momenta's, and the positions'. Both should show the temperature asked for."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from ergodica.diagnostics import advice
from ergodica.diagnostics.effective import widening
from ergodica.diagnostics.normal import p_value
from ergodica.diagnostics.settled import second_half, settled_error
from ergodica.report import Check

OFF = 0.05  # of the temperature: steps have an error of their own, of order h for Euler and h^2 for splittings
ERRORS = 4.0
BLUNT = 0.2  # of the temperature: where ERRORS standard errors are more, a thermometer tells nothing


def kinetic(
    stats: Mapping[str, Any], settings: Mapping[str, Any], good: np.ndarray, correlation: float = 0.0
) -> Check | None:
    """The mean of `kinetic_temperature` against the temperature asked for; None where there is no momentum."""
    values = stats.get("kinetic_temperature")
    if values is None:
        return None
    values = np.asarray(values, float)[good]
    if values.size == 0 or values.shape[1] < 8 or not np.isfinite(values).all():
        return None
    cures = advice.too_hot(settings), advice.too_cold(settings)
    return against("kinetic temperature", values, settings, correlation, "The momenta have", cures)


def configurational(
    positions: np.ndarray, gradients: np.ndarray, settings: Mapping[str, Any], correlation: float = 0.0
) -> Check:
    """E[(q - c) . grad U] / d = T for every constant c, where the density vanishes at the border (by parts).

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
    products = np.sum((positions - centres) * gradients, axis=2) / size
    cures = advice.too_hot(settings, is_momentum=False), advice.too_cold(settings)
    subject = "By E[q . grad U]/d the positions have"
    return against("configurational temperature", products, settings, correlation, subject, cures)


def against(
    name: str,
    values: np.ndarray,
    settings: Mapping[str, Any],
    correlation: float,
    subject: str,
    cures: tuple[str, str],
) -> Check:
    """The check of temperatures (chain, draw); `cures` are for one too high and one too low."""
    asked = float(settings.get("temperature", 1.0))
    measured = float(values.mean())
    error = settled_error(values) * np.sqrt(widening(len(values), correlation))
    z = (measured - asked) / error if error > 0 else 0.0
    off, noise = abs(measured / asked - 1), ERRORS * error / asked if np.isfinite(error) else np.inf
    allowed = max(OFF, noise)
    passed = bool(off <= allowed)
    start = f"{subject} temperature {measured:.4g} where {asked:.4g} was asked for: {off:.1%} or {abs(z):.1f} standard "
    if passed and noise > BLUNT:
        words = f"{start}errors off. Too few draws to tell: {ERRORS:.0f} errors are {noise:.0%}. Run longer."
        if off > BLUNT:
            words += f" {advice.longer_warmup(settings)}"
        return Check(name, True, off, allowed, words, p_value(z), is_undecided=True)
    words = f"{start}errors off ({OFF:.0%} or {ERRORS:.0f} are allowed)."
    if not passed:
        rest = float(second_half(values).mean())
        is_over = abs(rest / asked - 1) <= max(OFF, np.sqrt(2) * noise)
        was_worse = abs(measured - asked) > abs(rest - asked) + ERRORS * error
        cure = cures[0 if measured > asked else 1]
        if is_over:
            words += f" In the second halves of the chains it is {rest:.4g}. {advice.longer_warmup(settings)}"
        elif was_worse:
            words += f" In the second halves it is {rest:.4g}. {advice.longer_warmup(settings)} {cure}"
        else:
            words += f" {cure}"
    return Check(name, passed, off, allowed, words, p_value(z))
