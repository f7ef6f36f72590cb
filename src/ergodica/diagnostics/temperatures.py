"""Two thermometers of a run: the momenta's, and the positions'. Both should show the temperature asked for."""

import numpy as np

from ergodica.diagnostics.columns import Named, second_half, settled_error, widening
from ergodica.diagnostics.mixing import is_integrator
from ergodica.diagnostics.thresholds import (
    BLUNT_TEMPERATURE,
    FEWEST_DRAWS,
    TEMPERATURE_ERRORS,
    TEMPERATURE_OFF,
    p_value,
)  # fmt: skip
from ergodica.report import Check


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


def configurational(positions: np.ndarray, gradients: np.ndarray, settings: Named, correlation: float = 0.0) -> Check:
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
    cures = too_hot(settings, is_momentum=False), too_cold(settings)
    subject = "By E[q . grad U]/d the positions have"
    return against("configurational temperature", products, settings, correlation, subject, cures)


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
