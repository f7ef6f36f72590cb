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

    def __init__(self, has_ranges=True, drops=(), status=200, says_length=True, is_chunked=False, location=None):
        super().__init__(("127.0.0.1", 0), Handler)
        self.has_ranges, self.drops, self.status, self.says_length = has_ranges, list(drops), status, says_length
        self.is_chunked, self.location, self.length = is_chunked, location, None
        self.data, self.ranges, self.tag, self.credentials = DATA, [], '"one"', []

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
    protocol_version = "HTTP/1.1"

    def do_GET(self):
        server, wanted = self.server, self.headers.get("Range")
        server.ranges.append(wanted)
        server.credentials.append(self.headers.get("Authorization"))
        self.close_connection = True
        if server.location is not None:
            self.send_response(302)
            self.send_header("Location", server.location)
            self.send_header("Content-Length", "0")
            self.end_headers()
            return
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
        if server.is_chunked:
            self.send_header("Transfer-Encoding", "chunked")
        elif server.says_length:
            self.send_header("Content-Length", server.length or str(len(server.data) - start))
        self.send_header("ETag", server.tag)
        self.end_headers()
        stop = start + server.drops.pop(0) if server.drops else None
        if server.is_chunked:
            self.send_chunks(server.data[start:stop], is_whole=stop is None)
        else:
            self.wfile.write(server.data[start:stop])

    def send_chunks(self, data, is_whole):
        """Broken off, in the middle of a chunk: its size is said, and half of it comes."""
        for at in range(0, len(data), 50_000):
            self.wfile.write(b"%x\r\n%s\r\n" % (len(data[at : at + 50_000]), data[at : at + 50_000]))
        self.wfile.write(b"0\r\n\r\n" if is_whole else b"1000\r\n")

    def log_message(self, *args):
        pass


@pytest.fixture(autouse=True)
def no_waiting(monkeypatch):
    monkeypatch.setattr(downloads, "FIRST_WAIT", 0.001)


def whole(address, start=0):
    file = Download(address, start)
    parts = []
    while part := file.read(1 << 14):
        parts.append(part)
    file.close()
    return b"".join(parts)


def refused(function, *arguments):
    with pytest.raises(InputError) as caught:
        function(*arguments)
    return str(caught.value)


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
        with pytest.raises(InputError, match=r"at byte 100,000 of .*, 5 tries to resume failed"):
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


def test_a_chunked_transfer_that_breaks_off_goes_on_from_there():
    with Server(is_chunked=True, drops=[120_000, 30_000]) as server:
        assert whole(server.address) == DATA
        assert server.ranges == [None, "bytes=120000-", "bytes=150000-"]


def test_a_chunked_transfer_that_breaks_off_for_good_is_an_error_and_no_end():
    with Server(is_chunked=True, drops=[120_000] + [0] * 50) as server:
        assert "closed at byte 120,000, 5 tries" in refused(whole, server.address)
    with Server(is_chunked=True, has_ranges=False, drops=[120_000]) as server:
        said = refused(lambda: sum(1 for _ in texts(server.address)))
        assert "at byte 120,000, and the server cannot resume there" in said


@pytest.mark.parametrize("length", ["many", "-1", "5, 7", "9" * 5000])
def test_a_length_that_is_no_number_is_one_line(length):
    with Server() as server:
        server.length = length
        with pytest.raises(InputError, match=r"Content-Length.*download it first") as caught:
            whole(server.address)
        assert len(str(caught.value)) < 300


@pytest.mark.parametrize("location", ["ftp://127.0.0.1/x", "file:///etc/hostname", "data:text/plain,x"])
def test_a_redirect_to_another_scheme_is_refused(location):
    with Server(location=location) as server:
        with pytest.raises(InputError, match=r"redirects to|not allowed|answered 302") as caught:
            whole(server.address)
        assert "\n" not in str(caught.value)


def test_a_redirect_to_another_address_is_followed_without_the_password():
    with Server() as server, Server(location=server.address) as first:
        assert whole(first.address.replace("//", "//anna:secret@")) == DATA
        assert first.credentials == ["Basic YW5uYTpzZWNyZXQ="]
        assert server.credentials == [None]


def test_a_password_is_sent_and_never_shown(tmp_path):
    with Server() as server:
        named = server.address.replace("//", "//anna:se%3Acret@")
        assert whole(named) == DATA
        assert server.credentials == ["Basic YW5uYTpzZTpjcmV0"]
        with Corpus(named, WORDS, batch_size=500, shuffle_buffer=500) as corpus:
            plain = Corpus(server.address, WORDS, batch_size=500, shuffle_buffer=500)
            assert corpus.cursor == plain.cursor  # who reads it does not change what is read
        server.status = 403
        said = [refused(Download, named)]
        server.status, server.location = 200, named  # a loop of redirects
        said.append(refused(Download, named))
    said.append(refused(Download, named))  # nobody there
    for host in ("anna:se/cret@host/x", "anna:secret@[::1/x", "anna:secret@a b/"):
        said.append(refused(lambda host=host: list(Corpus([f"http://{host}"], WORDS))))
    said.append(refused(Corpus, ["ftp://anna:secret@host/x"], WORDS))
    assert not [line for line in said if "cret" in line or "\n" in line]
