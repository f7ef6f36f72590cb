"""blackjax's kernels come through the adapters unchanged; without blackjax one line says what to install."""

import subprocess
import sys

import blackjax
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from ergodica.interop import blackjax as adapters


def potential(position):
    return 0.5 * jnp.sum(position**2) + 0.1 * jnp.sum(position**4)


def uphill(position, minibatch):
    return -position - 0.4 * position**3


POSITION = np.array([0.3, -1.2, 0.8])
KEY, H, T = 5, 0.05, 0.3


@pytest.mark.parametrize(
    ("build", "kernel"),
    [
        (adapters.sgld(), blackjax.sgld(uphill)),
        (adapters.sghmc(), blackjax.sghmc(uphill)),
        (adapters.sghmc(3, alpha=0.5, beta=0.1), blackjax.sghmc(uphill, 3, 0.5, 0.1)),
    ],
)
def test_a_step_is_the_kernels_own(build, kernel):
    step = build(potential, T)
    found = step(jax.random.key(KEY), jnp.asarray(POSITION), H)
    np.testing.assert_allclose(found, kernel.step(jax.random.key(KEY), jnp.asarray(POSITION), None, H, T), rtol=1e-12)


def test_sgnht_has_a_state_of_its_own():
    init, step, read = adapters.sgnht(alpha=0.2)(potential, T)
    kernel = blackjax.sgnht(uphill, alpha=0.2)
    state = init(jax.random.key(1), jnp.asarray(POSITION))
    expected = kernel.step(jax.random.key(KEY), kernel.init(jnp.asarray(POSITION), jax.random.key(1)), None, H, T)
    after = step(jax.random.key(KEY), state, H)
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-12), after, expected)
    assert read(after) is after.position


def test_step_takes_any_kernel_with_a_minibatch():
    data = jnp.arange(4.0)
    seen = []

    def kernel_step(key, state, minibatch, step_size, temperature):
        seen.append((minibatch, step_size, temperature))
        return state

    assert adapters.step(kernel_step, 0.5, data)("key", "state", 0.1) == "state"
    assert seen == [(data, 0.1, 0.5)]


def test_without_blackjax_one_line_says_what_to_install():
    script = (
        "import sys; sys.modules['blackjax'] = None\n"
        "import ergodica\n"
        "try:\n    from ergodica.interop import blackjax\n"
        "except ImportError as error:\n    print(error)"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert done.stdout == "blackjax is not installed: pip install blackjax\n", done.stderr


def test_nothing_imports_interop():
    script = "import sys, ergodica; print([m for m in sys.modules if 'blackjax' in m or 'interop' in m])"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert done.stdout == "[]\n", done.stderr
