"""One hand-written sampler as data: a drift, a diffusion, and the law that it claims to leave invariant."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Protocol, TypeVar

import jax
import jax.numpy as jnp
import numpy as np

Box = tuple[tuple[float, float], ...]
SdeFamily = tuple["HandwrittenSde", ...]  # a right sampler first, then the wrong ones made from it


@dataclass(frozen=True)
class HandwrittenSde:
    """dz = drift(z) dt + sqrt(2 diffusion(z)) dW, which claims exp(-hamiltonian).

    drift, diffusion and hamiltonian are jnp functions of one flat float64 vector. `box` holds the law. `source` says
    whose slip it is. `twin`: the name of the right sampler in `RIGHT`. `other_law`, where known, is the energy of the
    law that a wrong sampler leaves invariant instead.
    """

    name: str
    dim: int
    drift: Callable
    diffusion: Callable
    hamiltonian: Callable
    box: Box
    source: str
    twin: str = ""
    other_law: Callable | None = None

    def __post_init__(self) -> None:
        if len(self.box) != self.dim:
            raise ValueError(f"{self.name}: got a box with {len(self.box)} sides, expected dim = {self.dim}")

    def points(self, seed: int, n: int) -> np.ndarray:
        """n points (n, dim) where the law lives: drawn without replacement, by weight, from uniform ones in the box."""
        rng = np.random.default_rng(seed)
        low, high = np.array(self.box).T
        crowd = rng.uniform(low, high, (64 * n, self.dim))
        with jax.enable_x64(True):
            energy = np.asarray(jax.vmap(self.hamiltonian)(jnp.asarray(crowd)))
        return crowd[np.argsort(energy - rng.gumbel(size=energy.size))[:n]]

    def but(self, name: str, source: str, **changes) -> HandwrittenSde:
        """A wrong sampler made from this right one."""
        return replace(self, name=name, source=source, twin=self.name, **changes)


def correction(matrix: Callable) -> Callable:
    """z -> Gamma, Gamma_i = sum_j d/dz_j M_ij(z), Eq. `CorrectDrift`."""
    return lambda z: jnp.einsum("ijj->i", jax.jacfwd(matrix)(z))


def box(dim: int, radius: float) -> Box:
    """The cube [-radius, radius]^dim."""
    return ((-radius, radius),) * dim


class Named(Protocol):
    """Anything with a name."""

    @property
    def name(self) -> str: ...


Sampler = TypeVar("Sampler", bound=Named)


def register(families: Sequence[tuple[Sampler, ...]]) -> tuple[dict[str, Sampler], dict[str, Sampler]]:
    """(wrong, right) by name; a name is used once, but one right sampler may head several families."""
    wrong: dict[str, Sampler] = {}
    right: dict[str, Sampler] = {}
    for first, *rest in families:
        for registry, sampler in [(right, first), *((wrong, sampler) for sampler in rest)]:
            if right.get(sampler.name) is sampler:
                continue
            if sampler.name in wrong or sampler.name in right:
                raise ValueError(f"two samplers are named {sampler.name!r}")
            registry[sampler.name] = sampler
    return wrong, right
