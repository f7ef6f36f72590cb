"""What a corpus is read from: files, folders, addresses, each recognised by its first bytes; or what is in memory."""

import hashlib
import os
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sized
from itertools import chain
from typing import Any

import numpy as np

from ergodica.errors import InputError
from ergodica.lda.corpus.documents import DocumentLabel, Documents, is_csr, words_of_bag
from ergodica.lda.corpus.formats import Extracted, InMemory, JsonLines, PlainText, Reader, TextLines
from ergodica.lda.corpus.mediawiki import MediaWiki
from ergodica.lda.corpus.opening import STANDARD_INPUT, Chunk, Opened, is_address, without_password
from ergodica.lda.corpus.tables import (
    DelimitedTable,
    ParquetTable,
    arrow_values,
    frame_rows,
    is_arrow_array,
    is_frame,
)
from ergodica.lda.corpus.tally import Tally
from ergodica.lda.corpus.tokenizing import PLAIN_READING, Reading

ARCHIVE_KINDS = {
    b"PK\x03\x04": "a zip archive (as Word's and Excel's files are)",
    b"7z\xbc\xaf": "a 7z archive", b"\xfd7zXZ": "xz", b"\x28\xb5/\xfd": "zstd",
}  # fmt: skip
KNOWN_FORMATS = (
    "MediaWiki XML, JSON lines, CSV, TSV, WikiExtractor's output or UTF-8 text, each plain, .bz2 or .gz, and Parquet"
)
PARQUET_BYTES = b"PAR1"
MOST_CONTROLS = 0.05  # of the first bytes of a text; of packed or encrypted ones a tenth are control characters
_CONTROL_BYTES = bytes(code for code in range(32) if chr(code) not in "\t\n\v\f\r\x1b")
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

    def __init__(self, place: str, reading: Reading = PLAIN_READING, is_named: bool = True):
        self.place, self.reading, self.is_named = place, reading, is_named
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
        if kind is ParquetTable:
            return self._parquet(tally, limit, byte)
        opened = Opened(self.place, tally, byte)
        try:
            chunks = opened.chunks()
            first = next(chunks, Chunk(b"", 0))
            kind = kind or recognise(opened.name, first.data, self.reading)
        except BaseException:
            opened.close()
            raise
        if kind is ParquetTable:
            opened.close()
            return self._parquet(tally, limit, byte)
        self.total = opened.total
        is_continued = byte > 0 or first.data.lstrip().startswith(b"<page>")
        is_packed = opened.compression is not None
        reader = kind(opened.name, chain([first], chunks), tally, limit, is_packed, is_continued, self.reading)
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
            return recognise(opened.name, next(opened.chunks(), Chunk(b"", 0)).data, self.reading)
        finally:
            opened.close()

    def _parquet(self, tally: Tally, limit: int, group: int) -> Reader:
        if not os.path.isfile(self.place) or self.place.endswith((".gz", ".bz2")):
            raise InputError(f"{self.name} is Parquet, which is read from a local file that is not packed: save it so")
        reader = ParquetTable(self.name, iter(()), tally, limit, reading=self.reading)
        reader.total_bytes = self.total or 0
        return reader.begin(self.place, group)


class Texts(DocumentSource):
    """An iterable of strings, or of documents as lists of words; labelled by an index, else by numbers."""

    def __init__(self, strings: Iterable[Any], index: Iterable[Any] | None = None):
        self.name, self._strings, self._index = "the texts", strings, index
        self.can_repeat = iter(strings) is not strings
        self.total = len(strings) if isinstance(strings, Sized) else None
        self.label = f"texts {self.total}"

    def open(self, tally: Tally, limit: int, byte: int) -> Reader:
        return InMemory(self._labelled(), tally, limit)

    def mark(self) -> str:
        # what makes its texts as they are asked for may take hours
        is_held = isinstance(self._strings, list | tuple | np.ndarray) or self._index is not None
        return _digest_of_texts(self._strings) if is_held else ""

    def _labelled(self) -> Iterator[tuple[Any, DocumentLabel]]:
        if self._index is not None:
            return ((text, DocumentLabel(str(name))) for name, text in zip(self._index, self._strings, strict=True))
        return ((text, DocumentLabel(str(number))) for number, text in enumerate(self._strings))


