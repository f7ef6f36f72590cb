"""Two thermometers of a run: the momenta's, and the positions'. Both should show the temperature asked for."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from ergodica.diagnostics.effective import error_of_mean, widening
from ergodica.diagnostics.normal import p_value
from ergodica.report import Check

OFF = 0.05  # of the temperature: a splitting whose positions are right heats its momenta by (step * frequency)^2 / 4
ERRORS = 4.0


def kinetic(
    stats: Mapping[str, Any], settings: Mapping[str, Any], good: np.ndarray, correlation: float = 0.0
) -> Check | None:
    """The mean of `kinetic_temperature` against the temperature asked for; None where there is no momentum."""
    values = stats.get("kinetic_temperature")
    if values is None:
        return None
    values = np.asarray(values, float)[good]
    if values.size == 0 or values.shape[1] < 4 or not np.isfinite(values).all():
        return None
    error = float(error_of_mean(values)) * np.sqrt(widening(len(values), correlation))
    advice = (
        "Too hot: gradient noise heats the momenta (larger batches, control variates, more friction, "
        "gradient_noise=eg.PerExample()) or the step is too large.",
        "Too cold: the step is too large, or more gradient noise is subtracted than there is.",
    )
    return against("kinetic temperature", float(values.mean()), error, settings, "The momenta have", advice)


def configurational(positions: np.ndarray, gradients: np.ndarray, settings: Mapping[str, Any]) -> Check:
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
    advice = (
        "Too hot: gradient noise widens the law, or the step is too large.",
        "Too cold: the step is too large, or the chains have not yet spread out.",
    )
    mean, error = float(products.mean()), float(error_of_mean(products))
    return against(
        "configurational temperature", mean, error, settings, "By E[q . grad U]/d the positions have", advice
    )


def against(
    name: str, measured: float, error: float, settings: Mapping[str, Any], subject: str, advice: tuple[str, str]
) -> Check:
    """The check of a measured temperature, `advice` for one too high and one too low."""
    asked = float(settings.get("temperature", 1.0))
    z = (measured - asked) / error if error > 0 else 0.0
    off, allowed = abs(measured / asked - 1), max(OFF, ERRORS * error / asked)
    passed = bool(off <= allowed)
    words = (
        f"{subject} temperature {measured:.4g} where {asked:.4g} was asked for: {off:.1%} or {abs(z):.1f} standard "
        f"errors off ({OFF:.0%} or {ERRORS:.0f} are allowed)."
    )
    if not passed:
        words += " " + advice[0 if measured > asked else 1]
    return Check(name, passed, off, allowed, words, p_value(z))
