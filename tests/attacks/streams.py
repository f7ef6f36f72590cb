"""Data on disk under attack: a Parquet file, and memory over a long stream of batches."""

import os
import time
from pathlib import Path

import numpy as np

from tests.attacks.forks import FINE, Fork

MINUTES = 20
GROWTH = 1.1  # of memory, over that after one minute
ROWS, COLUMNS = 400_000, 60


def write_parquet(path: Path) -> None:
    import pyarrow
    import pyarrow.parquet

    rows = np.random.default_rng(2).normal(size=(3000, 3))
    table = pyarrow.table({name: rows[:, place] for place, name in enumerate("abc")})
    pyarrow.parquet.write_table(table, path, row_group_size=700, write_page_checksum=True)


def memory_stays(folder: Path, minutes: float = MINUTES, after: float = 60.0) -> tuple[bool, str]:
    """A run on data from disk: whether memory after so many minutes is that after one, plus ten per cent."""
    np.save(folder / "rows.npy", np.random.default_rng(0).normal(size=(ROWS, COLUMNS)).astype(np.float32))
    fork = Fork(lambda: _endless(folder / "rows.npy"), folder / "log-memory")
    begin, met = time.monotonic(), []
    while time.monotonic() - begin < 60 * minutes:
        time.sleep(1.0)
        if os.waitpid(fork.process, os.WNOHANG)[0]:
            return False, f"the run ended by itself: {fork.log.read_text()}"
        met.append((time.monotonic() - begin, _resident(fork.process)))
    early = max(size for seconds, size in met if seconds <= after)
    late = max(size for seconds, size in met if seconds > after)
    is_killed = fork.kill_after(0.0).code != FINE
    said = f"{early >> 20} MB in the first {after:.0f} s, {late >> 20} MB at most in {minutes:g} minutes"
    return is_killed and late <= GROWTH * early, said


def _resident(process: int) -> int:
    """Bytes of its own, without those of files."""
    with open(f"/proc/{process}/status") as file:
        (line,) = (line for line in file if line.startswith("RssAnon"))
    return 1024 * int(line.split()[1])


def _endless(path: Path) -> None:
    import jax.numpy as jnp

    import ergodica as eg

    def log_prior(q):
        return -jnp.sum(q**2) / 2

    def log_likelihood(q, rows):
        return -jnp.sum((rows - q[None]) ** 2, axis=1) / 2

    target = eg.Posterior(log_prior, log_likelihood, eg.data.npy(path), init=np.zeros(COLUMNS, np.float32))
    eg.sample(
        target,
        eg.sghmc(),
        steps=10**8,
        thin=1000,
        step_size=1e-4,
        batch_size=400,
        chains=2,
        keep="moments",
        progress=False,
    )
