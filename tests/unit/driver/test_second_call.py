"""A run like one before in the same process compiles nothing and goes in one chunk from the start."""

import jax

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
