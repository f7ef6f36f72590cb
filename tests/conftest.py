"""What every test runs under: float64, strict promotion, repeatable hypothesis; and where the shared data are."""

import gc
import os
from collections.abc import Iterator
from pathlib import Path

import jax
import pytest
from hypothesis import settings

# pytest reads this file before any test module: an array made earlier would stay float32.
jax.config.update("jax_enable_x64", True)
jax.config.update("jax_numpy_dtype_promotion", "strict")
jax.config.update("jax_numpy_rank_promotion", "raise")

# What a test compiles is kept for its next run, where `make test` says where; each worker has a folder of its own, as
# JAX does not write these files in one go.
if COMPILED := os.environ.get("ERGODICA_COMPILED"):
    jax.config.update("jax_compilation_cache_dir", f"{COMPILED}/{os.environ.get('PYTEST_XDIST_WORKER', 'alone')}")
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.0)
# what processes that tests start keep of their own accord (ergodica.kept_programs) goes there too, never into a home
os.environ.setdefault("ERGODICA_CACHE", f"{COMPILED}/processes" if COMPILED else "off")

# derandomize: the same examples on every machine, every time. No deadline: the first example of a shape compiles.
settings.register_profile("ergodica", derandomize=True, deadline=None, max_examples=25)
settings.load_profile("ergodica")


@pytest.fixture(scope="module", autouse=True)
def old_objects() -> Iterator[None]:
    """What a module leaves behind, compiled functions above all, is not looked through again in every collection: of
    millions of objects one would take two seconds."""
    yield
    gc.collect()
    gc.freeze()


BESIDE_THE_REPOSITORY = Path(__file__).resolve().parents[2] / "shared" / "data"


@pytest.fixture(scope="session")
def data_dir() -> Path:
    """The folder of shared data: the variable ERGODICA_DATA, or ../shared/data beside the repository.

    Without it a test is skipped; it fails where the folder was promised: in CI (a skip there would look like a
    pass) and when ERGODICA_DATA names something else than a folder.
    """
    named = os.environ.get("ERGODICA_DATA")
    folder = Path(named) if named else BESIDE_THE_REPOSITORY
    if folder.is_dir():
        return folder
    message = f"no folder {folder}: set ERGODICA_DATA to the one that holds posteriordb/ and wikipedia/"
    if named or os.environ.get("CI") == "true":
        pytest.fail(message)
    pytest.skip(message)
