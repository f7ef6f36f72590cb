"""Headless Chromium, for tests of pages. Without one a test is skipped (tests/needs.py)."""

import html
import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

from tests.needs import missing

NAMES = ("chromium", "chromium-browser", "google-chrome")
OPTIONS = (
    "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--enable-logging=stderr",
    "--no-first-run", "--disable-background-networking", "--disable-component-update", "--disable-sync",
    "--hide-scrollbars", "--dump-dom",
)  # fmt: skip


def browse(page: Path, profile: Path, width: int = 1300, *more: str) -> tuple[str, list[str]]:
    """The document after its scripts ran, and what the browser had to say."""
    browser = next(filter(None, map(shutil.which, NAMES)), None)
    if browser is None:
        missing("browser", "no Chromium on this machine: apt-get install chromium")
    window = (f"--user-data-dir={profile}", f"--window-size={width},900", *more, page.as_uri())
    found = subprocess.run([browser, *OPTIONS, *window], capture_output=True, text=True, timeout=120, check=True)
    return found.stdout, [line for line in found.stderr.splitlines() if "CONSOLE" in line]


def seen(document: str) -> Any:
    """What a script put into the attribute data-seen of the body."""
    found = re.search(r'data-seen="([^"]*)"', document)
    assert found is not None
    return json.loads(html.unescape(found[1]))
