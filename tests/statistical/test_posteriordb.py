"""Reference posteriors by SG samplers: the fast ones of benchmarks/posteriordb.py, at the settings written there.

The reference's own error is 0.01 sd, that of a run at most 0.02: a mean 0.1 sd off is more than four of both together.
"""

import json

import jax
import numpy as np
import pytest

from benchmarks import posteriordb


@pytest.fixture
def folder(data_dir):
    return data_dir / "posteriordb"


@pytest.mark.parametrize("name", ["earnings"])
def test_means_and_sds_are_those_of_the_reference(name, folder):
    figures, _ = posteriordb.measure(name, folder)
    failed = [figure for figure in figures if not figure.passed]
    assert not failed


def test_every_model_has_the_parameters_of_the_reference(folder):
    for name, case in posteriordb.POSTERIORS.items():
        model = case.build(json.loads((folder / "data" / f"{name}.json").read_text()))
        expected = posteriordb.references(folder, case.reference)
        assert set(jax.eval_shape(model.parameters, model.target.init)) == set(expected)
        if case.settings.batch_size is not None:
            assert 10 * case.settings.batch_size <= model.target.size


@pytest.mark.parametrize(("shift", "stretch", "passed"), [(0.05, 1.05, True), (0.15, 1.0, False), (0.0, 0.85, False)])
def test_what_passes(shift, stretch, passed):
    draws = shift + stretch * np.random.default_rng(0).standard_normal((4, 5000))
    assert posteriordb.figure("x", draws, 0.0, 1.0).passed is passed


def test_too_few_draws_do_not_pass():
    assert not posteriordb.figure("x", np.random.default_rng(0).standard_normal((4, 250)), 0.0, 1.0).passed
