"""Each sampler's step written by hand in plain jax.numpy, as an expert would who cares for nothing but speed.

A twin is `step(phase, evaluate, normal, step_size, temperature, *numbers) -> phase`: the phase is a tuple of arrays,
`evaluate(position)` gives (potential, gradient), two such pairs for a cross-fitted step, and `normal` are the step's
standard normals. Numbers meet numbers before they meet arrays, and nothing is computed twice.
"""

import jax.numpy as jnp

# -- the paper's Euler steps --------------------------------------------------------------------------


def sgld(phase, evaluate, normal, step_size, temperature, diffusion):
    (position,) = phase
    _, gradient = evaluate(position)
    spread = jnp.sqrt(2 * step_size * temperature * diffusion)
    return (position - step_size * diffusion * gradient + spread * normal,)


def sgrld(phase, evaluate, normal, step_size, temperature):
    """G^-1 = diag(theta), theta > 0: a path that crosses zero comes back."""
    (position,) = phase
    _, gradient = evaluate(position)
    drift = position * gradient - temperature
    spread = jnp.sqrt(2 * step_size * temperature)
    return (jnp.abs(position - step_size * drift + spread * (jnp.sqrt(position) * normal)),)


def sghmc_euler(phase, evaluate, normal, step_size, temperature, friction, mass):
    position, momentum = phase
    _, gradient = evaluate(position)
    spread = jnp.sqrt(2 * step_size * temperature * friction)
    kept = 1 - step_size * friction / mass
    return position + step_size / mass * momentum, kept * momentum - step_size * gradient + spread * normal


def sgnht_euler(phase, evaluate, normal, step_size, temperature, diffusion):
    position, momentum, thermostat = phase
    _, gradient = evaluate(position)
    spread = jnp.sqrt(2 * step_size * temperature * diffusion)
    heat = jnp.sum(momentum * momentum) / momentum.size - temperature
    kicked = (1 - step_size * thermostat) * momentum - step_size * gradient + spread * normal
    return position + step_size * momentum, kicked, thermostat + step_size * heat


def sgrhmc_euler(phase, evaluate, normal, step_size, temperature):
    """G^-1 = diag(theta), theta > 0: a path that crosses zero comes back with its momentum turned round."""
    position, momentum = phase
    _, gradient = evaluate(position)
    root = jnp.sqrt(position)
    drift = root * gradient - temperature / 2 / root + position * momentum
    spread = jnp.sqrt(2 * step_size * temperature)
    moved = position + step_size * (root * momentum)
    kicked = momentum - step_size * drift + spread * (root * normal)
    return jnp.abs(moved), jnp.where(moved < 0, -kicked, kicked)


def gsgrhmc_euler(phase, evaluate, normal, step_size, temperature, scale, offset):
    position, momentum = phase
    potential, gradient = evaluate(position)
    metric, root, slope = _metric(potential, scale, offset)
    spread = jnp.sqrt(2 * step_size * temperature * metric)
    kicked = (1 - step_size * metric) * momentum - step_size * (root - temperature * slope) * gradient
    return position + step_size * root * momentum, kicked + spread * normal


def gsgrhmc_euler_pair(phase, evaluate, normal, step_size, temperature, scale, offset):
    """Each batch's metric meets the other one's gradient; the corrections are their own."""
    position, momentum = phase
    (first, second), metric, root, forces = _cross_fitted(evaluate(position), temperature, scale, offset)
    spread = jnp.sqrt(2 * step_size * temperature * metric)
    kicked = (1 - step_size * metric) * momentum - step_size * forces[0] * first - step_size * forces[1] * second
    return position + step_size * root * momentum, kicked + spread * normal


# -- the splittings -----------------------------------------------------------------------------------


def sghmc_splitting(phase, evaluate, normal, step_size, temperature, friction, mass):
    """ABOBA: the two half kicks and the friction between them are one sum."""
    position, momentum = phase
    half = step_size / 2
    position = position + half / mass * momentum
    _, gradient = evaluate(position)
    kept, variance = _friction(-step_size * friction / mass, temperature)
    spread = jnp.sqrt(mass * variance)
    momentum = kept * momentum - half * (1 + kept) * gradient + spread * normal
    return position + half / mass * momentum, momentum


