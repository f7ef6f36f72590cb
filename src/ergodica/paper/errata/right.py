"""Claims on what is right as printed and no twin of a slip: updates of section 3, and the gradient for LDA."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ergodica.compiling import quick_filter_jit
from ergodica.paper.errata import formulas
from ergodica.paper.errata.samplers import AGREES, POINTS
from ergodica.paper.flat import flat_sde, matrices_at
from ergodica.paper.printed.matrices import PRINTED
from ergodica.paper.result import Claim, Table
from ergodica.paper.samplers import LABELS, SAMPLERS, bent
from ergodica.paper.verdict import Answer, conditions, verdict, yes_if


def update_gaps(seed: int) -> dict[str, float]:
    """How far the drifts of the library's recipes are from the printed ones, by sampler, over their size."""
    return {name: _gap(name, printed.drift, seed) for name, printed in PRINTED.items() if printed.drift is not None}


def _gap(name: str, printed: Callable, seed: int) -> float:
    recipe, target = (make() for make in SAMPLERS[name])
    at = matrices_at(recipe, target, POINTS, seed)
    with jax.enable_x64(True):
        phases = jnp.asarray(at.phases)
        slopes = np.asarray(_each(jax.grad(bent), phases[:, at.spans["position"]]))
        ours = np.asarray(_each(flat_sde(recipe, target).drift, phases))
    theirs = np.array([printed(z, slope) for z, slope in zip(at.phases, slopes, strict=True)])
    return float(np.abs(ours - theirs).max() / np.abs(theirs).max())


@quick_filter_jit
def _each(function: Callable, points: Any) -> Any:
    return jax.vmap(function)(points)


def update_claim(gaps: dict[str, float]) -> tuple[Claim, Table]:
    """Reproduced where the library's recipe, whose certificate is in item theorem-1, has the printed drift."""
    answers = [Answer(LABELS[name], yes_if(gap < AGREES)) for name, gap in gaps.items()]
    others = [answer.words for answer in answers if answer.outcome == "no"]
    claim = Claim(
        "printed-section-3-updates",
        f"The updates of {', '.join(LABELS[name] for name in gaps)} are right as printed.",
        "section 3 and supplement",
        verdict(answers),
        f"{len(answers) - len(others)} of {len(answers)} drifts are those of the library's recipes; the largest "
        f"distance is {max(gaps.values()):.1e} of their size."
        + (f" Not the same: {', '.join(others)}." if others else ""),
        gaps,
        conditions(answers),
        kind="print",
        rule=f"They are those of the library's recipe, which item theorem-1 certifies, to {AGREES:g} of their size at "
        f"{POINTS} phases; asked once for each sampler.",
    )
    rows = [(LABELS[name], gap) for name, gap in gaps.items()]
    return claim, Table("updates", "Printed drifts against the library's.", ("sampler", "drift off by"), rows)


def gradient_claim(seed: int) -> Claim:
    """The printed gradient against that of the log posterior, summed over all topics of all tokens."""
    right, printed = formulas.lda_gradients(seed)
    off = float(np.abs(printed - right).max() / np.abs(right).max())
    return Claim(
        "printed-lda-gradient",
        "The printed gradient for LDA is that of the log posterior, on average over the minibatches.",
        "supplement, LDA",
        verdict([Answer("two short documents", yes_if(off < AGREES))]),
        f"It is off by {off:.1e} of its size.",
        {"printed_off": off},
        kind="print",
        rule="On two short documents, where all topics of all tokens can be listed, it is the derivative to "
        f"{AGREES:g} of its size.",
    )
