"""All that changes while a model learns, in two phases: find topics by averaged counts, then sample from there.

It is sampled if bands are wanted. The finder is finding.py's, the chain that of samplers.py or scir.py; learning.py
drives both. A chain may also begin from nothing, as in the paper: then there is one phase.
"""

import math
from dataclasses import fields, replace
from typing import Any

import numpy as np

from ergodica.driver.checkpoint import Saved, Snapshot
from ergodica.driver.loop import now
from ergodica.lda.corpus import Documents, Vocabulary
from ergodica.lda.expanded_mean import AllTopics, Augmented, ExpandedMean, column_sums, draw_topics
from ergodica.lda.finding import Finder, LearntPriors, TopicPrior, learnt_priors
from ergodica.lda.perplexity import HeldOut, HistoryRow, watched_of
from ergodica.lda.run_files import TopicDrawFiles
from ergodica.lda.samplers import learner_of
from ergodica.lda.scale_check import (
    EffectiveDraws,
    ScaleCheck,
    UnseenCheck,
    at_posterior_scale,
    check_scales,
    check_unseen,
    effective_draws,
    has_settled,
)
from ergodica.lda.settings import TopicSettings
from ergodica.lda.steps import StepNoise, TopicChain, langevin_step, noise_of, splitting_step
from ergodica.lda.store import KeptDraws, Reservoir
from ergodica.lda.stream import DocumentBatch, DocumentStream

FIRST_EVALUATION = 1_000  # documents before the first evaluation on the held-out ones
EVALUATION_GROWTH = 1.3  # an evaluation comes when this many times the documents of the last one were seen,
EVALUATION_GAP = 4  # and at least this many times the number held out: they take a tenth to a fifth of the time
EVALUATION_SWEEPS = 30  # figures that are reported take more
PRIOR_DOCUMENTS = 5_000  # that the priors are learnt from
NOISE_MARGIN = 0.5  # the ratio of noises is measured, and it changes a little from one place to another
# the fraction of the way to the counts of all tokens that phi moves in a step while sampling: SCIR's transitions are
# exact but for theta_.k, which is held over a step; Euler's step and the splitting have boundaries at 0
AUGMENTED_RATES = {"scir": 0.5, "sgrld": 0.03, "sgrhmc": 0.03, "sgld": 0.01, "sghmc": 0.01}
# passes over the corpus while priors are learnt: until the means of the last two quarters are within 3 %
FEWEST_SETTLING, MOST_SETTLING = 16, 60
MOST_PARTINGS = 5  # of topics that overlap
CONVERGED_GAIN = 0.005  # of perplexity for twice the documents: less than that is not waited for
FINDING, SAMPLING = "finding", "sampling"


