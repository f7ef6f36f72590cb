"""`eg.rebuild_curl`: the curl of HMC, SGHMC, SGNHT and random processes, and the processes that have none."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from ergodica.errors import InputError
from ergodica.verify.completeness.rebuild import NoCurlError, rebuild_curl
from tests.unit.verify.completeness.processes import HMC, SGHMC, SGNHT, nothing, random_process, true_error, turned

CURL = [[0.0, -1.0], [1.0, 0.0]]  # of HMC and SGHMC, z = (q, r)


@pytest.fixture(scope="module")
def hmc():
    return rebuild_curl(*HMC, box=[(-6, 6)] * 2)


@pytest.mark.parametrize(("process", "method"), [(HMC, "closed form"), (SGHMC, "fourier")], ids=["hmc", "sghmc"])
def test_curl_of_known_samplers_in_two_dimensions(process, method):
    q = rebuild_curl(*process, method=method)
    assert q.passed
    assert q.report["two constructions"].figure < 1e-10
    for point in ((0.31, -1.27), (-1.9, 0.6), (2.0, 2.2)):
        np.testing.assert_allclose(q.curl(point), CURL, atol=1e-9)
    assert true_error(q, process) < 1e-8
    assert abs(q.largest - 1) < 1e-9


def test_given_box_is_where_q_holds_and_the_grid_reaches_beyond(hmc):
    assert hmc.passed
    assert hmc.box == ((-6.0, 6.0), (-6.0, 6.0))
    assert hmc.report.figures["grid"][1][1] > 8
    assert true_error(hmc, HMC) < 1e-8


def test_sgnht_in_three_dimensions():
    q = rebuild_curl(*SGNHT, resolution=64)
    assert q.passed
    assert true_error(q, SGNHT) < 1e-3
    assert "divergence-free" in str(q)
    assert f"{q.largest:.3g}" in str(q)


# 20 random recipes; a fine and a coarse grid, so that errors from rounding to a thousandth of the drift come up
CASES = [(2, 256, range(3)), (2, 44, range(6, 11))]
MORE = [(2, 256, range(3, 6)), (2, 44, range(11, 16)), (3, 64, range(4))]
CASES += [pytest.param(*case, marks=pytest.mark.long) for case in MORE]


@pytest.mark.parametrize(("dim", "resolution", "seeds"), CASES)
def test_error_estimate_is_within_a_factor_of_ten(dim, resolution, seeds):
    for seed in seeds:
        process = random_process(dim, seed)
        q = rebuild_curl(*process, resolution=resolution)
        error = true_error(q, process)
        assert 0.1 < q.error / error < 10, seed
        if (dim, resolution) in ((2, 256), (3, 64)):
            assert q.passed, seed
            assert error < {2: 1e-8, 3: 1e-3}[dim], seed


def test_what_limits_it_is_named():
    coarse = rebuild_curl(*HMC, resolution=20)
    assert not coarse.passed
    assert "raise the resolution" in coarse.report.notes[-1]

    def exponential(z):  # ends at z[0] = 0 with its full density
        return jnp.where(z[0] > 0, z[0], jnp.inf) + z[1] ** 2 / 2

    cut = rebuild_curl(turned(exponential), nothing, exponential, box=[(1e-6, 60), (-9, 9)])
    assert not cut.passed
    assert "has not vanished at its faces" in cut.report.notes[-1]


def test_reversible_process_has_no_curl():
    q = rebuild_curl(lambda z: -z, lambda z: jnp.eye(2), lambda z: jnp.sum(z**2) / 2)
    assert q.passed
    assert q.largest < 1e-10


def test_process_without_this_law_is_refused():
    def drift(z):
        return SGHMC.drift(z) - 0.01 * z

    with pytest.raises(NoCurlError, match=r"does not leave exp\(-H\) invariant.*certify_sde") as caught:
        rebuild_curl(drift, SGHMC.diffusion, SGHMC.hamiltonian)
    assert not caught.value.report["stationary"].passed
    assert "\n" not in str(caught.value)


def cauchy(z):
    return 1.5 * jnp.log1p(jnp.sum(z**2))


@pytest.mark.parametrize("box", [None, [(-5000, 5000)] * 2])
def test_current_that_is_not_integrable_is_refused(box):
    """Divergence-free, but the same everywhere: c = constant / p."""
    with pytest.raises(NoCurlError, match="not integrable") as caught:
        rebuild_curl(lambda z: jnp.exp(cauchy(z)) * jnp.array([1.0, 0.5]), nothing, cauchy, box)
    assert caught.value.report["stationary"].passed


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"drift": lambda z: jnp.where(z[0] > 1, jnp.nan, 1.0) * HMC.drift(z)}, r"drift\[0\] is nan at z = \("),
        ({"drift": lambda z: jnp.zeros(3)}, r"drift returned shape \(3,\), expected an array of shape \(2,\)"),
        ({"drift": lambda z: np.array([np.sin(z[0]), 0.0])}, "NumPy: write it with jax.numpy"),
        ({"diffusion": np.eye(2)}, "diffusion is of type ndarray"),
        ({"diffusion": lambda z: jnp.zeros(2)}, r"diffusion returned shape \(2,\)"),
        ({"diffusion": lambda z: jnp.array([[1.0, 0.5], [0.0, 1.0]])}, "not symmetric: at z"),
        ({"diffusion": lambda z: jnp.diag(jnp.array([1.0, -1.0]))}, "not positive semidefinite"),
        ({"hamiltonian": lambda z: z}, "hamiltonian returned shape"),
        ({"hamiltonian": lambda z: -jnp.sum(z**2)}, "not that of a law"),
        ({"box": [(-1, 1)] * 2}, r"cuts off 60.6 % of the mass"),
        ({"box": [(-6, 6)] * 4}, "in 4 dimensions"),
        ({"box": [(6, -6)] * 2}, "low < high"),
        ({"box": 3}, "one pair"),
        ({"resolution": 100_000}, r"needs about 1.92 TB of memory and there are .*B"),
        ({"resolution": 2.5}, "whole number"),
        ({"method": "guess"}, "expected one of fourier, closed form"),
    ],
    ids=lambda value: next(iter(value)) if isinstance(value, dict) else "",
)
def test_bad_input_is_one_clear_line(changes, words):
    arguments = {**HMC._asdict(), **changes}
    with pytest.raises(InputError, match=words) as caught:
        rebuild_curl(**arguments)
    assert "\n" not in str(caught.value)


def test_dimension_that_cannot_be_told_is_asked_for():
    with pytest.raises(InputError, match="2 or 3 numbers equally well"):
        rebuild_curl(lambda z: -z, lambda z: jnp.eye(z.size), lambda z: jnp.sum(z**2) / 2)
    with pytest.raises(InputError, match="closed form is for 2 dimensions"):
        rebuild_curl(*SGNHT, method="closed form")


def test_curl_is_a_jax_function(hmc):
    points = jnp.array([[0.3, 0.2], [-1.0, 2.0]])
    np.testing.assert_allclose(jax.jit(jax.vmap(hmc.curl))(points), np.broadcast_to(CURL, (2, 2, 2)), atol=1e-9)
    np.testing.assert_allclose(jax.jit(jax.jacfwd(hmc.curl))(points[0]), np.zeros((2, 2, 2)), atol=1e-9)
    single = jax.jit(hmc.curl)(points[0].astype(jnp.float32))
    assert single.dtype == jnp.float32
    np.testing.assert_allclose(single, CURL, atol=1e-5)


def test_outside_the_box(hmc):
    with pytest.raises(InputError, match="outside the box"):
        hmc.curl((7.0, 0.0))
    assert jnp.isnan(jax.jit(hmc.curl)(jnp.array([7.0, 0.0]))).any()
    with pytest.raises(InputError, match="one point of 2 numbers"):
        hmc.curl(np.zeros((5, 2)))


def test_same_seed_same_bytes(hmc):
    again = rebuild_curl(*HMC, box=[(-6, 6)] * 2)
    assert again.at.spline.coefficients.tobytes() == hmc.at.spline.coefficients.tobytes()
    assert again.report == hmc.report
