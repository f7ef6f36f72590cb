"""A run like one before in the same process compiles nothing and goes in one chunk from the start."""

import threading

import jax
import jax.numpy as jnp
import numpy as np

import ergodica as eg
from ergodica.driver import loop, minibatches
from ergodica.driver.engine import Engine
from ergodica.driver.request import _words, words
from ergodica.driver.starts import Starts
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
    monkeypatch.setattr(loop, "_rates", {})
    first = run(eg.sgld(), steps=600)
    assert len(chunks) > 2
    run(eg.sgld(), steps=600)
    chunks.clear()
    compiled.clear()
    again = run(eg.sgld(), steps=600)
    assert chunks == [600]
    assert compiled == []
    assert_same_bytes(first, again)


def test_rows_are_copied_while_the_start_is_looked_at(monkeypatch):
    """Neither waits for the other: one after the other, this would end in an error."""
    copying, looked = threading.Event(), threading.Event()
    copied, first = minibatches._copied, Starts.first

    def copy(*arguments):
        copying.set()
        assert looked.wait(30)
        return copied(*arguments)

    def look(self):
        assert copying.wait(30)
        state = first(self)
        looked.set()
        return state

    expected = run(eg.sgld(), steps=20, batches="windows")
    monkeypatch.setattr(minibatches, "_copied", copy)
    monkeypatch.setattr(Starts, "first", look)
    assert_same_bytes(run(eg.sgld(), steps=20, batches="windows"), expected)


def test_rows_that_were_changed_in_place_are_copied_again():
    rows = np.random.default_rng(0).normal(size=(100, 3))
    target = eg.Posterior(lambda q: -jnp.sum(q**2), lambda q, b: -((b @ q - 1.5) ** 2), rows, init=jnp.zeros(3))
    settings = {"steps": 10, "step_size": 1e-4, "batch_size": 2, "chains": 1, "progress": False}
    before = eg.sample(target, eg.sgld(), **settings)
    rows += 1
    again = eg.sample(target, eg.sgld(), **settings)
    assert not np.array_equal(before.stats["potential"], again.stats["potential"])


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


def test_words_that_are_remembered_are_those_of_the_thing():
    things = [
        *(eg.Constant(value) for value in (1.0, 2.0, np.float32(1.0), np.ones(3), np.ones((1, 3)), np.ones(40))),
        *(eg.Constant(jnp.ones(count)) for count in (3, 40)), eg.Gaussian(mass=3.0), eg.Gaussian(mass=4.0),
        eg.Splitting(), eg.Euler(), eg.Leapfrog(steps=3), eg.Leapfrog(steps=4), eg.polynomial(0.1, 10, 1), np.sin,
        eg.Elementwise(jnp.exp), eg.Elementwise(jnp.cos),
    ]  # fmt: skip
    for _ in range(2):
        assert [words(thing) for thing in things] == [_words(thing) for thing in things]
