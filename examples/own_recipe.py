"""A sampler of one's own in five lines: friction that grows with the distance from the origin."""

import jax.numpy as jnp
import numpy as np

import ergodica as eg

recipe = eg.Recipe(
    energy={"momentum": eg.Gaussian(mass=1.0)},
    diffusion={"momentum": eg.Scaled(lambda z: 1.0 + jnp.sum(z.position**2))},
    curl={("momentum", "position"): eg.Elementwise(lambda z: 1.0 + 0.5 * jnp.cos(z.position))},
)

target = eg.Density(lambda q: jnp.sum(q**4 / 4 - q**2 / 2), init=np.zeros(3, np.float32))
run = eg.sample(target, recipe, steps=20_000, warmup=1_000, step_size=0.1)

# exp(-U) factorises, so the truth is one integral
q = np.linspace(-5, 5, 10_001)
density = np.exp(-(q**4 / 4 - q**2 / 2))
print("E q^2", (run.posterior**2).mean(axis=(0, 1)).round(3), "truth", round((q**2 * density).sum() / density.sum(), 3))
