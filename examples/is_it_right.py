"""Two samplers that look right: a hand-written SDE, and an update rule. Are they?"""

import jax
import jax.numpy as jnp

import ergodica as eg


def root(q):  # G^-1/2: move faster where the potential is high
    return jnp.sqrt(1.5 * jnp.sqrt(q**4 / 4 + 1.0))


def hamiltonian(z):
    return z[0] ** 4 / 4 + z[1] ** 2 / 2


def drift(z):  # SGRHMC, as one would write it down
    q, r = z
    return jnp.stack([root(q) * r, -root(q) * q**3 - root(q) ** 2 * r])


def diffusion(z):
    return jnp.diag(jnp.stack([0.0, root(z[0]) ** 2]))


certificate = eg.certify_sde(drift, diffusion, hamiltonian, dim=2)
print(certificate)


def step(key, x, step_size):  # Langevin, with a slip in the noise
    return x - step_size * x + jnp.sqrt(step_size) * jax.random.normal(key, x.shape)


audit = eg.audit(step, eg.gallery.gaussian(10))
print(audit)
