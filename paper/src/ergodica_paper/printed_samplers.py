"""The samplers of section 3 as printed, with the numbers and on the laws of `ergodica.verify.specimens`."""

import jax
import jax.numpy as jnp
import numpy as np

from ergodica.verify.specimens import DAMPING, FRICTION, MATRIX, bent, information
from ergodica_paper.printed import matrices


def _fisher(theta: np.ndarray) -> np.ndarray:
    with jax.enable_x64(True):
        return np.linalg.inv(np.asarray(information(jnp.asarray(theta))) + DAMPING * np.eye(theta.size))


def _grown(theta: np.ndarray) -> np.ndarray:
    with jax.enable_x64(True):
        return 1.5 * np.sqrt(float(bent(jnp.asarray(theta))) + 1.5) * np.eye(theta.size)


PRINTED = {
    "hmc": matrices.hmc(MATRIX),
    "sghmc": matrices.sghmc(FRICTION, MATRIX),
    "sgld": matrices.sgld(MATRIX),
    "sgrld": matrices.sgrld(np.diag),
    "sgnht": matrices.sgnht(FRICTION),
    "sgrhmc": matrices.sgrhmc(_fisher, 2),
    "gsgrhmc": matrices.sgrhmc(_grown, 2),
}

# Those whose D and Q section 3 gives, in its order. gSGRHMC is SGRHMC with a metric of the user's; SGFS is only
# mentioned there, as a variant of SGLD.
SECTION_3 = tuple(PRINTED)
