"""Tables with a column of texts: CSV and TSV, Parquet, DataFrames, Arrow."""

import csv
import json

import pytest

from ergodica.errors import InputError
from ergodica.lda.corpus import Corpus, Reading, numbered, texts
from ergodica.lda.corpus.documents import DocumentLabel
from ergodica.lda.corpus.tally import Tally
from tests.unit.lda.corpus.dumps import WORDS, document, write
from tests.unit.lda.corpus.test_corpus import same

DOCUMENTS = [document(k) for k in range(60)]


def read(source, tally=None, limit=1 << 20, **options):
    return list(texts(source, tally, limit, Reading(**options)))


@pytest.mark.parametrize("name", ["x.csv", "x.csv.gz", "x.csv.bz2"])
def test_csv(tmp_path, name):
    content = '\ufeffid,Title,text\r\n1,One,"apple, ""bread""\r\ncider"\r\n\r\n2,Two,grape\r\n'
    path = write(tmp_path, name, content.encode())
    assert read(path) == ['apple, "bread"\r\ncider', "grape"]
    (documents,) = numbered(path, Corpus(["apple bread"], WORDS).vocabulary)
    assert [row.tolist() for row in documents] == [[0, 1, 2], [5]]
    assert documents.labels == (DocumentLabel("1", "One"), DocumentLabel("2", "Two"))


@pytest.mark.parametrize(("name", "gap"), [("x.tsv", "\t"), ("x.csv", ";"), ("x.csv", "\t"), ("x.csv", "|")])
def test_other_delimiters(tmp_path, name, gap):
    content = f"id{gap}body\n7{gap}apple, bread\n"
    assert read(write(tmp_path, name, content.encode())) == ["apple, bread"]


def test_a_table_without_a_suffix_is_known_by_its_field(tmp_path):
    path = write(tmp_path, "export", b"id,body\n1,apple\n2,bread\n")
    assert read(path, field="body") == ["apple", "bread"]
    assert len(read(path)) == 1


def test_which_column(tmp_path):
    path = write(
        tmp_path, "x.csv", b"id,title,body,kind\n1,A title,apple bread cider,fruit\n2,Other,grape dough,bread\n"
    )
    assert read(path) == ["apple bread cider", "grape dough"]  # the only one of several words that names nothing
    assert read(path, field="kind") == ["fruit", "bread"]
    with pytest.raises(InputError, match=r"x.csv has no column 'words': it has 'id', 'title', 'body', 'kind'"):
        read(path, field="words")
    two = write(tmp_path, "y.csv", b"a,b\nsome words,more words\n")
    plain = write(tmp_path, "z.csv", b"1,the ship left the harbour at dawn and came back\n2,bread and butter\n")
    with pytest.raises(InputError, match=r"z.csv begins with '1,the ship .* no names of columns"):
        read(plain)
    with pytest.raises(InputError, match=r"y.csv has no column 'text': it has 'a', 'b'; --field NAME"):
        read(two)
    assert read(write(tmp_path, "z.csv", b"words\napple\n")) == ["apple"]
    assert read(write(tmp_path, "e.csv", b"")) == read(write(tmp_path, "f.csv", b"text\n")) == []


def test_rows_that_are_short_and_fields_that_are_long(tmp_path):
    tally = Tally()
    content = b"id,text\n1\n2," + b"bread " * 100_000 + b"\n3,caf\xe9\n"
    assert read(write(tmp_path, "x.csv", content), tally, limit=300_000) == [("bread " * 50_000), "caf\ufffd"]
    assert tally.counts == {"bad_row": 1, "cut": 1, "not_utf8": 1}
    assert "1 of 2 columns in ['1']" in tally.notes()[0]


def test_a_quote_without_end_is_counted_in_bounded_memory(tmp_path):
    before = csv.field_size_limit(1000)  # of the whole program, which reading raises
    try:
        tally = Tally()
        content = b"id,text\n" + b"1,apple\n" * 3 + b'2,"bread\n' + b"3,cider\n" * 10_000
        path = write(tmp_path, "x.csv", content)
        assert read(path, tally, limit=1000) == ["apple"] * 3
        assert tally.notes() == [
            "files cut off or damaged (what came before is kept): 1; "
            f"first: {path}, line 1,005: field larger than field limit (8000)"
        ]
        assert csv.field_size_limit() == 8000
    finally:
        csv.field_size_limit(before)


