"""`ergodica lda`: fit, choose, topics, infer, perplexity, report; and one clear line for every mistake."""

import json
import os
import shutil
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from ergodica.errors import InputError
from ergodica.lda import demo, learning
from ergodica.lda.samplers import Learner
from tests.cli import command

WORDS = demo.vocabulary().words
FIT = ["--topics", "3", "--batch-size", "20", "--passes", "2", "--held-out", "40", "--sampler", "sgrld"]


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """A corpus of JSON lines, its vocabulary, a document, and the folder of a run on them."""
    folder = tmp_path_factory.mktemp("lda")
    documents = demo.documents(160)
    lines = [json.dumps({"text": " ".join(WORDS[number] for number in document)}) for document in documents]
    (folder / "corpus.jsonl").write_text("\n".join(lines) + "\n")
    (folder / "vocab.txt").write_text("\n".join(WORDS))
    (folder / "new.txt").write_text("The ship left the harbour; the captain raised the anchor.")
    result = call(
        "fit", str(folder / "corpus.jsonl"), "--vocab", str(folder / "vocab.txt"), "--out", str(folder / "run"), *FIT
    )
    assert result.exit_code == 0, result.output
    (folder / "said.txt").write_text(result.stdout)
    return folder


def call(*arguments):
    return command.call("lda", *arguments)


def complaint(capsys, monkeypatch, *arguments):
    return command.complaint(capsys, monkeypatch, "lda", *arguments)


def test_fit_says_what_was_learnt(files):
    lines = (files / "said.txt").read_text().splitlines()
    assert len(lines) == 3 + 4
    assert lines[3].startswith("120 documents, 2.0 passes, in ")
    assert "perplexity of 40 held-out documents" in lines[4]
    assert "averaged over draws" in lines[4]
    assert "vocabulary of 300" in lines[4]
    assert "sampler spread" in lines[5]
    assert "lda report" in lines[6]


@pytest.fixture(scope="module")
def found(files):
    """The folder of a run without a chain, with nothing said about what to hold out, and its result."""
    given = [files / "corpus.jsonl", "--vocab", files / "vocab.txt", "--topics", "3", "--passes", "4"]
    return files / "found", call("fit", *given, "--out", files / "found")


def test_topics_are_found_without_bands(found):
    folder, result = found
    assert result.exit_code == 0
    lines = result.stdout.splitlines()
    assert len(lines) == 3 + 4
    assert "perplexity of 16 held-out documents" in lines[4]
    assert "draws" not in lines[4]
    assert lines[5].startswith("no bands: ")
    assert "--bands" in lines[5]
    assert "ergodica: documents held out, a tenth of the corpus: 16\n" in result.stderr
    said = call("topics", folder, "--words", "2").stdout
    assert " to 0." not in said
    assert "no bands" in said
    assert json.loads(call("topics", folder, "--json").stdout)["topics"][0]["words"][0]["low"] is None
    assert "perplexity of 160 documents: " in call("perplexity", folder, folder.parent / "corpus.jsonl").stdout


def test_bands_are_sampled_from_what_was_found(files, tmp_path, monkeypatch):
    monkeypatch.setattr(learning, "MOST_BAND_PASSES", 20)  # 200 effective draws would take longer
    given = [files / "corpus.jsonl", "--vocab", files / "vocab.txt", "--topics", "3", "--passes", "4", "--bands"]
    result = call("fit", *given, "--out", tmp_path / "run")
    assert result.exit_code == 0, result.stderr
    for text in ("averaged over draws; ", "as found, before sampling", "bands are", "outside their bands"):
        assert text in result.stdout


