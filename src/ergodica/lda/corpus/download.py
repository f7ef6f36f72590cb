"""An http(s) address read as it downloads; a connection that drops goes on from the byte where it stopped."""

import http.client
import time
import urllib.error
import urllib.request
from typing import Any

from ergodica.errors import InputError

TIMEOUT = 60.0  # seconds without a byte before a connection counts as dropped
WAIT = 1.0  # seconds before the second try in a row; doubled for each one after it
TRIES = 5  # connections in a row that bring nothing
DROPPED = (http.client.HTTPException, ConnectionError, TimeoutError, urllib.error.URLError, OSError)


class Download:
    """A file object over an address.

    Args:
        address: http:// or https://.
        start: the first byte wanted.
    """

    def __init__(self, address: str, start: int = 0):
        self.address, self.position, self.total = address, 0, None
        self._tag, self._response = None, None
        self._connect(start)
        while self.position < start:  # a server without ranges sends everything: what comes before is passed over
            if not self.read(min(start - self.position, 1 << 20)):
                raise InputError(f"{address} ends at byte {self.position}: expected to go on from byte {start}")

    def read(self, size: int) -> bytes:
        """The next bytes, at most `size`; empty at the end of the file and nowhere else."""
        tries = 0
        while True:
            try:
                data = self._response.read(size) if self._response is not None else b""
                problem = "the connection was closed"
            except http.client.IncompleteRead as error:
                data, problem = error.partial, "the connection was closed"
            except DROPPED as error:
                data, problem = b"", str(error) or type(error).__name__
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
        # Without a length nothing tells the end from a break: the decompressor or the parser will.
        return self._response is not None and (self.total is None or self.position >= self.total)

    def _again(self, tries: int, problem: str) -> None:
        self.close()
        at = f"{self.address}: {problem} at byte {self.position:,} of {self.total or 0:,}"
        if tries > TRIES:
            raise InputError(f"{at}, {TRIES} tries to go on failed: try again later, or download the file first")
        if tries > 1:
            time.sleep(WAIT * 2 ** (tries - 2))
        try:
            self._connect(self.position, f"{at}, and the server ")
        except InputError:
            raise
        except DROPPED:
            self._response = None  # counted as one more try

    def _connect(self, start: int, dropped: str = "") -> None:
        headers = {"User-Agent": "ergodica", "Accept-Encoding": "identity"}
        if start:
            headers["Range"] = f"bytes={start}-"
            if self._tag:
                headers["If-Range"] = self._tag
        request = urllib.request.Request(self.address, headers=headers)
        try:
            response = urllib.request.urlopen(request, timeout=TIMEOUT)
        except urllib.error.HTTPError as error:
            error.close()
            if error.code >= 500 and dropped:
                raise ConnectionError(str(error)) from None
            raise InputError(f"{self.address}: the server answered {error.code} {error.reason}") from None
        except DROPPED as error:
            if dropped:
                raise
            reason = getattr(error, "reason", None) or error
            raise InputError(f"{self.address} could not be reached: {' '.join(str(reason).split())}") from None
        self._accept(response, start, dropped)

    def _accept(self, response: Any, start: int, dropped: str) -> None:
        length = response.headers.get("Content-Length")
        begins = _first_byte(response.headers.get("Content-Range")) if response.status == 206 else 0
        if dropped and begins != start:
            response.close()
            raise InputError(
                f"{dropped}cannot resume there (it has no ranges, or the file changed): download the file first"
            )
        total = None if length is None else begins + int(length)
        if dropped and self.total is not None and total != self.total:
            response.close()
            raise InputError(f"{dropped}now has another file of {total} bytes: begin anew")
        tag = response.headers.get("ETag")
        # RFC 9110, 13.1.5: a weak tag may not stand in If-Range.
        self._tag = tag if tag and not tag.startswith("W/") else response.headers.get("Last-Modified")
        self._response, self.position, self.total = response, begins, total


def _first_byte(content_range: str | None) -> int:
    try:
        return int((content_range or "").split()[1].partition("-")[0])
    except (IndexError, ValueError):
        return -1
