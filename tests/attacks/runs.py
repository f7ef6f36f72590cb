"""The runs that are attacked, each with what it must leave: one of `sample`, one that is tuned, one of `lda fit`."""

from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from ergodica.driver import checkpoint, loop
from ergodica.errors import InputError

SHORT_AT_FIRST = 0.5  # of the steps that a rung of the tuned run needs, so that it is lengthened


class Subject(NamedTuple):
    """`start(out, resume)` makes the run, `check(out, reference)` raises unless it is bit for bit the reference;
    `unfinished` is where its files are until it ends."""

    name: str
    file: str
    start: Callable[..., Any]
    check: Callable[[Path, Path], None]


def start_sample(out: Path, resume: bool = True, steps: int = 600) -> Any:
    from tests.unit.driver.runs import run

    checkpoint.SAVE_EVERY, loop.STRETCH_SECONDS = 0.0, 2e-3  # a checkpoint at every chance, and many chances
    return run(steps=steps, out=out, resume=resume)


def check_sample(out: Path, reference: Path) -> None:
    from ergodica.driver import load
    from tests.unit.driver.runs import assert_same_bytes

    found, expected = load(out), load(reference)
    assert found.posterior["mean"].shape == expected.posterior["mean"].shape
    assert_same_bytes(found, expected)


def start_tuned(out: Path, resume: bool = True) -> Any:
    from ergodica.tuning import ladder
    from tests.unit.tuning.runs import run

    checkpoint.SAVE_EVERY, loop.STRETCH_SECONDS = 0.0, 1e-2
    ladder.LENGTH_MARGIN = SHORT_AT_FIRST
    return run(out=out, resume=resume)


def check_tuned(out: Path, reference: Path) -> None:
    from ergodica.driver import load
    from tests.unit.tuning.runs import assert_same_bytes

    assert_same_bytes(load(out), load(reference))


def start_lda(out: Path, resume: bool = True) -> Any:
    from tests.unit.lda.small import DOCUMENTS, evaluate_often, model

    evaluate_often(pytest.MonkeyPatch())  # to the end of the process, which is forked for it
    return model().fit(DOCUMENTS, out=out, resume=resume)


def check_lda(out: Path, reference: Path) -> None:
    from tests.unit.lda.small import assert_same_bytes

    assert_same_bytes(out, reference)


SUBJECTS = (
    Subject("sample", "run.nc", start_sample, check_sample),
    Subject("tuned", "run.nc", start_tuned, check_tuned),
    Subject("lda fit", "run", start_lda, check_lda),
)


def finish(subject: Subject, out: Path, reference: Path) -> None:
    """Resume to the end, and compare; a refusal here is a failure, in full."""
    try:
        subject.start(out)
    except InputError as error:
        raise AssertionError(f"resuming was refused: {error}") from error
    subject.check(out, reference)
