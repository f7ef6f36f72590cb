"""What may lie in a folder beside files: links that lead nowhere, pipes."""

import os

import pytest

from ergodica.errors import InputError
from ergodica.lda.corpus import Corpus
from ergodica.lda.stream import DocumentStream
from tests.unit.lda.corpus.dumps import WORDS, document


@pytest.fixture
def folder(tmp_path):
    """Four documents, a dangling link and a pipe to which nobody writes."""
    for k in range(4):
        (tmp_path / f"{k}.txt").write_text(document(k))
    (tmp_path / "0-link.txt").symlink_to(tmp_path / "gone.txt")
    os.mkfifo(tmp_path / "2-pipe.txt")
    return tmp_path


def test_links_that_lead_nowhere_and_pipes_are_left_out_and_counted(folder):
    with Corpus(str(folder), WORDS, batch_size=4) as corpus:
        assert sum(len(batch) for batch in corpus) == 4
        assert corpus.progress == 1.0
        (note,) = corpus.notes()
    assert note.startswith("files left out, with no text that can be read: 2; first:")


def test_they_do_not_turn_automatic_passes_into_one(folder, monkeypatch):
    monkeypatch.setattr("ergodica.lda.stream.ENOUGH_DOCUMENTS", 40)
    stream = DocumentStream(str(folder), WORDS, held_out=0, batch_size=4, passes=None, size=None, seed=0)
    seen = 0
    while (batch := stream.next()) is not None:
        seen += len(batch.documents)
    stream.corpus.close()
    assert seen == 40


def test_a_folder_of_nothing_else_is_one_line(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(InputError, match=r"there are no documents in .*pipe"):
        Corpus(str(tmp_path))
