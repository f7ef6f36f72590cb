"""Random hand-written SDEs with one defect each, and how often `certify_sde` names it.

Every number is an argument of the same functions, so that all recipes of one dimension compile once.
"""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.tree_util import Partial

from ergodica.verify.certificate.sde_certificate import SdeCertificate, certify_sde

DIMENSIONS = (2, 3, 4, 5)
LISTED = (
    ("correction", 0.0),
    ("correction", -1.0),
    ("correction", 2.0),
    ("friction", 0.0),
    ("friction", -1.0),
    ("diffusion", None),  # None: a factor is drawn
    ("temperature", None),
)
UNLISTED = ("entry of the drift", "sign of an entry of the curl", "index of the correction")


class Numbers(NamedTuple):
    """The coefficients of a random recipe, and its defect: all zeros and ones in a right one."""

    stiffness: Any
    ripple: Any  # of H: wave vector (dim,)
    base: Any  # (2, dim, dim): of the roots of D and of Q
    waves: Any  # (2, dim, dim, dim)
    friction: Any = 1.0
    correction: Any = 1.0
    diffusion: Any = 1.0  # of the drift's D over the D handed over
    temperature: Any = 1.0
    scaled: Any = 0.0  # (dim,): f_i (1 + scaled_i)
    flipped: Any = 0.0  # (dim, dim): Q_ij (1 - flipped_ij) in the drift, which may not be skew
    index: Any = 0.0  # of sum_j d_i (D + Q)_ij instead of sum_j d_j (D + Q)_ij


class Case(NamedTuple):
    dim: int
    numbers: Numbers
    kind: str | None  # of the defect; None for one that is not on the list
    factor: float
    temperature: float
    what: str

    @property
    def functions(self) -> tuple[Partial, Partial, Partial]:
        return tuple(Partial(function, self.numbers) for function in (drift, diffusion, hamiltonian))  # type: ignore[return-value]

    def certify(self) -> SdeCertificate:
        return certify_sde(*self.functions, self.dim, temperature=self.temperature)

    def is_named(self, report: SdeCertificate) -> bool:
        """Whether the report says what is wrong: the kind and the factor first of all, or that there is no repair."""
        if report.passed or self.kind is None:
            return not report.passed and not report.repairs
        named = report.repairs[0] if report.repairs else None
        return named is not None and named.kind == self.kind and abs(named.factor - self.factor) < 1e-6


def hamiltonian(numbers, z):
    return z @ numbers.stiffness @ z / 2 + 0.7 * jnp.sin(numbers.ripple @ z + 0.4) + 0.03 * jnp.sum(z**4)


def true_diffusion(numbers, z):
    root = 0.5 * numbers.base[0] + 0.6 * jnp.sin(jnp.einsum("ijk,k->ij", numbers.waves[0], z))
    return root @ root.T + 0.2 * jnp.eye(z.size)


def curl(numbers, z):
    half = numbers.base[1] + jnp.cos(jnp.einsum("ijk,k->ij", numbers.waves[1], z) + 0.5)
    return half - half.T


def diffusion(numbers, z):
    """The D handed over; the noise is sqrt(2 T D) dW with the T that is claimed."""
    return true_diffusion(numbers, z) / numbers.diffusion


def drift(numbers, z):
    """-(phi D + Q) grad H + gamma T' Gamma, Eq. `CorrectDrift` where phi = gamma = 1."""
    d, q = true_diffusion(numbers, z), curl(numbers, z) * (1.0 - numbers.flipped)
    jacobian = jax.jacfwd(lambda z: true_diffusion(numbers, z) + curl(numbers, z))(z)
    right, wrong = jnp.einsum("ijj->i", jacobian), jnp.einsum("iji->i", jacobian)
    gamma = right + numbers.index * (wrong - right)
    flow = -(numbers.friction * d + q) @ jax.grad(lambda z: hamiltonian(numbers, z))(z)
    return (flow + numbers.correction * numbers.temperature * gamma) * (1.0 + numbers.scaled)


def draw(seed: int, is_listed: bool = True) -> Case:
    """A random recipe in 2 to 5 dimensions with one random defect."""
    rng = np.random.default_rng(seed)
    dim = DIMENSIONS[seed % len(DIMENSIONS)]
    k = rng.normal(size=(dim, dim))
    temperature = float(np.exp(rng.uniform(-0.7, 0.7)))
    numbers = Numbers(
        stiffness=0.2 * k @ k.T + 0.6 * np.eye(dim),
        ripple=rng.normal(size=dim),
        base=rng.normal(size=(2, dim, dim)),
        waves=0.6 * rng.normal(size=(2, dim, dim, dim)),
        temperature=temperature,
        scaled=np.zeros(dim),
        flipped=np.zeros((dim, dim)),
    )
    kind, factor, numbers, what = (listed if is_listed else unlisted)(rng, dim, numbers)
    return Case(dim, jax.tree.map(lambda x: jnp.asarray(x, jnp.float64), numbers), kind, factor, temperature, what)


def listed(rng: np.random.Generator, dim: int, numbers: Numbers) -> tuple[str, float, Numbers, str]:
    kind, factor = LISTED[rng.integers(len(LISTED))]
    if factor is None:
        factor = float(np.exp(rng.choice([-1, 1]) * rng.uniform(0.05, 1.0)))
    if kind == "temperature":
        # the whole process at T' = T / factor: the noise 2 T' D, handed over as 2 T D_given
        numbers = numbers._replace(temperature=numbers.temperature / factor, diffusion=factor)
    else:
        numbers = numbers._replace(**{kind: factor})
    return kind, factor, numbers, f"{kind} {factor:.3g}"


def unlisted(rng: np.random.Generator, dim: int, numbers: Numbers) -> tuple[None, float, Numbers, str]:
    what = UNLISTED[rng.integers(len(UNLISTED))]
    i, j = rng.permutation(dim)[:2]
    if what == "entry of the drift":
        numbers.scaled[i] = 0.3
    elif what == "sign of an entry of the curl":
        numbers.flipped[i, j] = 2.0
    else:
        numbers = numbers._replace(index=1.0)
    return None, 1.0, numbers, what


def power(seeds: range, is_listed: bool = True) -> tuple[int, list[str]]:
    """How many of the seeds' defects are named, and what was said of the others."""
    named, missed = 0, []
    for seed in seeds:
        case = draw(seed, is_listed)
        report = case.certify()
        if case.is_named(report):
            named += 1
        else:
            said = report.repairs[0].words if report.repairs else f"passed {report.passed}"
            missed.append(f"seed {seed}, {case.dim}-D, {case.what}: {said}")
    return named, missed


if __name__ == "__main__":
    jax.config.update("jax_enable_x64", True)
    for is_listed, words in ((True, "defects of the list"), (False, "defects outside of it")):
        named, missed = power(range(200), is_listed)
        print(f"{words}: {named} of 200 named", *missed, sep="\n  ")