def test_a_small_corpus_and_short_documents(tmp_path):
    """The default of --held-out never is a failure."""
    lines = ["ship sail harbour anchor " * 4, "bread butter oven flour " * 4] * 10
    (tmp_path / "small.txt").write_text("\n".join(lines))
    given = ["--lines", "--topics", "2", "--passes", "3"]
    result = call("fit", tmp_path / "small.txt", *given, "--out", tmp_path / "small")
    assert "a tenth of the corpus: 2" in result.stderr
    (tmp_path / "short.txt").write_text("ship sail\nbread butter\n" * 10)
    for resume in ([], ["--resume"]):
        result = call("fit", tmp_path / "short.txt", *given, "--out", tmp_path / "short", *resume)
        assert result.exit_code == 0, result.stderr
        assert "no documents were held out: they are too few, or too short" in result.stderr
        assert "20 documents" in result.stdout
        assert "perplexity of" not in result.stdout


def test_standard_input_is_held_out_from_as_files_are(tmp_path):
    """Of what is read only once a tenth is held out too, and all are learnt from where documents are too short."""
    lines = ["ship sail harbour anchor " * 4, "bread butter oven flour " * 4] * 10
    given = ["fit", "-", "--lines", "--topics", "2", "--passes", "3"]
    result = command.call("lda", *given, "--out", tmp_path / "run", input="\n".join(lines))
    assert "a tenth of the corpus: 2" in result.stderr
    assert result.stdout.splitlines()[2].startswith("18 documents, 3.0 passes")
    result = command.call("lda", *given, "--out", tmp_path / "short", input="ship sail\nbread butter\n" * 10)
    assert result.exit_code == 0, result.stderr
    assert result.stdout.splitlines()[2].startswith("20 documents, 3.0 passes")


def test_a_tokenizer_of_ones_own(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "pairs.py").write_text(
        "def split(text):\n    return [text[k : k + 2] for k in range(0, len(text), 2)]\n"
    )
    (tmp_path / "zh.txt").write_text("".join("北京长城天气\n上海咖啡音乐\n" for _ in range(10)))
    given = ["zh.txt", "--lines", "--topics", "2", "--passes", "3"]
    assert call("fit", *given, "--tokenizer", "pairs.py:split", "--out", "run").exit_code == 0
    assert call("infer", "run", "zh.txt", "--tokenizer", "pairs.py:split").stdout.startswith("zh.txt:1  ")
    with pytest.raises(InputError, match="--tokenizer MODULE:FUNCTION"):
        call("infer", "run", "zh.txt")


def test_worse_than_word_frequencies_is_exit_code_1(tmp_path):
    words = [f"{a}{b}x" for a in "abcdefghij" for b in "abcdefghij"]
    random = np.random.default_rng(0)
    lines = [" ".join(random.choice(words, 30)) for _ in range(40)]
    (tmp_path / "noise.txt").write_text("\n".join(lines))
    given = ["--lines", "--topics", "30", "--passes", "3", "--held-out", "10", "--out", tmp_path / "run"]
    result = call("fit", tmp_path / "noise.txt", *given)
    assert result.stderr.count("this model predicts held-out words no better than word frequencies") == 1
    assert result.exit_code == 1
    assert (tmp_path / "run/run.json").exists()


def test_choose(files, tmp_path):
    given = [files / "corpus.jsonl", "--vocab", files / "vocab.txt", "--passes", "3", "--topics", "4,2"]
    said = call("choose", *given, "--out", tmp_path / "choice.svg").stdout.splitlines()
    assert len(said) == 1 + 2 + 2
    assert said[-1].startswith("perplexity is lowest at K = ")
    assert (tmp_path / "choice.svg").exists()
    told = json.loads(call("choose", *given, "--json").stdout)
    assert [row["topics"] for row in told["rows"]] == [2, 4]
    assert told["held_out"] == 16


def test_fit_json_and_resume(files, tmp_path):
    given = [str(files / "corpus.jsonl"), "--vocab", str(files / "vocab.txt"), *FIT, "--json"]
    first = call("fit", *given, "--out", str(tmp_path / "run"))
    outcome = json.loads(first.stdout)
    assert set(outcome) >= {"perplexity", "unigram_perplexity", "vocabulary", "documents", "seconds"}
    assert set(outcome["perplexity"]) == {"single", "averaged"}
    assert (outcome["vocabulary"], outcome["documents"], outcome["documents_seen"]) == (300, 40, 240)
    again = call("fit", *given, "--out", str(tmp_path / "run"), "--resume")
    assert json.loads(again.stdout) == outcome
    for name in ("topics.csv", "theta.npz", "draws.npz"):
        assert (tmp_path / "run" / name).read_bytes() == (files / "run" / name).read_bytes()