class Frame(DocumentSource):
    """A table in memory with a column of texts, or an Arrow array of them."""

    def __init__(self, table: Any, reading: Reading):
        self.name, self.total, self._table, self._reading = "the table", len(table), table, reading
        self.label = f"table {self.total}"

    def open(self, tally: Tally, limit: int, byte: int) -> Reader:
        return InMemory(self._rows(), tally, limit)

    def mark(self) -> str:
        return _digest_of_texts(text for text, _ in self._rows())

    def _rows(self) -> Iterator[tuple[Any, DocumentLabel]]:
        if is_arrow_array(self._table):
            return ((text, DocumentLabel(str(number))) for number, text in enumerate(arrow_values(self._table)))
        return frame_rows(self._table, self._reading.field)


class Numbers(DocumentSource):
    """Documents that are numbers already."""

    def __init__(self, documents: Documents, columns: int | None = None):
        self.name, self.documents, self.total = "the documents", documents, len(documents)
        self.label = f"documents {self.total} {documents.tokens}"
        self.columns = int(documents.words.max(initial=-1)) + 1 if columns is None else columns

    def open(self, tally: Tally, limit: int, byte: int) -> Reader:
        labels = self.documents.labels or map(DocumentLabel, map(str, range(len(self.documents))))
        return InMemory(zip(self.documents, labels, strict=True), tally, limit)

    def mark(self) -> str:
        return hashlib.sha256(self.documents.starts.tobytes() + self.documents.words.tobytes()).hexdigest()


def marks_of(sources: list[DocumentSource]) -> list[str]:
    """Of each what tells it from others of the same label: a run is resumed with the same documents only."""
    files = [source.place for source in sources if isinstance(source, File) and os.path.isfile(source.place)]
    of_files = dict(zip(files, file_marks(files), strict=True))
    return [of_files.get(getattr(source, "place", "")) or source.mark() for source in sources]


def recognise(name: str, head: bytes, reading: Reading = PLAIN_READING) -> type[Reader]:
    """The format of a file, by its name and its first plain bytes."""
    text = head.removeprefix(b"\xef\xbb\xbf").lstrip()
    start = text[:200].lower()
    if head.startswith(PARQUET_BYTES):
        return ParquetTable
    _refuse_other_kinds(name, head, start)
    if start.startswith((b"<?xml", b"<mediawiki", b"<page>", b"<!doctype")):
        return MediaWiki
    if start.startswith(b"<doc "):
        return Extracted
    bare = name.lower().removesuffix(".bz2").removesuffix(".gz")
    if bare.endswith((".csv", ".tsv")):
        return DelimitedTable
    if start.startswith(b"[") and bare.endswith((".json", ".jsonl", ".ndjson")):
        raise InputError(
            f"{name} is one JSON array: expected one object with a field 'text' on every line, as jq -c '.[]' gives"
        )
    if bare.endswith((".jsonl", ".ndjson", ".json")) or (start.startswith(b"{") and not bare.endswith(".txt")):
        return JsonLines
    if bare.endswith(".xml"):
        return MediaWiki
    if reading.field is not None and not os.path.splitext(bare)[1]:  # as standard input: only a table has fields
        return DelimitedTable
    return TextLines if reading.lines else PlainText


def _refuse_other_kinds(name: str, head: bytes, start: bytes) -> None:
    for magic, kind in ARCHIVE_KINDS.items():
        if head.startswith(magic):
            raise InputError(f"{name} is {kind}: unpack it, or save it as text; {KNOWN_FORMATS} can be read")
    first = head[:4096]
    controls = len(first) - len(first.translate(None, _CONTROL_BYTES))
    if head.startswith((b"\xff\xfe", b"\xfe\xff")):
        raise InputError(f"{name} is UTF-16: save it as UTF-8, or iconv -f utf-16 -t utf-8")
    if b"\0" in first or controls > MOST_CONTROLS * len(first) or head.startswith(b"%PDF"):
        raise InputError(f"{name} is not text (it begins with {head[:8]!r}): {KNOWN_FORMATS} can be read")
    if start.startswith((b"<!doctype html", b"<html")):
        raise InputError(f"{name} is a web page: {KNOWN_FORMATS} can be read")


