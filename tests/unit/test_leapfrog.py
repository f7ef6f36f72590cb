"""A leapfrog trajectory goes back the way it came and keeps volume: what the Metropolis test rests on."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import ergodica as eg
from ergodica.integrators.reflection import inverse_mass_of, reflect
from ergodica.operators import DenseOperator, ScalarOperator
from ergodica.phase import phase_type
from ergodica.tree import Layout
from tests.builders import BENT, POSITIVE
from tests.oracle.stationarity import QUICK

MASS = np.array([[1.2, 0.5], [0.5, 0.8]])


def recipe_with(momentum):
    """HMC with a dense mass whose draw is given, so that a trajectory can be started at any phase."""
    inverse = jnp.asarray(np.linalg.inv(MASS))
    energy = eg.Energy(lambda z: z.momentum @ inverse @ z.momentum / 2, lambda key, z: momentum)
    return eg.Recipe(energy={"momentum": energy}, curl={("momentum", "position"): eg.Constant(1.0)})


def trajectory(target, position, momentum, step_size=0.15, steps=7):
    """The phase at the end, and whether it was accepted."""
    kernel = eg.Kernel(target, recipe_with(momentum), eg.Leapfrog(steps=steps, jitter=0.0))
    state, info = kernel.step(kernel.init(position, jax.random.key(0)), jax.random.key(3), step_size)
    return state.phase.position, state.phase.momentum, info.accepted


quick = jax.jit(lambda position, momentum: trajectory(BENT, position, momentum), compiler_options=QUICK)
START, MOMENTUM = jnp.array([0.6, 0.9]), jnp.array([-0.8, 0.5])


def test_a_trajectory_goes_back_the_way_it_came():
    position, momentum, accepted = quick(START, MOMENTUM)
    assert accepted
    assert np.max(np.abs(position - START)) > 0.3
    back, turned, accepted = quick(position, -momentum)
    assert accepted
    np.testing.assert_allclose(back, START, rtol=1e-10)
    np.testing.assert_allclose(turned, -MOMENTUM, rtol=1e-10)


def test_a_trajectory_keeps_volume():
    def flat(z):
        position, momentum, _ = trajectory(BENT, z[:2], z[2:])
        return jnp.concatenate([position, momentum])

    jacobian = jax.jit(jax.jacfwd(flat), compiler_options=QUICK)(jnp.concatenate([START, MOMENTUM]))
    np.testing.assert_allclose(np.linalg.det(jacobian), 1.0, rtol=1e-10)
    assert np.max(np.abs(jacobian - np.eye(4))) > 0.5


def test_the_error_of_the_energy_is_of_second_order():
    def energy(position, momentum):
        return BENT.potential(position) + momentum @ jnp.asarray(np.linalg.inv(MASS)) @ momentum / 2

    start = energy(START, MOMENTUM)
    errors = []
    for steps in (8, 16, 32):
        position, momentum, accepted = jax.jit(
            lambda n=steps: trajectory(BENT, START, MOMENTUM, 0.8 / n, n), compiler_options=QUICK
        )()
        assert accepted
        errors.append(float(energy(position, momentum) - start))
    ratios = np.array(errors[:-1]) / np.array(errors[1:])
    np.testing.assert_allclose(ratios, 4, rtol=0.1)


@pytest.mark.parametrize("name", ["scalar", "dense"])
def test_a_reflected_trajectory_goes_back_as_well(name):
    """A Gaussian momentum, whose mass the reflection knows: one step that bounces off the face q_0 = 0, and back."""
    mass = 1.0 if name == "scalar" else MASS
    kernel = eg.Kernel(POSITIVE, eg.hmc(mass), eg.Leapfrog(steps=1, jitter=0.0))
    recipe, target = kernel.recipe, POSITIVE

    @jax.jit
    def leap(position, momentum):
        # as in Leapfrog.step: half a kick, a move with reflection, half a kick
        layout = Layout.of(position)
        one = eg.Constant(1.0).operator(jnp.asarray(1.0), layout, layout)
        kicked = momentum - 0.1 * target.evaluate(position)[1]
        phase = phase_type(("position", "momentum"))(position, kicked)
        velocity = recipe.energy["momentum"].inverse_operator(layout).apply(kicked)
        moved, turned = reflect(target.domain, position + 0.2 * velocity, kicked, one, inverse_mass_of(recipe, phase))
        return moved, turned - 0.1 * target.evaluate(moved)[1]

    start, speed = jnp.array([0.3, 1.2]), jnp.array([-3.0, 0.4])
    position, momentum = leap(start, speed)
    assert momentum[0] > 0  # it has bounced
    back, turned = leap(position, -momentum)
    np.testing.assert_allclose(back, start, rtol=1e-9)
    np.testing.assert_allclose(turned, -speed, rtol=1e-9)


def test_moves_that_meet_several_faces_go_back_and_keep_the_energy():
    """A dense mass in a corner and in a narrow box: faces are met in the order of the path, not of the coordinates."""
    layout = Layout.of(START)
    inverse = DenseOperator(jnp.asarray(np.linalg.inv(MASS)), layout, layout)
    one = ScalarOperator(jnp.asarray(1.0), layout)
    rng = np.random.default_rng(0)
    positions, momenta = jnp.asarray(rng.uniform(0, 1, (2_000, 2))), jnp.asarray(rng.normal(size=(2_000, 2)))
    for domain in (eg.positive, eg.Box(0.0, 1.0)):

        @jax.jit
        @jax.vmap
        def move(q, r, domain=domain):
            return reflect(domain, q + 0.5 * inverse.apply(r), r, one, inverse)

        there, turned = move(positions, momenta)
        back, again = move(there, -turned)
        velocities = momenta @ inverse.matrix
        outside = np.sum(np.asarray((positions + 0.5 * velocities < 0) | (positions + 0.5 * velocities > 1)), axis=1)
        assert np.sum(outside == 2) > 20
        np.testing.assert_allclose(back, positions, atol=1e-9)
        np.testing.assert_allclose(again, -momenta, atol=1e-9)
        kinetic = jnp.sum(momenta * velocities, axis=1)
        np.testing.assert_allclose(jnp.sum(turned * (turned @ inverse.matrix), axis=1), kinetic, rtol=1e-9)
        assert np.all(np.asarray(there) >= 0)
