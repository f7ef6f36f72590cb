"""The items of the reproduction, in the order of the page; a module is loaded when its item is asked for."""

import difflib
from collections.abc import Iterable, Sequence
from importlib import import_module

from ergodica.errors import InputError
from ergodica_paper.result import PaperItem

MODULES = {
    name: f"ergodica_paper.{name.replace('-', '_')}"
    for name in (
        "theorem-1", "theorem-2", "big-picture", "errata", "map", "d-and-q", "one-dimensional", "two-dimensional",
        "lda-perplexity", "lda-runtime", "lda-topics",
    )
}  # fmt: skip


def chosen(names: Iterable[str] = ()) -> list[PaperItem]:
    """The items of these names, each once and in the order of the page; all of them where no name is given."""
    wanted = set(names)
    for name in wanted:
        if name not in MODULES:
            nearest = difflib.get_close_matches(name, MODULES, n=1)
            meant = f" (did you mean {nearest[0]}?)" if nearest else ""
            raise InputError(f"there is no item {name!r}{meant}: there are {', '.join(MODULES)}")
    return [load(name) for name in MODULES if name in wanted or not wanted]


def load(name: str) -> PaperItem:
    """The item of this name."""
    return import_module(MODULES[name]).ITEM


def ordered(names: Iterable[str]) -> Sequence[str]:
    """In the order of the page."""
    places = list(MODULES)
    return sorted(names, key=lambda name: (places.index(name) if name in MODULES else len(places), name))
