"""Boxes, their match to the leaves of a position, and reflection."""

from typing import ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ergodica.errors import InputError
from ergodica.targets import Box, positive
from ergodica.targets.domain import contains, fold, leaf_boxes

coordinates = st.floats(-1e4, 1e4, allow_subnormal=False)
widths = st.floats(0.01, 100.0)


def naive_fold(low: float, high: float, x: float) -> tuple[float, float]:
    """One reflection at a time."""
    sign = 1.0
    while not low <= x <= high:
        x, sign = (2 * low - x if x < low else 2 * high - x), -sign
    return x, sign


def boxes_of_both_kinds(low, high, x):
    """The same box by numbers (decided while tracing) and by arrays (decided by selection)."""
    return Box(low, high), Box(np.full(x.shape, low), np.full(x.shape, high))


class TestFold:
    @given(st.floats(-10, 10), widths, st.floats(-500, 500))
    def test_finite_box_agrees_with_one_reflection_at_a_time(self, low, width, x):
        high = low + width
        for box in boxes_of_both_kinds(low, high, np.zeros(1)):
            folded, sign = fold(box, jnp.array([x]))
            expected, expected_sign = naive_fold(low, high, x)
            folds = abs(x - low) / width + 1
            tolerance = 1e-15 * folds * (abs(x) + abs(low) + abs(high)) * 10
            assert abs(float(folded[0]) - expected) <= tolerance
            if min(expected - low, high - expected) > tolerance:  # on a wall either sign is right
                assert float(sign[0]) == expected_sign

    @pytest.mark.parametrize("dtype", [jnp.float32, jnp.float64])
    @given(low=st.floats(-10, 10), width=widths, xs=st.lists(coordinates, min_size=4, max_size=4))
    def test_lands_inside_and_leaves_inside_alone(self, dtype, low, width, xs):
        x = jnp.asarray(np.array(xs), dtype)
        for low_, high_ in [(low, low + width), (low, np.inf), (-np.inf, low), (-np.inf, np.inf)]:
            for box in boxes_of_both_kinds(low_, high_, np.zeros(x.shape)):
                folded, sign = fold(box, x)
                bounds = jnp.asarray(low_, dtype), jnp.asarray(high_, dtype)
                assert folded.dtype == sign.dtype == dtype
                assert bool(jnp.all((folded >= bounds[0]) & (folded <= bounds[1])))
                assert set(np.unique(sign)) <= {-1.0, 1.0}
                inside = np.asarray((x >= bounds[0]) & (x <= bounds[1]))
                np.testing.assert_array_equal(np.asarray(folded)[inside], np.asarray(x)[inside])
                np.testing.assert_array_equal(np.asarray(sign)[inside], 1.0)
                again, _ = fold(box, folded)
                np.testing.assert_array_equal(again, folded)

    @given(st.lists(coordinates, min_size=4, max_size=4))
    def test_positive_is_the_absolute_value(self, xs):
        x = jnp.array(xs)
        folded, sign = fold(positive, x)
        np.testing.assert_array_equal(folded, np.abs(xs))
        np.testing.assert_array_equal(sign, np.where(np.array(xs) < 0, -1.0, 1.0))

    def test_many_folds_are_exact(self):
        # 2^40 + 1/4 is 2^39 periods of 2 and a quarter, all of it exact in float64.
        folded, sign = fold(Box(0, 1), jnp.array([2.0**40 + 0.25, 2.0**40 + 1.25, -(2.0**40) - 0.25]))
        np.testing.assert_array_equal(folded, [0.25, 0.75, 0.25])
        np.testing.assert_array_equal(sign, [1.0, -1.0, -1.0])

    def test_each_number_has_its_own_kind_of_bound(self):
        box = Box(np.array([0.0, -np.inf, -np.inf, 0.0]), np.array([np.inf, 1.0, np.inf, 1.0]))
        folded, sign = fold(box, jnp.array([-3.0, 3.0, 5.0, 2.5]))
        np.testing.assert_array_equal(folded, [3.0, -1.0, 5.0, 0.5])
        np.testing.assert_array_equal(sign, [-1.0, -1.0, 1.0, 1.0])

    def test_bounds_broadcast_to_the_leaf_under_strict_rank_promotion(self):
        folded, _ = fold(Box([0.0, 0.0], 1), -0.25 * jnp.ones((3, 2)))
        np.testing.assert_array_equal(folded, 0.25 * np.ones((3, 2)))

    @pytest.mark.parametrize("box", [Box(0, 1), positive, Box([0.0, 0.0, -np.inf], [1.0, np.inf, np.inf])])
    def test_its_derivative_is_the_sign(self, box):
        x = jnp.array([-0.3, -0.4, 7.3])
        slope = jax.grad(lambda x: jnp.sum(fold(box, x)[0]))(x)
        np.testing.assert_array_equal(slope, fold(box, x)[1])

    def test_nan_stays_nan(self):
        for box in (positive, Box(0, 1), Box([0.0], [1.0])):
            assert np.isnan(fold(box, jnp.array([jnp.nan]))[0]).all()

    def test_no_box_changes_nothing(self):
        folded, sign = fold(None, jnp.array([-3.0]))
        assert float(folded[0]) == -3.0
        assert float(sign[0]) == 1.0

    def test_number_bounds_are_decided_while_tracing(self):
        program = str(jax.make_jaxpr(lambda x: fold(positive, x))(jnp.ones(3)))
        assert "rem" not in program
        assert "is_finite" not in program

    def test_goes_through_jit_and_vmap_as_an_argument(self):
        box = Box(np.zeros(2), np.ones(2))
        jitted = eqx.filter_jit(lambda box, x: jax.vmap(lambda x: fold(box, x)[0])(x))
        np.testing.assert_array_equal(jitted(box, jnp.full((3, 2), 1.25)), np.full((3, 2), 0.75))


