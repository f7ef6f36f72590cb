"""Discrete steps with momentum, right and wrong: SGHMC, BAOAB, HMC, SGNHT, SGRHMC."""

from __future__ import annotations

import jax
import jax.numpy as jnp

from .step import RuleFamily, UpdateRule, first, normal_like, with_momentum


def euler(friction=1.0, drag=1.0, noise=lambda temperature, friction: 2.0 * temperature * friction):
    """build for SGHMC: r += h (-grad U - drag C r) + sqrt(h noise(T, C)) xi, theta += h r."""

    def build(potential, temperature):
        def step(key, state, step_size):
            position, r = state
            scale = jnp.sqrt(step_size * noise(temperature, friction))
            force = jax.grad(potential)(position) + drag * friction * r
            r = r - step_size * force + scale * normal_like(key, r)
            return position + step_size * r, r

        return step

    return build


def sghmc() -> RuleFamily:
    right = UpdateRule("sghmc_step", euler(), "Eq. SGHMC by Euler's rule", init=with_momentum, read=first)
    return (
        right,
        right.but(
            "sghmc_step_temperature_is_friction",
            "jax-sgmc 0.1.5: noise sqrt(2 C C h), the temperature of the friction",
            euler(0.5, noise=lambda temperature, friction: 2.0 * friction**2),
        ),
        right.but("sghmc_step_naive", "Eq. NaiveSGHMC: noise without friction", euler(drag=0.0)),
        right.but(
            "sghmc_step_printed_friction", "SGHMC paragraph: friction eps V against noise eps^2 V", euler(drag=2.0)
        ),
    )


def splitting(moves=1.0, friction=1.0):
    """build for BAOAB: half kick, half move, exact friction, half move, half kick."""

    def build(potential, temperature):
        def step(key, state, step_size):
            position, r = state
            fade = jnp.exp(-friction * step_size)
            r = r - 0.5 * step_size * jax.grad(potential)(position)
            position = position + 0.5 * moves * step_size * r
            r = fade * r + jnp.sqrt(temperature * (1.0 - fade**2)) * normal_like(key, r)
            position = position + 0.5 * moves * step_size * r
            return position, r - 0.5 * step_size * jax.grad(potential)(position)

        return step

    return build


def baoab() -> RuleFamily:
    right = UpdateRule("baoab", splitting(), "Leimkuhler and Matthews 2013", init=with_momentum, read=first)
    return (
        right,
        right.but("baoab_frozen", "SGMCMCJax 0.2.13: the position never moves", splitting(moves=0.0)),
    )


def trajectory(potential, position, r, step_size, length):
    """`length` leapfrog steps."""

    def leap(_, state):
        position, r = state
        r = r - 0.5 * step_size * jax.grad(potential)(position)
        position = position + step_size * r
        return position, r - 0.5 * step_size * jax.grad(potential)(position)

    return jax.lax.fori_loop(0, length, leap, (position, r))


def metropolis(refresh=lambda temperature: temperature, kinetic=0.5, length=4):
    """build for HMC: momenta of temperature refresh(T), leapfrog, Metropolis with H = U + kinetic r'r."""

    def build(potential, temperature):
        def step(key, position, step_size):
            key_r, key_u = jax.random.split(key)
            r = jnp.sqrt(refresh(jnp.asarray(temperature, position.dtype))) * normal_like(key_r, position)
            moved, r_moved = trajectory(potential, position, r, step_size, length)
            gain = potential(position) - potential(moved) + kinetic * (jnp.sum(r**2) - jnp.sum(r_moved**2))
            level = jnp.log(jax.random.uniform(key_u, (), position.dtype))
            return jnp.where(level < gain / temperature, moved, position)

        return step

    return build


def never_refreshed(potential, temperature):
    """Leapfrog steps with the momentum that init drew, for ever."""
    return lambda key, state, step_size: trajectory(potential, state[0], state[1], step_size, 1)


def hmc() -> RuleFamily:
    right = UpdateRule("hmc_metropolis", metropolis(), "Duane et al. 1987; exact at every step size")
    return (
        right,
        right.but(
            "hmc_momentum_temperature",
            "mutation: momenta refreshed at temperature 1 whatever T is",
            metropolis(refresh=jnp.ones_like),
            temperature=0.5,
        ),
        right.but(
            "hmc_never_refreshed",
            "mutation: momenta drawn once",
            never_refreshed,
            init=with_momentum,
            read=first,
        ),
        right.but(
            "hmc_potential_only", "mutation: a Metropolis ratio without the kinetic energy", metropolis(kinetic=0.0)
        ),
    )


