"""The registry: all items of the paper are there, under the names of the command line."""

from pathlib import Path

import pytest

from ergodica.errors import InputError
from ergodica_paper import items
from ergodica_paper.page.item import in_repository

ROOT = Path(__file__).parents[2]
QUICK, FULL = 300, 2 * 3600  # seconds on two cores that all may take


def test_all_eleven_are_there():
    assert len(items.chosen()) == len(items.MODULES) == 11


@pytest.mark.parametrize("name", items.MODULES)
def test_an_item_says_what_it_is(name):
    item = items.load(name)
    assert item.name == name
    assert item.title
    assert item.source
    assert item.code
    for path in item.code:
        assert (ROOT / in_repository(path)).exists(), path


def test_expected_times_are_within_what_was_promised():
    found = items.chosen()
    assert sum(item.seconds[0] for item in found) <= QUICK
    assert sum(item.seconds[1] for item in found) <= FULL


def test_names_are_taken_in_the_order_of_the_page_and_each_once():
    assert items.ordered(["unknown", "map", "theorem-1", "lda-topics"]) == ["theorem-1", "map", "lda-topics", "unknown"]
    assert [item.name for item in items.chosen(["map", "theorem-1", "map"])] == ["theorem-1", "map"]


def test_an_unknown_name_is_one_line_that_lists_them():
    with pytest.raises(
        InputError, match=r"no item 'theorem-3' \(did you mean theorem-\d\?\): there are theorem-1, "
    ) as e:
        items.chosen(["theorem-3"])
    assert str(e.value).endswith("lda-topics")