def test_ctrl_c_is_said_and_gone_on_with(files, tmp_path, monkeypatch):
    step = Learner.step

    def pressed(self, batch):
        if self.steps == 4:
            import os
            import signal

            os.kill(os.getpid(), signal.SIGINT)
        step(self, batch)

    given = [str(files / "corpus.jsonl"), "--vocab", str(files / "vocab.txt"), *FIT, "--out", str(tmp_path / "run")]
    with monkeypatch.context() as patch:
        patch.setattr(Learner, "step", pressed)
        stopped = call("fit", *given)
    assert stopped.exit_code == 130
    assert "the batch is finished and saved" in stopped.stderr
    assert call("fit", *given, "--resume").exit_code == 0
    assert (tmp_path / "run/theta.npz").read_bytes() == (files / "run/theta.npz").read_bytes()


def test_topics(files):
    said = call("topics", str(files / "run"), "--words", "4").stdout
    assert said.count("topic ") == 3
    assert "sampler spread" in said
    assert "times the injected noise" in said
    told = json.loads(call("topics", str(files / "run"), "--words", "4", "--json").stdout)
    assert told["band"] == "sampler spread"
    assert [len(topic["words"]) for topic in told["topics"]] == [4] * 3
    assert set(told["topics"][0]["words"][0]) == {"word", "probability", "low", "high"}


def test_infer(files, tmp_path):
    lines = call("infer", str(files / "run"), str(files / "new.txt"), str(files / "corpus.jsonl")).stdout.splitlines()
    assert len(lines) == 161
    assert lines[0].startswith("new.txt  ")
    assert "topic" in lines[0]
    told = json.loads(call("infer", str(files / "run"), str(files / "new.txt"), "--json").stdout)
    assert sum(told["shares"]) == pytest.approx(1, abs=1e-5)
    assert (told["id"], told["title"], told["has_words"]) == ("new.txt", "new.txt", True)
    (tmp_path / "foreign.txt").write_text("nothing that is known")
    assert (
        "no word of it is in the vocabulary" in call("infer", str(files / "run"), str(tmp_path / "foreign.txt")).stdout
    )


def test_infer_reads_fields_and_lines(files, tmp_path):
    table = tmp_path / "table.csv"
    table.write_text("id,title,body\nx1,At sea,ship sail harbour\nx2,,\nx3,,bread butter\n")
    result = call("infer", files / "run", table, "--field", "body")
    lines = result.stdout.splitlines()
    assert [line.split("  ")[0].strip() or line.split()[0] for line in lines] == ["At sea", "x2", "x3"]
    assert "no word of it" in lines[1]
    (tmp_path / "damaged.jsonl").write_text('{"text": "ship sail"}\n{"text": \n{"text": "bread"}\n')
    result = call("infer", files / "run", tmp_path / "damaged.jsonl")
    assert len(result.stdout.splitlines()) == 3
    assert "ergodica: lines left out, not a JSON object" in result.stderr
    (tmp_path / "two.txt").write_text("ship sail\nbread butter\n")
    assert len(call("infer", files / "run", tmp_path / "two.txt").stdout.splitlines()) == 1
    assert len(call("infer", files / "run", tmp_path / "two.txt", "--lines").stdout.splitlines()) == 2


def test_perplexity(files):
    told = json.loads(call("perplexity", str(files / "run"), str(files / "corpus.jsonl"), "--json").stdout)
    assert set(told) == {"perplexity", "unigram_perplexity", "vocabulary", "documents"}
    assert told["documents"] == 160
    assert told["perplexity"]["single"] < told["unigram_perplexity"]
    assert "perplexity of 160" in call("perplexity", str(files / "run"), str(files / "corpus.jsonl")).stdout


