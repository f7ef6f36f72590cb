"""`ergodica certify NAME|module:recipe`: Theorem 1 as a certificate."""

import json
from typing import Any

import click

import ergodica as eg
from ergodica.cli.loading import load
from ergodica.errors import InputError
from ergodica.verify.specimens import SAMPLERS


@click.command()
@click.argument("samplers", nargs=-1, metavar="NAME|MODULE:RECIPE...")
@click.option("--target", help="module:target to certify on; by default a small law that suits the sampler.")
@click.option("--temperature", type=float, default=1.0, show_default=True)
@click.option("--seed", type=click.IntRange(min=0), default=0, show_default=True)
@click.option("--json", "as_json", is_flag=True, help="Print the certificates as JSON.")
def certify(samplers: tuple[str, ...], target: str | None, temperature: float, seed: int, as_json: bool) -> None:
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
