"""Is it right? `ergodica certify NAME|module:recipe`: Theorem 1 as a certificate. `ergodica audit module:step` and
`module:build`: what law does anybody's sampler sample? `ergodica diagnose run.nc`: the verdict on a run, in words.
`ergodica plot run.nc -o folder`: pictures of it."""

import json
from pathlib import Path
from typing import Any

import click

import ergodica as eg
from ergodica.cli.arguments import json_option, load, load_target, seed_option, show
from ergodica.driver.run import load as load_run
from ergodica.errors import InputError
from ergodica.targets import Target
from ergodica.verify.audit.audit_step import audit
from ergodica.verify.audit.black_box import is_key_name, needed_arguments
from ergodica.verify.audit.family import audit_family
from ergodica.verify.specimens import SAMPLERS

STEP_SIGNATURE = "step(key, position, step_size)"
BUILD_SIGNATURE = "build(potential, temperature)"


@click.command(name="certify")
@click.argument("samplers", nargs=-1, metavar="NAME|MODULE:RECIPE...")
@click.option("--target", help="module:target to certify on; by default a small law that suits the sampler.")
@click.option("--temperature", type=float, default=1.0, show_default=True)
@seed_option
@json_option("the certificates")
def certify_command(
    samplers: tuple[str, ...], target: str | None, temperature: float, seed: int, as_json: bool
) -> None:
    """Does a recipe leave exp(-H/T) invariant? A table of checks; exit code 1 when one does not pass.

    A NAME is one of the library's samplers, `all` is all of them; module:recipe is an eg.Recipe of your own, or a pair
    (recipe, target).
    """
    names = [name for sampler in samplers or ("all",) for name in (SAMPLERS if sampler == "all" else [sampler])]
    reports = {}
    for name in names:
        recipe, law = _recipe_and_target(name, target)
        reports[name] = eg.certify(recipe, law, temperature=temperature, seed=seed)
        if not as_json:
            click.echo(f"{name}: {reports[name]}\n")
    if as_json:
        click.echo(json.dumps({name: report.to_dict() for name, report in reports.items()}))
    if not all(report.passed for report in reports.values()):
        raise click.exceptions.Exit(1)


def _recipe_and_target(name: str, target: str | None) -> tuple[Any, Any]:
    if ":" in name:
        given = load(name)
        if isinstance(given, tuple) and len(given) != 2:
            raise InputError(f"{name} is a tuple of {len(given)}, expected a recipe or a pair (recipe, target)")
        recipe, law = given if isinstance(given, tuple) else (given, None)
    elif name in SAMPLERS:
        recipe, law = (build() for build in SAMPLERS[name])
    else:
        raise InputError(f"there is no sampler {name!r}; there are {', '.join(SAMPLERS)}, or give module:recipe")
    if not isinstance(recipe, eg.Recipe) and callable(recipe):
        recipe = recipe()
    if target is not None:
        law = load(target)
    return recipe, SAMPLERS["sgld"][1]() if law is None else law


@click.command(name="audit")
@click.argument("sampler", metavar="MODULE:STEP|MODULE:BUILD")
@click.option("--target", help="module:target that a step claims to sample.")
@click.option("--position", help="module:position to start from, where a step's target has no init.")
@click.option("--init", help="module:init, for a step with a state of its own.")
@click.option("--read", help="module:read, for the position of such a state.")
@click.option("--step-size", type=float, help="The step size in use: its bias is reported. Of a step only.")
@click.option("--temperature", type=float, help="Of the law that a step claims, by default 1. Of a step only.")
@click.option("--effort", type=float, help="Times the work; errors that are seen shrink as its root.")
@seed_option
@json_option("the report")
def audit_command(
    sampler: str, target: str | None, position: str | None, init: str | None, read: str | None,
    step_size: float | None, temperature: float | None, effort: float | None, seed: int, as_json: bool,
) -> None:  # fmt: skip
    """Does a sampler from any library sample exp(-U/T)? Exit code 1 when it does not pass.

    MODULE:STEP is step(key, position, step_size) -> position, in JAX or NumPy, with --target; or a pair (step, target).
    MODULE:BUILD is build(potential, temperature) -> step, which is put on a ladder of known laws.
    """
    given = load(sampler)
    function: Any
    function, law = given if isinstance(given, tuple) and len(given) == 2 else (given, None)
    law = load(target) if target is not None else law
    of_step = {"--step-size": step_size, "--temperature": temperature, "--position": position}
    settings: dict[str, Any] = {name: load(spec) for name, spec in (("init", init), ("read", read)) if spec is not None}
    settings |= {"seed": seed} if effort is None else {"seed": seed, "effort": effort}
    if _is_build(function, sampler, law is not None):
        _refuse(sampler, {"--target": law} | of_step)
        report = audit_family(function, **settings)
    elif law is None:
        what = f"{sampler} looks like {STEP_SIGNATURE}"
        raise InputError(f"{what}, and of which law? Give --target module:target, or {BUILD_SIGNATURE}")
    else:
        start = None if position is None else load(position)
        if start is None and isinstance(law, Target) and law.init is None:
            raise InputError("the target has no init: give --position module:position, an example of where to start")
        settings |= {} if temperature is None else {"temperature": temperature}
        report = audit(function, law, start, step_size=step_size, **settings)
    show(report, as_json)


def _refuse(sampler: str, options: dict[str, Any]) -> None:
    """A build is put on laws, temperatures and step sizes that are not the caller's."""
    given = [name for name, value in options.items() if value is not None]
    if given:
        raise InputError(
            f"{sampler} looks like {BUILD_SIGNATURE}, which is put on known laws: {', '.join(given)} is for "
            f"{STEP_SIGNATURE}, leave it out"
        )


def _is_build(function: Any, spec: str, has_law: bool) -> bool:
    """One or two arguments that it needs, and the first of them no key; a step needs three, or has a default for the
    last."""
    if not callable(function):
        raise InputError(
            f"{spec} is {type(function).__name__}: expected a function, {STEP_SIGNATURE} or {BUILD_SIGNATURE}"
        )
    needed = needed_arguments(function)
    if not needed:  # the signature does not tell
        return not has_law
    return len(needed) < 3 and not is_key_name(needed[0])


@click.command(name="diagnose")
@click.argument("run", metavar="RUN.NC", type=click.Path(path_type=Path))
@click.option(
    "--halved", type=click.Path(path_type=Path), help="A run with half the step size: for the step-size bias."
)
@click.option("--target", help="module:target that was sampled: for Stein discrepancy and configurational temperature.")
@seed_option
@json_option("the verdict")
def diagnose_command(run: Path, halved: Path | None, target: str | None, seed: int, as_json: bool) -> None:
    """Did the chains meet, are there enough draws, is it the law asked for?

    Exit code 1 when something is wrong, or something essential is undecided.
    """
    law = load_target(target) if target is not None else None
    show(load_run(run, halved).diagnose(law, seed), as_json)


@click.command(name="plot")
@click.argument("run", metavar="RUN.NC", type=click.Path(path_type=Path))
@click.option("-o", "--out", "folder", required=True, type=click.Path(path_type=Path), help="Folder for the pictures.")
@click.option("--halved", type=click.Path(path_type=Path), help="A run with half the step size, for bias against step.")
def plot_command(run: Path, folder: Path, halved: Path | None) -> None:
    """Trace, marginals, pairs, running mean with its error and, where the step was halved, bias against step: PNG."""
    found = load_run(run, halved)
    for path in found.plot(folder):
        click.echo(path)
    if found.halved is None and found.tuning is None:
        click.echo("no bias against step: give --halved, a run with half the step size", err=True)
