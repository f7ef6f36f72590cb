"""`ergodica sample module:target`: a run from the command line, to be left alone and resumed; without settings they are
found. `ergodica tune module:target`: what would be found, and what it would cost."""

import ast
import difflib
import inspect
import json
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, cast

import click
import numpy as np
from click.core import ParameterSource

import ergodica as eg
from ergodica import samplers
from ergodica.cli.arguments import json_option, load, load_target
from ergodica.diagnostics import Diagnosis
from ergodica.diagnostics.verdict import ACCURACY_CHECK
from ergodica.driver.run import Run
from ergodica.errors import InputError
from ergodica.output.labelled import named
from ergodica.report import paragraph, plain
from ergodica.targets import Target
from ergodica.tree import entry

KNOWN_INTEGRATORS = {"euler": eg.Euler, "splitting": eg.Splitting, "leapfrog": eg.Leapfrog}
LISTED_NUMBERS = 20  # numbers of a variable
KNOWN_ESTIMATORS = {"control-variates": eg.ControlVariates, "svrg": eg.Svrg}
CHOSEN = ("--sampler", "--steps", "--step-size")  # all three, or none of them
ACCURACY = ("--mean", "--sd", "--r-hat", "--level")
WITH_TUNING = ("target", *ACCURACY, "--chains", "--temperature", "--init", "--seed", "--out", "--resume", "--json")


def accuracy_options(command: Callable) -> Callable:
    for option, default, words in (
        ("--level", "0.95", "The chance that all of this holds together."),
        ("--r-hat", "1.01", "The largest R-hat allowed."),
        ("--sd", "0.05", "By what share an sd may be off."),
        ("--mean", "0.1", "By how many sds a mean may be off."),
    ):
        command = click.option(option, type=float, show_default=default, help=words)(command)
    return command


@click.command(name="sample")
@click.argument("target", metavar="MODULE:TARGET")
@accuracy_options
@click.option("--sampler", help="A sampler of the library, as sghmc, or module:recipe; found if left out.")
@click.option("--steps", type=int, help="After warm-up; found if left out.")
@click.option("--step-size", help="A number, or module:schedule (of the step's number); found if left out.")
@click.option("--option", "options", multiple=True, metavar="NAME=VALUE", help="Of the sampler, as friction=2.0.")
@click.option("--batch-size", type=int, help="Rows of a minibatch; all data if left out.")
@click.option(
    "--estimator", type=click.Choice(sorted(KNOWN_ESTIMATORS)), help="Of the gradient; plain minibatches else."
)
@click.option("--per-example-noise", is_flag=True, help="Subtract the minibatches' noise, estimated from their rows.")
@click.option("--share-batches", is_flag=True, help="All chains on the same batches: faster, and correlated.")
@click.option("--chains", type=int, default=4, show_default=True)
@click.option("--warmup", type=int, default=0, show_default=True, help="Steps before the first that is kept.")
@click.option("--thin", type=int, default=1, show_default=True, help="Keep every N-th step.")
@click.option("--temperature", type=float, default=1.0, show_default=True)
@click.option(
    "--integrator", type=click.Choice(sorted(KNOWN_INTEGRATORS)), help="The one that suits the recipe if left out."
)
@click.option("--init", help="module:start, a position or a function of a key; else target.init, or `init` beside it.")
@click.option("--seed", type=int, default=0, show_default=True)
@click.option("--out", type=click.Path(dir_okay=False, path_type=Path), help="The netCDF file to write.")
@click.option("--resume", is_flag=True, help="Resume a run that was stopped.")
@click.option("--halve", is_flag=True, help="Also run with half the step size, to see what the step size does.")
@json_option("the outcome")
@click.pass_context
def sample_command(context: click.Context, target: str, as_json: bool, out: Path | None, **given: Any) -> None:
    """Sample MODULE:TARGET, an eg.Density, eg.Posterior or eg.External.

    Without --sampler, --steps and --step-size they are found, for the accuracy given by --mean, --sd, --r-hat and
    --level, and the run is checked: exit code 0 when the accuracy was reached, 1 when it was not.

    With all three the run is made with them. Exit code 1 when a chain is non-finite, no step was accepted, or `ergodica
    diagnose` finds something wrong. Where nothing is wrong but something essential undecided, the command that decides
    is printed, and the exit code is 0.

    With --out draws go to disk as they come; the same command with --resume resumes a run that was stopped.
    """
    typed = [
        option.opts[0] for option in context.command.params
        if context.get_parameter_source(option.name or "") is not ParameterSource.DEFAULT
    ]  # fmt: skip
    is_tuned, law = _is_tuned(typed), load_target(target)
    given |= {"init": _start(target, law, given["init"]), "out": out}
    with plain_warnings():
        run = _tuned(law, given) if is_tuned else _by_hand(law, given)
    diagnosis = run.diagnose()
    verdict = _verdict(diagnosis, target, law, out, is_tuned or given["halve"])
    outcome = _outcome(run, out) | verdict
    if run.tuning is not None:
        outcome |= {"reached": run.tuning.reached, "tuning": run.tuning.to_dict()}
    report = [] if run.tuning is None else [str(run.tuning)]
    lines = [_words(outcome), *report, *_verdict_words(diagnosis, outcome)]
    click.echo(json.dumps(outcome) if as_json else "\n".join(lines))
    is_checked = diagnosis.passed or (diagnosis.undecided and run.tuning is None)
    if not (outcome["accepted"] and not outcome["frozen"] and is_checked and outcome.get("reached", True)):
        raise click.exceptions.Exit(1)


