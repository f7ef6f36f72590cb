"""The paper's samplers as printed, and its naive ones (`WRONG`), beside their right twins (`RIGHT`), as plain SDEs.

    for sde in WRONG.values():
        assert not eg.certify_sde(sde.drift, sde.diffusion, sde.hamiltonian, dim=sde.dim).passed

`RIGHT[sde.twin]` is the right twin. To add one, append a family (the right sampler, then wrong ones made from it with
`right.but(...)`) to a module's `FAMILIES`. `SLIPS` is the list of the paper's slips that are wrong samplers.
"""

from . import equations, naive
from .sde import HandwrittenSde, SdeFamily, register
from .slips import SLIPS, Slip

WRONG, RIGHT = register([*equations.FAMILIES, *naive.FAMILIES])

__all__ = ["RIGHT", "SLIPS", "WRONG", "HandwrittenSde", "SdeFamily", "Slip", "register"]
