"""What a run is made with: a preset, and what a person gave instead of its numbers."""

from dataclasses import asdict, dataclass, replace
from typing import Any

from ergodica.errors import InputError
from ergodica.host.validate import choice, positive_number, whole
from ergodica.lda.gibbs.estimate import GIBBS_ESTIMATORS
from ergodica.lda.samplers import LDA_PRESETS, LDA_SAMPLERS, Preset

KEPT_DRAWS, POSTERIOR_DRAWS = 20, 200
OWN_SETTINGS = ("alpha", "gamma", "size", "batch_size", "sweeps", "burn_in", "estimator", "step_size", "draws")


@dataclass(frozen=True, kw_only=True)
class TopicSettings(Preset):
    """The numbers of a run: a preset's or a person's own. `draws`: how many to keep."""

    sampler: str
    preset: str
    draws: int

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)


def settings_of(parameters: dict[str, Any]) -> TopicSettings:
    """Of the estimator's parameters: what is None is the preset's."""
    sampler = choice("sampler", parameters["sampler"], LDA_SAMPLERS)
    preset = choice("preset", parameters["preset"], LDA_PRESETS)
    draws = POSTERIOR_DRAWS if preset == "posterior" else KEPT_DRAWS
    found = TopicSettings(sampler=sampler, preset=preset, draws=draws, **asdict(LDA_PRESETS[preset][sampler]))
    own = {name: parameters[name] for name in OWN_SETTINGS if parameters[name] is not None}
    if "sweeps" in own and "burn_in" not in own:
        own["burn_in"] = own["sweeps"] // 2
    if "step_size" in own:  # a person's own is not made smaller
        own |= {"step_size": _step_size(own["step_size"]), "noise": None, "rate": None}
    found = replace(found, **own)
    whole("seed", parameters["seed"])
    for name, count in (("topics", parameters["topics"]), ("batch_size", found.batch_size), ("draws", found.draws)):
        whole(name, count, 1)
    if found.size is not None:
        positive_number("size", found.size)
    if not 0 <= found.burn_in < found.sweeps:
        raise InputError(f"sweeps is {found.sweeps} and burn_in {found.burn_in}: expected 0 <= burn_in < sweeps")
    choice("estimator", found.estimator, GIBBS_ESTIMATORS)
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
