"""Packages that only a part of the library needs: they come with an extra, as in `pip install 'ergodica[plot]'`."""

import importlib
from typing import Any

from ergodica.errors import InputError


def require(module: str, *, extra: str, by: str) -> Any:
    """The module; where its package is not installed, an InputError with the line that installs it.

    Args:
        module: its full name, as in an import statement.
        extra: of `[project.optional-dependencies]` in pyproject.toml.
        by: what needs it, as a message begins.

    >>> require("json", extra="plot", by="an example").dumps([1])
    '[1]'
    """
    package = module.partition(".")[0]
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        # a package that is there but lacks one of its own is broken: its own message says more
        if (error.name or "").partition(".")[0] != package:
            raise
        raise InputError(f"{by} needs {package}, which is not installed: pip install 'ergodica[{extra}]'") from None
