"""Samplers that every checker must reject (`WRONG`, `WRONG_STEPS`), and their right twins (`RIGHT`, `RIGHT_STEPS`).

    for sde in WRONG.values():
        assert not eg.certify_sde(sde.drift, sde.diffusion, sde.hamiltonian, dim=sde.dim).passed

`RIGHT[sde.twin]` is the right twin. The paper's own are those of `ergodica_paper.printed`; `mutations` adds the slips
that anybody makes. To add one, append a family (the right sampler, then wrong ones made from it with `right.but(...)`)
to a module's `FAMILIES`. `WRONG_STEPS` and `RIGHT_STEPS` hold discrete update rules in the same way, from the modules'
`STEPS`:

    for step in WRONG_STEPS.values():
        assert not step.audit().passed
"""

from ergodica_paper.printed import HandwrittenSde, SdeFamily, equations, naive, register

from . import batch_steps, momentum_steps, mutations, steps
from .step import RuleFamily, UpdateRule

WRONG, RIGHT = register([*equations.FAMILIES, *naive.FAMILIES, *mutations.FAMILIES])
WRONG_STEPS, RIGHT_STEPS = register([*steps.STEPS, *momentum_steps.STEPS, *batch_steps.STEPS])

__all__ = [
    "RIGHT",
    "RIGHT_STEPS",
    "WRONG",
    "WRONG_STEPS",
    "HandwrittenSde",
    "RuleFamily",
    "SdeFamily",
    "UpdateRule",
    "register",
]
