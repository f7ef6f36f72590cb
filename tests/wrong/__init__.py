"""Samplers that every checker must reject (`WRONG`, `WRONG_STEPS`), and their right twins (`RIGHT`, `RIGHT_STEPS`).

    for sde in WRONG.values():
        assert not eg.certify_sde(sde.drift, sde.diffusion, sde.hamiltonian, dim=sde.dim).passed

`RIGHT[sde.twin]` is the right twin. To add one, append a family (the right sampler, then wrong ones made from it with
`right.but(...)`) to a module's `FAMILIES`. `WRONG_STEPS` and `RIGHT_STEPS` hold discrete update rules in the same way,
from the modules' `STEPS`:

    for step in WRONG_STEPS.values():
        assert not step.audit().passed
"""

from collections.abc import Sequence
from typing import TypeVar

from . import batch_steps, momentum_steps, mutations, naive, printed, steps
from .sde import Family, Sde
from .step import Step, Steps

Sampler = TypeVar("Sampler", Sde, Step)


def register(families: Sequence[tuple[Sampler, ...]]) -> tuple[dict[str, Sampler], dict[str, Sampler]]:
    """(wrong, right) by name; a name is used once."""
    wrong: dict[str, Sampler] = {}
    right: dict[str, Sampler] = {}
    for first, *rest in families:
        for registry, sde in [(right, first), *((wrong, sde) for sde in rest)]:
            if sde.name in wrong or sde.name in right:
                raise ValueError(f"two samplers are named {sde.name!r}")
            registry[sde.name] = sde
    return wrong, right


WRONG, RIGHT = register([*printed.FAMILIES, *naive.FAMILIES, *mutations.FAMILIES])
WRONG_STEPS, RIGHT_STEPS = register([*steps.STEPS, *momentum_steps.STEPS, *batch_steps.STEPS])

__all__ = ["RIGHT", "RIGHT_STEPS", "WRONG", "WRONG_STEPS", "Family", "Sde", "Step", "Steps", "register"]
