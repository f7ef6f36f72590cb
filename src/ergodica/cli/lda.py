"""`ergodica lda`: topics of a stream of documents, from the command line."""

import json
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import click

from ergodica.cli.arguments import load
from ergodica.cli.sample import plain_warnings
from ergodica.errors import InputError
from ergodica.report import plain

DEMO_CORPUS, DEMO_TOPICS = "demo", 10
TOPICS_NAMED = 3  # topics of a document, and words of a topic, that are printed


run_argument = click.argument("run", type=click.Path(path_type=Path))
field_option = click.option("--field", help="Of JSON lines and tables, the one with the text.  [default: text]")


def _function(context: Any, parameter: Any, given: str | None) -> Any:
    """A tokeniser by name, or the function that `module:name` is."""
    return load(given) if given is not None and ":" in given else given


def _step_size(context: Any, parameter: Any, given: str | None) -> Any:
    try:
        numbers = None if given is None else tuple(float(part) for part in given.split(","))
    except ValueError:
        numbers = ()
    if numbers is not None and len(numbers) not in (1, 3):
        raise InputError(f"--step is {given!r}: expected a number, or a,b,c for a (1 + t/b)^-c")
    return numbers


def tokenizer_option(more: str) -> Callable:
    return click.option(
        "--tokenizer", callback=_function,
        help=f"words, hoffman, whitespace, or a function by module:name, such as jieba:lcut.{more}",
    )  # fmt: skip


def reading_options(command: Callable) -> Callable:
    """How text is read, where a vocabulary may be built."""
    for option in (
        click.option("--phrases", is_flag=True, help="Pairs of words that belong together become words: new_york."),
        click.option(
            "--stopwords",
            metavar="LANGUAGE",
            callback=lambda context, parameter, given: () if given == "none" else given,
            help="Left out of the vocabulary; none for none.  [default: english]",
        ),
        tokenizer_option("  [default: words]"),
        click.option("--lines", is_flag=True, help="Every line of a text file is a document."),
        field_option,
        click.option("--vocab", help="A file with one word a line; else built from CORPUS."),
    ):
        command = option(command)
    return command


@click.group(name="lda")
def lda_commands() -> None:
    """Topics of a stream of documents (latent Dirichlet allocation)."""


