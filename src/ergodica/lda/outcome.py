"""The end of a run: what was learnt, with the figures that are reported of it."""

import math
from importlib import metadata
from typing import Any

import numpy as np

from ergodica.driver.loop import now
from ergodica.host import tracing
from ergodica.lda.chains import Training, visit_seed
from ergodica.lda.corpus import Vocabulary
from ergodica.lda.perplexity import perplexity, shares
from ergodica.lda.run_files import DOCUMENT_FIELDS, Fitted
from ergodica.lda.settings import TopicSettings
from ergodica.lda.topics import POSTERIOR_BAND, SPREAD_BAND

DRAWS_AVERAGED = 20  # draws whose predictions are averaged, of those kept
SAMPLES_KEPT, SAMPLE_WORDS = 2000, 60  # documents that are kept in words, and how many words of each
POSTERIOR_NOISE = 0.1  # gradient noise over injected noise, up to which the spread of draws is a posterior's


def versions() -> dict[str, str]:
    return tracing.versions() | {"numba": metadata.version("numba")}


def conclude(
    training: Training,
    settings: TopicSettings,
    vocabulary: Vocabulary,
    parameters: dict[str, Any],
    notes: dict[str, Any],
) -> Fitted:
    """Args:
    notes: more for run.json.
    """
    learner, begin = training.learner, now()
    draws = training.draws.chosen(learner.steps)
    step_size = learner.step_size(max(0, learner.steps - 1))
    noise = training.noise()
    ratio = math.nan if noise is None else noise.ratio(step_size)
    is_posterior = settings.preset == "posterior" and ratio <= POSTERIOR_NOISE
    found = Fitted(
        vocabulary, {name: value for name, value in parameters.items() if name != "vocabulary"}, learner.saved(),
        training.counts.copy(), draws, training.draws.every, np.zeros((0, learner.model.topics)), np.zeros(0, int), [],
        list(training.history), {},
    )  # fmt: skip
    found.figures = {
        "topics": learner.model.topics, "words": learner.model.words, "sampler": settings.sampler,
        "preset": settings.preset, "settings": settings.to_dict(), "seed": learner.seed, "versions": versions(),
        "documents": training.documents, "size": training.size, "steps": learner.steps, "noise_ratio": ratio,
        "step_size": step_size, "fixed_size": learner.fixed_size,
        "band": POSTERIOR_BAND if is_posterior else SPREAD_BAND,
    }  # fmt: skip
    _describe_samples(found, training)
    found.figures["held_out"] = _held_out(found, training)
    training.seconds["evaluating"] += now() - begin
    found.figures |= {"seconds": dict(training.seconds), **notes}
    return found


def averaged_draws(fitted: Fitted) -> list[np.ndarray]:
    """Those that predictions are averaged over, evenly chosen."""
    draws = list(fitted.draws.values())
    places = np.unique(np.linspace(0, len(draws) - 1, min(DRAWS_AVERAGED, len(draws))).round().astype(int))
    return [draws[place] for place in places]


def _describe_samples(fitted: Fitted, training: Training) -> None:
    documents = training.sample
    seed = visit_seed(training.learner.seed, "infer")
    found = shares(fitted.mean, documents, fitted.gamma, seed)
    fitted.shares, fitted.lengths = found.astype(np.float32), documents.lengths
    words = fitted.vocabulary.words
    fitted.documents = [
        dict.fromkeys(DOCUMENT_FIELDS, "") | {"words": [words[word] for word in documents[place][:SAMPLE_WORDS]]}
        for place in range(min(SAMPLES_KEPT, len(documents)))
    ]


def _held_out(fitted: Fitted, training: Training) -> dict[str, Any] | None:
    if training.held_out is None:
        return None
    seed = visit_seed(training.learner.seed, "perplexity")
    batches = [training.held_out.documents]
    return perplexity(fitted.phi, averaged_draws(fitted), batches, fitted.gamma, fitted.counts, seed).to_dict()
