"""A corpus of the same name and length that is another one."""

import os
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest

from ergodica.errors import InputError
from ergodica.lda.corpus import Corpus, Documents, download, sources
from ergodica.lda.corpus.download import told_by_server

WORDS = ["ship", "harbour", "bread"]


def name_of(given):
    with Corpus(given, WORDS) as corpus:
        return corpus.cursor["corpus"]


def test_texts_and_documents_count_to_the_last_word():
    texts = ["ship harbour", "bread ship"] * 3
    assert name_of(texts) == name_of(list(texts))
    assert name_of(texts) != name_of([*texts[:-1], "ship bread"])
    documents = Documents.of([[0, 1], [2, 0]])
    assert name_of(documents) == name_of(Documents.of([[0, 1], [2, 0]]))
    assert name_of(documents) != name_of(Documents.of([[0, 1], [0, 2]]))


@pytest.mark.parametrize("place", [0, 250_000, 499_990])
def test_files_of_the_same_name_and_length(tmp_path, place):
    content = bytearray(b"ship harbour\n" * 40_000)[:500_000]
    for folder in ("one", "two"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "texts.txt").write_bytes(content)
        os.utime(tmp_path / folder / "texts.txt", ns=(10**18, 10**18))
    one, two = (tmp_path / folder / "texts.txt" for folder in ("one", "two"))
    assert name_of(one) == name_of(two)  # it may be moved
    os.utime(two, ns=(10**18, 10**18 + 1))
    assert name_of(one) != name_of(two)
    content[place : place + 4] = b"shop"
    two.write_bytes(content)
    os.utime(two, ns=(10**18, 10**18))
    assert name_of(one) != name_of(two)
    with Corpus(one, WORDS) as first, Corpus(two, WORDS) as second:
        cursor = first.cursor
        with pytest.raises(InputError, match="the cursor is of another corpus"):
            second.seek(cursor)


def test_of_very_many_files_some_are_looked_into(tmp_path, monkeypatch):
    monkeypatch.setattr(sources, "MOST_SAMPLED", 2)
    paths = [tmp_path / f"{number}.txt" for number in range(5)]
    for path in paths:
        path.write_text("ship harbour")
    found = sources.file_marks([str(path) for path in paths])
    assert [len(mark.split()) for mark in found] == [3, 2, 2, 3, 2]


class Handler(BaseHTTPRequestHandler):
    """Knows no HEAD; every second GET of /flaky fails."""

    asked = 0

    def do_GET(self):
        Handler.asked += 1
        is_there = self.path == "/told" or (self.path == "/flaky" and Handler.asked % 2 == 0)
        self.send_response(200 if is_there else 503)
        self.send_header("ETag", '"one"')
        self.send_header("Content-Length", "17")
        self.end_headers()
        self.wfile.write(b"ship harbour ship")

    def log_message(self, *args):
        pass


def test_of_an_address_what_the_server_says(monkeypatch):
    monkeypatch.setattr(download, "FIRST_WAIT", 0.0)
    with HTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            address = f"http://127.0.0.1:{server.server_address[1]}"
            assert told_by_server(f"{address}/told") == '"one" - 17'
            Handler.asked = 0
            assert told_by_server(f"{address}/flaky") == '"one" - 17'
            with pytest.raises(InputError, match=r"/silent: the server answered 503 .*: try again$") as raised:
                told_by_server(f"{address}/silent")
            assert "\n" not in str(raised.value)
        finally:
            server.shutdown()
            thread.join()
