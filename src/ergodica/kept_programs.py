"""Compiled programs kept for the next process, in the user's cache folder, so that its first run starts in a second.

JAX writes and reads the entries; this module decides where, how many, and when. Only our own compilations are kept:
JAX's settings are changed while one of ours may run, and then put back. Nothing is kept if the user has a cache of
their own (`jax_compilation_cache_dir`) or set `ERGODICA_CACHE=off`; `ERGODICA_CACHE=/a/folder` puts it elsewhere. If
the folder cannot be written, an entry is damaged or the disk is full, programs are compiled as without a cache. JAX
packs entries with zlib, whose checksum makes it refuse a damaged one. With zstd, which it would write without a
checksum, nothing is kept. JAX never writes over an entry, so a damaged one (its process was killed while writing) is
removed here: we search for it when more programs were compiled than arrived in the folder.
"""

import hashlib
import importlib.util
import os
import platform
import sys
import threading
import warnings
import zlib
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path

import jax
import jaxlib
from jax.experimental.compilation_cache import compilation_cache

MAXIMUM_BYTES = 256 * 2**20  # of all that is kept; beyond that the older half is deleted
CACHE_VARIABLE = "ERGODICA_CACHE"
JAX_DIRECTORY, JAX_SWITCH = "jax_compilation_cache_dir", "jax_enable_compilation_cache"
# programs that compile fast are worth keeping too: a run has some twenty of them
JAX_SETTINGS = {"jax_persistent_cache_min_compile_time_secs": 0.0, "jax_persistent_cache_min_entry_size_bytes": -1}

MISS_EVENT = "/jax/compilation_cache/cache_misses"
ENTRY_SUFFIX = "-cache"  # how the names of entries end

_lock, _noting = threading.Lock(), threading.Lock()
_inside = 0  # runs that are compiling, in all threads
_before: dict[str, object] = {}
_missed: set[str] | None = None  # entries there before the first program that was compiled; None: none was so far
_misses = 0


@contextmanager
def keeping_programs() -> Iterator[None]:
    """Programs compiled inside this block are looked up in the cache, and put there."""
    if not _enter():
        yield
        return
    try:
        yield
    finally:
        _leave()


def _enter() -> bool:
    global _inside
    with _lock:
        if _inside == 0:
            folder = _folder()
            if folder is None or getattr(jax.config, JAX_DIRECTORY) or not getattr(jax.config, JAX_SWITCH):
                return False
            changed = {JAX_DIRECTORY: str(folder), **JAX_SETTINGS}
            _before.update({name: getattr(jax.config, name) for name in changed})
            _be_quiet()
            _count_misses()
            _set(changed)
        _inside += 1
        return True


def _leave() -> None:
    global _inside, _missed, _misses
    with _lock:
        _inside -= 1
        if _inside == 0:
            _set(_before)
            folder, before = _folder(), _missed
            if folder is not None and before is not None and len(_names(folder) - before) < _misses:
                _remove_damaged(folder, before)
            _missed, _misses = None, 0


def _set(values: dict[str, object]) -> None:
    for name, value in values.items():
        jax.config.update(name, value)
    compilation_cache.reset_cache()  # JAX looks at the folder's name once; the user may name one later


@cache
def _be_quiet() -> None:
    """Hide JAX's warnings about its cache: a broken cache is not the user's problem.

    Once and for all: restoring filters is not safe in threads.
    """
    warnings.filterwarnings("ignore", r"Error (reading|writing) persistent compilation cache entry")


@cache
def _count_misses() -> None:
    jax.monitoring.register_event_listener(_note)


def _note(event: str, **_: object) -> None:
    """JAX has compiled a program and is about to write it."""
    global _missed, _misses
    if event == MISS_EVENT and _inside:
        with _noting:
            folder = _folder()
            if _missed is None and folder is not None:
                _missed = _names(folder)
            _misses += 1


def _names(folder: Path) -> set[str]:
    with suppress(OSError):
        return set(os.listdir(folder))
    return set()


def _remove_damaged(folder: Path, names: set[str]) -> None:
    for name in names:
        if not name.endswith(ENTRY_SUFFIX):
            continue
        with suppress(OSError):
            try:
                zlib.decompress((folder / name).read_bytes())
            except zlib.error:
                (folder / name).unlink(missing_ok=True)


@cache
def _folder() -> Path | None:
    """The folder for this version of the compiler and this kind of processor; None where nothing is kept."""
    asked = os.environ.get(CACHE_VARIABLE, "")
    if asked.lower() in ("off", "0", "no", "none", "false") or _has_zstd():
        return None
    try:
        root = Path(asked) if asked else Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "ergodica"
        folder = root / f"jaxlib-{jaxlib.__version__}-{_processor()}"
        folder.mkdir(parents=True, exist_ok=True)
        if not os.access(folder, os.W_OK):
            return None
        _prune(root)
    except (OSError, RuntimeError):  # read-only, a file in the way; no home
        return None
    return folder


def _has_zstd() -> bool:
    """Whether JAX packs by it: from Python 3.14 on, or with the package zstandard."""
    return sys.version_info >= (3, 14) or importlib.util.find_spec("zstandard") is not None


def _processor() -> str:
    """Compiled code has the instructions of the processor it was made on; a home may be shared by several."""
    flags = platform.processor()
    with suppress(OSError), open("/proc/cpuinfo") as file:
        flags = next((line for line in file if line.startswith(("flags", "Features"))), flags)
    return hashlib.sha256(f"{platform.machine()} {flags}".encode()).hexdigest()[:12]


def _prune(root: Path) -> None:
    """Delete the oldest entries, down to half of MAXIMUM_BYTES, if there is more than that."""
    found = [(path.stat(), path) for path in root.glob("jaxlib-*/*") if path.is_file()]
    total = sum(entry.st_size for entry, _ in found)
    if total <= MAXIMUM_BYTES:
        return
    for entry, path in sorted(found, key=lambda one: one[0].st_mtime):
        path.unlink(missing_ok=True)
        total -= entry.st_size
        if total <= MAXIMUM_BYTES // 2:
            return
