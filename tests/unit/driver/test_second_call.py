"""A run like one before in the same process compiles nothing and goes in one chunk from the start."""

import jax
import jax.numpy as jnp
import numpy as np

import ergodica as eg
from ergodica.driver import pace
from ergodica.driver.engine import Engine
from tests.unit.driver.runs import assert_same_bytes, run


def test_the_pace_of_a_program_is_known_from_the_run_before(monkeypatch):
    compiled, chunks = [], []
    jax.monitoring.register_event_duration_secs_listener(
        lambda event, seconds, **_: compiled.append(event) if "backend_compile" in event else None
    )
    advance = Engine.advance

    def counted(self, first, count, following):
        chunks.append(count)
        return advance(self, first, count, following)

    monkeypatch.setattr(Engine, "advance", counted)
    monkeypatch.setattr(pace, "_rates", {})
    first = run(eg.sgld(), steps=600)
    assert len(chunks) > 2
    run(eg.sgld(), steps=600)
    chunks.clear()
    compiled.clear()
    again = run(eg.sgld(), steps=600)
    assert chunks == [600]
    assert compiled == []
    assert_same_bytes(first, again)


def test_a_chunk_is_compiled_once(caplog):
    """Rows that JAX may not move make the chains it returns such as well: those that go in must be too."""
    rows = np.random.default_rng(0).normal(size=(500, 3))
    target = eg.Posterior(lambda q: -jnp.sum(q**2), lambda q, b: -((b @ q - 1.5) ** 2), rows, init=jnp.zeros(3))
    jax.config.update("jax_log_compiles", True)  # the context manager holds in one thread alone
    try:
        eg.sample(target, eg.sgld(), steps=40, step_size=1e-4, batch_size=5, chains=1, progress=False)
    finally:
        jax.config.update("jax_log_compiles", False)
    made = [record.getMessage() for record in caplog.records if "XLA compilation" in record.getMessage()]
    assert sum("run_chunk" in words for words in made) == 1, made
