"""Small corpora on disk, made as the tests want them."""

import bz2
import gzip
import json
from pathlib import Path
from xml.sax.saxutils import escape

HEAD = '<mediawiki xmlns="http://www.mediawiki.org/xml/export-0.{version}/" version="0.{version}">\n'
WORDS = ("apple", "bread", "cider", "dough", "flour", "grape")


def page(text, title="Title", namespace=0, redirect=False):
    mark = '<redirect title="Elsewhere" />' if redirect else ""
    revision = f'<revision><id>7</id><text xml:space="preserve">{escape(text)}</text></revision>'
    return f"  <page><title>{title}</title><ns>{namespace}</ns><id>1</id>{mark}{revision}</page>\n"


def dump(pages, version=10):
    return (HEAD.format(version=version) + "".join(pages) + "</mediawiki>\n").encode()


def multistream(pages, per_stream=3):
    """As Wikipedia's multistream dumps: head, pages by the hundred and tail are bz2 streams of their own."""
    groups = ["".join(pages[k : k + per_stream]) for k in range(0, len(pages), per_stream)]
    return b"".join(bz2.compress(part.encode()) for part in [HEAD.format(version=11), *groups, "</mediawiki>\n"])


def document(number, length=6):
    """Words that tell which document it is."""
    return " ".join(WORDS[(number // 6**k) % 6] for k in range(length))


def lines(texts):
    return "".join(json.dumps({"id": k, "text": text}) + "\n" for k, text in enumerate(texts)).encode()


def write(folder: Path, name: str, data: bytes) -> str:
    path = folder / name
    if name.endswith(".bz2"):
        data = bz2.compress(data)
    elif name.endswith(".gz"):
        data = gzip.compress(data, mtime=0)
    path.write_bytes(data)
    return str(path)
