"""What commands take and print in common: objects by `module:name`, a seed, a report as text or JSON."""

import importlib
import importlib.util
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from ergodica.errors import InputError
from ergodica.report import Report
from ergodica.targets import Target

seed_option = click.option("--seed", type=click.IntRange(min=0), default=0, show_default=True)


def json_option(what: str) -> Callable:
    return click.option("--json", "as_json", is_flag=True, help=f"Print {what} as JSON.")


def show(report: Report, as_json: bool) -> None:
    """Print it; exit code 1 unless it passed."""
    click.echo(json.dumps(report.to_dict()) if as_json else str(report))
    if not report.passed:
        raise click.exceptions.Exit(1)


def load(spec: str) -> Any:
    """The object `name` of `module`, or of the file `path/to/module.py`; the current directory is looked in first."""
    module_name, colon, name = spec.partition(":")
    if not colon or not module_name or not name:
        raise InputError(f"got {spec!r}, expected module:name, such as my_sampler:recipe or my_sampler.py:recipe")
    module = _from_file(Path(module_name)) if module_name.endswith(".py") else _from_path(module_name)
    for part in name.split("."):
        if not hasattr(module, part):
            known = ", ".join(word for word in vars(module) if not word.startswith("_"))[:200]
            raise InputError(f"{module_name} has no {part!r}; it has {known}")
        module = getattr(module, part)
    return module


def load_target(spec: str) -> Target:
    """A target, or what a function of no arguments makes, as those of ergodica.targets.gallery."""
    found = load(spec)
    if callable(found) and not isinstance(found, Target):
        found = found()
    if not isinstance(found, Target):
        raise InputError(f"{spec} is {type(found).__name__}: expected an eg.Density, eg.Posterior or eg.External")
    return found


def _from_path(name: str) -> Any:
    if str(Path.cwd()) not in sys.path:
        sys.path.insert(0, str(Path.cwd()))
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name is not None and (name == error.name or name.startswith(error.name + ".")):
            raise InputError(f"there is no module {name!r} here or among the installed ones") from None
        raise _broken(name, error) from error
    except Exception as error:
        raise _broken(name, error) from error


def _from_file(path: Path) -> Any:
    spec = importlib.util.spec_from_file_location(path.stem, path) if path.is_file() else None
    if spec is None or spec.loader is None:
        raise InputError(f"there is no file {str(path)!r}")
    module = importlib.util.module_from_spec(spec)
    is_new = sys.modules.setdefault(path.stem, module) is module
    try:
        spec.loader.exec_module(module)
    except Exception as error:
        if is_new:
            del sys.modules[path.stem]
        raise _broken(path, error) from error
    return module


def _broken(name: str | Path, error: Exception) -> InputError:
    words = " ".join(str(error).split())
    return InputError(
        f"{name} could not be imported: {type(error).__name__}: {words} (ergodica --debug ... shows where)"
    )
