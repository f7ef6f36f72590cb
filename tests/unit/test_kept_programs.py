"""Compiled programs are kept for the next process: ours alone, in bounded room, and never in the way."""

import zlib

import jax
import jax.numpy as jnp
import pytest
from jax.experimental.compilation_cache import compilation_cache

from ergodica import kept_programs
from ergodica.kept_programs import JAX_DIRECTORY, keeping_programs


@pytest.fixture(autouse=True)
def no_other_cache(monkeypatch, tmp_path):
    """As for a user without a cache of their own; what the tests have is put back."""
    before = getattr(jax.config, JAX_DIRECTORY)
    jax.config.update(JAX_DIRECTORY, None)
    compilation_cache.reset_cache()
    monkeypatch.setenv("ERGODICA_CACHE", str(tmp_path / "kept"))
    kept_programs._folder.cache_clear()
    yield
    jax.config.update(JAX_DIRECTORY, before)
    compilation_cache.reset_cache()
    kept_programs._folder.cache_clear()


def entries(tmp_path):
    return sorted(path for path in (tmp_path / "kept").rglob("*") if path.is_file())


def compiled(number):
    """A function that JAX has not seen, as in a new process; the same number, the same program."""
    return jax.jit(lambda x: jnp.sin(x) * number)(jnp.ones(3))


def test_only_what_is_compiled_inside_is_kept_and_settings_are_put_back(tmp_path):
    names = (JAX_DIRECTORY, *kept_programs.JAX_SETTINGS)
    before = [getattr(jax.config, name) for name in names]
    with keeping_programs(), keeping_programs():
        compiled(2.5)
    kept = entries(tmp_path)
    assert kept
    assert [getattr(jax.config, name) for name in names] == before
    compiled(3.5)
    assert entries(tmp_path) == kept


def test_a_cache_of_the_users_own_is_left_alone(tmp_path):
    own = tmp_path / "own"
    jax.config.update(JAX_DIRECTORY, str(own))
    with keeping_programs():
        assert getattr(jax.config, JAX_DIRECTORY) == str(own)
        compiled(4.5)
    assert not entries(tmp_path)


@pytest.mark.parametrize("damage", [lambda raw: raw[: len(raw) // 2], lambda raw: raw[:-9] + b"\0" + raw[-8:]])
def test_a_damaged_entry_is_compiled_again_without_a_word(tmp_path, damage):
    with keeping_programs():
        expected = compiled(5.5)
    for path in entries(tmp_path):
        path.write_bytes(damage(path.read_bytes()))
    with keeping_programs():
        assert jnp.array_equal(compiled(5.5), expected)
    assert not any(is_damaged(path) for path in entries(tmp_path))
    with keeping_programs():
        compiled(5.5)
    kept = {path: path.stat().st_mtime_ns for path in entries(tmp_path)}
    assert kept
    with keeping_programs():
        compiled(5.5)
    assert {path: path.stat().st_mtime_ns for path in entries(tmp_path)} == kept


def is_damaged(path):
    try:
        return not zlib.decompress(path.read_bytes())
    except zlib.error:
        return True


def test_the_entry_of_a_process_that_was_killed_is_replaced(tmp_path):
    with keeping_programs():
        compiled(8.5)
    whole = {path.name for path in entries(tmp_path)}
    path = max(entries(tmp_path), key=lambda path: path.stat().st_size)
    path.write_bytes(path.read_bytes()[:-100])
    with keeping_programs():  # finds it
        compiled(8.5)
        compiled(9.5)
    with keeping_programs():  # writes it
        compiled(8.5)
    assert not any(is_damaged(path) for path in entries(tmp_path))
    assert whole < {path.name for path in entries(tmp_path)}


@pytest.mark.parametrize("place", ["a file", "off"])
def test_where_nothing_can_be_kept_nothing_is_lost(tmp_path, monkeypatch, place):
    (tmp_path / "file").write_text("in the way")
    monkeypatch.setenv("ERGODICA_CACHE", str(tmp_path / "file" / "folder") if place == "a file" else place)
    kept_programs._folder.cache_clear()
    with keeping_programs():
        assert getattr(jax.config, JAX_DIRECTORY) is None
        compiled(6.5)


def test_a_folder_that_vanishes_meanwhile_is_no_error(tmp_path):
    with keeping_programs():
        (folder,) = (tmp_path / "kept").iterdir()
        folder.rmdir()
        folder.write_text("in the way")
        compiled(7.5)


def test_it_does_not_grow_without_end(tmp_path, monkeypatch):
    monkeypatch.setattr(kept_programs, "MAXIMUM_BYTES", 1000)
    folder = tmp_path / "kept" / "jaxlib-0.0.1-another"
    folder.mkdir(parents=True)
    for number in range(10):
        (folder / str(number)).write_bytes(bytes(200))
    kept_programs._folder()
    assert sum(path.stat().st_size for path in entries(tmp_path)) <= 500