@click.command(name="tune")
@click.argument("target", metavar="MODULE:TARGET")
@accuracy_options
@click.option("--chains", type=int, default=4, show_default=True)
@click.option("--temperature", type=float, default=1.0, show_default=True)
@click.option("--init", help="module:start, as in `ergodica sample`.")
@click.option("--seed", type=int, default=0, show_default=True)
@json_option("the plan")
def tune_command(target: str, as_json: bool, **given: Any) -> None:
    """What `ergodica sample MODULE:TARGET` would choose, why, and what it would cost. No chain is run."""
    law = load_target(target)
    settings = eg.tune(law, **_for_tuning(given | {"init": _start(target, law, given["init"])}))
    click.echo(json.dumps(settings.to_dict()) if as_json else str(settings))


def _is_tuned(typed: Sequence[str]) -> bool:
    """Whether settings are to be found; what does not go together is refused."""
    missing = [name for name in CHOSEN if name not in typed]
    if missing and len(missing) < len(CHOSEN):
        raise InputError(f"{_are(missing)} missing: give {_listed(CHOSEN)}, or none of them, and they are found")
    others = [name for name in typed if name not in WITH_TUNING]
    if missing and others:
        raise InputError(f"{_are(others)} given without {_listed(CHOSEN)}: give these three too, or none of all these")
    accuracy = [name for name in typed if name in ACCURACY]
    if not missing and accuracy:
        raise InputError(f"{_are(accuracy)} for runs without {_listed(CHOSEN)}: leave out one or the other")
    return bool(missing)


def _listed(names: Sequence[str]) -> str:
    return " and ".join([", ".join(names[:-1]), names[-1]] if len(names) > 1 else names)


def _are(names: Sequence[str]) -> str:
    return f"{_listed(names)} {'is' if len(names) == 1 else 'are'}"


def _for_tuning(given: dict[str, Any]) -> dict[str, Any]:
    """The arguments that eg.sample and eg.tune have in common."""
    accuracy = {name: given[name] for name in ("mean", "sd", "r_hat", "level") if given[name] is not None}
    common = {name: given[name] for name in ("init", "chains", "seed", "temperature")}
    return common | {"accuracy": eg.Accuracy(**accuracy) if accuracy else None}


