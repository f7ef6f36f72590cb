"""`ergodica lda`: topics of a stream of documents, from the command line."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click

from ergodica.cli.sample import plain_warnings
from ergodica.errors import InputError
from ergodica.report import plain

DEMO_CORPUS = "demo"
HELD_OUT, DEMO_HELD_OUT = 1_000, 200
TOPICS_NAMED = 3  # topics of a document, and words of a topic, that are printed


run_argument = click.argument("run", type=click.Path(path_type=Path))


@click.group(name="lda")
def lda_commands() -> None:
    """Topics of a stream of documents (latent Dirichlet allocation)."""


@lda_commands.command(name="fit")
@click.argument("corpus", nargs=-1, required=True)
@click.option("--topics", type=int, help="How many.  [default: 50, for the demo 10]")
@click.option("--out", type=click.Path(path_type=Path), required=True, help="A folder for the run.")
@click.option("--vocab", help="A file with one word a line; else built from CORPUS.")
@click.option("--held-out", type=int, help="Documents kept for perplexity.  [default: 1000, for the demo 200]")
@click.option("--sampler", default="sgrhmc", show_default=True, help="sgrhmc, sgrld, sghmc or sgld.")
@click.option("--preset", default="tuned", show_default=True, help="tuned, paper or posterior.")
@click.option("--seed", type=int, default=0, show_default=True)
@click.option("--passes", type=int, help="Over the corpus; enough to see 50,000 documents if left out.")
@click.option("--batch-size", type=int, help="Documents of a batch; the preset's if left out.")
@click.option("--resume", is_flag=True, help="Resume a run that was stopped.")
@click.option("--json", "as_json", is_flag=True, help="Print the outcome as JSON.")
def fit_command(
    corpus: tuple[str, ...], topics: int | None, out: Path, vocab: str | None, held_out: int | None, sampler: str,
    preset: str, seed: int, passes: int | None, batch_size: int | None, resume: bool, as_json: bool,
) -> None:  # fmt: skip
    """Learn topics from CORPUS: files, folders, addresses, - for standard input; or demo, which needs no files.

    Files may be MediaWiki dumps, JSON lines with a field text, WikiExtractor's output or text, plain, .bz2 or .gz.
    A run that was stopped is resumed by the same command with --resume.
    """
    from ergodica.lda import LDA

    given, words, is_demo = _corpus(corpus, vocab)
    model = LDA(
        topics=topics if topics is not None else 10 if is_demo else 50, sampler=sampler, preset=preset, seed=seed,
        vocabulary=words, passes=passes, batch_size=batch_size,
        held_out=held_out if held_out is not None else DEMO_HELD_OUT if is_demo else HELD_OUT,
    )  # fmt: skip
    with plain_warnings():
        model.fit(given, out=out, resume=resume)
    for note in model.figures_["notes"]:
        click.echo(f"ergodica: {note}", err=True)
    click.echo(json.dumps(plain(_outcome(model, out))) if as_json else "\n".join(_fit_words(model, out)))


def _corpus(corpus: tuple[str, ...], vocab: str | None) -> tuple[Any, Any, bool]:
    """What to read, the vocabulary, and whether it is the demo."""
    from ergodica.lda.corpus.opening import is_address

    if corpus != (DEMO_CORPUS,):
        return [place if place == "-" or is_address(place) else Path(place) for place in corpus], vocab, False
    from ergodica.lda import demo

    if vocab is not None:
        raise InputError("the demo has a vocabulary of its own: leave --vocab out, or name a file ./demo")
    return demo.documents(), demo.vocabulary(), True


def _outcome(model: Any, out: Path) -> dict[str, Any]:
    figures = model.figures_
    held = figures["held_out"] or {
        "perplexity": None,
        "unigram_perplexity": None,
        "vocabulary": figures["words"],
        "documents": 0,
    }
    seen, learning = figures["documents"], figures["seconds"]["learning"]
    return {
        **held,
        "out": str(out),
        "topics": figures["topics"],
        "documents_seen": seen,
        "documents_per_second": seen / max(learning, 1e-9),
        "seconds": figures["seconds"],
        "band": figures["band"],
        "noise_ratio": figures["noise_ratio"],
    }


def _fit_words(model: Any, out: Path) -> Iterator[str]:
    outcome = _outcome(model, out)
    yield from _topic_words(model, 8)
    yield (
        f"{outcome['documents_seen']:,} documents in {outcome['seconds']['learning']:.3g} s "
        f"({outcome['documents_per_second']:,.0f} a second)"
    )
    if outcome["perplexity"]:
        yield _perplexity_words(outcome)
    yield f"{out}: ergodica lda report {out} makes a page of it"


def _topic_words(model: Any, count: int) -> Iterator[str]:
    for topic in sorted(model.topics(count), key=lambda topic: -topic.share):
        yield str(topic)


def _perplexity_words(outcome: dict[str, Any]) -> str:
    figures = outcome["perplexity"]
    return (
        f"perplexity of {outcome['documents']:,} held-out documents: {figures['single']:,.1f} single, "
        f"{figures['averaged']:,.1f} averaged over draws; {outcome['unigram_perplexity']:,.1f} by word frequencies "
        f"alone (vocabulary of {outcome['vocabulary']:,})"
    )


@lda_commands.command(name="topics")
@run_argument
@click.option("-n", "--words", "count", type=click.IntRange(min=1), default=10, show_default=True)
@click.option("--json", "as_json", is_flag=True, help="Print the topics as JSON.")
def topics_command(run: Path, count: int, as_json: bool) -> None:
    """Print the top words of every topic of RUN, with bands from the draws kept."""
    from ergodica.lda import LDA
    from ergodica.lda.topics import band_words

    model = LDA.load(run)
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
            click.echo(f"  {word.word:<20} {word.probability:8.4f}   {word.low:8.4f} to {word.high:.4f}")
    click.echo(band_words(model.band, model.noise_ratio))


@lda_commands.command(name="infer")
@run_argument
@click.argument("files", nargs=-1, required=True)
@click.option("--json", "as_json", is_flag=True, help="One JSON object a line, with all shares.")
def infer_command(run: Path, files: tuple[str, ...], as_json: bool) -> None:
    """Print the topic shares of the documents in FILES, by the topics of RUN."""
    from ergodica.lda import LDA
    from ergodica.lda.corpus.opening import without_password

    model = LDA.load(run)
    names = [" ".join(word.word for word in topic.words) for topic in model.topics(TOPICS_NAMED)]
    number = 0
    for rows in model.infer(list(files)):
        for row in rows:
            if as_json:
                click.echo(json.dumps({"document": number, "shares": [round(share, 6) for share in row.tolist()]}))
            elif len(row) > 1 and (row == row[0]).all():  # the prior, which a word would have moved
                click.echo(f"{number:6d}  no word of it is in the vocabulary")
            else:
                best = sorted(range(len(row)), key=lambda k, row=row: -row[k])[:TOPICS_NAMED]
                click.echo(f"{number:6d}  " + "   ".join(f"{row[k]:4.0%} topic {k} ({names[k]})" for k in best))
            number += 1
    if number == 0:
        raise InputError(without_password(f"there are no documents in {', '.join(files)}"))


@lda_commands.command(name="perplexity")
@run_argument
@click.argument("corpus", nargs=-1, required=True)
@click.option("--json", "as_json", is_flag=True, help="Print the figures as JSON.")
def perplexity_command(run: Path, corpus: tuple[str, ...], as_json: bool) -> None:
    """Perplexity of CORPUS under RUN: nine tenths of a document tell its topics, the rest is predicted."""
    from ergodica.lda import LDA
    from ergodica.lda.corpus import Corpus

    model = LDA.load(run)
    given, _, _ = _corpus(corpus, None)
    with Corpus(given, model.vocabulary_, batch_size=500, shuffle_buffer=1) as documents:
        found = model.perplexity(documents).to_dict()
        for note in documents.notes():
            click.echo(f"ergodica: {note}", err=True)
    click.echo(json.dumps(found) if as_json else _perplexity_words(found))


@lda_commands.command(name="report")
@run_argument
@click.option("--out", type=click.Path(path_type=Path), help="The page; else report.html in RUN.")
def report_command(run: Path, out: Path | None) -> None:
    """Write one HTML page about RUN: topics, their map, perplexity, sample documents; it works offline."""
    from ergodica.lda.report import write_report

    click.echo(str(write_report(run, out)))