def refreshed(refresh=lambda temperature: temperature, leapfrog=True, length=5):
    """build for trajectories without Metropolis from fresh momenta: leapfrog, or Euler's rule, `length` steps."""

    def build(potential, temperature):
        def push(_, state, step_size):
            position, r = state
            return position + step_size * r, r - step_size * jax.grad(potential)(position)

        def step(key, position, step_size):
            r = jnp.sqrt(refresh(jnp.asarray(temperature, position.dtype))) * normal_like(key, position)
            if leapfrog:
                return trajectory(potential, position, r, step_size, length)[0]
            return jax.lax.fori_loop(0, length, lambda i, s: push(i, s, step_size), (position, r))[0]

        return step

    return build


def trajectories() -> RuleFamily:
    right = UpdateRule("leapfrog_refreshed", refreshed(), "leapfrog from fresh momenta without a test: order 2")
    return (
        right,
        right.but(
            "leapfrog_momentum_temperature",
            "blackjax 1.7.1's sghmc: momenta refreshed at temperature 1 whatever T is",
            refreshed(refresh=jnp.ones_like),
            temperature=0.5,
        ),
        # n explicit Euler steps move theta by n h r - (n (n-1)/2) h^2 grad U: temperature n/(n-1) at every step size.
        right.but(
            "euler_refreshed", "blackjax 1.7.1's sghmc: a fixed number of Euler steps", refreshed(leapfrog=False)
        ),
    )


def thermostat(hold=lambda temperature, dim: temperature, diffusion=1.0):
    """build for SGNHT: friction xi, which falls while r'r/d is below hold(T, d)."""

    def build(potential, temperature):
        def step(key, state, step_size):
            position, r, xi = state
            noise = jnp.sqrt(2.0 * diffusion * temperature * step_size) * normal_like(key, r)
            r = r - step_size * (jax.grad(potential)(position) + xi * r) + noise
            position = position + step_size * r
            return position, r, xi + step_size * (jnp.mean(r**2) - hold(temperature, r.size))

        return step

    return build


def with_thermostat(key, position):
    return *with_momentum(key, position), jnp.ones((), position.dtype)


def sgnht() -> RuleFamily:
    right = UpdateRule("sgnht_step", thermostat(), "Ding et al. 2014; Eq. SGNHT", init=with_thermostat, read=first)
    return (
        right,
        right.but(
            "sgnht_step_temperature_is_dimension",
            "SGMCMCJax at head, BADODAB: the thermostat holds r'r/d at d",
            thermostat(lambda temperature, dim: temperature * dim),
        ),
    )


def root(position):
    """G^-1/2, diagonal, entry i a function of coordinate i."""
    return 1.0 + 0.5 * jnp.tanh(position)


def riemannian(gamma=1.0, drag=1.0):
    """build for SGRHMC: r += h [-g grad U + gamma T g' - drag g^2 r] + sqrt(2 T h) g xi, theta += h g r."""

    def build(potential, temperature):
        def step(key, state, step_size):
            position, r = state
            g, slope = jax.jvp(root, (position,), (jnp.ones_like(position),))
            drift = -g * jax.grad(potential)(position) + gamma * temperature * slope - drag * g**2 * r
            r = r + step_size * drift + jnp.sqrt(2.0 * temperature * step_size) * g * normal_like(key, r)
            return position + step_size * g * r, r

        return step

    return build


def sgrhmc() -> RuleFamily:
    right = UpdateRule("sgrhmc_step", riemannian(), "algorithm box of gSGRHMC", init=with_momentum, read=first)
    return (
        right,
        right.but("sgrhmc_step_naive", "Eq. SGRHMCnaive: no Gamma", riemannian(gamma=0.0)),
        right.but("sgrhmc_step_printed", "Eq. ExSGRHMC: Gamma and friction of the wrong sign", riemannian(-1.0, -1.0)),
        right.but("sgrhmc_step_sign_of_gamma", "half of Eq. ExSGRHMC's slip", riemannian(gamma=-1.0)),
    )


STEPS: list[RuleFamily] = [sghmc(), baoab(), hmc(), trajectories(), sgnht(), sgrhmc()]
