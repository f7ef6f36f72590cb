"""The equations of the paper as printed, beside the right column of docs/paper/errata.md, both written out by hand."""

from __future__ import annotations

from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np

from .potentials import around_bent, bent, dense, kinetic, lower_block, one_peak, root_of_potential, two_peaks
from .sde import Box, HandwrittenSde, SdeFamily, box, correction


def sgnht(center: float = 0.8, d: int = 2) -> SdeFamily:
    """SGNHT: the drift is right, the energy of the thermostat is not. d = 1 would hide it: there 1/(2d) = d/2."""

    def drift(z):
        theta, r, xi = z[:d], z[d : 2 * d], z[2 * d]
        return jnp.concatenate([r, -jax.grad(bent)(theta) - xi * r, jnp.atleast_1d(jnp.dot(r, r) / d - 1)])

    def diffusion(z):
        return jnp.diag(jnp.concatenate([jnp.zeros(d), jnp.full(d, center), jnp.zeros(1)]))

    def energy(stiffness):
        return lambda z: kinetic(bent)(z[: 2 * d]) + 0.5 * stiffness * (z[2 * d] - center) ** 2

    sides = box(2 * d, 3.0) + ((-1.5, 3.0),)
    right = HandwrittenSde(
        "sgnht", 2 * d + 1, drift, diffusion, energy(d), sides, "SGNHT's energy with (d/2)(xi - A)^2"
    )
    source = "SGNHT's energy (main text and supplement): (xi - A)^2 / (2d)"
    return right, right.but("sgnht_printed_energy", source, hamiltonian=energy(1 / d), other_law=energy(d))


def sgrhmc(name: str, potential: Callable, root: Callable, sides: Box) -> SdeFamily:
    """SGRHMC with G^-1/2 = root(theta): the algorithm box is right, Eq. `ExSGRHMC` has two signs wrong."""
    d = len(sides) // 2

    def drift_with(sign_gamma, sign_friction):
        def drift(z):
            theta, r = jnp.split(z, 2)
            g, gamma = root(theta), correction(root)(theta)
            force = g @ jax.grad(potential)(theta) + sign_gamma * gamma + sign_friction * (g @ g @ r)
            return jnp.concatenate([g @ r, -force])

        return drift

    def diffusion(z):
        g = root(z[:d])
        return lower_block(g @ g)

    printed, naive = "Eq. ExSGRHMC: +grad(G^-1/2) - G^-1 r inside -eps [...]", "Eq. SGRHMCnaive: no Gamma"
    right = HandwrittenSde(
        name, 2 * d, drift_with(-1, 1), diffusion, kinetic(potential), sides, "algorithm box of gSGRHMC"
    )
    return (
        right,
        right.but(f"{name}_printed", printed, drift=drift_with(1, -1)),
        right.but(f"{name}_naive", naive, drift=drift_with(0, 1), other_law=naive_law(potential, root, d)),
        right.but(f"{name}_sign_of_gamma", "half of Eq. ExSGRHMC's slip", drift=drift_with(1, 1)),
        right.but(f"{name}_sign_of_friction", "half of Eq. ExSGRHMC's slip", drift=drift_with(-1, -1)),
    )


def naive_law(potential: Callable, root: Callable, d: int) -> Callable | None:
    """exp(-U) G^1/2, which the naive sampler leaves invariant where the metric is a scalar."""
    if d > 1:
        return None
    return lambda z: kinetic(potential)(z) + jnp.log(root(z[:1])[0, 0])


def coupled_root(theta):
    """A dense G^-1/2 with entries that are functions of both coordinates."""
    a, b = theta
    mixed = 0.3 * jnp.cos(b)
    return jnp.array([[1.2 + 0.4 * jnp.sin(a + 0.5 * b), mixed], [mixed, 0.9 + 0.3 * jnp.tanh(a)]])


def coupled_metric(theta):
    """A dense, non-separable G^-1, positive definite everywhere."""
    a, b = theta
    mixed = 0.3 * jnp.sin(a - b)
    return jnp.array([[1.0 + 0.5 * jnp.tanh(b) + 0.2 * a**2, mixed], [mixed, 0.8 + 0.3 * jnp.cos(a + b)]])


def separable_metric(theta):
    """A diagonal G^-1 whose entry i is a function of coordinate i alone."""
    a, b = theta
    return jnp.diag(jnp.stack([1.0 + 0.5 * jnp.tanh(a), 0.8 + 0.3 * jnp.cos(b)]))


def log_volume(metric: Callable) -> Callable:
    """log det(G)^1/2 for a 2 x 2 G^-1 = metric."""

    def value(theta):
        (a, b), (c, d) = metric(theta)
        return -0.5 * jnp.log(a * d - b * c)

    return value


def geometric_correction(metric: Callable) -> Callable:
    """det(G)^-1/2 sum_j d_j(G^-1_ij det(G)^1/2); Girolami and Calderhead's Gamma is twice that."""
    volume = lambda theta: jnp.exp(log_volume(metric)(theta))  # noqa: E731
    return lambda theta: correction(lambda t: metric(t) * volume(t))(theta) / volume(theta)