def test_report(files, tmp_path):
    said = call("report", str(files / "run"), "--out", str(tmp_path / "page.html")).stdout.strip()
    assert said == str(tmp_path / "page.html")
    assert (tmp_path / "page.html").read_text().lstrip().startswith("<!")


def test_a_page_goes_into_a_pipe_and_a_changed_table_is_one_line(files, tmp_path):
    """What is no file stays what it is: a page renamed to /dev/stdout would take its place."""
    os.mkfifo(tmp_path / "pipe")
    shutil.copytree(files / "run", tmp_path / "run")
    (tmp_path / "run/topics.csv").write_text("saved again by another program")
    with ThreadPoolExecutor(1) as pool:
        page = pool.submit((tmp_path / "pipe").read_text)
        said = call("report", tmp_path / "run", "--out", tmp_path / "pipe").stderr
    assert page.result().lstrip().startswith("<!")
    assert not (tmp_path / "pipe").is_file()
    assert said.startswith("ergodica: ")
    assert said.count("\n") == 1


def test_mistakes_are_one_line(files, tmp_path, capsys, monkeypatch):
    corpus, run = files / "corpus.jsonl", files / "run"
    (tmp_path / "empty.txt").write_text("")
    (tmp_path / "twice.txt").write_text("ship\nsail\nship\n")
    out = ("--out", tmp_path / "new")
    monkeypatch.chdir(tmp_path)
    assert "holds a run" in complaint(capsys, monkeypatch, "fit", corpus, "--out", run)
    assert "no file or folder" in complaint(capsys, monkeypatch, "fit", "nowhere.xml", *out)
    assert "two words of the vocabulary" in complaint(
        capsys, monkeypatch, "fit", "empty.txt", "--vocab", files / "vocab.txt", *out
    )
    assert "'ship' twice" in complaint(capsys, monkeypatch, "fit", corpus, "--vocab", "twice.txt", *out)
    assert "held_out is 1000" in complaint(capsys, monkeypatch, "fit", corpus, "--held-out", 1000, *out)
    assert "--step is '1,2'" in complaint(capsys, monkeypatch, "fit", corpus, "--bands", "--step", "1,2", *out)
    assert "add --bands or --sampler" in complaint(capsys, monkeypatch, "fit", corpus, "--step", "1", *out)
    assert "tokenizer is 'x'" in complaint(capsys, monkeypatch, "fit", corpus, "--tokenizer", "x", *out)
    assert "stopwords is 'x'" in complaint(capsys, monkeypatch, "fit", corpus, "--stopwords", "x", *out)
    assert "--topics is '2;3'" in complaint(capsys, monkeypatch, "choose", corpus, "--topics", "2;3")
    assert "must end in .png" in complaint(capsys, monkeypatch, "choose", corpus, "--out", "a.bmp")
    assert "sampler is 'nuts'" in complaint(capsys, monkeypatch, "fit", corpus, "--sampler", "nuts", *out)
    assert "preset is 'best'" in complaint(capsys, monkeypatch, "fit", corpus, "--preset", "best", *out)
    assert "vocabulary of its own" in complaint(capsys, monkeypatch, "fit", "demo", "--vocab", "twice.txt", *out)
    assert "no run.json" in complaint(capsys, monkeypatch, "topics", tmp_path)
    assert "does not exist" in complaint(capsys, monkeypatch, "topics", "nowhere")
    assert "is a file" in complaint(capsys, monkeypatch, "fit", corpus, "--out", "empty.txt")
    assert "Is a directory" in complaint(capsys, monkeypatch, "report", run, "--out", tmp_path)
    assert "no file or folder" in complaint(capsys, monkeypatch, "infer", run, "nowhere.txt")
    assert "two words of the vocabulary" in complaint(capsys, monkeypatch, "perplexity", run, "empty.txt")
    assert not (tmp_path / "new").exists()