@lda_commands.command(name="fit")
@click.argument("corpus", nargs=-1, required=True)
@click.option("--topics", type=int, help="How many.  [default: 50, for the demo 10]")
@click.option("--out", type=click.Path(path_type=Path), required=True, help="A folder for the run.")
@click.option("--bands", is_flag=True, help="After finding topics sample them, so that every probability has a band.")
@click.option("--minutes", type=float, help="Where to end; what is left after finding is for sampling.")
@reading_options
@click.option(
    "--held-out", type=int, help="Documents kept for perplexity.  [default: 1000, or a tenth of a smaller corpus]",
)  # fmt: skip
@click.option("--passes", type=int, help="Over the corpus while finding; until perplexity hardly falls if left out.")
@click.option("--batch-size", type=int, help="Documents of a batch; by the size of the corpus if left out.")
@click.option("--alpha", type=float, help="Prior of words in a topic; learnt if left out.")
@click.option("--gamma", type=float, help="Prior of topics in a document; learnt if left out.")
@click.option("--size", type=float, help="Documents of the corpus that the posterior is of; counted if left out.")
@click.option("--sweeps", type=int, help="Of Gibbs sampling over a document.")
@click.option(
    "--step", "step_size", callback=_step_size,
    help="Of the chain: a number, or a,b,c for a (1 + t/b)^-c; with --bands or --sampler.",
)  # fmt: skip
@click.option(
    "--sampler",
    help="Of the chain: scir, sgrhmc, sgrld, sghmc or sgld. With --bands it samples what was found (by scir if left "
    "out); alone it begins from nothing, as in the papers.",
)  # fmt: skip
@click.option("--preset", default="tuned", show_default=True, help="tuned, posterior (as --bands), or paper.")
@click.option("--seed", type=int, default=0, show_default=True)
@click.option("--resume", is_flag=True, help="Resume a run that was stopped.")
@click.option("--json", "as_json", is_flag=True, help="Print the outcome as JSON.")
@click.pass_context
def fit_command(
    context: click.Context, corpus: tuple[str, ...], topics: int | None, out: Path, vocab: str | None, resume: bool,
    as_json: bool, **others: Any,
) -> None:  # fmt: skip
    """Learn topics from CORPUS: files, folders, addresses, - for standard input; or demo, which needs no files.

    Files may be MediaWiki dumps, JSON lines, CSV, TSV, Parquet, WikiExtractor's output or text, plain, .bz2 or .gz.
    A run that was stopped is resumed by the same command with --resume. The exit code is 1 where the topics predict
    held-out words no better than word frequencies.
    """
    from ergodica.lda import LDA
    from ergodica.lda.outcome import WORSE, is_worse

    given, words, is_demo = _corpus(corpus, vocab)
    has_chain = others["bands"] or others["sampler"] or others["minutes"] or others["preset"] != "tuned"
    if others["step_size"] is not None and not has_chain:
        raise InputError("--step is that of a chain, and topics are found without one: add --bands or --sampler")
    if topics is not None or is_demo:
        others["topics"] = topics if topics is not None else DEMO_TOPICS
    model = LDA(vocabulary=words, **others)
    with plain_warnings():
        warnings.filterwarnings("ignore", WORSE)  # it is among the figures
        model.fit(given, out=out, resume=resume)
    _say([*model.figures_["notes"], *model.figures_["warnings"]])
    click.echo(json.dumps(plain(_outcome(model, out))) if as_json else "\n".join(_fit_words(model, out)))
    if is_worse(model.figures_["held_out"]):
        context.exit(1)


def _say(notes: list[str]) -> None:
    for note in notes:
        click.echo(f"ergodica: {note}", err=True)


def _corpus(corpus: tuple[str, ...], vocab: str | None) -> tuple[Any, Any, bool]:
    """What to read, the vocabulary, and whether it is the demo."""
    if corpus != (DEMO_CORPUS,):
        return _places(corpus), vocab, False
    from ergodica.lda import demo

    if vocab is not None:
        raise InputError("the demo has a vocabulary of its own: leave --vocab out, or name a file ./demo")
    return demo.documents(), demo.vocabulary(), True


def _places(names: tuple[str, ...]) -> list[str | Path]:
    """Paths, "-" and addresses: a list of strings would be one of texts."""
    from ergodica.lda.corpus.opening import is_address

    return [name if name == "-" or is_address(name) else Path(name) for name in names]


def _outcome(model: Any, out: Path) -> dict[str, Any]:
    figures = model.figures_
    held = figures["held_out"] or {
        "perplexity": None, "unigram_perplexity": None, "found_perplexity": None, "vocabulary": figures["words"],
        "documents": 0,
    }  # fmt: skip
    seen, learning = figures["documents"], figures["seconds"]["learning"]
    copied = ("topics", "size", "seconds", "band", "effective_draws", "scale_check", "outside", "warnings", "checks")
    return {
        **held,
        "out": str(out),
        "documents_seen": seen,
        "documents_per_second": seen / max(learning, 1e-9),
        "noise_ratio": model.noise_ratio,
        **{name: figures[name] for name in copied},
    }


def _fit_words(model: Any, out: Path) -> Iterator[str]:
    from ergodica.lda.topics import NO_BAND, band_words

    outcome = _outcome(model, out)
    for topic in sorted(model.topics(8), key=lambda topic: -topic.share):
        yield str(topic)
    size, passes = outcome["size"], outcome["documents_seen"] / max(outcome["size"], 1)
    yield (
        f"{size:,.0f} documents, {passes:,.{0 if passes >= 10 else 1}f} passes, "
        f"in {outcome['seconds']['learning']:.3g} s ({outcome['documents_per_second']:,.0f} documents a second)"
    )
    if outcome["perplexity"]:
        yield _perplexity_words(outcome, "held-out documents", has_draws=outcome["band"] != NO_BAND)
    if outcome["effective_draws"] is not None:
        yield f"effective draws: {outcome['effective_draws']:,.0f}"
    if outcome["scale_check"] is not None:
        yield f"scale of theta: {outcome['scale_check']['text']}"
    if outcome["outside"] is not None:
        yield f"found probabilities of top words that lie outside their bands: {outcome['outside']:.0%}"
    yield band_words(outcome["band"], outcome["noise_ratio"])
    yield f"{out}: ergodica lda report {out} makes a page of it"


