"""An address read as it downloads, from a server that drops the connection."""

import re
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from ergodica.errors import InputError
from ergodica.lda.corpus import Corpus, texts
from ergodica.lda.corpus import download as downloads
from ergodica.lda.corpus.download import Download
from tests.unit.lda.corpus.dumps import WORDS, document, lines

DATA = lines(document(k) for k in range(5000))


class Server(ThreadingHTTPServer):
    """Serves DATA and closes the connection after `drops` bytes, as often as it says."""

    def __init__(self, has_ranges=True, drops=(), status=200, says_length=True):
        super().__init__(("127.0.0.1", 0), Handler)
        self.has_ranges, self.drops, self.status, self.says_length = has_ranges, list(drops), status, says_length
        self.data, self.ranges, self.tag = DATA, [], '"one"'

    def handle_error(self, request, client_address):
        pass

    def __enter__(self):
        self.thread = threading.Thread(target=self.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
        self.thread.start()
        return self

    def __exit__(self, *error):
        self.shutdown()
        self.server_close()
        self.thread.join()

    @property
    def address(self):
        return f"http://127.0.0.1:{self.server_address[1]}/corpus.jsonl"


class Handler(BaseHTTPRequestHandler):
    def do_GET(self):
        server, wanted = self.server, self.headers.get("Range")
        server.ranges.append(wanted)
        if server.status != 200:
            self.send_error(server.status)
            return
        start = 0
        if wanted and server.has_ranges and self.headers.get("If-Range", server.tag) == server.tag:
            start = int(re.fullmatch(r"bytes=(\d+)-", wanted)[1])
            self.send_response(206)
            self.send_header("Content-Range", f"bytes {start}-{len(server.data) - 1}/{len(server.data)}")
        else:
            self.send_response(200)
        if server.says_length:
            self.send_header("Content-Length", str(len(server.data) - start))
        self.send_header("ETag", server.tag)
        self.end_headers()
        stop = start + server.drops.pop(0) if server.drops else None
        self.wfile.write(server.data[start:stop])

    def log_message(self, *args):
        pass


@pytest.fixture(autouse=True)
def no_waiting(monkeypatch):
    monkeypatch.setattr(downloads, "WAIT", 0.001)


def whole(address, start=0):
    file = Download(address, start)
    parts = []
    while part := file.read(1 << 14):
        parts.append(part)
    file.close()
    return b"".join(parts)


def test_read_to_the_end():
    with Server() as server:
        assert whole(server.address) == DATA
        assert sum(1 for _ in texts(server.address)) == 5000


def test_a_dropped_connection_goes_on_from_the_byte_where_it_stopped():
    with Server(drops=[100_000, 50_000, 0, 0, 70_000]) as server:
        assert whole(server.address) == DATA
        assert server.ranges == [None, *(f"bytes={at}-" for at in (100_000, 150_000, 150_000, 150_000, 220_000))]


def test_a_server_without_ranges_is_one_clear_line():
    with Server(has_ranges=False, drops=[100_000]) as server:
        with pytest.raises(InputError, match=r"closed at byte 100,000 of .* cannot resume there") as caught:
            whole(server.address)
        assert "\n" not in str(caught.value)


def test_a_file_that_changed_meanwhile_is_not_patched_together():
    with Server(drops=[100_000]) as server:
        file = Download(server.address)
        file.read(1000)
        server.tag = '"two"'
        with pytest.raises(InputError, match="the file changed"):
            sum(len(data) for data in iter(lambda: file.read(1 << 14), b""))


def test_a_server_that_brings_nothing_more_is_given_up():
    with Server(drops=[100_000] + [0] * 50) as server:
        with pytest.raises(InputError, match=r"at byte 100,000 of .*, 5 tries to go on failed"):
            whole(server.address)
        assert len(server.ranges) == 6


@pytest.mark.parametrize("has_ranges", [True, False])
def test_a_corpus_at_an_address_is_resumed(has_ranges):
    with Server(has_ranges=has_ranges) as server:
        with Corpus(server.address, WORDS, batch_size=500, shuffle_buffer=500) as corpus:
            assert corpus.progress is None  # nothing was asked of the server yet
            for _ in range(9):
                next(corpus)
            cursor, rest = corpus.cursor, list(corpus)
            assert corpus.progress == 1.0
        with Corpus(server.address, WORDS, batch_size=500, shuffle_buffer=500) as other:
            other.seek(cursor)
            again = list(other)
        assert cursor["byte"] > 200_000
        assert [batch.words.tobytes() for batch in again] == [batch.words.tobytes() for batch in rest]


def test_beginning_in_the_middle_with_and_without_ranges():
    for has_ranges in (True, False):
        with Server(has_ranges=has_ranges) as server:
            assert whole(server.address, start=123_456) == DATA[123_456:]


def test_no_length_is_read_to_the_end_of_the_connection():
    with Server(says_length=False) as server:
        assert whole(server.address) == DATA


def test_answers_that_are_no_file():
    with Server(status=404) as server, pytest.raises(InputError, match="the server answered 404 Not Found"):
        Download(server.address)
    with pytest.raises(InputError, match=r"could not be reached: .*refused"):
        Download(server.address)
