"""What a run is made with: a preset, and what a person gave instead of its numbers."""

from dataclasses import asdict, dataclass, replace
from typing import Any

from ergodica.errors import InputError
from ergodica.host.validate import choice, positive_number, whole
from ergodica.lda.finding import DEFAULT_ALPHA, default_gamma
from ergodica.lda.gibbs.estimate import GIBBS_ESTIMATORS
from ergodica.lda.samplers import LDA_PRESETS, LDA_SAMPLERS, Preset

KEPT_DRAWS, POSTERIOR_DRAWS = 20, 400
OWN_SETTINGS = ("alpha", "gamma", "size", "batch_size", "sweeps", "burn_in", "estimator", "step_size", "draws")
DEFAULT_SAMPLER, PAPER_SAMPLER = "scir", "sgrhmc"
FIRST_SWEEPS, FIRST_BURN_IN = 3, 1  # of a first visit to a document while topics are being found


@dataclass(frozen=True)
class FindingSettings:
    """Of the averaged counts: alpha is added to them, gamma is the mean prior of a topic in a document."""

    alpha: float
    gamma: float
    sweeps: int
    burn_in: int


@dataclass(frozen=True, kw_only=True)
class TopicSettings(Preset):
    """The numbers of a run: a preset's or a person's own.

    Attributes:
        sampler, preset: by name. draws: how many to keep.
        finds: topics are found by averaged counts first. samples: there is a chain.
        finding: of the first phase. alpha_given, gamma_given: a person's own, else None, and they are learnt.
        minutes, passes: where to end; None: where perplexity, and the number of effective draws, say so.
    """

    sampler: str
    preset: str
    draws: int
    finds: bool = False
    samples: bool = True
    finding: FindingSettings = FindingSettings(DEFAULT_ALPHA, 0.1, FIRST_SWEEPS, FIRST_BURN_IN)
    alpha_given: float | None = None
    gamma_given: float | None = None
    minutes: float | None = None
    passes: int | None = None

    def to_dict(self) -> dict[str, Any]:
        told = asdict(self)
        return told if self.finds else {name: value for name, value in told.items() if name != "finding"}


def settings_of(parameters: dict[str, Any]) -> TopicSettings:
    """Of the estimator's parameters: what is None is the preset's."""
    given = LDA_DEFAULTS | parameters
    preset = choice("preset", given["preset"], LDA_PRESETS)
    has_bands = bool(given["bands"]) or preset == "posterior"
    finds = preset != "paper" and (has_bands or given["sampler"] is None)
    samples = not finds or has_bands or given["minutes"] is not None
    if preset == "paper" and given["bands"]:
        raise InputError("bands with the preset 'paper': its draws are no posterior; leave one of them out")
    sampler = given["sampler"] or (DEFAULT_SAMPLER if finds else PAPER_SAMPLER)
    choice("sampler", sampler, LDA_SAMPLERS)
    base = LDA_PRESETS["posterior" if finds else preset][sampler]
    draws = POSTERIOR_DRAWS if finds else KEPT_DRAWS
    own = {name: given[name] for name in OWN_SETTINGS if given[name] is not None}
    if "sweeps" in own and "burn_in" not in own:
        own["burn_in"] = own["sweeps"] // 2
    if "step_size" in own:  # a person's own is not made smaller
        own |= {"step_size": _step_size(own["step_size"]), "noise": None, "rate": None}
    found = TopicSettings(
        sampler=sampler, preset=preset, draws=draws, finds=finds, samples=samples, finding=_finding(given),
        alpha_given=given["alpha"], gamma_given=given["gamma"], minutes=given["minutes"], passes=given["passes"],
        **asdict(base),
    )  # fmt: skip
    found = replace(found, **own)
    _check(found, given)
    return found


def _finding(given: dict[str, Any]) -> FindingSettings:
    whole("topics", given["topics"], 1)
    sweeps, burn_in = given["sweeps"], given["burn_in"]
    if sweeps is None:
        sweeps, burn_in = FIRST_SWEEPS, FIRST_BURN_IN if burn_in is None else burn_in
    return FindingSettings(
        alpha=DEFAULT_ALPHA if given["alpha"] is None else positive_number("alpha", given["alpha"]),
        gamma=default_gamma(given["topics"]) if given["gamma"] is None else positive_number("gamma", given["gamma"]),
        sweeps=sweeps, burn_in=sweeps // 2 if burn_in is None else burn_in,
    )  # fmt: skip


def _check(found: TopicSettings, given: dict[str, Any]) -> None:
    whole("seed", given["seed"])
    for name, count in (("batch_size", found.batch_size), ("draws", found.draws), ("passes", found.passes)):
        if count is not None:
            whole(name, count, 1)
    for name, number in (("size", found.size), ("minutes", found.minutes)):
        if number is not None:
            positive_number(name, number)
    if not 0 <= found.burn_in < found.sweeps:
        raise InputError(f"sweeps is {found.sweeps} and burn_in {found.burn_in}: expected 0 <= burn_in < sweeps")
    choice("estimator", found.estimator, GIBBS_ESTIMATORS)


LDA_DEFAULTS: dict[str, Any] = {
    "topics": 50, "sampler": None, "preset": "tuned", "seed": 0, "bands": False, "minutes": None, "passes": None,
    **dict.fromkeys(OWN_SETTINGS),
}  # fmt: skip


def _step_size(given: Any) -> float | tuple[float, float, float]:
    """As a person gave it: a number, or three."""
    try:
        numbers = [float(number) for number in (given if isinstance(given, tuple | list) else (given,))]
    except (TypeError, ValueError):
        numbers = []
    if len(numbers) not in (1, 3):
        raise InputError(f"step_size is {given!r}: expected a number, or (a, b, c) for a (1 + t/b)^-c")
    return numbers[0] if len(numbers) == 1 else (numbers[0], numbers[1], numbers[2])
