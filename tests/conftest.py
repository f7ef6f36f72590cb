"""What every test runs under: one precision, strict promotion, repeatable hypothesis; and where the shared data are."""

import gc
import os
from collections.abc import Iterator
from pathlib import Path

import jax
import pytest
from hypothesis import settings

from tests.needs import missing, promised
from tests.selection import FLOAT32, is_float32

# pytest reads this file before any test module: an array made earlier would stay float32.
jax.config.update("jax_enable_x64", not is_float32())
jax.config.update("jax_numpy_dtype_promotion", "strict")
jax.config.update("jax_numpy_rank_promotion", "raise")

# What a test compiles is kept for its next run, where `make test` says where; each worker has a folder of its own, as
# JAX does not write these files in one go.
if COMPILED := os.environ.get("ERGODICA_COMPILED"):
    jax.config.update("jax_compilation_cache_dir", f"{COMPILED}/{os.environ.get('PYTEST_XDIST_WORKER', 'alone')}")
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.0)
# what processes that tests start keep of their own accord (ergodica.kept_programs) goes there too, never into a home
os.environ.setdefault("ERGODICA_CACHE", f"{COMPILED}/processes" if COMPILED else "off")

TESTS = Path(__file__).resolve().parent

# derandomize: the same examples on every machine, every time. No deadline: the first example of a shape compiles.
settings.register_profile("ergodica", derandomize=True, deadline=None, max_examples=25)
settings.load_profile("ergodica")


def pytest_configure() -> None:
    promised()  # a wrong name in it is refused before the tests, not by the first that is skipped


def pytest_ignore_collect(collection_path: Path) -> bool | None:
    """In 32 bits, every file but those that hold there too; None: pytest decides."""
    is_test = collection_path.name.startswith("test_") and collection_path.is_relative_to(TESTS)
    is_left_out = is_float32() and is_test and collection_path.relative_to(TESTS).as_posix() not in FLOAT32
    return True if is_left_out else None


def pytest_collection_modifyitems(items: list[pytest.Function]) -> None:
    """In 32 bits, without the tests that ask for more."""
    if is_float32():
        left_out = {(file, name) for file, names in FLOAT32.items() for name in names}
        items[:] = [
            item for item in items if (item.path.relative_to(TESTS).as_posix(), item.originalname) not in left_out
        ]


@pytest.fixture(scope="module", autouse=True)
def old_objects() -> Iterator[None]:
    """What a module leaves behind, compiled functions above all, is not looked through again in every collection: of
    millions of objects one would take two seconds."""
    yield
    gc.collect()
    gc.freeze()


BESIDE_THE_REPOSITORY = TESTS.parents[1] / "shared" / "data"


@pytest.fixture(scope="session")
def data_dir() -> Path:
    """The folder of shared data: the variable ERGODICA_DATA, or ../shared/data beside the repository.

    Without it a test is skipped; it fails where the folder was promised: by tests/needs.py's variable, and when
    ERGODICA_DATA names something else than a folder.
    """
    named = os.environ.get("ERGODICA_DATA")
    folder = Path(named) if named else BESIDE_THE_REPOSITORY
    if folder.is_dir():
        return folder
    message = f"no folder {folder}: set ERGODICA_DATA to the one that holds posteriordb/ and wikipedia/"
    if named:
        pytest.fail(message)
    missing("data", message)
