"""The public names: all there, all documented so that a newcomer can use them, examples in docstrings run."""

import doctest
import importlib
import inspect
import pkgutil
import re
import subprocess
import sys

import pytest

import ergodica as eg

MODULES = [module.name for module in pkgutil.walk_packages(eg.__path__, "ergodica.")]
METRICS = ("expanded_mean", "fisher", "potential_scaled")
SAMPLERS = [
    name for name in eg.__all__ if str(getattr(getattr(eg, name), "__module__", "")).startswith("ergodica.samplers.")
]
MADE_BY_USERS = [name for name in eg.__all__ if callable(getattr(eg, name)) and name != "positive"]
IDENTIFIER = re.compile(r"https://(doi\.org/10\.\d{4,}/\S|arxiv\.org/abs/\d{4}\.\d{4,5}\b)")


@pytest.mark.parametrize("name", eg.__all__)
def test_every_public_name_begins_with_a_sentence(name):
    documentation = inspect.getdoc(getattr(eg, name))
    assert documentation
    assert documentation.split("\n\n")[0].rstrip().endswith((".", ":", "?"))


@pytest.mark.parametrize("name", MADE_BY_USERS)
def test_what_users_make_or_call_has_an_example(name):
    assert ">>> " in inspect.getdoc(getattr(eg, name)), f"{name}: write an example"


@pytest.mark.parametrize("name", SAMPLERS)
def test_a_sampler_says_what_it_is_and_where_it_is_from(name):
    documentation = inspect.getdoc(getattr(eg, name))
    assert "\nExample:" in documentation
    assert IDENTIFIER.search(documentation), "a link, by DOI or arXiv number"
    if name not in METRICS:
        assert "\nLeaves invariant: exp(-" in documentation
        assert re.search(r"\n    H = .*D.* = .*Q.* = ", documentation), "H, D and Q in one line"


@pytest.mark.parametrize("module", MODULES)
def test_docstring_examples_run(module):
    found = doctest.testmod(importlib.import_module(module))
    assert found.failed == 0


def test_import_computes_nothing():
    """No backend is started, so that a user can still configure JAX after the import."""
    code = "import ergodica, jax; jax.config.update('jax_platforms', 'nowhere')\ntry: jax.devices()\nexcept RuntimeError: pass\nelse: raise SystemExit('a backend was up already')"  # noqa: E501
    assert subprocess.run([sys.executable, "-c", code], capture_output=True).returncode == 0
