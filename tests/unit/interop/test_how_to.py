"""The page on NumPyro models runs as printed, with fewer rows and less accuracy."""

import re
from pathlib import Path

import numpy as np
import pytest

PAGE = Path(__file__).parents[3] / "docs" / "how-to" / "numpyro_models.md"


@pytest.mark.long
def test_the_page_runs_as_printed():
    (block,) = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)
    names: dict = {}
    loose = "eg.sample(target, accuracy=eg.Accuracy(mean=0.4, sd=0.3))"
    exec(block.replace("ROWS = 1_000_000", "ROWS = 5_000").replace("eg.sample(target)", loose), names)
    assert names["run"].tuning.reached
    found = names["run"].posterior["weights"].mean(axis=(0, 1))
    np.testing.assert_allclose(found, [1.0, -0.5, 0.25, 0.0, 2.0], atol=0.4)
