"""What a corpus is read from: names of files, folders and addresses, or texts; each recognised by its first bytes."""

import hashlib
import os
from abc import ABC, abstractmethod
from collections.abc import Iterable, Sized
from itertools import chain, islice
from typing import Any

from ergodica.errors import InputError
from ergodica.lda.corpus.documents import Documents, is_csr
from ergodica.lda.corpus.formats import Extracted, InMemory, JsonLines, MediaWiki, PlainText, Reader
from ergodica.lda.corpus.opening import STANDARD_INPUT, Chunk, Opened, is_address, without_password
from ergodica.lda.corpus.tally import Tally

ARCHIVE_KINDS = {
    b"PK\x03\x04": "a zip archive", b"7z\xbc\xaf": "a 7z archive", b"\xfd7zXZ": "xz", b"\x28\xb5/\xfd": "zstd",
}  # fmt: skip
KNOWN_FORMATS = "MediaWiki XML, JSON lines, WikiExtractor's output or UTF-8 text, each plain, .bz2 or .gz"
SAMPLE_BYTES = 1 << 16  # bytes of a file's beginning, middle and end
MOST_SAMPLED = 1_000  # files; of a corpus with more, an even spread of them


class DocumentSource(ABC):
    """One thing to read.

    Attributes:
        label: its name and size; a file may have been moved.
        total: bytes or documents in it, None while not known.
        can_repeat: it can be read again.
        is_named: a person named it, so that it is refused if it cannot be read; one from a folder is left out, counted.
    """

    name: str
    label: str
    total: int | None = None
    can_repeat: bool = True
    is_named: bool = True

    @abstractmethod
    def open(self, tally: Tally, limit: int, byte: int) -> Reader:
        """Begin to read at `byte`."""

    def mark(self) -> str:
        """What tells it from others of the same label; of files see `marks_of`."""
        return ""


class File(DocumentSource):
    """A file, standard input or an address."""

    def __init__(self, place: str, is_named: bool = True):
        self.place, self.is_named = place, is_named
        self.name = self.label = without_password(place)
        if os.path.isfile(place):
            self.total = os.path.getsize(place)
            self.label = f"{os.path.basename(place)} {self.total}"
        elif not is_named:  # a link that leads nowhere, a pipe or a socket: left out, whenever the folder is read
            self.total, self.label = 0, f"{os.path.basename(place)}, no file"
        else:
            self.can_repeat = is_address(place)  # a pipe has a name, but is read once, as standard input is

    def open(self, tally: Tally, limit: int, byte: int) -> Reader:
        if not self.is_named and not os.path.isfile(self.place):  # to open a pipe would wait for a writer
            raise InputError(f"{self.name} is not a file, or a link that leads nowhere")
        kind = self._kind() if byte else None  # by its first bytes, not by those at `byte`
        opened = Opened(self.place, tally, byte)
        try:
            chunks = opened.chunks()
            first = next(chunks, Chunk(b"", 0))
            kind = kind or recognise(opened.name, first.data)
        except BaseException:
            opened.close()
            raise
        self.total = opened.total
        is_continued = byte > 0 or first.data.lstrip().startswith(b"<page>")
        is_packed = opened.compression is not None
        reader = kind(opened.name, chain([first], chunks), tally, limit, is_packed, is_continued)
        reader.opened = opened
        return reader

    def mark(self) -> str:
        if not is_address(self.place):
            return ""
        from ergodica.lda.corpus.download import told_by_server

        return told_by_server(self.place)

    def _kind(self) -> type[Reader]:
        opened = Opened(self.place, Tally())
        try:
            return recognise(opened.name, next(opened.chunks(), Chunk(b"", 0)).data)
        finally:
            opened.close()


class Texts(DocumentSource):
    """An iterable of strings."""

    def __init__(self, strings: Iterable[str]):
        self.name, self._strings = "the texts", strings
        self.can_repeat = iter(strings) is not strings
        self.total = len(strings) if isinstance(strings, Sized) else None
        self.label = f"texts {self.total}"

    def open(self, tally: Tally, limit: int, byte: int) -> Reader:
        return InMemory(self._strings, tally, limit)

    def mark(self) -> str:
        # what makes its texts as they are asked for may take hours
        return _digest_of_texts(self._strings) if isinstance(self._strings, list | tuple) else ""


class Numbers(DocumentSource):
    """Documents that are numbers already."""

    def __init__(self, documents: Documents, columns: int | None = None):
        self.name, self.documents, self.total = "the documents", documents, len(documents)
        self.label = f"documents {self.total} {documents.tokens}"
        self.columns = int(documents.words.max(initial=-1)) + 1 if columns is None else columns

    def open(self, tally: Tally, limit: int, byte: int) -> Reader:
        return InMemory(self.documents, tally, limit)

    def mark(self) -> str:
        return hashlib.sha256(self.documents.starts.tobytes() + self.documents.words.tobytes()).hexdigest()


