"""An http(s) address read as it downloads; a connection that drops is resumed at the byte where it stopped."""

import base64
import http.client
import re
import time
import urllib.error
import urllib.parse
import urllib.request
from typing import Any

from ergodica.errors import InputError
from ergodica.lda.corpus.opening import without_password

READ_TIMEOUT = 60.0  # seconds without a byte before a connection counts as dropped
FIRST_WAIT = 1.0  # seconds before the second try in a row; doubled for each one after it
MOST_TRIES = 5  # connections in a row that bring nothing
MARK_TRIES = 3  # times that a server is asked what it has
DROPPED_ERRORS = (http.client.HTTPException, ConnectionError, TimeoutError, urllib.error.URLError, OSError)
WAS_CLOSED = "the connection was closed"


class Download:
    """A file object over an address.

    Args:
        address: http:// or https://; a user name and password in it (`http://user:password@host/`) are sent to that
            host alone, and never shown.
        start: the first byte wanted.
    """

    def __init__(self, address: str, start: int = 0):
        self._plain, self._credentials = _split(address)
        self.address, self.position, self.total = without_password(address), 0, None
        self._tag, self._response, self.told = None, None, ""
        self._connect(start)
        while self.position < start:  # a server without ranges sends everything: what comes before is skipped
            if not self.read(min(start - self.position, 1 << 20)):
                raise InputError(f"{self.address} ends at byte {self.position}: expected to continue from byte {start}")

    def read(self, size: int) -> bytes:
        """The next bytes, at most `size`; empty at the end of the file and nowhere else."""
        tries = 0
        while True:
            data, problem = b"", WAS_CLOSED
            try:
                if self._response is not None:
                    data = self._response.read(size)
            except http.client.IncompleteRead as error:
                data = error.partial
                self.close()  # read again, a chunked response that broke off looks like one at its end
            except DROPPED_ERRORS as error:
                problem = without_password(str(error)) or type(error).__name__
                self.close()
            if data or self._is_complete():
                self.position += len(data)
                return data
            tries += 1
            self._again(tries, problem)

    def close(self) -> None:
        if self._response is not None:
            self._response.close()
        self._response = None

    def _is_complete(self) -> bool:
        if self.total is not None:
            return self.position >= self.total
        # A chunked response has its own end. With neither chunks nor a length nothing tells the end from a break: the
        # decompressor or the parser will.
        return self._response is not None

    def _again(self, tries: int, problem: str) -> None:
        self.close()
        of = "" if self.total is None else f" of {self.total:,}"
        at = f"{self.address}: {problem} at byte {self.position:,}{of}"
        if tries > MOST_TRIES:
            raise InputError(f"{at}, {MOST_TRIES} tries to resume failed: try again later, or download the file first")
        if tries > 1:
            time.sleep(FIRST_WAIT * 2 ** (tries - 2))
        try:
            self._connect(self.position, f"{at}, and the server ")
        except InputError:
            raise
        except DROPPED_ERRORS:
            self._response = None  # counted as one more try

    def _connect(self, start: int, dropped: str = "") -> None:
        try:
            response = _WEB_OPENER.open(self._request(start), timeout=READ_TIMEOUT)
        except InputError:  # a redirect that is not followed
            raise
        except urllib.error.HTTPError as error:
            error.close()
            if error.code >= 500 and dropped:
                raise ConnectionError(str(error)) from None
            reason = without_password(" ".join(str(error.reason).split()))
            raise InputError(f"{self.address}: the server answered {error.code} {reason}") from None
        except http.client.InvalidURL:
            raise _not_an_address(self.address) from None
        except DROPPED_ERRORS as error:
            if dropped:
                raise
            reason = without_password(" ".join(str(getattr(error, "reason", None) or error).split()))
            raise InputError(f"{self.address} could not be reached: {reason or type(error).__name__}") from None
        except ValueError:  # letters that no host has, and the like
            raise _not_an_address(self.address) from None
        self._accept(response, start, dropped)

    def _request(self, start: int) -> urllib.request.Request:
        headers = {"User-Agent": "ergodica", "Accept-Encoding": "identity"}
        if start:
            headers["Range"] = f"bytes={start}-"
            if self._tag:
                headers["If-Range"] = self._tag
        request = urllib.request.Request(self._plain, headers=headers)
        if self._credentials:
            request.add_unredirected_header("Authorization", self._credentials)
        return request

    def _accept(self, response: Any, start: int, dropped: str) -> None:
        try:
            begins, total = self._extent(response, start, dropped)
        except InputError:
            response.close()
            raise
        tag = response.headers.get("ETag")
        # RFC 9110, 13.1.5: a weak tag may not stand in If-Range.
        self._tag = tag if tag and not tag.startswith("W/") else response.headers.get("Last-Modified")
        self._response, self.position, self.total = response, begins, total
        self.told = " ".join(response.headers.get(name) or "-" for name in ("ETag", "Last-Modified", "Content-Length"))

    def _extent(self, response: Any, start: int, dropped: str) -> tuple[int, int | None]:
        """The first byte that the response brings, and the size of the file where the server says it."""
        begins = _first_byte(response.headers.get("Content-Range")) if response.status == 206 else 0
        if dropped and begins != start:
            raise InputError(
                f"{dropped}cannot resume there (it has no ranges, or the file changed): download the file first"
            )
        if not 0 <= begins <= start:
            raise InputError(f"{self.address}: byte {start:,} on was asked for, and the server sent something else")
        length = _length(response.headers, self.address)
        total = None if length is None else begins + length
        if dropped and self.total is not None and total is not None and total != self.total:
            raise InputError(f"{dropped}now has another file of {total:,} bytes: start over")
        return begins, total