def _perplexity_words(outcome: dict[str, Any], what: str, has_draws: bool) -> str:
    figures, found = outcome["perplexity"], outcome.get("found_perplexity")
    told = [f"{figures['single']:,.1f}"]
    if has_draws:
        told = [f"{figures['single']:,.1f} single, {figures['averaged']:,.1f} averaged over draws"]
        told += [] if found is None else [f"{found:,.1f} as found, before sampling"]
    told.append(f"{outcome['unigram_perplexity']:,.1f} by word frequencies alone")
    return f"perplexity of {outcome['documents']:,} {what}: {'; '.join(told)} (vocabulary of {outcome['vocabulary']:,})"


@lda_commands.command(name="choose")
@click.argument("corpus", nargs=-1, required=True)
@click.option("--topics", default="10,20,50,100,200", show_default=True, help="The numbers to try.")
@reading_options
@click.option("--held-out", type=int, help="Documents for perplexity and NPMI.  [default: 1000, or a tenth]")
@click.option("--passes", type=int, help="Over the corpus; until perplexity hardly falls if left out.")
@click.option("--seed", type=int, default=0, show_default=True)
@click.option("--out", type=click.Path(path_type=Path), help="A picture: .png, .svg or .pdf.")
@click.option("--json", "as_json", is_flag=True, help="Print the figures as JSON.")
def choose_command(
    corpus: tuple[str, ...], topics: str, vocab: str | None, out: Path | None, as_json: bool, **others: Any
) -> None:  # fmt: skip
    """Fit several numbers of topics to CORPUS, read once and held in memory, and compare them."""
    from ergodica.lda.choice import check_picture, choose

    numbers = [int(part) for part in topics.split(",") if part.strip().isdecimal()]
    if len(numbers) != topics.count(",") + 1:
        raise InputError(f"--topics is {topics!r}: expected numbers with commas between them, such as 10,20,50")
    given, words, _ = _corpus(corpus, vocab)
    if out is not None:
        check_picture(out)
    with plain_warnings():
        found = choose(given, numbers, vocabulary=words, **others)
    _say(found.notes)
    if out is not None:
        found.picture(out)
    click.echo(json.dumps(plain(found.to_dict())) if as_json else str(found))


@lda_commands.command(name="topics")
@run_argument
@click.option("-n", "--words", "count", type=click.IntRange(min=1), default=10, show_default=True)
@click.option("--json", "as_json", is_flag=True, help="Print the topics as JSON.")
def topics_command(run: Path, count: int, as_json: bool) -> None:
    """Print the top words of every topic of RUN, with bands where topics were sampled."""
    from ergodica.lda.topics import band_words

    model = _loaded(run)
    if as_json:
        topics = [
            {**topic._asdict(), "words": [word._asdict() for word in topic.words]} for topic in model.topics(count)
        ]
        told = {"band": model.band, "noise_ratio": model.noise_ratio, "topics": topics}
        click.echo(json.dumps(plain(told)))
        return
    for topic in sorted(model.topics(count), key=lambda topic: -topic.share):
        click.echo(f"topic {topic.number} ({topic.share:.1%} of the words)")
        for word in topic.words:
            band = "" if word.low is None else f"   {word.low:8.4f} to {word.high:.4f}"
            click.echo(f"  {word.word:<20} {word.probability:8.4f}{band}")
    click.echo(band_words(model.band, model.noise_ratio))


