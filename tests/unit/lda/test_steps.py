"""Steps as a rate: how far phi moves in a step, whatever the corpus, for every sampler that has one."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import ergodica as eg
from ergodica.lda.corpus import Documents
from ergodica.lda.expanded_mean import ExpandedMean
from ergodica.lda.samplers import LDA_PRESETS, LDA_SAMPLERS, learner_of
from ergodica.lda.steps import Rate, TopicChain, langevin_step, splitting_step
from ergodica.lda.stream import DocumentBatch

RATED = ("sgrld", "sgrhmc", "scir")
WORDS, TOPICS = 60, 3


def chain(sampler: str, preset: str = "tuned", topics: int = TOPICS) -> TopicChain:
    settings = LDA_PRESETS[preset][sampler]
    model = ExpandedMean(WORDS, topics, 1, settings.alpha, 0.1, sweeps=2, burn_in=1, floor=settings.floor)
    return learner_of(model, sampler, settings, 3)


def batch(size: float, length: int = 10, documents: int = 20) -> DocumentBatch:
    rng = np.random.default_rng(0)
    return DocumentBatch(Documents.of([rng.integers(0, WORDS, length) for _ in range(documents)]), 0, size)


@pytest.mark.parametrize("friction", [0.3, 10.0, 200.0])
def test_the_splitting_moves_as_far_as_the_langevin_step_it_stands_for(friction):
    """Under a constant force, once the momentum is what it will be: less what noise does, which is the same without."""
    moved = 0.02
    step_size = splitting_step(moved, friction)
    assert langevin_step(step_size, friction) == pytest.approx(moved, rel=1e-9)

    def path(force: float) -> np.ndarray:
        kernel = eg.Kernel(eg.Density(lambda q: -force * q), eg.sghmc(friction=friction), eg.Splitting())
        state, steps = kernel.init(jnp.zeros(()), jax.random.key(0)), round(30 / (step_size * friction)) + 10

        def step(state, key):
            state = kernel.step(state, key, step_size)[0]
            return state, state.phase.position

        return np.asarray(jax.lax.scan(step, state, jax.random.split(jax.random.key(1), steps))[1])

    pushed = path(2.0) - path(0.0)
    assert pushed[-1] - pushed[-2] == pytest.approx(2.0 * moved, rel=1e-4)


@pytest.mark.parametrize("sampler", RATED)
def test_a_rate_takes_the_corpus_out_of_the_step(sampler):
    a, b, c = LDA_PRESETS["tuned"][sampler].rate
    friction = LDA_PRESETS["tuned"][sampler].friction
    for topics, size, length in ((3, 1_000, 10), (5, 1_000, 10), (3, 50_000, 10), (3, 1_000, 40)):
        learner, given = chain(sampler, topics=topics), batch(size, length)
        total = float(np.median(learner.theta.sum(0)))
        learner.step(given)
        for step in (0, 7):
            covered = langevin_step(learner.step_size(step), friction)
            fraction = covered * (1 + size / 20 * given.documents.tokens / topics / total)
            assert fraction == pytest.approx(a * (1 + step / b) ** -c, rel=1e-4)


@pytest.mark.parametrize("sampler", RATED)
def test_a_corpus_of_a_few_tokens_does_not_make_steps_long(sampler):
    learner = chain(sampler)
    for visit in range(30):
        learner.step(batch(1, length=2, documents=1)._replace(visit=visit))
    assert langevin_step(learner.step_size(0), LDA_PRESETS["tuned"][sampler].friction) < 0.5


def test_a_topic_that_was_thrown_far_does_not_lengthen_the_steps():
    usual, thrown = chain("sgrld"), chain("sgrld")
    theta = usual.theta.copy()
    theta[:, 1] *= 1e6
    thrown.start_at(theta)
    sizes = []
    for learner in (usual, thrown):
        learner.step(batch(1_000))
        sizes.append(learner.step_size(0))
    assert sizes[1] < 1.5 * sizes[0]


@pytest.mark.parametrize("sampler", LDA_SAMPLERS)
def test_with_a_rate_theta_begins_at_the_priors_scale(sampler):
    has_rate = sampler in RATED
    mean = LDA_PRESETS["tuned"][sampler].alpha if has_rate else 1.0
    assert chain(sampler).theta.mean() == pytest.approx(mean, rel=0.05)
    assert isinstance(chain(sampler).plan, Rate) == has_rate
    paper = chain(sampler, "paper")
    assert not isinstance(paper.plan, Rate)
    assert paper.theta.mean() == pytest.approx(1.0, rel=0.3)


@pytest.mark.parametrize("sampler", LDA_SAMPLERS)
def test_a_chain_that_is_restored_has_the_same_step(sampler):
    one, other = chain(sampler), chain(sampler)
    one.step(batch(1_000))
    other.restore(one.saved())
    assert other.step_size(1) == one.step_size(1)
    one.fixed_size = 0.25
    assert one.step_size(10) == 0.25


@pytest.mark.parametrize("sampler", RATED)
def test_a_chain_can_be_put_where_topics_were_found(sampler):
    learner = chain(sampler)
    learner.step(batch(1_000))
    theta = np.random.default_rng(1).gamma(1.0, size=(WORDS, TOPICS)).astype(np.float32) + np.float32(0.01)
    learner.start_at(theta)
    np.testing.assert_array_equal(learner.theta, theta)
    assert learner.steps == 1
    learner.step(batch(1_000))
    assert learner.steps == 2