def sources_of(given: Any, reading: Reading = PLAIN_READING) -> list[DocumentSource]:
    """The sources in what a person gave.

    A string or a path names something to read. A list of strings is one of texts, unless every entry is an existing
    file or folder, "-" or an http(s) address. An iterator is always one of texts.
    """
    if isinstance(given, Documents):
        return [Numbers(given)]
    if is_csr(given):
        return [Numbers(Documents.from_csr(given), int(given.shape[1]))]
    if isinstance(given, str | os.PathLike):
        return _files(os.fspath(given), reading)
    if is_frame(given) or is_arrow_array(given):
        return [Frame(given, reading)]
    _refuse_other_things(given)
    if isinstance(given, list | tuple) and given:
        if _names_files(given):
            return [source for entry in given for source in _files(os.fspath(entry), reading)]
        if _is_bags(given):
            return [Numbers(Documents.of([words_of_bag(pairs) for pairs in given]))]
    index = getattr(given, "index", None)  # of a pandas Series; a list has a method of that name
    return [Texts(given, None if callable(index) else index)]


def _refuse_other_things(given: Any) -> None:
    if isinstance(given, bytes | Mapping) or not isinstance(given, Iterable):
        raise InputError(
            f"got {type(given).__name__} for a corpus: expected paths, texts, a table or a CSR matrix of counts"
        )
    if isinstance(given, set | frozenset):
        raise InputError("got a set for a corpus, which has no order: give a list, such as sorted(texts)")
    if hasattr(given, "tocsr"):
        raise InputError(f"got a sparse {type(given).__name__}: expected the CSR form; matrix.tocsr() makes one")
    if isinstance(given, np.ndarray) and given.ndim != 1:
        raise InputError(f"got an array of shape {given.shape}: expected texts, or scipy.sparse.csr_matrix(counts)")


def _names_files(entries: list | tuple) -> bool:
    """Whether a list names files; InputError where all entries look like it, but one is not there."""
    if any(isinstance(entry, os.PathLike) for entry in entries):
        for entry in entries:
            if not isinstance(entry, str | os.PathLike):
                raise InputError(f"a list of paths has a {type(entry).__name__} in it: expected paths alone")
        return True
    if all(_is_place(entry) for entry in entries):
        return True
    missing = None
    for entry in entries:
        if not _is_place(entry):
            if not _looks_like_a_path(entry):
                return False
            missing = missing or entry
    raise InputError(
        f"there is no file or folder {without_password(str(missing))!r}, which looks like a path; a list of texts of "
        "one word each is given as [[word], [word], ...]"
    )


def _is_place(entry: Any) -> bool:
    """Whether an entry of a list is the name of something that is there."""
    if not isinstance(entry, str) or not entry or len(entry) > 4096 or "\n" in entry or "\0" in entry:
        return False
    return entry == STANDARD_INPUT or (is_address(entry) and len(entry.split()) == 1) or os.path.exists(entry)


def _looks_like_a_path(entry: Any) -> bool:
    if not isinstance(entry, str) or len(entry) > 4096 or len(entry.split()) != 1:
        return False
    return "/" in entry or os.sep in entry or 1 < len(os.path.splitext(entry)[1]) <= 8


def _is_bags(entries: list | tuple) -> bool:
    """Whether the documents are (number, count) pairs, as gensim has them."""
    if not all(isinstance(entry, list | tuple) for entry in entries):
        return False
    first = next((entry[0] for entry in entries if entry), None)
    return isinstance(first, tuple | list) and len(first) == 2 and not isinstance(first[0], str)


def _files(place: str, reading: Reading = PLAIN_READING) -> list[DocumentSource]:
    if place == STANDARD_INPUT or is_address(place):
        return [File(place, reading)]
    if len(place) > 4096 or "\0" in place or not os.path.exists(place):
        advice = "; a text is given in a list: [text]" if len(place.split()) > 1 else ""
        raise InputError(f"there is no file or folder {without_password(place[:200])!r}{advice}")
    if not os.path.isdir(place):
        return [File(place, reading)]
    found = []
    for folder, folders, names in os.walk(place):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        found += [os.path.join(folder, name) for name in names if not name.startswith(".")]
    if not found:
        raise InputError(f"the folder {place!r} has no files")
    return [File(path, reading, is_named=False) for path in sorted(found)]


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