def cursor_and_rest(make):
    corpus = make()
    for _ in range(4):
        next(corpus)
    cursor = json.loads(json.dumps(corpus.cursor))
    return cursor, list(corpus)


def csv_file(folder):
    return write(folder, "x.csv", ("id,text\n" + "".join(f"{k},{text}\n" for k, text in enumerate(DOCUMENTS))).encode())


def parquet_file(folder):
    pyarrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")

    path = folder / "x.parquet"
    dates = ["2024-05-01"] * len(DOCUMENTS)
    table = pyarrow.table({"id": range(len(DOCUMENTS)), "body": DOCUMENTS, "Date": dates})
    parquet.write_table(table, path, row_group_size=10)
    return str(path)


@pytest.mark.parametrize("make", [csv_file, parquet_file])
def test_the_same_batches_follow_a_cursor(tmp_path, make):
    path = make(tmp_path)

    def made():
        return Corpus(path, WORDS, batch_size=7, shuffle_buffer=8, passes=2)

    cursor, rest = cursor_and_rest(made)
    other = made()
    other.seek(cursor)
    assert same(list(other), rest)
    assert cursor["byte"] == (0 if path.endswith("csv") else 2)  # a row group
    assert sum(map(len, rest)) == 120 - 28


def test_parquet(tmp_path):
    path = parquet_file(tmp_path)
    assert read(path) == DOCUMENTS
    corpus = Corpus(path, WORDS, held_out=1)
    assert corpus.held_out.labels == (DocumentLabel("0", "", "", "2024-05-01"),)
    assert corpus.progress is not None
    with pytest.raises(InputError, match=r"x.parquet has no column 'text_en': it has 'id', 'body', 'Date'"):
        read(path, field="text_en")


def test_parquet_with_gaps_and_damage(tmp_path):
    pyarrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")

    path = tmp_path / "x.parquet"
    parquet.write_table(pyarrow.table({"text": ["apple", None, "", b"x" * 9]}), path)
    assert read(path, limit=8) == ["apple", "", "", "x" * 8]
    path.write_bytes(path.read_bytes()[:50])
    with pytest.raises(InputError, match=r"x.parquet could not be read as Parquet"):
        read(path)


def test_dataframes():
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame(
        {"body": ["apple bread", None, "cider dough"], "n": [1, 2, 3], "date": pandas.to_datetime(["2024-01-02"] * 3)},
        index=["x", "y", "z"],
    )
    vocabulary = Corpus(["apple bread"], WORDS).vocabulary
    for given, options in ((frame, {}), (frame, {"field": "body"}), (frame["body"], {})):
        (documents,) = numbered(given, vocabulary, Reading(**options))
        assert [row.tolist() for row in documents] == [[0, 1], [], [2, 3]]
        assert [label.id for label in documents.labels] == ["x", "y", "z"]
    (documents,) = numbered(frame, vocabulary)
    assert documents.labels[2].date == "2024-01-02T00:00:00"
    with pytest.raises(InputError, match="the table has no column 'text': it has 'a', 'b'"):
        read(pandas.DataFrame({"a": ["x y"], "b": ["x y"]}))
    with pytest.raises(InputError, match="the table has the column 'text' twice"):
        read(pandas.DataFrame([["x", "y"]], columns=["text", "text"]))
    with pytest.raises(InputError, match="the table has no columns"):
        read(pandas.DataFrame())
    corpus, other = Corpus(frame, WORDS), Corpus(frame.assign(body="grape grape"), WORDS)
    assert corpus.cursor["corpus"] != other.cursor["corpus"]
    assert corpus.cursor["corpus"] == Corpus(frame.copy(), WORDS).cursor["corpus"]
    assert sum(map(len, Corpus(frame, WORDS, passes=2))) == 4


def test_arrow_tables_and_arrays():
    pyarrow = pytest.importorskip("pyarrow")
    table = pyarrow.table({"text": DOCUMENTS, "title": [f"t{k}" for k in range(60)]})
    vocabulary = Corpus(["apple bread"], WORDS).vocabulary
    for given in (table, table["text"], table["text"].combine_chunks()):
        (documents,) = numbered(given, vocabulary)
        assert len(documents) == 60
        assert documents.labels[59].id == "59"
        assert read(given) == DOCUMENTS
    assert next(numbered(table, vocabulary)).labels[3].title == "t3"