def told_by_server(address: str) -> str:
    """Tag, time of change and size of what is there, each "-" where the server does not say it.

    Asked for as the file itself is (GET), and dropped after the headers: some servers refuse HEAD, now and then or
    always, or answer it otherwise. InputError where there is no answer: nothing that was saved could be compared.
    """
    tries = 1
    while True:
        try:
            found = Download(address)
            found.close()
            return found.told
        except InputError as error:
            if tries == MARK_TRIES:
                raise InputError(f"{error}, so whether it is the same corpus is unknown: try again") from None
        time.sleep(FIRST_WAIT * 2 ** (tries - 1))
        tries += 1


class _OnlyWeb(urllib.request.HTTPRedirectHandler):
    """Follows a redirect to http and https alone: Python's own follows to ftp too."""

    def redirect_request(self, req: Any, fp: Any, code: int, msg: str, headers: Any, newurl: str) -> Any:
        if urllib.parse.urlsplit(newurl).scheme not in ("http", "https"):
            fp.close()
            raise InputError(
                f"{without_password(req.full_url)} redirects to {without_password(newurl)}: only http and https "
                "addresses are followed"
            )
        return super().redirect_request(req, fp, code, msg, headers, newurl)


_WEB_OPENER = urllib.request.build_opener(_OnlyWeb)


def _split(address: str) -> tuple[str, str | None]:
    """The address without user name and password, and these as the header that a server wants."""
    try:
        parts = urllib.parse.urlsplit(address)
        _ = parts.port  # ValueError: not a number
    except ValueError:
        raise _not_an_address(address) from None
    before, at, host = parts.netloc.rpartition("@")
    if not at:
        return address, None
    user, _, password = before.partition(":")
    pair = f"{urllib.parse.unquote(user)}:{urllib.parse.unquote(password)}"
    return parts._replace(netloc=host).geturl(), f"Basic {base64.b64encode(pair.encode()).decode()}"


def _not_an_address(address: str) -> InputError:
    # Not the error's own words, and only the beginning: a password with a / in it looks like a port and a path.
    return InputError(
        f"{address.partition('://')[0]}://... is not an address that can be opened: expected https://host/file; "
        "in a user name or password write / as %2F and @ as %40"
    )


def _length(headers: Any, address: str) -> int | None:
    """Of the body. RFC 9112, 6.3: chunks come before a length, and a length that is no number cannot be recovered."""
    length = headers.get("Content-Length")
    if length is None or "chunked" in headers.get("Transfer-Encoding", "").lower():
        return None
    if not re.fullmatch(r"\s*[0-9]{1,18}\s*", length):
        raise InputError(
            f"{address}: the server says that the file has {length[:40]!r} bytes (Content-Length): download it first"
        )
    return int(length)


def _first_byte(content_range: str | None) -> int:
    try:
        return int((content_range or "").split()[1].partition("-")[0])
    except (IndexError, ValueError):
        return -1
