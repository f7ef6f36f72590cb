"""The digest of a traced function: the same for the same computation, another for another, typed keys included."""

import os
import subprocess
import sys

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from ergodica.host.tracing import traced_digest

ONE = jnp.ones(3)


def adding(number):
    values = jnp.full(3, number)
    return lambda x: x + values


def drawing(seed):
    key = jax.random.key(seed)
    return lambda x: x + jax.random.normal(key, x.shape)


def test_what_a_function_closes_over_counts():
    assert traced_digest(adding(1.0), ONE) == traced_digest(adding(1.0), ONE)
    assert traced_digest(adding(1.0), ONE) != traced_digest(adding(2.0), ONE)
    assert traced_digest(jax.jit(adding(1.0)), ONE) != traced_digest(jax.jit(adding(2.0)), ONE)


def test_typed_keys_count():
    assert traced_digest(drawing(1), ONE) == traced_digest(drawing(1), ONE)
    assert traced_digest(drawing(1), ONE) != traced_digest(drawing(2), ONE)


def test_shapes_and_dtypes_of_arguments_count():
    assert traced_digest(jnp.sum, ONE) != traced_digest(jnp.sum, jnp.ones(4))
    assert traced_digest(jnp.sum, ONE) != traced_digest(jnp.sum, np.ones(3, np.float32))


ON_A_TERMINAL = """
import jax, numpy as np
from ergodica.host.tracing import traced_digest
one = np.float32(1)
print("coloured" if chr(27) in str(jax.make_jaxpr(jax.numpy.sin)(one)) else "plain", traced_digest(jax.numpy.sin, one))
"""


def test_it_is_the_same_on_a_terminal():
    """Where JAX prints programs in colour: a run begun there is resumed by nohup and cron."""
    pty = pytest.importorskip("pty")
    ours, theirs = pty.openpty()
    command, environment = [sys.executable, "-c", ON_A_TERMINAL], os.environ | {"TERM": "xterm-256color"}
    subprocess.run(command, stdout=theirs, stderr=theirs, stdin=theirs, env=environment, check=True, timeout=120)
    kind, found = os.read(ours, 10_000).decode().split()[-2:]
    os.close(ours)
    os.close(theirs)
    assert found == traced_digest(jnp.sin, np.float32(1)), f"JAX prints programs {kind}"
