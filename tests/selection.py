"""Which of a test's parameters are in `make test`, and which only in `make test-all`."""

from collections.abc import Callable, Iterable
from typing import Any

import pytest


def every(step: int, cases: Iterable[tuple[Any, ...]]) -> list[Any]:
    """Cases of several arguments as parameters, all but one in `step` of them marked long."""
    return [pytest.param(*case, marks=pytest.mark.long if i % step else ()) for i, case in enumerate(cases)]


def long_unless(cases: Iterable[Any], *short: str, name: Callable[[Any], str] = str) -> list[Any]:
    """The cases as parameters, those not named `short` marked long: what they share is seen in these already."""
    cases = list(cases)
    unknown = set(short) - {name(case) for case in cases}
    assert not unknown, f"no such cases: {unknown}"
    return [case if name(case) in short else pytest.param(case, marks=pytest.mark.long) for case in cases]
