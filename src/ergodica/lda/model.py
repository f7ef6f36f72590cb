"""LDA as people use it: fit on a stream, see topics, infer shares, save and load; with scikit-learn's methods."""

import inspect
import warnings
from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import Any, overload

import numpy as np

from ergodica.driver.checkpoint import check_same
from ergodica.errors import InputError
from ergodica.host.atomic_files import remove_folder
from ergodica.lda import run_files
from ergodica.lda.chains import Training, begin, visit_seed
from ergodica.lda.corpus import Corpus, Documents, Vocabulary
from ergodica.lda.corpus.reading import AT_A_TIME, numbered
from ergodica.lda.corpus.tally import Tally
from ergodica.lda.corpus.tokenizing import Reading, StopWordsLike, TokenizerLike, tokenizer_of
from ergodica.lda.corpus.vocabulary import VocabularyLike
from ergodica.lda.learning import Learning, learn
from ergodica.lda.outcome import averaged_draws, conclude, is_worse, versions
from ergodica.lda.perplexity import DEVIATION_RUNS, HistoryRow, Perplexity, perplexity, share_deviations, shares
from ergodica.lda.run_files import Fitted
from ergodica.lda.settings import TopicSettings, settings_of
from ergodica.lda.sklearn_methods import EstimatorMethods, as_counts, as_known_counts, column_names
from ergodica.lda.stream import DocumentStream
from ergodica.lda.topics import BAND_EDGES, Coherence, Topic, coherence, top_words, topics_of
from ergodica.report import plain


