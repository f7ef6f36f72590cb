"""One wording for what a person gave and what was expected."""

import jax.numpy as jnp
import numpy as np
import pytest

import ergodica as eg
from ergodica.host import validate


@pytest.mark.parametrize("value", [3, np.int32(3), jnp.asarray(3)])
def test_whole_numbers_of_every_library_are_taken(value):
    found = validate.whole("chains", value, 1)
    assert found == 3
    assert type(found) is int


@pytest.mark.parametrize("value", [0, -1, True, np.True_, 2.0, "2", None, np.array([1, 2])])
def test_what_is_no_such_number_is_refused(value):
    with pytest.raises(eg.InputError, match=r"chains is .*: expected a whole number of at least 1"):
        validate.whole("chains", value, 1)


def test_limits_and_what_is_counted_are_named():
    with pytest.raises(eg.InputError, match="dim is 9: expected a whole number from 1 to 8"):
        validate.whole("dim", 9, 1, 8)
    with pytest.raises(eg.InputError, match="refresh is 0: expected a whole number of steps, at least 1"):
        validate.whole("refresh", 0, 1, of="steps")


@pytest.mark.parametrize("value", [0, -1.0, np.nan, np.inf, "1", True, [1.0], None])
def test_positive_numbers(value):
    assert validate.positive_number("temperature", np.float32(2.5)) == 2.5
    with pytest.raises(eg.InputError, match=r"temperature is .*: expected a number above 0"):
        validate.positive_number("temperature", value)


def test_choices():
    assert validate.choice("kernel", "dense", ("dense", "sparse")) == "dense"
    for value in ("other", None, 3, ["dense"]):
        with pytest.raises(eg.InputError, match=r"kernel is .*: expected one of dense, sparse"):
            validate.choice("kernel", value, ("dense", "sparse"))
