"""The end of a run: what was learnt, with the figures that are reported of it, what was checked and what was not."""

import math
from importlib import metadata
from typing import Any

import numpy as np

from ergodica.driver.loop import now
from ergodica.host import tracing
from ergodica.lda.chains import CONVERGED_GAIN, Training, visit_seed
from ergodica.lda.corpus import Documents, Vocabulary
from ergodica.lda.expanded_mean import Augmented
from ergodica.lda.finding import duplicates
from ergodica.lda.perplexity import perplexity, shares
from ergodica.lda.run_files import Fitted
from ergodica.lda.settings import TopicSettings
from ergodica.lda.topics import (
    BAND_EDGES,
    NO_BAND,
    NOT_POSTERIOR_BAND,
    POSTERIOR_BAND,
    POSTERIOR_NOISE,
    SPREAD_BAND,
    coherence,
    top_words,
)  # fmt: skip

DRAWS_AVERAGED = 20  # draws whose predictions are averaged, of those kept
SAMPLE_WORDS = 60  # of a sample document that are kept
FEWEST_EFFECTIVE = 50  # effective draws below which the ends of a 90 % band are mostly chance
COHERENT_WORDS = 10
EMPTY_SHARE = 0.01  # of an average topic's share, below which a topic is called empty
MOST_NAMED = 5  # pairs and topics in a warning
FINDER_NAME = "averaged counts"
WORSE = "this model predicts held-out words no better than word frequencies alone"


def versions() -> dict[str, str]:
    return tracing.versions() | {"numba": metadata.version("numba")}


def conclude(
    training: Training, settings: TopicSettings, vocabulary: Vocabulary, parameters: dict[str, Any],
    notes: dict[str, Any],
) -> Fitted:  # fmt: skip
    """Args:
    notes: more for run.json.
    """
    begin, topics = now(), training.model.topics
    chain = training.learner if training.phase == "sampling" else None
    draws = {} if chain is None else training.draws.chosen(chain.steps)
    if not draws and training.finder is not None:  # stopped before the first draw: what was found stands
        training.find_on()
        chain = None
    found = Fitted(
        vocabulary, _plain_parameters(parameters), _state(training),
        training.counts.copy(), draws, training.draws.every, np.zeros((0, topics)), np.zeros(0, int), [],
        list(training.history), {}, None if training.finder is None else training.finder.phi,
    )  # fmt: skip
    step_size = math.nan if chain is None else chain.step_size(max(0, chain.steps - 1))
    noise = training.noise()
    ratio = math.nan if noise is None else noise.ratio(step_size)
    if chain is not None and isinstance(chain.model, Augmented):
        ratio = 0.0  # the counts are those of all documents
    gamma, alpha = training.gamma, settings.finding.alpha if chain is None else chain.model.alpha
    found.figures = {
        "topics": topics, "words": training.model.words, "sampler": FINDER_NAME if chain is None else settings.sampler,
        "preset": settings.preset, "settings": settings.to_dict(), "seed": training.seed, "versions": versions(),
        "documents": training.documents, "size": training.size, "steps": training.steps, "noise_ratio": ratio,
        "step_size": None if chain is None else step_size, "fixed_size": None if chain is None else chain.fixed_size,
        "priors": {"alpha": alpha, "gamma": np.broadcast_to(np.asarray(gamma, float), (topics,)).tolist()},
        "tokenizer": vocabulary.tokenizer.name, "sampled_from": training.sampled_from,
        "gain": training.gain() if math.isfinite(training.gain()) else None,
    }  # fmt: skip
    _judge_draws(found, training, ratio)
    _describe_samples(found, training.sample.documents, training.seed)
    found.figures["held_out"] = _held_out(found, training)
    found.figures["coherence"] = _coherence(found, training)
    found.figures["warnings"] = _warnings(found, training)
    found.figures["checks"] = _checks(found)
    training.seconds["evaluating"] += now() - begin
    found.figures |= {"seconds": dict(training.seconds), **notes}
    return found


def _plain_parameters(parameters: dict[str, Any]) -> dict[str, Any]:
    """Those that a file can hold: the vocabulary and its tokeniser are kept beside them."""
    return {name: value for name, value in parameters.items() if name not in ("vocabulary", "tokenizer")}


