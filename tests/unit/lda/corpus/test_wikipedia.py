"""Real Wikipedia: the figures of its README, and dumps as they are."""

from itertools import islice

import numpy as np
import pytest

from ergodica.lda.corpus import Vocabulary, texts, words
from ergodica.lda.corpus.tally import Tally


@pytest.fixture(scope="module")
def folder(data_dir):
    return data_dir / "wikipedia"


def test_articles_have_as_many_words_as_they_should(folder):
    """README: quantiles 10, 50 and 90 % of the first file 32, 81, 328; here of its first 1,500 articles."""
    vocabulary = Vocabulary.read(folder / "vocab-8000.txt")
    assert len(vocabulary) == 8000
    counted = []
    for text in islice(texts(folder / "enwiki-2014-articles-00.jsonl.bz2"), 1500):
        counted.append((len(words(text)), len(vocabulary.ids(text))))
    total, known = np.sum(counted, axis=0)
    assert known / total == pytest.approx(0.396, abs=0.01)
    np.testing.assert_allclose(np.quantile(counted, [0.1, 0.5, 0.9], axis=0)[:, 1], [32, 81, 328], rtol=0.12)


def test_a_dump_as_it_is(folder):
    tally = Tally()
    got = list(texts(folder / "enwiki-2016-pages-articles-shortened.xml.bz2", tally))
    assert len(got) == 106
    assert tally.counts == {"redirect": 99, "namespace": 1}
    left = [mark for text in got for mark in ("{{", "}}", "[[", "]]", "<ref", "</ref", "{|") if mark in text]
    assert len(left) <= 3
    given = set(Vocabulary.read(folder / "vocab-8000.txt").words)
    assert len(given.intersection(Vocabulary.build(got).words[:2000])) > 1400


def test_tables_go_and_no_siteinfo_is_needed(folder):
    got = list(texts(folder / "enwiki-2017-table-markup.xml.bz2"))
    assert len(got) == 5
    assert not any(mark in text for text in got for mark in ("{|", "|-", "wikitable", "rowspan"))
