"""Names of leaves in a file, and back."""

from typing import NamedTuple

import numpy as np
import pytest

from ergodica.errors import InputError
from ergodica.output.labelled import named, unnamed


class Pair(NamedTuple):
    left: float
    right: float


@pytest.mark.parametrize(
    ("position", "names"),
    [
        (1.0, ["position"]),
        ({"w": 1.0, "b": 2.0}, ["b", "w"]),
        ({"layer": [1.0, Pair(2.0, 3.0)]}, ["layer.0", "layer.1.left", "layer.1.right"]),
        ({"net/linear": {"w": 1.0}}, ["net.linear.w"]),
    ],
)
def test_paths_are_joined_by_dots(position, names):
    assert list(named(position)) == names
    assert named(named(position)) == named(position)


def test_back_to_nested_dictionaries():
    tree = {"a": {"b": 1.0, "c": 2.0}, "d": 3.0}
    assert unnamed(named(tree)) == tree
    assert unnamed(named(np.float64(4.0))) == 4.0
    assert unnamed({"a": 1.0, "a.b": 2.0}) == {"a": 1.0, "a.b": 2.0}
    assert unnamed({"a.b": 2.0, "a": 1.0}) == {"a.b": 2.0, "a": 1.0}


@pytest.mark.parametrize(
    ("position", "message"),
    [
        ({"a": {"b": 1.0}, "a.b": 2.0}, "two parts"),
        ({"draw": 1.0}, "is an axis: rename"),
        ({"w": 1.0, "w_dim_0": 2.0}, "axis of 'w'"),
        ({"": 1.0}, "needs a name"),
    ],
)
def test_names_that_a_file_cannot_hold(position, message):
    with pytest.raises(InputError, match=message):
        named(position)