def _state(training: Training) -> dict[str, np.ndarray]:
    """What is needed to continue: the chain, the finder, or both."""
    state = {} if training.finder is None else {f"finder_{name}": a for name, a in training.finder.saved().items()}
    if training.phase == "sampling":
        return training.learner.saved() | state
    return {"position": training.phi, "steps": np.asarray(training.steps)} | state


def averaged_draws(fitted: Fitted) -> list[np.ndarray]:
    """Those that predictions are averaged over, evenly chosen."""
    draws = list(fitted.draws.values())
    places = np.unique(np.linspace(0, len(draws) - 1, min(DRAWS_AVERAGED, len(draws))).round().astype(int))
    return [draws[place] for place in places]


def _judge_draws(fitted: Fitted, training: Training, ratio: float) -> None:
    """What the bands are: a posterior's only where every check of it was made and passed."""
    figures = fitted.figures
    figures |= {"band": NO_BAND, "effective_draws": None, "scale_check": None, "outside": None}
    if not fitted.draws:
        return
    figures["band"] = SPREAD_BAND
    if training.finder is None:
        return
    check, effective, unseen = training.scale_check(), training.effective(), training.unseen_check()
    figures["unseen_check"] = {"passed": unseen.passed, "text": unseen.text}
    if check is not None:
        figures["scale_check"] = {"passed": check.passed, "text": check.text}
    figures["effective_draws"] = None if math.isnan(effective.median) else effective.median
    figures["least_effective"] = None if math.isnan(effective.least) else effective.least
    figures["priors_settled"] = training.is_settled
    is_enough = effective.least >= FEWEST_EFFECTIVE
    if unseen.passed is False:
        figures["band"] = NOT_POSTERIOR_BAND
    elif is_enough and ratio <= POSTERIOR_NOISE and check is not None and check.passed:
        figures["band"] = POSTERIOR_BAND
    elif check is not None and check.passed is False:
        figures["band"] = NOT_POSTERIOR_BAND
    figures["outside"] = _outside(fitted)


def _outside(fitted: Fitted) -> float | None:
    """The share of the top words whose found probability lies outside its band."""
    if fitted.found is None or len(fitted.draws) < 2:
        return None
    words = top_words(fitted.mean, COHERENT_WORDS)
    topics = np.arange(len(words))[:, None]
    low, high = np.quantile(np.stack([draw[words, topics] for draw in fitted.draws.values()]), BAND_EDGES, axis=0)
    found = fitted.found[words, topics]
    return float(np.mean((found < low) | (found > high)))


def _describe_samples(fitted: Fitted, documents: Documents, seed: int) -> None:
    fitted.shares = shares(fitted.mean, documents, fitted.gamma, visit_seed(seed, "infer")).astype(np.float32)
    fitted.lengths = documents.lengths
    words, labels = fitted.vocabulary.words, documents.labels
    fitted.documents = [
        {
            **(dict.fromkeys(("id", "title", "url", "date"), "") if labels is None else labels[place]._asdict()),
            "words": [words[word] for word in documents[place][:SAMPLE_WORDS]],
        }
        for place in range(len(documents))
    ]


def _held_out(fitted: Fitted, training: Training) -> dict[str, Any] | None:
    if training.held_out is None:
        return None
    seed, batches = visit_seed(training.seed, "perplexity"), [training.held_out.documents]
    is_found = fitted.found is not None and not fitted.draws
    single = fitted.found if is_found and fitted.found is not None else fitted.phi
    held = perplexity(single, averaged_draws(fitted), batches, fitted.gamma, fitted.counts, seed).to_dict()
    held["found_perplexity"] = held["perplexity"]["single"] if is_found else None
    if fitted.draws and fitted.found is not None and training.finder is not None:
        gamma = training.finder.prior.gamma
        held["found_perplexity"] = perplexity(fitted.found, [], batches, gamma, fitted.counts, seed).single
    return held


def _coherence(fitted: Fitted, training: Training) -> dict[str, Any] | None:
    documents = training.sample.documents
    if len(fitted.vocabulary) < 2 or len(documents) == 0:
        return None
    parts = [documents.take(range(at, min(at + 500, len(documents)))) for at in range(0, len(documents), 500)]
    found = coherence(
        top_words(fitted.mean, min(COHERENT_WORDS, len(fitted.vocabulary))), parts, len(fitted.vocabulary)
    )
    return {"npmi": found.npmi.tolist(), "documents": len(documents)}


