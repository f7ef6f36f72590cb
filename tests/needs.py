"""What a test may lack: shared data, a browser, the paper's member of the workspace. Without it the test is skipped.

A skip looks like a pass, so whoever promises these names them in ERGODICA_NEEDS, as `.ci/run` does, and there the test
fails: `ERGODICA_NEEDS=data,browser`. `CI` is no such promise; a fork's machine sets it and has neither.
"""

import os
from typing import NoReturn

import pytest

VARIABLE = "ERGODICA_NEEDS"
KNOWN = ("data", "browser", "paper")


def promised() -> set[str]:
    """The names in the variable; a name that nobody knows is an error, lest a typing mistake skip tests."""
    names = {name.strip() for name in os.environ.get(VARIABLE, "").split(",")} - {""}
    unknown = sorted(names - set(KNOWN))
    if unknown:
        raise pytest.UsageError(f"{VARIABLE} names {unknown[0]!r}: expected some of {', '.join(KNOWN)}")
    return names


def missing(need: str, message: str) -> NoReturn:
    """Skip the test that runs, or fail it where `need` was promised."""
    assert need in KNOWN
    if need in promised():
        pytest.fail(f"{message} ({VARIABLE} promises it)")
    pytest.skip(message)
