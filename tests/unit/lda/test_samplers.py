"""The samplers of online LDA: what the general recipe makes of the metric diag(theta), and whether it stays stable."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import ergodica as eg
from ergodica.lda.corpus import Documents
from ergodica.lda.expanded_mean import THETA_FLOOR, ExpandedMean
from ergodica.lda.gibbs import expectations
from ergodica.lda.samplers import LDA_PRESETS, LDA_SAMPLERS, PAPER_SAMPLERS
from ergodica.lda.steps import StepNoise, noise_of
from ergodica.phase import Evaluation

ALPHA, GAMMA, SIZE = 0.2, 0.1, 3.3e6


def corpus(documents: int = 100, words: int = 30, seed: int = 0) -> Documents:
    rng = np.random.default_rng(seed)
    law = rng.dirichlet(np.full(words, 0.2), 3)
    return Documents.of([rng.choice(words, 20, p=law[rng.integers(3)]) for _ in range(documents)])


def test_the_recipes_give_the_drifts_of_the_paper():
    documents = corpus(10)
    model = ExpandedMean(30, 4, SIZE, ALPHA, GAMMA, sweeps=5, burn_in=2)
    theta = np.random.default_rng(1).gamma(0.5, size=(30, 4)).astype(np.float32) + np.float32(0.01)
    gradient = model.gradient(theta, documents, 0, 0)
    phi = theta / theta.sum(0)
    found = expectations(phi, documents, GAMMA, sweeps=5, burn_in=2, seed=0, visit=0)
    counts = np.zeros((30, 4))
    counts[found.words] = found.counts
    data = SIZE / 10 * (counts - phi * counts.sum(0))

    def moved(sampler: str, momentum: np.ndarray | None = None, friction: float | None = None) -> dict[str, np.ndarray]:
        recipe, _ = PAPER_SAMPLERS[sampler](friction)
        phase = recipe.draw_auxiliaries(jnp.asarray(theta, float), jax.random.key(0), 1.0)
        if momentum is not None:
            phase = phase._replace(momentum=jnp.asarray(momentum))
        moves = recipe.moves(phase, (Evaluation(jnp.asarray(gradient, float)),), jnp.ones(()), jnp.ones(()))
        return {slot: np.asarray(move.value()) for slot, move in moves.items()}

    # what float32 leaves of a difference of large numbers
    scale = 1e-5 * SIZE
    np.testing.assert_allclose(moved("sgrld")["position"], ALPHA - theta + data, atol=scale)
    r = np.random.default_rng(2).normal(size=theta.shape)
    by_hand = (ALPHA - 0.5 - theta + data) / np.sqrt(theta) - theta * r
    np.testing.assert_allclose(moved("sgrhmc", r)["momentum"], by_hand, atol=scale * 10)
    np.testing.assert_allclose(moved("sgrhmc", r)["position"], np.sqrt(theta) * r, rtol=1e-6)
    constant = (ALPHA - 0.5 - theta + data) / np.sqrt(theta) - 7 * r
    np.testing.assert_allclose(moved("sgrhmc", r, friction=7.0)["momentum"], constant, atol=scale * 10)
    np.testing.assert_allclose(moved("sgld")["position"], -gradient, rtol=1e-6)
    np.testing.assert_allclose(moved("sghmc", r)["momentum"], -gradient - r, rtol=1e-6)


def trajectory(sampler: str, step_size: float, steps: int, alpha: float, gamma: float) -> np.ndarray:
    """The largest theta after each step, on a small corpus that stands for all of Wikipedia."""
    documents = corpus()
    model = ExpandedMean(30, 5, SIZE, alpha, gamma, sweeps=4, burn_in=1)
    recipe, integrator = PAPER_SAMPLERS[sampler](None)
    kernel = eg.Kernel(model.target([None]), recipe, integrator)
    state = kernel.init(jnp.asarray(model.init(0)), jax.random.key(0))
    largest = []
    for step in range(steps):
        draws, probed = _probe(sampler, state, jax.random.key(step), step_size)
        theta = np.asarray(probed.phase.position)
        gradient = model.gradient(theta, documents.take(range(10 * (step % 10), 10 * (step % 10) + 10)), 10 * step, 0)
        state = _finish(sampler, probed, jnp.asarray(gradient), draws, step_size)
        position = np.asarray(state.phase.position)
        assert np.all(np.isfinite(position))
        assert position.min() >= np.float32(THETA_FLOOR)
        largest.append(float(position.max()))
    return np.array(largest)


def _kernel(sampler: str) -> eg.Kernel:
    recipe, integrator = PAPER_SAMPLERS[sampler](None)
    return eg.Kernel(ExpandedMean(30, 5, 1, 1, 1, 2, 1).target([None]), recipe, integrator)


def _probe_of(sampler, state, key, step_size):
    kernel = _kernel(sampler)
    draws = kernel.integrator.draw(kernel.recipe, state.phase, key, kernel._setting(state, step_size, 1.0))
    return draws, kernel.probe(state, draws, step_size)


def _finish_of(sampler, state, gradient, draws, step_size):
    return _kernel(sampler).finish(state, (Evaluation(gradient),), draws, step_size)[0]


_probe, _finish = jax.jit(_probe_of, static_argnums=0), jax.jit(_finish_of, static_argnums=0)


@pytest.mark.parametrize("step_size", [0.002, 0.005, 0.01, 0.02, 0.05, 0.1])
def test_sgrhmc_is_stable_at_the_size_of_wikipedia(step_size):
    largest = trajectory("sgrhmc", step_size, 60, 0.0001, 0.01)
    # The first kicks may throw theta far (1e9 at 0.1, where one kick is eps S N / n), and friction theta then holds it;
    # explicit friction would throw it farther at every step.
    assert largest[30:].max() < 10 * largest[:30].max()
    assert largest.max() < 1e10


@pytest.mark.parametrize("sampler", ["sgld", "sghmc", "sgrld"])
def test_the_others_stay_finite_at_the_papers_settings(sampler):
    preset = LDA_PRESETS["paper"][sampler]
    step_size = preset.step_size[0] if isinstance(preset.step_size, tuple) else preset.step_size
    trajectory(sampler, step_size, 40, preset.alpha, preset.gamma)


@pytest.mark.parametrize("sampler", PAPER_SAMPLERS)
def test_the_noise_grows_with_the_step_and_falls_with_the_batch(sampler):
    documents = corpus(400)
    model = ExpandedMean(30, 3, 400, ALPHA, GAMMA, sweeps=10, burn_in=5)
    recipe, _ = PAPER_SAMPLERS[sampler](None)
    noise, halved = (
        noise_of(model, recipe, model.init(0), documents, batch_size=batch_size, seed=0) for batch_size in (50, 100)
    )
    assert noise.ratio(2e-4) == pytest.approx(2 * noise.ratio(1e-4), rel=1e-3)
    assert halved.ratio(1e-3) == pytest.approx(noise.ratio(1e-3) / 2, rel=1e-5)
    assert noise.ratio(noise.step_size(0.1)) == pytest.approx(0.1, rel=2e-3)


@pytest.mark.parametrize("friction", [0.5, 30.0])
def test_the_noise_ratio_of_a_splitting_is_that_of_its_steps(friction):
    """The same step in U = 0 and in U = 3 q: how the momenta differ is what noise of that size adds."""
    step_size, deviation = 0.2, 3.0

    def momentum(gradient: float) -> float:
        kernel = eg.Kernel(eg.Density(lambda q: gradient * q), eg.sghmc(friction=friction), eg.Splitting())
        state = kernel.init(jnp.zeros(()), jax.random.key(0))
        return float(kernel.step(state, jax.random.key(1), step_size)[0].phase.momentum)

    noise = StepNoise(np.full((1, 1), deviation**2), np.full((1, 1), friction), is_momentum=True)
    injected = 1 - np.exp(-2 * step_size * friction)
    assert noise.ratio(step_size) == pytest.approx((momentum(deviation) - momentum(0.0)) ** 2 / injected)


def test_the_noise_ratio_of_sgrld_is_about_the_formula_of_independent_tokens():
    # N_wk of a batch is nearly Poisson where a document has few tokens: eps (S/n)^2 N_.k / (2 theta_.k)
    rng = np.random.default_rng(0)
    documents = Documents.of([rng.integers(0, 30, 1) for _ in range(20_000)])
    model = ExpandedMean(30, 1, 1_000, ALPHA, GAMMA, sweeps=2, burn_in=1)
    theta = np.full((30, 1), 0.5, np.float32)
    found = noise_of(model, PAPER_SAMPLERS["sgrld"](None)[0], theta, documents, batch_size=50, seed=0).ratio(1e-3)
    assert found == pytest.approx(1e-3 * 20**2 * 50 / (2 * 15), rel=0.15)


def test_every_preset_has_every_sampler():
    assert list(LDA_PRESETS) == ["paper", "tuned", "posterior"]
    for preset in LDA_PRESETS.values():
        assert set(preset) == set(LDA_SAMPLERS)
    assert LDA_PRESETS["paper"]["sgrld"].step_size == (0.01, 1000.0, 0.55)
    assert all(preset.size == 3.3e6 for preset in LDA_PRESETS["paper"].values())
    assert all(preset.noise == 0.1 for preset in LDA_PRESETS["posterior"].values())
