"""The oldest versions that pyproject.toml allows, as a constraints file for pip:

    python tests/oldest.py > oldest.txt
    pip install -c oldest.txt -e '.[lda,plot,parquet]' --group dev

A lower bound that nobody has tried is a guess; the suite is run with these in .github/workflows/tests.yml.
"""

import re
import tomllib
from pathlib import Path
from typing import Any

PROJECT = Path(__file__).resolve().parents[1] / "pyproject.toml"
REQUIREMENT = re.compile(r"(?P<name>[\w.-]+)>=(?P<version>[\w.]+)(?P<marker> *;.*)?")


def oldest(project: dict[str, Any]) -> list[str]:
    """`name==version` for what the package and its extras need; a requirement of another form is an error.

    >>> oldest({"dependencies": ["jax>=0.10"], "optional-dependencies": {"plot": ["matplotlib>=3.9; os_name == 'nt'"]}})
    ['jax==0.10', "matplotlib==3.9; os_name == 'nt'"]
    """
    needed = [*project["dependencies"], *(one for extra in project["optional-dependencies"].values() for one in extra)]
    found = {line: REQUIREMENT.fullmatch(line) for line in needed}
    strange = [line for line, match in found.items() if match is None]
    if strange:
        raise ValueError(f"pyproject.toml has {strange[0]!r}: expected name>=version, so that its oldest is known")
    return [f"{match['name']}=={match['version']}{match['marker'] or ''}" for match in found.values() if match]


if __name__ == "__main__":
    print("\n".join(oldest(tomllib.loads(PROJECT.read_text(encoding="utf-8"))["project"])))
