"""The page of a run: what it shows, that it is harmless and small, and what is said of a damaged folder."""

import base64
import hashlib
import itertools
import json
import math
import re
from contextlib import suppress
from html.parser import HTMLParser
from importlib.resources import files

import numpy as np
import pytest

from ergodica.errors import InputError
from ergodica.host import seal
from ergodica.lda.report import LARGEST_PAGE, MAP_SIZES, topic_map, write_report
from ergodica.lda.report.content import gather
from ergodica.lda.report.curve import curve_svg
from ergodica.lda.report.topic_map import _across, spots_of
from ergodica.lda.run_files import read_run
from tests.unit.lda.report_runs import WORDS, write_run

HOSTILE = (
    "</script><script>alert(1)</script>", '"onmouseover="alert(1)', "'><img/src=x>", "\u202eevil",
    "\u05e9\u05dc\u05d5\u05dd", "</style>", "<!--", "&amp;", "https://example.org", "\u2069\u202eout",
)  # fmt: skip
HOSTILE_URLS = (
    "https://example.org/letters/1", "javascript:alert(1)", "JAVASCRIPT:alert(1)", " javascript:alert(1)",
    "data:text/html,x", "file:///etc/passwd", "//example.org", "https:", "http://[", "https://exa\u202emple.org/",
    "https://example.org/\n",
    "https://example.org/" + "x" * 2000,
)  # fmt: skip
FILES = ("run.json", "theta.npz", "draws.npz", "shares.npz", "vocabulary.txt", "history.csv", "documents.json")
VOID = {"meta", "input", "link", "br"}


class Page(HTMLParser):
    """Elements with their attributes, the text of the page, and whether every element is closed."""

    def __init__(self, path):
        super().__init__()
        self.elements, self.open, self.text = [], [], []
        self.source = path.read_text("utf-8")
        self.feed(self.source)
        self.close()
        assert not self.open

    def handle_starttag(self, tag, attrs):
        assert len(dict(attrs)) == len(attrs)
        self.elements.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.elements.append((tag, dict(attrs)))

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if self.open[-1:] not in (["script"], ["style"]):
            self.text.append(data)

    def said(self):
        return " ".join(" ".join(self.text).split())

    def data(self):
        """What the script reads."""
        return json.loads(re.search(r'<script type="application/json" id="data">(.*?)</script>', self.source)[1])

    def all(self, tag):
        return [attrs for name, attrs in self.elements if name == tag]


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    return write_run(tmp_path_factory.mktemp("run"))


@pytest.fixture(scope="module")
def page(run):
    return Page(write_report(run))


def test_the_same_folder_gives_the_same_bytes_wherever_they_go(run, page, tmp_path):
    out = tmp_path / "elsewhere.html"
    assert write_report(str(run), out) == out
    assert out.read_bytes() == (run / "report.html").read_bytes() == page.source.encode()


def test_what_a_person_wants_first_comes_first(page):
    said = page.said()
    parts = ["8 topics from 16,000 documents", "sgrhmc", "preset tuned", "10 s", "words in the vocabulary 80"]
    parts += ["averaged over draws 1,975", "one draw 2,062", "word frequencies alone 4,331", "Map of topics", "Topic 1"]
    places = [said.index(part) for part in [*parts, "Unigram: every", "What was checked, and", "settings.step.b 100"]]
    assert places == sorted(places)
    sections = ["map", "panel", "topics", "perplexity", "checks", "settings"]
    assert [attrs["id"] for attrs in page.all("section")] == sections
    assert "versions.numpy 2.0" in said


@pytest.mark.parametrize(
    ("facts", "expected"),
    [
        ({}, "sampler spread, no posterior intervals: gradient noise is 3,513 times the injected noise"),
        ({"noise_ratio": 0.4}, "no posterior intervals: gradient noise is 0.4 times the injected noise"),
        ({"noise_ratio": math.nan}, "no posterior intervals: gradient noise was not measured"),
        ({"noise_ratio": 0.05, "band": "posterior interval"}, "20 draws; bands are 90 % posterior intervals"),
        ({"band": "not a posterior"}, "bands are not a posterior's: they say how far the draws spread"),
        ({"draws": 0, "found": True, "band": "none"}, "No bands: this is the averaged-count estimate, an optimiser's"),
        ({"draws": 1}, "No bands: the run kept one draw"),
        ({"draws": 0}, "No bands: the run kept no draws"),
    ],
)
def test_bands_are_called_what_they_are(tmp_path, facts, expected):
    said = Page(write_report(write_run(tmp_path, **facts))).said()
    assert expected in said
    assert said.count(expected) == 2  # beside the words, and among the checks
    assert said.count("posterior interval") == 2 * expected.count("posterior interval")