class Training:
    """All that changes while a model learns.

    Args:
        finder: None for a chain that begins from nothing.
        learner: the chain; None while topics are being found.
    """

    def __init__(
        self, settings: TopicSettings, model: ExpandedMean, seed: int, finder: Finder | None,
        learner: TopicChain | None,
    ):  # fmt: skip
        self.settings, self.model, self.seed, self.finder = settings, model, seed, finder
        self._learner = learner
        shape = (model.words, model.topics)
        self.draws = KeptDraws(settings.draws if settings.samples else 0, shape)
        self.counts = np.zeros(model.words, np.int64)
        self.documents = self.sampled_from = 0  # documents seen, and how many of them before sampling began
        self.size: float = 0  # S, at the last step
        self.sample = Reservoir(seed)
        self.held_out: HeldOut | None = None
        self.watched: HeldOut | None = None  # by which convergence is judged
        self.history: list[HistoryRow] = []
        self.seconds = {"learning": 0.0, "evaluating": 0.0}
        self.settled, self.is_frozen, self.steps_before = 0, True, 0  # of the priors, while sampling begins
        self.partings, self.judged_from = 0, 0  # of topics that overlapped, and the documents seen at the last one
        self.best: dict[str, np.ndarray] = {}  # before that
        self.trail: list[list[float]] = []  # alpha and gamma as they were learnt, pass by pass
        self.is_settled = True
        self.unseen: dict[int, tuple[float, float]] = {}  # at the same draws (`AllTopics.unseen_mass`)
        self.scales: dict[int, list[float]] = {}  # theta_.k after some steps
        self._written: dict[int, str] = {}  # the SHA-256 of draws that are beside a checkpoint already

    @property
    def phase(self) -> str:
        return FINDING if self._learner is None else SAMPLING

    @property
    def learner(self) -> TopicChain:
        assert self._learner is not None, "topics are still being found"
        return self._learner

    @property
    def steps(self) -> int:
        """Of both phases."""
        found = self.steps_before + (0 if self.finder is None else self.finder.steps)
        return found + (0 if self._learner is None else self._learner.steps)

    @property
    def phi(self) -> np.ndarray:
        """(words, topics), as it is now."""
        if self._learner is None and self.finder is not None:
            return self.finder.phi
        return self.learner.phi

    @property
    def gamma(self) -> float | np.ndarray:
        """The prior of a document's topics, as it is now."""
        if self._learner is None and self.finder is not None:
            return self.finder.prior.gamma
        return self.learner.model.gamma

    def hold_out(self, documents: Documents) -> None:
        """Documents to be evaluated while learning, and reported at the end."""
        if len(documents):
            self.held_out = HeldOut(documents, visit_seed(self.seed, "held out"))

    def step(self, batch: DocumentBatch, store: Any = None) -> None:
        if self._learner is None and self.finder is not None:
            self.finder.step(batch, store)
        else:
            self.learner.step(self._whole(batch))
            if self.is_frozen:
                self._keep_draw()
        if not batch.is_known:
            self.sample.add(batch.documents)
        self.counts += np.bincount(batch.documents.words, minlength=len(self.counts))
        self.documents += len(batch.documents)
        self.size = batch.size

    def _whole(self, batch: DocumentBatch) -> DocumentBatch:
        """A batch as the chain takes it: of a chain that counts all tokens it stands for the corpus as it is."""
        model = self.learner.model
        if not isinstance(model, Augmented):
            return batch
        model.state.places = np.zeros(0, np.int64) if batch.places is None else batch.places
        return batch._replace(size=len(batch.documents))

    def _keep_draw(self) -> None:
        step, learner = self.learner.steps, self.learner
        if not self.draws.is_due(step):
            return
        self.draws.add(step, learner.phi)
        if learner.fixed_size is not None:
            self.scales[step] = learner.theta.sum(axis=0, dtype=np.float64).tolist()
            if isinstance(learner.model, Augmented):
                self.unseen[step] = learner.model.state.unseen_mass(self.draws.held[step], learner.model.alpha)
                self.unseen = {at: pair for at, pair in self.unseen.items() if at in self.draws.held}
            self.scales = {at: row for at, row in self.scales.items() if at in self.draws.held}

    def begin_sampling(self, stream: DocumentStream) -> None:
        """From the topics found, at the scale of the posterior; the priors follow until they are frozen."""
        finder = self.finder
        assert finder is not None
        given = self.settings.alpha_given, self.settings.gamma_given
        start = LearntPriors(finder.prior.gamma, finder.alpha)
        if stream.store is not None:
            draw_topics(stream.store, finder.phi, start.gamma, visit_seed(self.seed, "begin"))
        priors = self._priors(start, stream)
        model = self._posterior(priors.alpha, priors.gamma, stream)
        self.is_frozen = not isinstance(model, Augmented) or None not in given
        self._start_chain(model, finder.phi)

    def _start_chain(self, model: ExpandedMean, phi: np.ndarray) -> None:
        self.steps_before += 0 if self._learner is None else self._learner.steps
        seed = visit_seed(self.seed, f"chain {self.settled}") % 2**32
        self._learner = learner_of(model, self.settings.sampler, replace(self.settings, alpha=model.alpha), seed)
        self._learner.start_at(at_posterior_scale(phi, model.alpha, visit_seed(seed, "scale") % 2**63))
        self.sampled_from = self.documents
        if self.settings.noise is not None:
            self._learner.fixed_size = self._posterior_step(self._learner)

    def settle(self, stream: DocumentStream) -> None:
        """After a pass over the corpus: learn the priors from the topics as sampled now, and freeze them if they stay.

        That is stochastic EM (Celeux and Diebolt, 1985): topics are drawn from their posterior given the priors, priors
        made likeliest given the topics; they are frozen at their mean over the last half of the passes.
        """
        chain = self.learner
        old = LearntPriors(np.asarray(chain.model.gamma), chain.model.alpha)
        new = self._priors(old, stream)
        self.settled += 1
        self.trail.append([new.alpha, *new.gamma.tolist()])
        self.is_settled = self.settled >= FEWEST_SETTLING and has_settled(np.array(self.trail))
        self.is_frozen = self.is_settled or self.settled >= MOST_SETTLING
        if self.is_frozen:
            mean = np.mean(self.trail[len(self.trail) // 2 :], axis=0)
            new = LearntPriors(mean[1:].astype(np.float32), float(mean[0]))
        self._start_chain(replace(chain.model, alpha=new.alpha, gamma=new.gamma), chain.phi)

    def _posterior(self, alpha: float, gamma: np.ndarray, stream: DocumentStream) -> ExpandedMean:
        """What is sampled: with the topics of all tokens where they are kept, else from batches alone."""
        model = replace(self.model, size=1, alpha=alpha, gamma=gamma)
        if stream.store is None or not stream.store.keeps_topics or self.settings.size not in (None, len(stream.store)):
            return model  # S documents of which only some are here have other conditionals
        numbers = {one.name: getattr(model, one.name) for one in fields(model)}
        return Augmented(**numbers, state=AllTopics(stream.store, model.words, model.topics))

    def _posterior_step(self, chain: TopicChain) -> float:
        """So small that gradient noise is what the settings want; without any, that phi keeps most of where it is."""
        if isinstance(chain.model, Augmented):
            totals, scales = column_sums(chain.model.state.counts), column_sums(chain.theta)
            by_topic = AUGMENTED_RATES[self.settings.sampler] / (1 + totals / scales)
            moved = float(by_topic.min())
            if self.settings.sampler == "scir":  # whose columns have steps of their own: a small topic moves as far
                chain.topic_steps = by_topic / moved
            has_momentum = "momentum" in chain.recipe.diffusion
            return splitting_step(moved, self.settings.friction or 1) if has_momentum else moved
        noise, longest = self.noise(), chain.step_size(0)
        return longest if noise is None else noise.step_size(NOISE_MARGIN * (self.settings.noise or 1))

    def _priors(self, start: LearntPriors, stream: DocumentStream) -> LearntPriors:
        """A person's own, else the likeliest given the topics that tokens were last sampled in."""
        fixed, store, learnt = self.settings, stream.store, start
        if store is not None and store.keeps_topics and len(store):
            places = np.arange(len(store))
            if len(store) > PRIOR_DOCUMENTS:
                places = np.random.default_rng(self.seed).choice(places, PRIOR_DOCUMENTS, replace=False)
            learnt = learnt_priors(store.take(places), store.topics(places), self.model.words, start)
        gamma = learnt.gamma if fixed.gamma_given is None else np.full(len(learnt.gamma), fixed.gamma_given)
        alpha = learnt.alpha if fixed.alpha_given is None else fixed.alpha_given
        return LearntPriors(np.asarray(gamma, np.float32), float(alpha))

    def noise(self) -> StepNoise | None:
        """At the topics as they are, from the sample documents; None where there are too few, or no chain."""
        documents = self.sample.documents
        if self._learner is None or len(documents) < 2 or isinstance(self._learner.model, Augmented):
            return None
        model, learner = replace(self.learner.model, size=self.size), self.learner
        return noise_of(
            model, learner.recipe, learner.theta, documents, batch_size=self.settings.batch_size or len(documents),
            seed=visit_seed(self.seed, "noise"), visit=self.documents,
        )  # fmt: skip

    def scale_check(self) -> ScaleCheck | None:
        """Of the law of theta_.k; None where no chain was given its scale."""
        if self.finder is None or self._learner is None or not self.scales:
            return None
        chain, steps = self.learner, np.array(sorted(self.scales))
        friction = self.settings.friction if "momentum" in chain.recipe.diffusion else None
        times = steps[:, None] * langevin_step(chain.fixed_size or 0.0, friction) * chain.topic_steps
        rows = np.array([self.scales[step] for step in steps.tolist()])
        return check_scales(rows, chain.model.words * chain.model.alpha, np.broadcast_to(times, rows.shape))

    def unseen_check(self) -> UnseenCheck:
        return check_unseen(np.array(list(self.unseen.values())))

    def effective(self) -> EffectiveDraws:
        """Effective draws among those kept; NaN where there are too few."""
        held = self.draws.chosen(self.learner.steps) if self._learner is not None else {}
        return effective_draws(np.stack(list(held.values()))) if len(held) > 1 else EffectiveDraws(math.nan, math.nan)

    def is_evaluation_due(self) -> bool:
        watched = self.held_out or self.watched
        if self.settings.finds and self.phase == SAMPLING:
            return False  # the draws are evaluated at the end
        if watched is None or not self.history:
            return self.documents >= FIRST_EVALUATION and (watched is not None or self.settings.finds)
        last = self.history[-1].documents
        return self.documents >= max(EVALUATION_GROWTH * last, last + EVALUATION_GAP * len(watched.documents))

    def evaluate(self) -> None:
        """On the held-out documents, unless that was done at this very place.

        Without any, and to judge convergence alone, on some that are learnt from.
        """
        if self.history and self.history[-1].documents == self.documents:
            return
        watched = self.held_out or self.watched
        if watched is None and self.settings.finds:
            watched = self.watched = watched_of(self.sample.documents, visit_seed(self.seed, "watched"))
        if watched is None:
            return
        begin = now()
        single, averaged = watched.evaluate(self.phi, self.gamma, EVALUATION_SWEEPS, is_warm=self.settings.finds)
        # predictions of an estimate on its way are no draws to average
        averaged = single if self.settings.finds else averaged
        self.history.append(HistoryRow(self.documents, self.seconds["learning"], single, averaged))
        self.seconds["evaluating"] += now() - begin

    def gain(self) -> float:
        """The fraction by which perplexity fell while documents seen doubled, by the last evaluation; inf: unknown."""
        rows = [row for row in self.history if row.documents > self.judged_from]
        if len(rows) < 2 or rows[-1].documents - self.judged_from < 2 * (rows[0].documents - self.judged_from):
            return math.inf
        seen = np.log([row.documents - self.judged_from for row in rows])
        logs = np.log([row.single for row in rows])
        return float(np.interp(seen[-1] - math.log(2), seen, logs) - logs[-1])

    def find_on(self) -> None:
        """Back to finding, for documents that come after a chain has sampled: they are not sampled.

        What the chain held is given back: the topics of all tokens, and the room for draws.
        """
        if self.finder is not None and self._learner is not None:
            self.steps_before += self._learner.steps
            self._learner, self.scales, self.settled, self.is_frozen, self.trail = None, {}, 0, True, []
            self.unseen = {}
            self.draws = KeptDraws(0, (self.model.words, self.model.topics))

    def resume(self, state: dict[str, np.ndarray], figures: dict[str, Any]) -> None:
        """Continue where a finished run ended: finding, or the chain where there is no finder."""
        if self.finder is not None:
            self.finder.restore({name.removeprefix("finder_"): a for name, a in state.items() if "finder_" in name})
        else:
            self.learner.restore(state)
            self.learner.fixed_size = figures["fixed_size"]

    def is_best(self, stream: DocumentStream) -> bool:
        """Once perplexity falls no more: whether finding is over. Topics that overlap are parted and it continues; it
        is over where that did not help, with the topics as they were before, or where no two overlap."""
        finder, now_at = self.finder, self.history[-1].single
        assert finder is not None
        if self.best and now_at > (1 - CONVERGED_GAIN) * float(self.best["perplexity"]):
            if now_at > float(self.best["perplexity"]):
                finder.return_to(self.best)
            return True
        self.best = finder.answer() | {"perplexity": np.array(now_at)}
        if self.partings == MOST_PARTINGS or not finder.part_topics(stream.store):
            return True
        self.partings, self.judged_from = self.partings + 1, self.documents
        return False

    def snapshot(self) -> Snapshot:
        """For a checkpoint; nothing in it changes later."""
        arrays: dict[str, np.ndarray] = {"counts": self.counts.copy()}
        arrays |= {} if self._learner is None else self._learner.saved()
        arrays |= {} if self.finder is None else {f"finder_{name}": a for name, a in self.finder.saved().items()}
        if self._learner is not None and self.finder is not None:
            arrays["chain_gamma"] = np.asarray(self._learner.model.gamma)
        arrays |= {f"best_{name}": array for name, array in self.best.items()}
        sample, labels = self.sample.saved()
        arrays |= sample
        for name, watched in (("held", self.held_out), ("watched", self.watched)):
            arrays |= {} if watched is None else watched.saved(name)
        record = {
            "documents": self.documents, "size": self.size, "seconds": dict(self.seconds), "every": self.draws.every,
            "history": [list(row) for row in self.history], "phase": self.phase, "sampled_from": self.sampled_from,
            "fixed_size": None if self._learner is None else self._learner.fixed_size, "labels": labels,
            "partings": [self.partings, self.judged_from],
            "settled": [self.settled, self.is_frozen, self.steps_before, self.trail, self.is_settled],
            "chain_alpha": None if self._learner is None else self._learner.model.alpha,
            "scales": {str(step): row for step, row in self.scales.items()},
            "unseen": {str(step): list(pair) for step, pair in self.unseen.items()},
        }  # fmt: skip
        return Snapshot(arrays, record, TopicDrawFiles(dict(self.draws.held), self._written))

    def restore(self, saved: Saved, draws: dict[int, np.ndarray], stream: DocumentStream | None = None) -> None:
        """With the stream where it was, which a run of two phases needs."""
        arrays, record = saved.arrays, saved.record
        if self.finder is not None:
            state = {name.removeprefix("finder_"): a for name, a in arrays.items() if name.startswith("finder_")}
            self.finder.restore(state)
            if record["phase"] == SAMPLING and stream is not None:
                self.settled, self.is_frozen, self.steps_before, self.trail, self.is_settled = record["settled"]
                model = self._posterior(record["chain_alpha"], arrays["chain_gamma"], stream)
                seed = visit_seed(self.seed, f"chain {self.settled}") % 2**32
                settings = replace(self.settings, alpha=model.alpha)
                self._learner = learner_of(model, self.settings.sampler, settings, seed)
        if self._learner is not None:
            self._learner.restore(arrays)
            self._learner.fixed_size = record["fixed_size"]
        self.counts, self.documents = arrays["counts"].copy(), int(record["documents"])
        self.size, self.sampled_from = record["size"], int(record["sampled_from"])
        self.sample.restore(arrays, record["labels"])
        self.partings, self.judged_from = record["partings"]
        self.best = {name.removeprefix("best_"): array for name, array in arrays.items() if name.startswith("best_")}
        self.seconds = dict(record["seconds"])
        self.history = [HistoryRow(int(row[0]), *row[1:]) for row in record["history"]]
        self.draws.restore(int(record["every"]), draws)
        self.scales = {int(step): row for step, row in record["scales"].items()}
        self.unseen = {int(step): (pair[0], pair[1]) for step, pair in record["unseen"].items()}
        if "watched_total" in arrays:
            documents = Documents(arrays["watched_starts"], arrays["watched_words"])
            self.watched = HeldOut(documents, visit_seed(self.seed, "watched"))
        for name, watched in (("held", self.held_out), ("watched", self.watched)):
            if watched is not None and f"{name}_total" in arrays:
                watched.restore(name, arrays)


def begin(settings: TopicSettings, parameters: dict[str, Any], vocabulary: Vocabulary) -> Training:
    """A model that has seen nothing."""
    seed, words, topics = parameters["seed"], len(vocabulary), parameters["topics"]
    model = ExpandedMean(
        words=words, topics=topics, size=1, alpha=settings.alpha, gamma=settings.gamma, sweeps=settings.sweeps,
        burn_in=settings.burn_in, estimator=settings.estimator, start=settings.start, floor=settings.floor,
    )  # fmt: skip
    if not settings.finds:
        return Training(settings, model, seed, None, learner_of(model, settings.sampler, settings, seed))
    find = settings.finding
    prior = TopicPrior(topics, find.gamma, settings.gamma_given is not None)
    return Training(
        settings, model, seed, Finder(words, topics, find.alpha, prior, find.sweeps, find.burn_in, seed), None
    )


def visit_seed(seed: int, purpose: str) -> int:
    """A seed for other random numbers than those of learning."""
    return int(np.random.SeedSequence([seed, *purpose.encode()]).generate_state(1, np.uint64)[0])
