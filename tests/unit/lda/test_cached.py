"""Numba's cache: used where it can be written to, and done without elsewhere."""

import shutil
from types import SimpleNamespace

import numba

from ergodica.lda.gibbs.cached import CACHE_ROOM, cached_njit


def twice(x):
    return 2 * x


def test_cached_where_there_is_a_place(tmp_path, monkeypatch):
    monkeypatch.setattr(numba.config, "CACHE_DIR", str(tmp_path))
    assert cached_njit(nogil=True)(twice).stats.cache_path.startswith(str(tmp_path))


def test_no_place_that_can_be_written_to(monkeypatch):
    original = numba.njit

    def nowhere(**options):
        if options.get("cache"):
            raise RuntimeError("cannot cache function 'twice': no locator available")  # Numba's words
        return original(**options)

    monkeypatch.setattr(numba, "njit", nowhere)
    assert cached_njit(nogil=True)(twice).stats.cache_path is None


def test_a_full_disk(tmp_path, monkeypatch):
    monkeypatch.setattr(numba.config, "CACHE_DIR", str(tmp_path))
    monkeypatch.setattr(shutil, "disk_usage", lambda path: SimpleNamespace(free=CACHE_ROOM - 1))
    assert cached_njit(nogil=True)(twice).stats.cache_path is None