def _tuned(target: Target, given: dict[str, Any]) -> Run:
    return eg.sample(target, out=given["out"], resume=given["resume"], **_for_tuning(given))


def _by_hand(target: Target, given: dict[str, Any]) -> Run:
    integrator, estimator, out = given["integrator"], given["estimator"], given["out"]
    names = ("init", "steps", "batch_size", "share_batches", "chains", "warmup", "thin", "temperature", "seed", "out",
             "resume")  # fmt: skip
    settings = {name: given[name] for name in names} | {
        "step_size": _step_size(given["step_size"]),
        "integrator": None if integrator is None else KNOWN_INTEGRATORS[integrator](),
        "estimator": None if estimator is None else KNOWN_ESTIMATORS[estimator](),
        "gradient_noise": eg.PerExample() if given["per_example_noise"] else None,
    }
    run = eg.sample(target, recipe_of(given["sampler"], given["options"]), **settings)
    if not given["halve"]:
        return run
    run = run.halve()
    if out is not None:
        run.save(out, overwrite=True)
    return run


def recipe_of(sampler: str, options: tuple[str, ...]) -> eg.Recipe:
    """A recipe by the name of its builder, with options, or as `module:recipe`."""
    if ":" in sampler:
        build = load(sampler)
        if not callable(build) and options:
            raise InputError(f"--option is for a function that returns a recipe, and {sampler} is a recipe already")
        if not callable(build):
            return build
    else:
        names = [name for name in samplers.__all__ if name not in ("expanded_mean", "fisher", "potential_scaled")]
        if sampler not in names:
            nearest = difflib.get_close_matches(sampler.lower(), names, n=1, cutoff=0.4)
            meant = f"did you mean {nearest[0]}? " if nearest else ""
            raise InputError(f"there is no sampler {sampler!r}: {meant}There are {', '.join(sorted(names))}")
        build = getattr(samplers, sampler)
    given = dict(_option(text) for text in options)
    parameters = inspect.signature(build).parameters
    for name in given:
        if name not in parameters:
            raise InputError(f"{sampler} has no option {name!r}: it has {', '.join(parameters) or 'none'}")
    missing = [name for name, p in parameters.items() if p.default is p.empty and name not in given]
    if missing:
        raise InputError(f"{sampler} needs --option {missing[0]}=... (a number, a list, or module:name)")
    return cast("eg.Recipe", build(**given))  # eg.sample checks what it is


def _option(text: str) -> tuple[str, Any]:
    name, equals, value = text.partition("=")
    if not equals or not name.strip():
        raise InputError(f"got --option {text!r}, expected name=value, such as friction=2.0")
    try:
        read = ast.literal_eval(value)
    except (ValueError, SyntaxError):
        if ":" not in value:
            raise InputError(f"--option {name}: {value!r} is no number, list or module:name") from None
        return name.strip(), load(value)
    return name.strip(), np.asarray(read, float) if isinstance(read, list | tuple) else read


def _step_size(text: str) -> Any:
    try:
        return float(text)
    except ValueError:
        if ":" not in text:
            raise InputError(f"--step-size is {text!r}: expected a number, or module:schedule") from None
        return load(text)


def _start(spec: str, target: Target, init: str | None) -> Any:
    """None where the target brings its own."""
    if init is not None:
        return load(init)
    if target.init is not None:
        return None
    try:
        return load(f"{spec.partition(':')[0]}:init")
    except InputError:
        raise InputError(f"no start for {spec}: give the target an init, its module an `init`, or --init") from None


@contextmanager
def plain_warnings() -> Iterator[None]:
    with warnings.catch_warnings():
        warnings.simplefilter("always", UserWarning)
        warnings.showwarning = lambda message, *rest, **more: click.echo(f"ergodica: {message}", err=True)
        yield


