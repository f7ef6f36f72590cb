"""What a run is made with: a preset, and what a person gave in the place of its numbers."""

from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np

from ergodica.driver.schedules import polynomial
from ergodica.errors import InputError
from ergodica.lda.gibbs.estimate import GIBBS_ESTIMATORS
from ergodica.lda.samplers import PRESETS, SAMPLERS, Preset

DRAWS, POSTERIOR_DRAWS = 20, 200
OWN = ("alpha", "gamma", "size", "batch_size", "sweeps", "burn_in", "estimator", "step_size", "draws")


@dataclass(frozen=True, kw_only=True)
class Settings(Preset):
    """The numbers of a run: a preset's or a person's own. `draws`: how many to keep."""

    sampler: str
    preset: str
    draws: int

    def schedule(self) -> Any:
        return polynomial(*self.step_size) if isinstance(self.step_size, tuple) else self.step_size

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)


def settings_of(parameters: dict[str, Any]) -> Settings:
    """Of the estimator's parameters: what is None is the preset's."""
    for name, known in (("sampler", SAMPLERS), ("preset", PRESETS)):
        if not isinstance(parameters[name], str) or parameters[name] not in known:
            raise InputError(f"{name} is {parameters[name]!r}: expected one of {', '.join(known)}")
    sampler, preset = parameters["sampler"], parameters["preset"]
    draws = POSTERIOR_DRAWS if preset == "posterior" else DRAWS
    found = Settings(sampler=sampler, preset=preset, draws=draws, **asdict(PRESETS[preset][sampler]))
    own = {name: parameters[name] for name in OWN if parameters[name] is not None}
    if "sweeps" in own and "burn_in" not in own:
        own["burn_in"] = own["sweeps"] // 2
    if "step_size" in own:  # a person's own is not made smaller
        own |= {"step_size": _step_size(own["step_size"]), "noise": None}
    found = replace(found, **own)
    _check(found, parameters["seed"], parameters["topics"])
    return found


def _step_size(given: Any) -> float | tuple[float, float, float]:
    """As a person gave it: a number, or three."""
    try:
        numbers = [float(number) for number in (given if isinstance(given, tuple | list) else (given,))]
    except (TypeError, ValueError):
        numbers = []
    if len(numbers) not in (1, 3):
        raise InputError(f"step_size is {given!r}: expected a number, or (a, b, c) for a (1 + t/b)^-c")
    return numbers[0] if len(numbers) == 1 else (numbers[0], numbers[1], numbers[2])


def _check(settings: Settings, seed: Any, topics: Any) -> None:
    whole = {"seed": seed, "topics": topics, "batch_size": settings.batch_size, "draws": settings.draws}
    for name, value in whole.items():
        least = 0 if name == "seed" else 1
        if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < least:
            raise InputError(f"{name} is {value!r}: expected a whole number of at least {least}")
    if settings.size is not None and not (np.isfinite(settings.size) and settings.size > 0):
        raise InputError(f"size is {settings.size!r}: expected the number of documents of the whole corpus")
    if not 0 <= settings.burn_in < settings.sweeps:
        raise InputError(f"sweeps is {settings.sweeps} and burn_in {settings.burn_in}: expected 0 <= burn_in < sweeps")
    if settings.estimator not in GIBBS_ESTIMATORS:
        raise InputError(f"estimator is {settings.estimator!r}: expected one of {', '.join(GIBBS_ESTIMATORS)}")
