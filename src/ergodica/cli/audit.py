"""`ergodica audit module:step` and `module:build`: what law does anybody's sampler sample?"""

import inspect
import json
from typing import Any

import click

from ergodica.cli.loading import load
from ergodica.errors import InputError
from ergodica.verify.audit import audit
from ergodica.verify.audit.family import audit_family

STEP = "step(key, position, step_size)"
BUILD = "build(potential, temperature)"


@click.command(name="audit")
@click.argument("sampler", metavar="MODULE:STEP|MODULE:BUILD")
@click.option("--target", help="module:target that a step claims to sample.")
@click.option("--init", help="module:init, for a step with a state of its own.")
@click.option("--read", help="module:read, for the position of such a state.")
@click.option("--step-size", type=float, help="The step size in use: its bias is reported.")
@click.option("--temperature", type=float, default=1.0, show_default=True, help="Of the law that a step claims.")
@click.option("--effort", type=float, help="Times the work; errors that are seen shrink as its root.")
@click.option("--seed", type=click.IntRange(min=0), default=0, show_default=True)
@click.option("--json", "as_json", is_flag=True, help="Print the report as JSON.")
def audit_command(
    sampler: str, target: str | None, init: str | None, read: str | None, step_size: float | None, temperature: float,
    effort: float | None, seed: int, as_json: bool,
) -> None:  # fmt: skip
    """Does a sampler from any library sample exp(-U/T)? Exit code 1 when it does not pass.

    MODULE:STEP is step(key, position, step_size) -> position, in JAX or NumPy, with --target; or a pair (step, target).
    MODULE:BUILD is build(potential, temperature) -> step, which is put on a ladder of known laws.
    """
    given = load(sampler)
    function: Any
    function, law = given if isinstance(given, tuple) and len(given) == 2 else (given, None)
    law = load(target) if target is not None else law
    state: dict[str, Any] = {name: load(spec) for name, spec in (("init", init), ("read", read)) if spec is not None}
    work: dict[str, Any] = {} if effort is None else {"effort": effort}
    if law is None and _arguments(function, sampler) < 3:
        report = audit_family(function, seed=seed, **state, **work)
    elif law is None:
        raise InputError(f"{sampler} looks like {STEP}, and of which law? Give --target module:target, or {BUILD}")
    else:
        report = audit(function, law, step_size=step_size, temperature=temperature, seed=seed, **state, **work)
    click.echo(json.dumps(report.to_dict()) if as_json else str(report))
    if not report.passed:
        raise click.exceptions.Exit(1)


def _arguments(function: Any, spec: str) -> int:
    """How many arguments a function takes by position: three for a step, one or two for a build."""
    if not callable(function):
        raise InputError(f"{spec} is {type(function).__name__}: expected a function, {STEP} or {BUILD}")
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return 3
    return sum(p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD) for p in parameters)