def test_topics_come_by_share_with_their_words_and_bands(run, page):
    content = gather(read_run(run))
    phi = np.load(run / "draws.npz")["phi"].astype(float)
    kept = np.load(run / "shares.npz")
    shares = kept["lengths"] @ kept["shares"] / (kept["lengths"] @ kept["shares"]).sum()
    assert [topic.number for topic in content.topics] == np.argsort(-shares).tolist()
    rows = [attrs for attrs in page.all("li") if attrs.get("class") == "topic"]
    assert [int(row["data-topic"]) for row in rows] == np.argsort(-shares).tolist()
    for topic in content.topics:
        assert topic.share == pytest.approx(shares[topic.number], rel=1e-5)
        order = np.argsort(-phi[:, :, topic.number].mean(axis=0))[:10]
        assert [word.word for word in topic.words[:10]] == [WORDS[i] for i in order]
        low, high = np.quantile(phi[:, order, topic.number], [0.05, 0.95], axis=0)
        np.testing.assert_allclose(
            [[word.low, word.high] for word in topic.words[:10]], np.stack([low, high], axis=1), rtol=1e-5
        )


def test_the_page_asks_nothing_of_the_network(page):
    for name, attrs in page.elements:
        assert not {"src", "srcset", "action", "style", "xlink:href"} & set(attrs), name
        assert not any(attribute.startswith("on") for attribute in attrs), name
        # a link asks nothing until it is followed
        assert re.match(r"#|https://example\.org/letters/\d+$", attrs.get("href", "#"))
        if name == "a" and not attrs["href"].startswith("#"):
            assert set(attrs["rel"].split()) == {"noopener", "noreferrer"}
    without_links = page.source.replace("https://example.org/letters/", "").replace("http://www.w3.org/2000/svg", "")
    assert not re.search(r"https?:|//\w+\.|@import|url\(", without_links)
    assert not {"link", "img", "iframe", "object", "base", "form"} & {name for name, _ in page.elements}


def test_without_a_script_links_lead_to_topics_and_what_needs_one_is_hidden(page):
    names = {attrs["id"] for _, attrs in page.elements if "id" in attrs}
    links = [attrs["href"][1:] for attrs in page.all("a") if attrs["href"][0] == "#"]
    assert {f"topic-{k}" for k in range(8)} < set(links) <= names
    for part in ("search", "panel", "sorting", "all"):
        assert any(attrs.get("id") == part and "hidden" in attrs for _, attrs in page.elements)
    assert page.said().count("Letter") > 8  # documents stand in the list


def test_the_policy_lets_only_its_own_style_and_script_run(page):
    policy = next(
        attrs["content"] for attrs in page.all("meta") if attrs.get("http-equiv") == "Content-Security-Policy"
    )
    for package, name, tag in (("pages", "style.css", "style"), ("lda.report", "page.js", "script")):
        text = files(f"ergodica.{package}").joinpath(name).read_text("utf-8")
        assert f"<{tag}>{text}</{tag}>" in page.source
        digest = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
        assert f"{tag}-src 'sha256-{digest}'" in policy
    assert policy.startswith("default-src 'none'")
    assert "unsafe" not in policy


def test_the_script_builds_no_html_and_its_brackets_close():
    script = files("ergodica.lda.report").joinpath("page.js").read_text("utf-8")
    assert not re.search(
        r"innerHTML|outerHTML|insertAdjacent|document\.write|\beval\b|Function\(|fetch|XMLHttp|import", script
    )
    bare = re.sub(r"""/\^#[^/]*/|'[^'\n]*'|"(?:\\.|[^"\\])*"|//[^\n]*""", "", script)
    for left, right in ("()", "[]", "{}"):
        assert bare.count(left) == bare.count(right)


def test_hostile_words_and_texts_are_harmless(tmp_path, page):
    words = (*HOSTILE, *WORDS[10:])
    documents = [
        {"id": text, "title": text * (1 + 40 * (i % 2)), "url": url, "date": text, "words": [text, "\ud800"]}
        for i, (text, url) in enumerate(zip([*HOSTILE, "\U0001f600"] * 3, HOSTILE_URLS * 4, strict=False))
    ]
    told = {"checks": [{"name": text, "passed": None, "text": text} for text in HOSTILE], "warnings": list(HOSTILE)}
    run = write_run(
        tmp_path, vocabulary=words, documents=documents, sampler="<b>", preset="\u202ex",
        versions={"</table>": "<i>\ud800"}, scale_check={"<b>": HOSTILE[0]}, **told,
    )  # fmt: skip
    hostile = Page(write_report(run))
    assert [len(hostile.all(tag)) for tag in ("script", "style", "img")] == [2, 1, 0]
    assert {attrs["href"] for attrs in hostile.all("a") if attrs["href"][0] != "#"} <= {HOSTILE_URLS[0]}
    assert {document[2] for document in hostile.data()["documents"]} == {"", HOSTILE_URLS[0]}
    known = {(name, attribute) for name, attrs in page.elements for attribute in attrs}
    known |= {("ul", "aria-label"), ("ul", "class")}  # of warnings
    assert {(name, attribute) for name, attrs in hostile.elements for attribute in attrs} <= known
    assert {name for name, _ in hostile.elements} <= {name for name, _ in page.elements} | {"b"}
    assert not set("\u202e\u202b\u2067\ud800") & set(hostile.source)
    assert hostile.source.count("\u2068") == hostile.source.count("\u2069")
    for word in ("</style>", "<!--", "&amp;", "\u05e9\u05dc\u05d5\u05dd", '"onmouseover="alert(1)'):
        assert word in hostile.text


