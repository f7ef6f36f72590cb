"""The public names: all there, all documented, examples in docstrings run."""

import doctest
import importlib
import inspect
import pkgutil
import subprocess
import sys

import pytest

import ergodica as eg

MODULES = [module.name for module in pkgutil.walk_packages(eg.__path__, "ergodica.")]


@pytest.mark.parametrize("name", [n for n in eg.__all__ if n not in ("positive", "gallery")])
def test_every_public_name_is_documented(name):
    assert inspect.getdoc(getattr(eg, name))


@pytest.mark.parametrize("module", MODULES)
def test_docstring_examples_run(module):
    found = doctest.testmod(importlib.import_module(module))
    assert found.failed == 0


def test_import_computes_nothing():
    """No backend is started, so that a user can still configure JAX after the import."""
    code = "import ergodica, jax; jax.config.update('jax_platforms', 'nowhere')\ntry: jax.devices()\nexcept RuntimeError: pass\nelse: raise SystemExit('a backend was up already')"  # noqa: E501
    assert subprocess.run([sys.executable, "-c", code], capture_output=True).returncode == 0
