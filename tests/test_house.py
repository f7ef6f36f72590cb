"""The size and the order of the tree: what is installed, what a call loads, one name for one thing, plain words.

Each test prints what it measured (`make test ARGS='-s tests/test_house.py'`).
"""

import ast
import io
import re
import subprocess
import sys
import tokenize
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "src" / "ergodica"
SOURCES = [folder for folder in (PACKAGE, ROOT / "paper" / "src") if folder.is_dir()]

# What this tree promises. A later issue may raise a bound, in a commit of its own that says why.
BOUNDS = {
    # 190, the nine of tuning, twelve of topic models at every size; sixteen of models and predictions: coordinates,
    # transforms, networks, bridges (4), what is kept (2), large positions (2), warm-up and scale (2), predictions (2)
    "Python files of the package": 227,
    # without docstrings, comments and blank lines; 17,500 was aimed at when the tree was moved, and 19,750 was reached;
    # tuning has 2,400, commands and its diagnostics included
    # topic models at every size have 3,000: text of every kind, the page, finding, SCIR, choice
    # models in, predictions out and networks have 2,600
    "lines of code of the package": 28_150,
    "modules loaded by eg.sample": 71,  # by seven: coordinates, transforms, networks, what is kept, large positions
    "modules loaded by eg.audit": 70,
    "modules loaded by eg.lda.LDA": 99,  # by four: what reads text of every kind; by five: coordinates and normals
    "lines of a file": 400,
}
CALLS = {
    "modules loaded by eg.sample": (
        "import ergodica as eg; eg.sample(eg.gallery.gaussian(2), eg.sghmc(), steps=4, step_size=0.1, chains=2)"
    ),
    "modules loaded by eg.audit": (
        "import jax, ergodica as eg\n"
        "def step(key, x, h): return x - h * x + (2 * h) ** 0.5 * jax.random.normal(key, x.shape)\n"
        "eg.audit(step, eg.gallery.gaussian(1), effort=0.01)"
    ),
    "modules loaded by eg.lda.LDA": "from ergodica.lda import LDA",
}
COUNT_MODULES = "\nimport sys; print(*sorted(m for m in sys.modules if m.split('.')[0] == 'ergodica'))"
TYPED_PARAMETERS = ("target", "recipe", "chains", "kernel")

# Words that read as translated, and what to write instead.
WORDS = {
    r"(left|leaves?|leaving) the finite numbers": "became non-finite",
    r"hangs? on": "depends on",
    r"anew": "again",
    r"(goes|gone|going) on with": "resumed",
    r"(take|takes|taken|taking) up again|taken up": "resumed",
    r"to the same bytes": "bit for bit",
    r"is told": "is reported",
    r"mend(s|ed|ing)?": "fix",
    r"in the place of": "instead of",
    r"so many-th": "every N-th",
    r"looks? at held-out": "evaluation",
    r"cannot be told": "is unknown, is inconclusive",
    r"alike": "equally, equal",
    r"what is asked for": "the request",
    r"rub(s|bed|bing)?": "friction",
}


def python_files(*folders: Path) -> list[Path]:
    return sorted(path for folder in folders for path in folder.rglob("*.py"))


def name_of(path: Path) -> str:
    return str(path.relative_to(ROOT))


def bounded(what: str, measured: int) -> None:
    print(f"{what}: {measured} (at most {BOUNDS[what]})")
    assert measured <= BOUNDS[what], f"{what}: {measured}, at most {BOUNDS[what]}"


def code_lines(path: Path) -> int:
    text = path.read_text()
    filling = {tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER}
    lines: set[int] = set()
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type not in filling:
            lines.update(range(token.start[0], token.end[0] + 1))
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            first = node.body[0] if node.body else None
            if (
                isinstance(first, ast.Expr)
                and isinstance(first.value, ast.Constant)
                and isinstance(first.value.value, str)
            ):
                lines -= set(range(first.lineno, first.end_lineno + 1))
    return len(lines)


def test_code_lines_leave_out_docstrings_comments_and_blanks(tmp_path):
    path = tmp_path / "four.py"
    path.write_text(
        '"""Doc\n\nstring."""\n\n# comment\nx = 1  # why\n\n\ndef f():\n    """Doc."""\n    return """a\nb"""\n'
    )
    assert code_lines(path) == 4


def test_number_of_files():
    bounded("Python files of the package", len(python_files(PACKAGE)))


def test_lines_of_code():
    bounded("lines of code of the package", sum(code_lines(path) for path in python_files(PACKAGE)))


@pytest.mark.parametrize("what", CALLS)
def test_what_a_call_loads(what):
    command = [sys.executable, "-W", "ignore", "-c", CALLS[what] + COUNT_MODULES]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    modules = done.stdout.splitlines()[-1].split()
    print(*modules)
    bounded(what, len(modules))


def test_no_file_is_too_long():
    folders = [*SOURCES, *(ROOT / name for name in ("tests", "benchmarks", "examples", "paper/tests"))]
    lengths = {name_of(path): len(path.read_text().splitlines()) for path in python_files(*folders)}
    longest = max(lengths, key=lengths.__getitem__)
    print(longest)
    bounded("lines of a file", lengths[longest])


def test_class_names_are_unique():
    places = defaultdict(list)
    for path in python_files(*SOURCES):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ClassDef):
                places[node.name].append(f"{name_of(path)}:{node.lineno}")
    twice = {name: where for name, where in places.items() if len(where) > 1}
    assert not twice, "\n".join(f"{name}: {', '.join(where)}" for name, where in sorted(twice.items()))


def untyped(path: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            arguments = node.args
            for argument in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs):
                is_any = argument.annotation is not None and ast.unparse(argument.annotation) in ("Any", "typing.Any")
                if argument.arg in TYPED_PARAMETERS and is_any:
                    yield f"{name_of(path)}:{argument.lineno} {node.name}({argument.arg}: Any)"


def test_targets_recipes_chains_and_kernels_have_a_type():
    found = [place for path in python_files(*SOURCES) for place in untyped(path)]
    assert not found, "\n".join(found)


def test_words():
    texts = [*python_files(*SOURCES), *ROOT.glob("*.md"), *sorted((ROOT / "docs").rglob("*.md"))]
    found = [
        f"{name_of(path)}:{number} {match[0]!r}: write {instead!r}"
        for path in texts
        for number, line in enumerate(path.read_text().splitlines(), 1)
        for word, instead in WORDS.items()
        for match in re.finditer(rf"\b({word})\b", line, re.IGNORECASE)
    ]
    assert not found, "\n".join(found)