class TestBox:
    @pytest.mark.parametrize("bounds", [(1, 0), (1, 1), (0, np.nan), ([0.0, 2.0], [1.0, 1.0])])
    def test_low_must_be_below_high(self, bounds):
        with pytest.raises(InputError, match=r"low < high everywhere, got low"):
            Box(*bounds)

    def test_the_offending_number_is_named(self):
        with pytest.raises(InputError, match=r"low\[1\] = 2.0, high\[1\] = 1.0"):
            Box([0.0, 2.0], [1.0, 1.0])

    def test_bounds_of_different_shapes(self):
        with pytest.raises(InputError, match="do not broadcast"):
            Box(np.zeros(2), np.ones(3))

    def test_bounds_must_be_numbers(self):
        with pytest.raises(InputError, match="expected a number"):
            Box("0", 1)

    def test_equal_boxes_are_equal_and_have_the_same_hash(self):
        assert Box(0, 1) == Box(0.0, 1.0)
        assert hash(Box(0, np.inf)) == hash(positive)


class TestLeafBoxes:
    position: ClassVar = {"a": jnp.ones(2), "b": [jnp.ones(()), jnp.ones((3, 2))]}

    def test_none_leaves_all_unbounded(self):
        assert leaf_boxes(None, self.position) == [None, None, None]

    def test_one_box_is_for_every_leaf(self):
        assert leaf_boxes(positive, self.position) == [positive] * 3

    def test_a_prefix_is_for_the_leaves_below_it(self):
        assert leaf_boxes({"a": None, "b": positive}, self.position) == [None, positive, positive]
        unit = Box(0, 1)
        assert leaf_boxes({"a": unit, "b": [None, positive]}, self.position) == [unit, None, positive]

    def test_keys_must_match(self):
        with pytest.raises(InputError, match=r"domain does not match the position.*None where a part is unbounded"):
            leaf_boxes({"a": positive}, self.position)

    def test_deeper_than_the_position(self):
        with pytest.raises(InputError, match="domain does not match"):
            leaf_boxes({"a": [positive, positive], "b": None}, self.position)

    def test_only_boxes(self):
        with pytest.raises(InputError, match=r"domain holds 0.*expected eg.positive, eg.Box"):
            leaf_boxes((0, 1), (jnp.ones(1), jnp.ones(1)))

    def test_bounds_must_broadcast_to_the_leaf(self):
        with pytest.raises(InputError, match=r"position\['a'\] has bounds of shape \(3,\).*\(2,\)"):
            leaf_boxes({"a": Box(np.zeros(3), 1), "b": None}, self.position)

    def test_a_box_may_not_widen_the_leaf(self):
        with pytest.raises(InputError, match="do not broadcast"):
            leaf_boxes(Box(np.zeros((2, 1)), 1), jnp.ones(1))


class TestContains:
    def test_the_boundary_is_inside_and_nan_is_not(self):
        assert contains(positive, jnp.zeros(2))
        assert contains(Box(0, 1), np.array([0.0, 1.0]))
        assert not contains(positive, jnp.array([1.0, -1e-9]))
        assert not contains(positive, jnp.array([jnp.nan]))
        assert contains(None, jnp.array([-1.0]))