new_lines_option = click.option(
    "--lines/--no-lines", default=None, help="Every line of a text file is a document.  [default: as in the fit]"
)


old_tokenizer_option = tokenizer_option(" Needed again where it was a function.")


def _loaded(run: Path, tokenizer: Any = None, **given: Any) -> Any:
    """The model, that reads documents as it did when it was fitted, unless something else is given."""
    from ergodica.lda import LDA

    with plain_warnings():
        model = LDA.load(run, tokenizer)
    return model.set_params(**{name: value for name, value in given.items() if value is not None})


@lda_commands.command(name="infer")
@run_argument
@click.argument("files", nargs=-1, required=True)
@field_option
@new_lines_option
@old_tokenizer_option
@click.option("--json", "as_json", is_flag=True, help="One JSON object a line, with all shares.")
def infer_command(run: Path, files: tuple[str, ...], as_json: bool, **reading: Any) -> None:
    """Print the topic shares of the documents in FILES, by the topics of RUN: a line for each document."""
    from ergodica.lda.corpus.opening import without_password
    from ergodica.lda.corpus.tally import Tally

    model, tally, number = _loaded(run, **reading), Tally(), 0
    names = [" ".join(word.word for word in topic.words) for topic in model.topics(TOPICS_NAMED)]
    for documents, rows in model.infer_labelled(_places(files), tally):
        for place, row in enumerate(rows):
            label = None if documents.labels is None else documents.labels[place]
            has_words = documents.lengths[place] > 0
            click.echo((_shares_json if as_json else _shares_words)(number, label, has_words, row, names))
            number += 1
    if number == 0:
        raise InputError(without_password(f"there are no documents in {', '.join(files)}"))
    _say(tally.notes())


def _shares_json(number: int, label: Any, has_words: bool, row: Any, names: list[str]) -> str:
    told = {"document": number, "id": "" if label is None else label.id, "title": "" if label is None else label.title}
    shares = [round(share, 6) for share in row.tolist()]
    return json.dumps(told | {"has_words": bool(has_words), "shares": shares})


def _shares_words(number: int, label: Any, has_words: bool, row: Any, names: list[str]) -> str:
    told = str(number) if label is None else " ".join((label.title or label.id or str(number)).split())
    if not has_words:
        return f"{told:>6}  no word of it is in the vocabulary"
    best = sorted(range(len(row)), key=lambda k: -row[k])[:TOPICS_NAMED]
    return f"{told:>6}  " + "   ".join(f"{row[k]:4.0%} topic {k} ({names[k]})" for k in best)


@lda_commands.command(name="perplexity")
@run_argument
@click.argument("corpus", nargs=-1, required=True)
@field_option
@new_lines_option
@old_tokenizer_option
@click.option("--json", "as_json", is_flag=True, help="Print the figures as JSON.")
def perplexity_command(run: Path, corpus: tuple[str, ...], as_json: bool, **reading: Any) -> None:
    """Perplexity of CORPUS under RUN: nine tenths of a document tell its topics, the rest is predicted."""
    from ergodica.lda.corpus import Corpus
    from ergodica.lda.topics import NO_BAND

    model = _loaded(run, **reading)
    given, _, _ = _corpus(corpus, None)
    how = {name: model.get_params()[name] for name in ("field", "lines")}
    with Corpus(given, model.vocabulary_, batch_size=500, shuffle_buffer=1, **how) as documents:
        found = model.perplexity(documents).to_dict()
        _say(documents.notes())
    click.echo(json.dumps(found) if as_json else _perplexity_words(found, "documents", has_draws=model.band != NO_BAND))


@lda_commands.command(name="report")
@run_argument
@click.option("--out", type=click.Path(path_type=Path), help="The page; else report.html in RUN.")
def report_command(run: Path, out: Path | None) -> None:
    """Write one HTML page about RUN: topics, their map, perplexity, sample documents; it works offline."""
    from ergodica.lda.report import write_report

    with plain_warnings():
        path = write_report(run, out)
    click.echo(str(path))