def is_worse(held: dict[str, Any] | None) -> bool:
    """Whether held-out words are predicted no better than by word frequencies alone."""
    return held is not None and not held["perplexity"]["averaged"] < held["unigram_perplexity"]


def _warnings(fitted: Fitted, training: Training) -> list[str]:
    figures, found = fitted.figures, []
    if is_worse(held := figures["held_out"]):
        found.append(
            f"{WORSE} ({held['perplexity']['averaged']:,.0f} against {held['unigram_perplexity']:,.0f}): there are too "
            "few documents for so many topics, or they have no topics; try fewer"
        )
    if training.finder is not None and training.gain() >= CONVERGED_GAIN:
        gain = training.gain()
        fell = "was not judged" if math.isinf(gain) else f"still fell by {gain:.1%} for twice the documents"
        found.append(f"perplexity {fell} when finding ended: more passes may find better topics")
    pairs = duplicates(fitted.mean)
    if pairs:
        named = ", ".join(f"{one} and {other}" for one, other in pairs[:MOST_NAMED])
        more = f" and {len(pairs) - MOST_NAMED:,} more" if len(pairs) > MOST_NAMED else ""
        found.append(f"topics that are nearly the same: {named}{more}; fewer topics would do")
    topics, share = fitted.mean.shape[1], fitted.topic_shares()
    empty = [] if share is None else np.flatnonzero(share < EMPTY_SHARE / topics).tolist()
    if empty:
        named = ", ".join(map(str, empty[:MOST_NAMED])) + (", ..." if len(empty) > MOST_NAMED else "")
        found.append(f"topics that hardly any word belongs to: {len(empty):,} of {topics:,} ({named})")
    return found


def _checks(fitted: Fitted) -> list[dict[str, Any]]:
    """Name, passed (None: was not looked at), text."""
    figures, held = fitted.figures, fitted.figures["held_out"]
    gain, has_draws = figures["gain"], bool(fitted.draws)
    rows: list[tuple[str, bool | None, str]] = []
    if held is None:
        rows.append(("perplexity", None, "no documents were held out: how well words are predicted is unknown"))
    else:
        ours, theirs = held["perplexity"]["averaged"], held["unigram_perplexity"]
        text = f"{ours:,.0f} on {held['documents']:,} held-out documents, {theirs:,.0f} by word frequencies alone"
        rows.append(("perplexity", not is_worse(held), text))
    if fitted.found is not None:
        text = "was not judged" if gain is None else f"perplexity fell by {gain:.2%} while the documents seen doubled"
        rows.append(("convergence of finding", None if gain is None else gain < CONVERGED_GAIN, text))
    if not has_draws:
        text = "no draws: the topics are the averaged-count estimate, an optimiser's answer, which has no uncertainty"
        return _named([*rows, ("posterior", None, text)])
    ratio, effective, scale = figures["noise_ratio"], figures["effective_draws"], figures["scale_check"]
    told = "was not measured" if math.isnan(ratio) else f"is {ratio:.2g} of the injected noise"
    rows.append(("gradient noise", None if math.isnan(ratio) else ratio <= POSTERIOR_NOISE, f"gradient noise {told}"))
    least = figures.get("least_effective")
    told = "were not counted" if effective is None else f"{effective:,.0f} effective draws"
    told += "" if least is None else f", {least:,.0f} of the topic that has fewest"
    rows.append(("effective draws", None if least is None else least >= FEWEST_EFFECTIVE, told))
    if scale is None:
        rows.append(("scale of theta", None, "not checked"))
    else:
        rows.append(("scale of theta", scale["passed"], scale["text"]))
    unseen = figures.get("unseen_check")
    if unseen is not None:
        rows.append(("words not seen", unseen["passed"], unseen["text"]))
    is_settled = figures.get("priors_settled")
    told = "still drifted when they were frozen" if is_settled is False else "were learnt until they stayed, or given"
    rows.append(("priors", is_settled, f"alpha and gamma {told}"))
    told = "one chain from one start: other sets of topics as likely as these were not looked for"
    return _named([*rows, ("other modes", None, told)])


def _named(rows: list[tuple[str, bool | None, str]]) -> list[dict[str, Any]]:
    return [dict(zip(("name", "passed", "text"), row, strict=True)) for row in rows]
