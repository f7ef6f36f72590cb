"""What is said of a position, or of a potential, that cannot be sampled."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from ergodica.errors import InputError
from ergodica.targets import Box, Density, positive


def potential(position):
    return sum(jnp.sum(leaf**2) for leaf in jax.tree.leaves(position)) / 2


def refuses(position, match, **settings):
    with pytest.raises(InputError, match=match):
        Density(potential, **settings).check(position)


class TestPosition:
    def test_good_ones_pass(self):
        for position in (jnp.ones(2), np.ones(2), np.float64(1.0), {"w": jnp.ones((2, 3)), "b": [jnp.ones(())]}):
            Density(potential).check(position)
        Density(potential, init=jnp.ones(2), domain=positive).check(jnp.zeros(2))

    def test_integers(self):
        refuses({"w": jnp.arange(3)}, r"position\['w'\] has dtype int64.*astype\(float\)")

    def test_strings(self):
        refuses({"w": "one"}, r"position\['w'\] is 'one' \(str\): expected a floating array")

    def test_python_numbers(self):
        refuses([0.5, 1.5], r"position\[0\] is 0.5 \(float\).*jnp.asarray")

    def test_complex(self):
        refuses(jnp.ones(2, complex), "dtype complex128")

    @pytest.mark.parametrize("empty", [{}, jnp.ones(0)])
    def test_no_numbers(self, empty):
        refuses(empty, "holds no numbers")

    def test_nan_is_named_by_leaf_and_index(self):
        values = np.ones((2, 3))
        values[1, 2] = np.nan
        refuses({"a": jnp.ones(2), "w": values}, r"position\['w'\]\[1, 2\] = nan")
        refuses(jnp.asarray(jnp.inf), r"position = inf")

    def test_outside_the_domain(self):
        refuses({"s": jnp.array([1.0, -2.0])}, r"position\['s'\]\[1\] = -2.0 is outside \[0.0, inf\]", domain=positive)

    def test_structure_and_shape_of_init(self):
        refuses({"a": jnp.ones(2)}, "structure.*but the target's init has", init={"b": jnp.ones(2)})
        refuses(
            {"a": jnp.ones(3)}, r"position\['a'\] has shape \(3,\), but in the target's init", init={"a": jnp.ones(2)}
        )

    def test_init_itself_is_checked_at_construction(self):
        with pytest.raises(InputError, match="dtype int64"):
            Density(potential, init=jnp.arange(2))
        with pytest.raises(InputError, match="outside"):
            Density(potential, init=-jnp.ones(2), domain=positive)
        with pytest.raises(InputError, match="domain does not match"):
            Density(potential, init=jnp.ones(2), domain={"a": Box(0, 1)})

    def test_inside_jit_only_shapes_are_looked_at(self):
        target = Density(potential, init=jnp.ones(2), domain=positive)
        jax.jit(lambda x: (target.check(x), x)[1])(-jnp.ones(2))
        with pytest.raises(InputError, match="shape"):
            jax.jit(lambda x: (target.check(x), x)[1])(jnp.ones(3))


class TestPotential:
    @pytest.mark.parametrize(
        ("bad", "match"),
        [
            (lambda x: x**2, r"potential returned shape \(2,\), expected a scalar.*jnp.sum"),
            (lambda x: None, "potential returned NoneType.*return statement"),
            (lambda x: (jnp.sum(x), 1), "potential returned tuple"),
            (lambda x: jnp.sum(x).astype(complex), "potential returned dtype complex128"),
            (lambda x: jnp.sum(x) > 0, "potential returned dtype bool"),
            (lambda x: jnp.sum(x) + jnp.inf, "the potential is inf.*expected a finite number"),
            (lambda x: jnp.sum(jnp.log(-x)), "the potential is nan"),
            (lambda x: jnp.sqrt(jnp.sum((x - 1) ** 2)), r"gradient is not: gradient\[0\] = nan.*square root"),
        ],
    )
    def test_what_a_potential_may_not_be(self, bad, match):
        with pytest.raises(InputError, match=match):
            Density(bad).check(jnp.ones(2))

    def test_a_wrong_shape_is_found_inside_jit_as_well(self):
        with pytest.raises(InputError, match="expected a scalar"):
            jax.jit(Density(lambda x: x**2).evaluate)(jnp.ones(2))