def _outcome(run: Run, out: Path | None) -> dict[str, Any]:
    settings = run.settings
    listed = {name: x for name, x in named(run.posterior).items() if x[0, 0].size <= 100}
    steps = (settings["steps"] + settings["warmup"]) * settings["chains"]
    return {
        "out": None if out is None else str(out),
        "chains": settings["chains"],
        "steps": settings["steps"],
        "draws": run.stats["step_size"].shape[1],
        "seconds": settings["seconds"],
        "steps_per_second": round(steps / max(settings["seconds"], 1e-9)),
        "kinetic_temperature": _mean(run.stats["kinetic_temperature"]),
        "frozen": settings["frozen"],
        "accepted": _mean(run.stats["accepted"]),
        "mean": {name: plain(np.mean(x, (0, 1))) for name, x in listed.items()},
        "sd": {name: plain(np.std(x, (0, 1))) for name, x in listed.items()},
    }


def _mean(values: np.ndarray) -> float | None:
    known = values[np.isfinite(values)]
    return float(known.mean()) if known.size else None


def _words(outcome: dict[str, Any]) -> str:
    lines = [
        f"{outcome['chains']} chains of {outcome['steps']:,} steps in {outcome['seconds']:.3g} s "
        f"({outcome['steps_per_second']:,} steps/s), {outcome['draws']:,} draws kept of each"
    ]
    for name, mean in outcome["mean"].items():
        means, sds = np.asarray(mean, float), np.asarray(outcome["sd"][name], float)
        for place in list(np.ndindex(means.shape))[:LISTED_NUMBERS]:
            lines.append(f"  {entry(name, place):<16} mean {means[place]:12.5g}   sd {sds[place]:10.4g}")
        if means.size > LISTED_NUMBERS:
            lines.append(f"  ... {means.size - LISTED_NUMBERS} more of {name}")
    for one in outcome["frozen"]:
        lines.append(f"chain {one['chain']} is non-finite since step {one['step']} (step size {one['step_size']:g})")
    return "\n".join(lines)


def _verdict(diagnosis: Diagnosis, spec: str, target: Target, out: Path | None, was_compared: bool) -> dict[str, Any]:
    """What is wrong or unsure, by name, and where the width of the law is open the command that decides.

    `was_compared`: with half the step, or with a witness.
    """
    unsure = [check.name for check in diagnosis.checks if check.is_undecided and check.is_essential]
    decides = None
    if diagnosis.undecided and "width of the law" in unsure:
        has_witness = target.has_potential and target.domain is None and out is not None
        if was_compared and has_witness:
            decides = f"ergodica diagnose {out} --target {spec}"
        elif not was_compared:
            decides = f"the same command with {'' if out is None else '--resume '}--halve"
            decides += f", or ergodica diagnose {out} --target {spec}" if has_witness else ""
    return {
        "passed": diagnosis.passed,
        "undecided": diagnosis.undecided,
        "wrong": [check.name for check in diagnosis.checks if not check.passed],
        "unsure": unsure,
        "decides": decides,
    }


def _verdict_words(diagnosis: Diagnosis, outcome: dict[str, Any]) -> list[str]:
    """Of the diagnosis what is wrong or open, and where the rest is."""
    lines = []
    listed = [check for check in diagnosis.checks if not check.passed or check.name in outcome["unsure"]]
    listed = [check for check in listed if check.name != ACCURACY_CHECK]  # its words are above
    width = max((len(check.name) for check in listed), default=0)
    for check in listed:
        lines += paragraph(check.explanation, f"  {'unsure' if check.passed else 'WRONG':<6} {check.name:<{width}} ")
    verdict = {"PASSED": "Nothing wrong was found", "NOT DECIDED": "Not decided"}.get(diagnosis.verdict, "WRONG")
    file = "" if outcome["out"] is None else f"; ergodica diagnose {outcome['out']} has all of the verdict"
    decides = "" if outcome["decides"] is None else f"; this decides: {outcome['decides']}"
    return [*lines, f"{verdict}{decides}{file}"]
