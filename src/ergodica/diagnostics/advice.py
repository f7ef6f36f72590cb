"""What to change, given how the run was made and what its steps met."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from ergodica.diagnostics.settled import second_half

SPIKE = 100  # times the median: gradients that a step cannot follow
WIDER = 10  # times: how much the sds of two chains may differ

SMALLER = "Take a smaller step, or a scale on which the density is less steep (the log of a positive number)."


def has_batches(settings: Mapping[str, Any]) -> bool:
    return settings.get("batch_size") is not None


def _is_plain(settings: Mapping[str, Any]) -> bool:
    return settings.get("estimator") in (None, "minibatch")


def calmer_gradients(settings: Mapping[str, Any]) -> list[str]:
    """What lowers the noise of gradients, or its effect, and is not yet in use."""
    if not has_batches(settings):
        return []
    others = ["estimator=eg.ControlVariates()"] if _is_plain(settings) else []
    if settings.get("gradient_noise") is None:
        others.append("gradient_noise=eg.PerExample()")
    return ["larger batches", *others]


def too_hot(settings: Mapping[str, Any], is_momentum: bool = True) -> str:
    """For a temperature above the one asked for."""
    if has_batches(settings):
        cures = [*calmer_gradients(settings), *(["more friction"] if is_momentum else []), "a smaller step"]
        return f"Too hot, by gradient noise or too large a step: try {', '.join(cures[:-1])} or {cures[-1]}."
    if "euler" in str(settings.get("integrator", "")).lower():
        return "Too hot: Euler's steps heat in proportion to their size. Take a smaller step, or a splitting."
    return "Too hot: the step is too large, or the target's own gradient is noisy. Take a smaller step."


def too_cold(settings: Mapping[str, Any]) -> str:
    """For a temperature below the one asked for."""
    subtracted = settings.get("gradient_noise") is not None
    noise = ", or more gradient noise is subtracted (gradient_noise) than there is" if subtracted else ""
    return f"Too cold: the step is too large, or the chains have not yet spread out{noise}."


def longer_warmup(settings: Mapping[str, Any]) -> str:
    """Where the first part of a run spoils a figure."""
    warmup = settings.get("warmup")
    now = f" (it was {warmup})" if warmup is not None else ""
    return f"The chains were still on their way from the start: give a longer warmup={now}, or start from the mode."


def thrown(stats: Mapping[str, Any], values: np.ndarray, good: np.ndarray) -> str | None:
    """Signs that steep gradients throw chains far out, in words; None where there are none.

    Only second halves are looked at: on the way from a far-off start gradients are large as well.
    """
    norms = stats.get("gradient_norm")
    if norms is not None and np.ndim(norms) == 2 and np.shape(norms)[1] >= 8:
        settled = second_half(np.asarray(norms, float)[good])
        middle, largest = float(np.median(settled)), float(np.max(settled))
        if middle > 0 and largest > SPIKE * middle:
            return f"gradients reach {largest / middle:.2g} times their median, too steep for this step"
    sds = second_half(values).std(axis=1)
    narrow, wide = sds.min(axis=0), sds.max(axis=0)
    with np.errstate(all="ignore"):
        ratio = float(np.max(np.where(narrow > 0, wide / narrow, 0), initial=0))
    return f"one chain is {ratio:.2g} times as wide as another, if that is not another mode" if ratio > WIDER else None