def sgrld(metric: Callable = coupled_metric) -> SdeFamily:
    """SGRLD: the sign of Gamma in Eq. `SGRLD`, and the older correction with its factor 2."""
    gamma, geometric = correction(metric), geometric_correction(metric)

    def drift_with(factor, correct):
        return lambda theta: -metric(theta) @ jax.grad(bent)(theta) + factor * correct(theta)

    older = "text on SGRLD: Girolami and Calderhead's Gamma, with the factor 2"
    lebesgue = "text on SGRLD: the older Gamma without the 2, a density with respect to det(G)^1/2"
    right = HandwrittenSde("sgrld", 2, drift_with(1, gamma), metric, bent, around_bent(2), "Eq. SGRLD with -Gamma")
    return (
        right,
        right.but("sgrld_printed", "Eq. SGRLD: +Gamma inside -eps [...]", drift=drift_with(-1, gamma)),
        right.but("sgrld_older_correction", older, drift=drift_with(2, geometric)),
        right.but(
            "sgrld_geometric_correction",
            lebesgue,
            drift=drift_with(1, geometric),
            other_law=lambda theta: bent(theta) - log_volume(metric)(theta),
        ),
    )


def update(dim: int, sides: Box) -> SdeFamily:
    """Eqs. `simple-update` and `true-update` with dense D(z), Q(z): Gamma of the wrong sign."""
    diffusion, curl = dense(dim, seed=dim)
    both = lambda z: diffusion(z) + curl(z)  # noqa: E731

    def drift_with(sign):
        return lambda z: -(both(z) @ jax.grad(bent)(z) + sign * correction(both)(z))

    name, printed = f"dense_{dim}d", "Eqs. simple-update, true-update: +Gamma inside -eps [...]"
    right = HandwrittenSde(name, dim, drift_with(-1), diffusion, bent, sides, "Eq. CorrectDrift")
    return right, right.but(f"{name}_printed", printed, drift=drift_with(1))


MASS = 1.4  # of SGHMC below


def sghmc(step_size: float = 0.5, mass: float = MASS) -> SdeFamily:
    """Noise N(0, eps^2 V) a step is sqrt(eps V) dW, so 2D = eps V; the paragraph takes D = eps V for the friction."""

    def noise(z):
        return 1.5 + jnp.sin(z[0])

    def hamiltonian(z):
        return two_peaks(z[:1]) + 0.5 * z[1] ** 2 / mass

    def drift_with(friction):
        def drift(z):
            velocity = z[1:] / mass
            return jnp.concatenate([velocity, -jax.grad(two_peaks)(z[:1]) - friction * noise(z) * velocity])

        return drift

    def diffusion(z):
        return lower_block((0.5 * step_size * noise(z)).reshape(1, 1))

    paragraph = "SGHMC paragraph: friction eps V M^-1 r against noise N(0, eps^2 V)"
    sides = ((-3.0, 3.0), (-9.0, 9.0))
    right = HandwrittenSde(
        "sghmc_noise", 2, drift_with(0.5 * step_size), diffusion, hamiltonian, sides, "SGHMC with 2D = eps V"
    )
    # Friction twice what the noise pays for is a temperature of one half.
    half = right.but(
        "sghmc_printed_friction", paragraph, drift=drift_with(step_size), other_law=lambda z: 2 * hamiltonian(z)
    )
    return right, half, right.but("sghmc_naive", "Eq. NaiveSGHMC: noise without friction", drift=drift_with(0.0))


def own_batch(offset: float = 1.0) -> SdeFamily:
    """A metric that reads the potential of the gradient's own batch, averaged over all batches (the small-step limit).

    The drift is then -E[D(U~) grad U~] + E[Gamma], off by -Cov(D(U~), grad U~) from the recipe for E[D].
    """
    data = np.array([[-1.5, 0.4], [0.3, 1.1], [2.0, -0.2], [0.1, -1.6]])

    def potential_of(theta, example):
        return 0.15 * jnp.sum(theta**2) + 0.5 * jnp.sum((theta - example) ** 2) + 0.1 * jnp.sum(theta**4)

    def metric_of(theta, example):
        return jnp.sqrt(potential_of(theta, example) + offset)

    def mean(function, theta):
        return jnp.mean(jax.vmap(lambda example: function(theta, example))(jnp.asarray(data)), axis=0)

    def own(theta):
        product = lambda t, example: metric_of(t, example) * jax.grad(potential_of)(t, example)  # noqa: E731
        return -mean(product, theta) + mean(jax.grad(metric_of), theta)

    def independent(theta):
        return -mean(metric_of, theta) * mean(jax.grad(potential_of), theta) + mean(jax.grad(metric_of), theta)

    right = HandwrittenSde(
        "independent_batch",
        2,
        independent,
        lambda theta: mean(metric_of, theta) * jnp.eye(2),
        lambda theta: mean(potential_of, theta),
        box(2, 5.0),
        "metric from a batch independent of the gradient's",
    )
    return right, right.but("own_batch", "supplement: G defined through the minibatch potential", drift=own)


FAMILIES: list[SdeFamily] = [
    sgnht(),
    sgrhmc("sgrhmc_dense", bent, coupled_root, box(4, 3.0)),
    sgrhmc("sgrhmc_one_peak", one_peak, root_of_potential(one_peak, 0.5), box(2, 9.0))[:3],
    sgrhmc("sgrhmc_two_peaks", two_peaks, root_of_potential(two_peaks, 1.5), ((-3.0, 3.0), (-9.0, 9.0)))[:3],
    sgrld(),
    update(2, around_bent(2)),
    update(3, around_bent(3)),
    update(5, box(5, 3.0)),
    sghmc(),
    own_batch(),
]