def marks_of(sources: list[DocumentSource]) -> list[str]:
    """Of each what tells it from others of the same label: a run is resumed with the same documents only."""
    files = [source.place for source in sources if isinstance(source, File) and os.path.isfile(source.place)]
    of_files = dict(zip(files, file_marks(files), strict=True))
    return [of_files.get(getattr(source, "place", "")) or source.mark() for source in sources]


def recognise(name: str, head: bytes) -> type[Reader]:
    """The format of a file, by its name and its first plain bytes."""
    text = head.removeprefix(b"\xef\xbb\xbf").lstrip()
    start = text[:200].lower()
    for magic, kind in ARCHIVE_KINDS.items():
        if head.startswith(magic):
            raise InputError(f"{name} is {kind}: unpack it first; {KNOWN_FORMATS} can be read")
    if b"\0" in head[:4096] or head.startswith(b"%PDF"):
        raise InputError(f"{name} is not text (it begins with {head[:8]!r}): {KNOWN_FORMATS} can be read")
    if start.startswith((b"<!doctype html", b"<html")):
        raise InputError(f"{name} is a web page: {KNOWN_FORMATS} can be read")
    if start.startswith((b"<?xml", b"<mediawiki", b"<page>", b"<!doctype")):
        return MediaWiki
    if start.startswith(b"<doc "):
        return Extracted
    bare = name.lower().removesuffix(".bz2").removesuffix(".gz")
    if start.startswith(b"[") and bare.endswith((".json", ".jsonl", ".ndjson")):
        raise InputError(f"{name} is one JSON array: expected one object with a field 'text' on every line")
    if bare.endswith((".jsonl", ".ndjson", ".json")) or (start.startswith(b"{") and not bare.endswith(".txt")):
        return JsonLines
    return MediaWiki if bare.endswith(".xml") else PlainText


def sources_of(given: Any) -> list[DocumentSource]:
    """The sources in what a person gave.

    A string or a path names something to read, and so does each entry of a list of them, unless one of the first 100
    has white space and is no file: then all are texts. An iterator is always one of texts.
    """
    if isinstance(given, Documents):
        return [Numbers(given)]
    if is_csr(given):
        return [Numbers(Documents.from_csr(given), int(given.shape[1]))]
    if isinstance(given, str | os.PathLike):
        return _files(os.fspath(given))
    if isinstance(given, bytes) or not isinstance(given, Iterable):
        raise InputError(f"got {type(given).__name__} for a corpus: expected paths, texts, or a CSR matrix of counts")
    if hasattr(given, "tocsr"):
        raise InputError(f"got a sparse {type(given).__name__}: expected the CSR form; matrix.tocsr() makes one")
    if isinstance(given, list | tuple) and given and all(_is_place(entry) for entry in islice(given, 100)):
        return [source for entry in given for source in _files(os.fspath(entry))]
    return [Texts(given)]


def _is_place(entry: Any) -> bool:
    if isinstance(entry, os.PathLike):
        return True
    if not isinstance(entry, str) or not entry or len(entry) > 4096 or "\n" in entry or "\0" in entry:
        return False
    return len(entry.split()) == 1 or os.path.exists(entry)


def _files(place: str) -> list[DocumentSource]:
    if place == STANDARD_INPUT or is_address(place):
        return [File(place)]
    if not os.path.exists(place):
        raise InputError(f"there is no file or folder {without_password(place)!r}")
    if not os.path.isdir(place):
        return [File(place)]
    found = []
    for folder, folders, names in os.walk(place):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        found += [os.path.join(folder, name) for name in names if not name.startswith(".")]
    if not found:
        raise InputError(f"the folder {place!r} has no files")
    return [File(path, is_named=False) for path in sorted(found)]


def file_marks(files: list[str]) -> list[str]:
    """Size and time of change of every file, and a digest of some of its bytes for up to 1,000 of them.

    A change of a file's middle that leaves size and time as they were is not seen.
    """
    every = max(1, -(-len(files) // MOST_SAMPLED))
    return [_file_mark(path, number % every == 0) for number, path in enumerate(files)]


def _digest_of_texts(texts: Iterable[str]) -> str:
    """A digest of all texts."""
    found = hashlib.sha256()
    for text in texts:
        content = str(text).encode("utf-8", "replace")
        found.update(len(content).to_bytes(8, "little") + content)
    return found.hexdigest()


def _file_mark(path: str, is_looked_into: bool) -> str:
    try:
        told = os.stat(path)
        words = f"{told.st_size} {told.st_mtime_ns}"
        return f"{words} {_sample(path, told.st_size)}" if is_looked_into else words
    except OSError:  # reading it will say so, or leave it out
        return "unreadable"


def _sample(path: str, size: int) -> str:
    found = hashlib.sha256()
    with open(path, "rb") as file:
        for start in sorted({0, max(0, size // 2 - SAMPLE_BYTES // 2), max(0, size - SAMPLE_BYTES)}):
            file.seek(start)
            found.update(file.read(SAMPLE_BYTES))
    return found.hexdigest()
