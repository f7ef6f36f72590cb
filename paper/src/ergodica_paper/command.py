"""`ergodica reproduce`: the paper again, claim by claim, and a page that says what came out."""

import json
from pathlib import Path

import click


class _ManyPaths(click.Command):
    """--corpus takes all the paths that follow it, as `*.bz2` gives them, up to an option or the name of an item."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        return super().parse_args(ctx, list(_with_corpus_repeated(args)))


def _with_corpus_repeated(args: list[str]) -> list[str]:
    from ergodica_paper.items import MODULES

    found: list[str] = []
    is_corpus, paths = False, 0
    for arg in args:
        if arg == "--corpus":
            is_corpus, paths = True, 0
        elif not is_corpus or (arg.startswith("-") and arg != "-"):
            is_corpus = False
            found.append(arg)
        elif arg in MODULES and paths and not Path(arg).exists():
            found.append(arg)
        else:
            paths += 1
            found += ["--corpus", arg]
    return found if not is_corpus or paths else [*found, "--corpus"]  # without a path: click's own complaint


@click.command(name="reproduce", cls=_ManyPaths)
@click.argument("names", nargs=-1, metavar="[ITEM]...")
@click.option(
    "--full/--quick",
    default=False,
    help="Enough samples for every verdict (half an hour), or a first look (the default).",
)
@click.option("--corpus", multiple=True, metavar="PATH...", help="Documents for topic models; else a demo, no verdict.")
@click.option("--out", type=click.Path(path_type=Path), default=Path("report"), show_default=True)
@click.option("--seed", type=click.IntRange(min=0), default=0, show_default=True)
@click.option("--json", "as_json", is_flag=True, help="Print the claims as JSON.")
def reproduce_command(
    names: tuple[str, ...], full: bool, corpus: tuple[str, ...], out: Path, seed: int, as_json: bool
) -> None:
    """Redo the paper's figures, tables and claims, and leave a page with what came out.

    ITEMs are theorem-1, theorem-2, big-picture, errata, map, d-and-q, one-dimensional, two-dimensional, lda-perplexity,
    lda-runtime, lda-topics; without a name all of them. The same command resumes a run of all that was
    stopped; an item that is named is always run again.
    """
    from ergodica_paper import items
    from ergodica_paper.reproduce import Asked, Stopped, reproduce
    from ergodica_paper.summary import count_words

    asked = Asked(out, full, seed, corpus)
    try:
        records = reproduce(items.chosen(names), asked, is_whole=not names)
    except Stopped as stopped:
        click.echo(f"ergodica: {stopped}", err=True)
        raise click.exceptions.Exit(130) from None
    if as_json:
        from ergodica_paper.store import claims_to_json

        click.echo(json.dumps({"page": str(out / "index.html"), **claims_to_json(records)}))
        return
    for record in records:
        for claim in record.claims if not names or record.name in names else ():
            click.echo(f"{claim.verdict:<28}{record.name:<17}{claim.statement}")
    click.echo(count_words(records) or "no claims")
    click.echo(out / "index.html")