class LDA(EstimatorMethods):
    """Topics of documents (latent Dirichlet allocation), found fast and, if wanted, with their uncertainty.

    Use it for a thousand documents or for a stream of millions: text is read once in bounded memory, and the methods
    are those of scikit-learn: fit, partial_fit, transform, score.

    Each topic is a distribution over words, phi_k. By default topics are *found*, by averaged counts (`Finder`): an
    optimiser's answer, the averaged-count estimate. With `bands=True` they are then *sampled*: a chain starts there and
    draws from the posterior, so that every probability has a band. In the expanded mean of Patterson and Teh (2013),
    phi_k = theta_k / sum_w theta_wk (see `ExpandedMean` for the potential U), the samplers are those of the general
    recipe (Ma, Chen and Fox, 2015), which leave exp(-U) invariant as the step size goes to 0:

    - "scir", the default: SGRLD's equation by exact Cox-Ingersoll-Ross transitions (Baker et al., 2018).
    - "sgrld": H = U(theta), D = diag(theta), Q = 0; see `eg.sgrld`.
    - "sgrhmc": H = U(theta) + |r|^2 / 2, D = diag(0, C), Q = [[0, -G^-1/2], [G^-1/2, 0]] with G^-1 = diag(theta); see
      `eg.sgrhmc`.
    - "sghmc", "sgld": the same without a metric, for comparison; rare words hardly move. See `eg.sghmc`, `eg.sgld`.

    Args:
        topics: how many; `ergodica lda choose` helps.
        sampler: None: topics are found, and sampled by "scir" where bands are wanted. A name without bands: that chain
            alone, from nothing, as in the papers.
        preset: "tuned"; "posterior": as bands=True; "paper": the settings of Ma, Chen and Fox (2015).
        seed: the same seed gives the same topics, bit for bit.
        vocabulary: the path of a file with one word a line, or a list of words, a vectoriser or dictionary that has
            them; None: the columns of a matrix are numbered, and for texts it is built from the first documents.
        bands: sample after finding, to 200 effective draws.
        minutes: where to end, of both together; what is left after finding is for sampling.
        batch_size, sweeps, burn_in, estimator, alpha, gamma, step_size: instead of what is chosen. alpha is the prior
            of words in a topic, gamma that of topics in a document: learnt, if they are not given; step_size a number,
            or (a, b, c) for a (1 + t/b)^-c.
        passes: over the corpus while finding; None: until perplexity falls by less than 0.5 % for twice the documents.
        held_out: documents at the stream's beginning that are kept for perplexity; None: 1,000, or a tenth of a smaller
            corpus.
        size: S, the documents of the whole corpus that the posterior is of; None: the number there are.
        draws: how many to keep for bands; None: 200, or 20 of a chain from nothing.
        field, lines, tokenizer, stopwords, phrases: how text is read, see `Corpus`.
        progress: show a line while learning, on a terminal.

    Example:
        >>> import ergodica as eg
        >>> texts = ["the ship left the harbour", "bread and butter", "a ship in a harbour", "butter on bread"] * 5
        >>> model = eg.lda.LDA(topics=2, vocabulary=["ship", "harbour", "bread", "butter"])
        >>> model.fit(texts).transform(["bread, butter, bread"]).shape
        (1, 2)

    References:
        Patterson and Teh (2013), Stochastic Gradient Riemannian Langevin Dynamics on the Probability Simplex, NIPS 26.
        Ma, Chen and Fox (2015), A Complete Recipe for Stochastic Gradient MCMC, https://arxiv.org/abs/1506.04696.
        Baker, Fearnhead, Fox and Nemeth (2018), https://arxiv.org/abs/1806.07137.
    """

    def __init__(
        self, topics: int = 50, sampler: str | None = None, preset: str = "tuned", seed: int = 0, *,
        vocabulary: VocabularyLike | None = None, bands: bool = False, minutes: float | None = None,
        batch_size: int | None = None, passes: int | None = None, held_out: int | None = 0, size: float | None = None,
        alpha: float | None = None, gamma: float | None = None, sweeps: int | None = None, burn_in: int | None = None,
        estimator: str | None = None, step_size: float | tuple[float, float, float] | None = None,
        draws: int | None = None, field: str | None = None, lines: bool = False, tokenizer: TokenizerLike = None,
        stopwords: StopWordsLike = None, phrases: bool = False, progress: bool = True,
    ):  # fmt: skip
        # Kept as given and checked in `fit`, as scikit-learn's clone wants it; apart, as `topics` is a method too.
        given = dict(locals())
        self._parameters = {name: given[name] for name in LDA_PARAMETERS}
        self._training: Training | None = None
        self._fitted: Fitted | None = None

    @classmethod
    def _defaults(cls) -> dict[str, Any]:
        return {name: parameter.default for name, parameter in inspect.signature(LDA).parameters.items()}

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__ | {"_training": None}  # it is made again from what was learnt

    def fit(self, corpus: Any, y: Any = None, *, out: str | Path | None = None, resume: bool = False) -> "LDA":
        """Learn from whatever a `Corpus` is made from, or from a Corpus, from the beginning.

        Args:
            y: not used; scikit-learn's pipelines give it.
            out: a folder for the run, with a checkpoint every few seconds until it is finished.
            resume: continue a run that was stopped, or give back one that is finished.
        """
        settings = settings_of(self._parameters)
        if isinstance(corpus, Corpus) and settings.finds and settings.samples:
            raise InputError("bands need every document again: give what the Corpus is made from instead of the Corpus")
        if resume and out is None:
            raise InputError("resume=True needs the folder of the run: out=...")
        folder = None if out is None else Path(out)
        with nullcontext() if folder is None else run_files.run_folder(folder, resume):
            stream = self._stream(corpus, settings, folder=folder)
            identity = self._identity(settings, stream)
            if folder is not None and run_files.is_finished(folder, identity):
                self._fitted, self._training = run_files.read_run(folder), None
                return self
            training = begin(settings, self._parameters, stream.corpus.vocabulary)
            training.hold_out(stream.corpus.held_out)
            found = None if folder is None else run_files.read_unfinished(folder)
            if folder is not None and found is not None:
                saved, draws = found
                check_same(saved.record["identity"], identity, folder)
                stream.seek(saved.record["cursor"])
                if stream.store is not None:
                    stream.store.restore(saved.arrays)
                training.restore(saved, draws, stream)
            self._learn(settings, training, stream, identity, folder)
        return self

    def partial_fit(self, corpus: Any, y: Any = None) -> "LDA":
        """Learn from some more documents, each seen once; the first call settles the vocabulary.

        Topics are found, not sampled: for bands fit all documents. A chain alone (`sampler=`) samples the posterior of
        all documents so far, unless the model was given a `size`.
        """
        settings = settings_of(self._parameters)
        training = self._going_on(settings)
        stream = self._stream(corpus, settings, training, is_part=True)
        if training is None:
            training = begin(settings, self._parameters, stream.corpus.vocabulary)
        self._learn(settings, training, stream, {}, None)
        return self

    def fit_transform(self, corpus: Any, y: Any = None) -> np.ndarray:
        """Learn, then the topic shares of the same documents; of what can be read twice."""
        return self.fit(corpus).transform(corpus)

    @overload
    def transform(self, corpus: Any) -> np.ndarray: ...

    @overload
    def transform(self, corpus: Any, return_sd: bool) -> Any: ...

    def transform(self, corpus: Any, return_sd: bool = False) -> Any:
        """(documents, topics): topic shares, one row for each document; rows add up to 1.

        A document with no word of the vocabulary gets the prior, gamma_k / sum_k gamma_k.

        Args:
            return_sd: give (shares, deviations), the standard deviation of each share beside it, in about eight times
                the time: that of the document's own topics and, where topics were sampled, also of theirs; see
                `share_deviations` for the formula.
        """
        fitted, rows, deviations = self._known, [], []
        phis, seed, visit = self._phis(), visit_seed(self._seed, "deviations"), 0
        for documents, found in self.infer_labelled(corpus):
            rows.append(found)
            if return_sd:
                deviations.append(share_deviations(phis, documents, fitted.gamma, seed, visit))
                visit += len(documents)
        none = np.zeros((0, fitted.mean.shape[1]))
        found = np.concatenate([none, *rows])
        return (found, np.concatenate([none, *deviations])) if return_sd else found

    def _phis(self) -> list[np.ndarray]:
        """What shares are averaged over: draws of the topics; where there are none the topics, again and again."""
        return averaged_draws(self._known) or [self._known.mean] * DEVIATION_RUNS

    def infer(self, corpus: Any) -> Iterator[np.ndarray]:
        """`transform` of a stream, some documents at a time."""
        for _, rows in self.infer_labelled(corpus):
            yield rows

    def infer_labelled(self, corpus: Any, tally: Tally | None = None) -> Iterator[tuple[Documents, np.ndarray]]:
        """`infer`, each part with its documents, whose `labels` have their ids, titles and file names.

        Args:
            tally: where what was empty, cut or could not be read is counted.
        """
        fitted, visit = self._known, 0
        seed = visit_seed(self._seed, "infer")
        for documents in self._numbered(corpus, tally):
            yield documents, shares(fitted.mean, documents, fitted.gamma, seed, visit)
            visit += len(documents)

    def topics(self, count: int = 10) -> list[Topic]:
        """The top words of every topic, with bands from the draws kept; what the bands are is `model.band`."""
        fitted = self._known
        return topics_of(fitted.mean, list(fitted.draws.values()), fitted.topic_shares(), fitted.vocabulary, count)

    def bands(self) -> tuple[np.ndarray, np.ndarray]:
        """(low, high), each (topics, words): what holds 90 % of the draws of every probability."""
        if not self._known.draws:
            raise InputError("there are no bands: the topics were found, not sampled; call fit with bands=True")
        draws = np.stack(list(self._known.draws.values()))
        low, high = np.quantile(draws, BAND_EDGES, axis=0)
        return low.T, high.T

    @property
    def band(self) -> str:
        """What the bands are: "posterior interval", "not a posterior" where the law of theta_.k does not hold, "sampler
        spread" where that is unknown, "none" where there are no draws."""
        return self._known.figures["band"]

    @property
    def noise_ratio(self) -> float:
        """Gradient noise over injected noise, measured at the last step."""
        return float(self._known.figures["noise_ratio"])

    def perplexity(self, corpus: Any) -> Perplexity:
        """By document completion, of documents that were not learnt from: of the last draw, and averaged over draws."""
        fitted = self._known
        seed = visit_seed(self._seed, "perplexity")
        with self._corpus(corpus) as batches:
            single = fitted.phi if fitted.draws else fitted.mean
            return perplexity(single, averaged_draws(fitted), batches, fitted.gamma, fitted.counts, seed)

    def coherence(self, corpus: Any, count: int = 10) -> Coherence:
        """NPMI and u_mass of the top words of every topic, by the documents that hold them."""
        fitted = self._known
        with self._corpus(corpus) as batches:
            return coherence(top_words(fitted.mean, count), batches, len(fitted.vocabulary))

    def save(self, folder: str | Path) -> None:
        """Write plain files into a folder that does not exist yet; `eg.lda.LDA.load` reads them."""
        path = Path(folder)
        fitted = self._known
        try:
            path.mkdir(parents=True)
        except FileExistsError:
            raise InputError(f"{path} exists: give a folder that does not") from None
        run_files.write_run(path, fitted, self.topics(run_files.WORDS_LISTED))

    @classmethod
    def load(cls, folder: str | Path, tokenizer: TokenizerLike = None) -> "LDA":
        """A model from the folder that `save`, or `fit` with `out`, wrote.

        Args:
            tokenizer: the function that texts were made words by, where it was one: a file cannot hold it.
        """
        fitted = run_files.read_run(Path(folder))
        if tokenizer is not None:
            fitted.vocabulary = _tokenized(fitted.vocabulary, tokenizer, folder)
        model = cls(**fitted.parameters, vocabulary=fitted.vocabulary, tokenizer=tokenizer)
        model._fitted = fitted
        return model

    @property
    def components_(self) -> np.ndarray:
        """(topics, words): the mean of the draws; where there are none, the averaged-count estimate."""
        return np.ascontiguousarray(self._known.mean.T)

    @property
    def vocabulary_(self) -> Vocabulary:
        return self._known.vocabulary

    @property
    def history_(self) -> list[HistoryRow]:
        """Perplexity while learning: documents, seconds, single, averaged."""
        return self._known.history

    @property
    def figures_(self) -> dict[str, Any]:
        """What run.json says: settings, versions, held-out perplexity, timings."""
        return self._known.figures

    @property
    def _seed(self) -> int:
        return int(self._parameters["seed"])

    def _corpus(self, given: Any) -> Corpus:
        """Documents to evaluate, in their order; those shorter than two words are left out."""
        if isinstance(given, Corpus):
            return given
        vocabulary, reading = self._known.vocabulary, self._reading
        return Corpus(
            as_known_counts(given, vocabulary), vocabulary, batch_size=AT_A_TIME, shuffle_buffer=1, field=reading.field,
            lines=reading.lines,
        )  # fmt: skip

    def _numbered(self, given: Any, tally: Tally | None = None) -> Iterator[Documents]:
        """Documents to infer, one for every input."""
        vocabulary = self._known.vocabulary
        return numbered(as_known_counts(given, vocabulary), vocabulary, self._reading, tally)

    def _stream(
        self, given: Any, settings: TopicSettings, training: Training | None = None, is_part: bool = False,
        folder: Path | None = None,
    ) -> DocumentStream:  # fmt: skip
        parameters = self._parameters
        vocabulary = parameters["vocabulary"] if training is None else self._known.vocabulary
        seen, before = (0, 0) if training is None else (training.documents, training.size)
        passes = 1 if is_part else None if settings.finds else parameters["passes"]
        if not isinstance(given, Corpus):
            names = column_names(given)
            given = as_counts(given) if training is None else as_known_counts(given, vocabulary)
            vocabulary = names if vocabulary is None else vocabulary
        return DocumentStream(
            given, vocabulary,
            held_out=0 if is_part else parameters["held_out"], passes=passes,
            batch_size=parameters["batch_size"] if settings.finds else settings.batch_size, size=settings.size,
            visit=seen, before=before, seed=visit_seed(self._seed, f"order {seen}") % 2**32,
            stored=settings.finds and not is_part, folder=folder, reading=self._reading_options,
            topics=parameters["topics"],
        )  # fmt: skip

    @property
    def _reading_options(self) -> dict[str, Any]:
        return {name: self._parameters[name] for name in READING_OPTIONS}

    @property
    def _reading(self) -> Reading:
        """Of documents to infer: their tokeniser is the vocabulary's."""
        return Reading(field=self._parameters["field"], lines=self._parameters["lines"])

    def _identity(self, settings: TopicSettings, stream: DocumentStream) -> dict[str, Any]:
        """What a run is made of, as JSON holds it."""
        told = {
            name: self._parameters[name] for name in ("topics", "seed", "held_out", "stopwords", "phrases", "field")
        }
        corpus = stream.corpus.cursor["corpus"]
        return plain({**told, **settings.to_dict(), "corpus": corpus, "versions": versions()})

    def _learn(
        self, settings: TopicSettings, training: Training, stream: DocumentStream, identity: dict[str, Any],
        folder: Path | None,
    ) -> None:  # fmt: skip
        place = None if folder is None else folder / run_files.CHECKPOINT_FOLDER
        try:
            error = learn(Learning(training, stream, identity), place, self._parameters["progress"])
        except InputError:
            if place is not None and not training.steps:  # nothing was learnt, so that there is nothing to resume
                remove_folder(place, place.with_name("run.json"))
            raise
        finally:
            stream.close()
        stopped = None if error is None else str(error)
        notes = {"identity": identity, "notes": stream.corpus.notes(), "stopped": stopped}
        self._fitted = conclude(training, settings, stream.corpus.vocabulary, self._parameters, notes)
        training.find_on()
        self._training = training
        if folder is not None:
            run_files.write_run(folder, self._fitted, self.topics(run_files.WORDS_LISTED))
            remove_folder(folder / run_files.CHECKPOINT_FOLDER, folder / "run.json")
        if error is not None:
            raise error
        if is_worse(self.figures_["held_out"]):  # the first of its warnings; the others can wait for who asks
            warnings.warn(self.figures_["warnings"][0], stacklevel=3)

    def _going_on(self, settings: TopicSettings) -> Training | None:
        """What further documents are learnt by; of a model that was loaded, made again from its files."""
        if self._training is None and self._fitted is not None:
            fitted = self._fitted
            training = begin(settings, self._parameters, fitted.vocabulary)
            training.resume(fitted.state, fitted.figures)
            training.counts, training.history = fitted.counts.copy(), list(fitted.history)
            training.documents, training.size = int(fitted.figures["documents"]), float(fitted.figures["size"])
            training.draws.restore(fitted.every, fitted.draws)
            self._training = training
        return self._training


def _tokenized(vocabulary: Vocabulary, tokenizer: TokenizerLike, folder: str | Path) -> Vocabulary:
    """The vocabulary with the tokeniser that it had."""
    before, given = vocabulary.tokenizer, tokenizer_of(tokenizer)
    if before.is_named and given.name != before.name:
        raise InputError(
            f"{folder} was learnt with the tokenizer {before.name!r}, and got {given.name}: leave tokenizer out"
        )
    return Vocabulary(vocabulary.words, tokenizer=given)


READING_OPTIONS = ("field", "lines", "tokenizer", "stopwords", "phrases")
LDA_PARAMETERS = tuple(inspect.signature(LDA).parameters)
