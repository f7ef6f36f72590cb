"""Checks of what a person gave, with one wording: what was got, and what was expected."""

import math
import operator
from collections.abc import Iterable
from typing import Any

import numpy as np

from ergodica.errors import InputError


def whole(name: str, value: Any, least: int = 0, most: int | None = None, of: str = "") -> int:
    """`value` as a Python int, from Python, NumPy or JAX; at least `least`, at most `most`.

    Args:
        of: what is counted, for the message: "steps", "data rows".

    >>> whole("chains", 4, 1)
    4
    >>> whole("chains", 0, 1)
    Traceback (most recent call last):
    ergodica.errors.InputError: chains is 0: expected a whole number of at least 1
    """
    try:
        number = None if isinstance(value, bool | np.bool_) else operator.index(value)
    except TypeError:
        number = None
    if number is None or number < least or (most is not None and number > most):
        what = f"a whole number{f' of {of}' if of else ''}"
        limits = f"{'at least' if of else 'of at least'} {least}" if most is None else f"from {least} to {most}"
        raise InputError(f"{name} is {value!r}: expected {what}{',' if of else ''} {limits}")
    return number


def positive_number(name: str, value: Any) -> float:
    """`value` as a Python float above 0, from Python, NumPy or JAX.

    >>> positive_number("temperature", float("nan"))
    Traceback (most recent call last):
    ergodica.errors.InputError: temperature is nan: expected a number above 0
    """
    try:
        number = math.nan if isinstance(value, str | bytes | bool) or np.ndim(value) else float(value)
    except (TypeError, ValueError):
        number = math.nan
    if not (math.isfinite(number) and number > 0):
        raise InputError(f"{name} is {value!r}: expected a number above 0")
    return number


def choice(name: str, value: Any, known: Iterable[str]) -> str:
    """`value`, if it is one of the names in `known`.

    >>> choice("kernel", "fast", ("dense", "sparse"))
    Traceback (most recent call last):
    ergodica.errors.InputError: kernel is 'fast': expected one of dense, sparse
    """
    names = tuple(known)
    if not isinstance(value, str) or value not in names:
        raise InputError(f"{name} is {value!r}: expected one of {', '.join(names)}")
    return value


def kind_of(thing: Any) -> str:
    """What was given instead of something else, in a word: printing the whole of it may take many lines."""
    if hasattr(thing, "__name__"):
        return f"{type(thing).__name__} {thing.__name__}"
    return "None" if thing is None else f"of type {type(thing).__name__}"
