"""`ergodica audit module:step` and `module:build`: what law does anybody's sampler sample?"""

import json
from typing import Any

import click

from ergodica.cli.loading import load
from ergodica.errors import InputError
from ergodica.verify.audit.audit_step import audit
from ergodica.verify.audit.black_box import is_key_name, needed_arguments
from ergodica.verify.audit.family import audit_family

STEP = "step(key, position, step_size)"
BUILD = "build(potential, temperature)"


@click.command(name="audit")
@click.argument("sampler", metavar="MODULE:STEP|MODULE:BUILD")
@click.option("--target", help="module:target that a step claims to sample.")
@click.option("--position", help="module:position to start from, where a step's target has no init.")
@click.option("--init", help="module:init, for a step with a state of its own.")
@click.option("--read", help="module:read, for the position of such a state.")
@click.option("--step-size", type=float, help="The step size in use: its bias is reported. Of a step only.")
@click.option("--temperature", type=float, help="Of the law that a step claims, by default 1. Of a step only.")
@click.option("--effort", type=float, help="Times the work; errors that are seen shrink as its root.")
@click.option("--seed", type=click.IntRange(min=0), default=0, show_default=True)
@click.option("--json", "as_json", is_flag=True, help="Print the report as JSON.")
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
        raise InputError(f"{sampler} looks like {STEP}, and of which law? Give --target module:target, or {BUILD}")
    else:
        start = None if position is None else load(position)
        if start is None and getattr(law, "init", law) is None:
            raise InputError("the target has no init: give --position module:position, an example of where to start")
        settings |= {} if temperature is None else {"temperature": temperature}
        report = audit(function, law, start, step_size=step_size, **settings)
    click.echo(json.dumps(report.to_dict()) if as_json else str(report))
    if not report.passed:
        raise click.exceptions.Exit(1)


def _refuse(sampler: str, options: dict[str, Any]) -> None:
    """A build is put on laws, temperatures and step sizes that are not the caller's."""
    given = [name for name, value in options.items() if value is not None]
    if given:
        raise InputError(
            f"{sampler} looks like {BUILD}, which is put on known laws: {', '.join(given)} is for {STEP}, leave it out"
        )


def _is_build(function: Any, spec: str, has_law: bool) -> bool:
    """One or two arguments that it needs, and the first of them no key; a step needs three, or has a default for the
    last."""
    if not callable(function):
        raise InputError(f"{spec} is {type(function).__name__}: expected a function, {STEP} or {BUILD}")
    needed = needed_arguments(function)
    if not needed:  # the signature does not tell
        return not has_law
    return len(needed) < 3 and not is_key_name(needed[0])