def test_a_thousand_topics_stay_small_and_the_caps_are_said(tmp_path):
    words = [f"{i}" + "\"'&<>" * 10 for i in range(1200)]
    path = write_report(write_run(tmp_path, topics=1200, vocabulary=words, draws=2))
    assert path.stat().st_size <= LARGEST_PAGE
    said = Page(path).said()
    assert "The first 1,000 of 1,200 are listed" in said
    assert "The 100 largest topics" in said


def test_many_words_make_no_larger_page(tmp_path):
    words = [f"word{i}" for i in range(100_000)]
    assert write_report(write_run(tmp_path, topics=3, vocabulary=words, draws=2)).stat().st_size < 100_000


def test_a_run_without_draws_shares_or_held_out_documents_has_a_page_that_says_so(tmp_path):
    run = write_run(tmp_path, topics=1, draws=0, lengths=0, held_out=None)
    (run / "history.csv").write_text("documents,seconds,single,averaged\n")
    reseal(run)
    said = Page(write_report(run)).said()
    for part in ("kept no draws", "no perplexity", "no shares are known", "not measured while", "no list of checks"):
        assert part in said
    assert "Coherence was not measured" in said


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("damage", ["missing", "bytes", "empty", "cut"])
def test_a_damaged_file_is_named_in_one_line(tmp_path, name, damage):
    run = write_run(tmp_path)
    file = run / name
    whole = file.read_bytes()
    if damage == "missing":
        file.unlink()
    else:
        file.write_bytes({"bytes": b"\xff\xfe\x00", "empty": b"", "cut": whole[: len(whole) // 3]}[damage])
    with pytest.raises(InputError, match=re.escape(name)) as caught:
        write_report(run)
    assert "\n" not in str(caught.value)


def reseal(run):
    """As if the files had been written as they are now: checksums are right, and what the files hold is looked at."""
    path = run / "run.json"
    with suppress(ValueError):  # no JSON any more: that is seen first
        record = {name: value for name, value in json.loads(path.read_text()).items() if name != seal.SEAL}
        record["files"] = {name: seal.of_file(run / name) for name in record["files"]}
        path.write_text(json.dumps(seal.sealed(record)))


WRONG = {
    "run.json": [("{", "["), ('"format": 3', '"format": 4'), ('"topics": 8', '"topics": true'), ("3512.7", '"much"'),
                 ('"single": 2062.5', '"single": []')],
    "documents.json": [("[{", "[3, {"), ('"title": ""', '"title": 3'), ('"words": [', '"words": [3, '),
                       ('"words"', '"text"'), ("[{", '[{"words": []}, {')],
    "history.csv": [("single", "double"), ("2250.0", "two"), ("1000", "1e3"), (",2250.0", "")],
    "vocabulary.txt": [("river", "lake"), ("river", ""), ("river\n", "")],
}  # fmt: skip


@pytest.mark.parametrize(("name", "change"), [(name, change) for name in WRONG for change in WRONG[name]])
def test_what_cannot_be_is_refused(tmp_path, name, change):
    run = write_run(tmp_path)
    text = (run / name).read_text()
    assert change[0] in text
    (run / name).write_text(text.replace(*change, 1))
    reseal(run)
    with pytest.raises(InputError, match=re.escape(name)):
        write_report(run)


@pytest.mark.parametrize(
    ("name", "array", "wrong"),
    [
        ("draws", "phi", np.zeros((20, 8, 80))), ("draws", "phi", np.full((20, 80, 8), np.nan)),
        ("draws", "phi", -np.ones((20, 80, 8))), ("draws", "phi", np.zeros((20, 80, 8), "U1")),
        ("draws", "steps", np.arange(19)), ("theta", "theta", np.ones((8, 80))), ("theta", "steps", np.asarray(np.inf)),
        ("shares", "lengths", np.ones(39)),
    ],
)  # fmt: skip
def test_arrays_that_cannot_be_are_refused(tmp_path, name, array, wrong):
    path = write_run(tmp_path) / f"{name}.npz"
    np.savez(path, **(dict(np.load(path)) | {array: wrong}))
    with pytest.raises(InputError, match=rf"{name}\.npz"):
        write_report(tmp_path)


def test_neither_a_file_for_a_folder_nor_a_folder_for_a_file(run, tmp_path):
    with pytest.raises(InputError, match="not a folder"):
        write_report(run / "run.json")
    with pytest.raises(InputError, match="could not write"):
        write_report(run, tmp_path)


def test_distances_are_jensen_shannon():
    phi = np.random.default_rng(1).dirichlet(np.full(30, 0.2), size=4).T
    phi = np.column_stack([phi, np.eye(30)[:, :2]])

    def divergence(p, q):
        return sum(a * np.log(a / b) for a, b in zip(p, q, strict=True) if a > 0)

    found = topic_map.distances(phi)
    for i, j in itertools.product(range(6), repeat=2):
        mean = (phi[:, i] + phi[:, j]) / 2
        expected = np.sqrt(max(0.0, (divergence(phi[:, i], mean) + divergence(phi[:, j], mean)) / 2))
        assert found[i, j] == pytest.approx(expected, abs=1e-7)
    assert found[4, 5] == pytest.approx(np.sqrt(np.log(2)))


def test_merging_rare_words_makes_no_distance_larger(monkeypatch):
    phi = np.random.default_rng(2).dirichlet(np.full(200, 0.05), size=5).T
    exact = topic_map.distances(phi)
    monkeypatch.setattr(topic_map, "MOST_LOGARITHMS", 25 * 40)
    merged = topic_map.distances(phi)
    assert (merged <= exact + 1e-12).all()
    assert merged[0, 1] > 0.5 * exact[0, 1]


def test_classical_scaling_gives_points_of_a_plane_back():
    points = np.random.default_rng(3).normal(size=(9, 2))
    distance = np.linalg.norm(points[:, None] - points, axis=2)
    found = topic_map.scaled(distance)
    np.testing.assert_allclose(np.linalg.norm(found[:, None] - found, axis=2), distance, atol=1e-10)


@pytest.mark.parametrize("topics", [1, 2, 8, 50])
@pytest.mark.parametrize("size", MAP_SIZES.values())
def test_no_label_of_the_map_is_hidden(tmp_path, topics, size):
    content = gather(read_run(write_run(tmp_path, topics=topics, draws=2)))
    spots = spots_of(content.topics, topic_map.scaled(topic_map.distances(content.mapped)), *size)
    boxes = [_label(spot) for spot in spots if spot.is_labelled]
    assert len(boxes) >= min(topics, 20)
    for (a, b, c, d), (e, f, g, h) in itertools.combinations(boxes, 2):
        assert c <= e or g <= a or d <= f or h <= b
    assert all(min(a, b) >= 0 and c <= size[0] and d <= size[1] for a, b, c, d in boxes)


def _label(spot):
    half, height = _across(spot.lines) / 2, 12.5 * len(spot.lines)
    top = spot.y - height / 2 if spot.is_inside else spot.y + spot.radius
    return spot.x - half, top, spot.x + half, top + height


def test_the_curve_has_axes_names_and_every_evaluation(run, page):
    svg = curve_svg(gather(read_run(run)), (800, 300), "wide")
    for part in ("documents read", "perplexity per word", ">15,000<", ">4,000<", ">single<", ">averaged<", ">unigram<"):
        assert part in svg
    for label in ("single", "averaged"):
        assert len(re.findall(rf'<use href="#\w+" [^>]*fill="var\(--{label}\)"', svg)) == 5
    heights = [float(y) for y in re.findall(r'y="([\d.]+)"[^>]*>(?:single|averaged|unigram)<', svg)]
    assert len(heights) == 3
    assert -np.diff(heights).max() >= 13.9


def test_the_curve_of_a_wide_range_is_logarithmic_and_a_long_one_thinned(tmp_path):
    run = write_run(tmp_path)
    rows = [f"{d},1,{1000 + 1e8 / d},nan" for d in range(1000, 100_000, 10)]
    (run / "history.csv").write_text("documents,seconds,single,averaged\n" + "\n".join(rows))
    reseal(run)
    svg = curve_svg(gather(read_run(run)), (800, 300), "wide")
    assert ">50,000<" in svg
    assert ">averaged<" not in svg
    assert "--averaged" not in svg
    assert max(path.count("L ") for path in re.findall(r' d="([^"]*)"', svg)) == 399
    assert "400 of 9,900 evaluations are drawn." in Page(write_report(run)).said()