def sgnht_splitting(phase, evaluate, normal, step_size, temperature, diffusion):
    """A B S C O C S B A: the thermostat half a step, the momentum by its excess, the friction, and back."""
    position, momentum, thermostat = phase
    half = step_size / 2
    position = position + half * momentum
    _, gradient = evaluate(position)
    momentum = momentum - half * gradient
    thermostat = thermostat + half * (jnp.sum(momentum * momentum) / momentum.size - temperature)
    coupled = jnp.exp(-half * (thermostat - diffusion))
    kept, variance = _friction(-step_size * diffusion, temperature)
    spread = jnp.sqrt(variance)
    momentum = coupled * kept * coupled * momentum + coupled * spread * normal
    thermostat = thermostat + half * (jnp.sum(momentum * momentum) / momentum.size - temperature)
    momentum = momentum - half * gradient
    return position + half * momentum, momentum, thermostat


def sgrhmc_splitting(phase, evaluate, normal, step_size, temperature):
    """G^-1 = diag(theta): the motion is exact in s = sqrt(theta), and comes back from s < 0 with r turned round."""
    position, momentum = phase
    half = step_size / 2
    s, momentum = _root_flow(jnp.sqrt(position), momentum, half)
    position, root = s * s, jnp.abs(s)
    _, gradient = evaluate(position)
    kick = half * (root * gradient - temperature / 2 / root)
    kept, variance = _friction(-step_size * position, temperature)
    momentum = kept * (momentum - kick) + jnp.sqrt(variance) * normal - kick
    s, momentum = _root_flow(root, momentum, half)
    return s * s, momentum


def gsgrhmc_splitting(phase, evaluate, normal, step_size, temperature, scale, offset):
    """Kick, friction, move: the metric looks at the potential, so one evaluation allows order 1."""
    position, momentum = phase
    potential, gradient = evaluate(position)
    metric, root, slope = _metric(potential, scale, offset)
    kept, variance = _friction(-step_size * metric, temperature)
    spread = jnp.sqrt(variance)
    force = root - temperature * slope
    momentum = kept * momentum - kept * step_size * force * gradient + spread * normal
    return position + step_size * root * momentum, momentum


def gsgrhmc_splitting_pair(phase, evaluate, normal, step_size, temperature, scale, offset):
    position, momentum = phase
    (first, second), metric, root, forces = _cross_fitted(evaluate(position), temperature, scale, offset)
    kept, variance = _friction(-step_size * metric, temperature)
    spread = jnp.sqrt(variance)
    time = kept * step_size
    momentum = kept * momentum - time * forces[0] * first - time * forces[1] * second + spread * normal
    return position + step_size * root * momentum, momentum


def _friction(exponent, temperature):
    """exp(x) and T (1 - exp(2 x)) from one exponential, without loss where x is small."""
    lost = jnp.expm1(exponent)
    return 1 + lost, -temperature * (lost * (2 + lost))


def _root_flow(root, momentum, time):
    s = root + time / 2 * momentum
    return s, jnp.where(s < 0, -momentum, momentum)


def _metric(potential, scale, offset):
    """G^-1 = scale sqrt(U + offset), its root, and the root's derivative with respect to U."""
    metric = scale * jnp.sqrt(potential + offset)
    root = jnp.sqrt(metric)
    return metric, root, root / (4 * (potential + offset))


def _cross_fitted(evaluations, temperature, scale, offset):
    """Both gradients, the mean metric and root, and what multiplies each gradient in the force."""
    (potential_a, first), (potential_b, second) = evaluations
    metric_a, root_a, slope_a = _metric(potential_a, scale, offset)
    metric_b, root_b, slope_b = _metric(potential_b, scale, offset)
    forces = (root_b - temperature * slope_a) / 2, (root_a - temperature * slope_b) / 2
    return (first, second), (metric_a + metric_b) / 2, (root_a + root_b) / 2, forces
