"""Samplers that every checker must reject (`WRONG`), and their right twins (`RIGHT`), by name.

    for sde in WRONG.values():
        assert not eg.certify_sde(sde.drift, sde.diffusion, sde.hamiltonian, dim=sde.dim).passed

`RIGHT[sde.twin]` is the right twin. To add one, append a family (the right sampler, then wrong ones made from it with
`right.but(...)`) to a module's `FAMILIES`.
"""

from . import mutations, naive, printed
from .sde import Family, Sde


def register(families: list[Family]) -> tuple[dict[str, Sde], dict[str, Sde]]:
    """(wrong, right) by name; a name is used once."""
    wrong: dict[str, Sde] = {}
    right: dict[str, Sde] = {}
    for first, *rest in families:
        for registry, sde in [(right, first), *((wrong, sde) for sde in rest)]:
            if sde.name in wrong or sde.name in right:
                raise ValueError(f"two samplers are named {sde.name!r}")
            registry[sde.name] = sde
    return wrong, right


WRONG, RIGHT = register([*printed.FAMILIES, *naive.FAMILIES, *mutations.FAMILIES])

__all__ = ["RIGHT", "WRONG", "Family", "Sde", "register"]
