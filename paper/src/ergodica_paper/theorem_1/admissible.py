"""Up to which step size 2D - eps B is positive semidefinite, B = (D + Q) blkdiag(V, 0) (D + Q)^T: the library's own
bound, 2 / lambda_max(D^+1/2 B D^+1/2), and 0 where B leaves the range of D."""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

import ergodica as eg
from ergodica.integrators.compensation import largest_step_dense
from ergodica.verify.specimens import SAMPLERS, free
from ergodica_paper import style
from ergodica_paper.flat import matrices_at
from ergodica_paper.result import Ask, Claim, Picture, Table
from ergodica_paper.style import LABELS
from ergodica_paper.verdict import Answer, judged, yes_if

POINTS = 32
OUTSIDE = 1e-9  # of B outside the range of D, over B: more is not rounding


class Admissible(NamedTuple):
    """The largest admissible step sizes of a sampler at the drawn phases, with V = 1.

    Args:
        outside: the share of B that lies outside the range of D, at most, by a singular value decomposition.
    """

    name: str
    label: str
    steps: np.ndarray
    outside: float

    @property
    def least(self) -> float:
        return float(self.steps.min())

    @property
    def is_within(self) -> bool:
        """Whether the range of B lies in that of D at every phase."""
        return self.outside <= OUTSIDE


def half_rubbed() -> eg.Recipe:
    """SGHMC with friction on one of two coordinates."""
    return eg.sghmc(friction=np.array([1.0, 0.0]))


def cases() -> dict[str, tuple[str, Callable[[], Any], Callable[[], Any]]]:
    named = {name: (LABELS[name], *pair) for name, pair in SAMPLERS.items()}
    return named | {"half_rubbed": ("SGHMC, friction on one coordinate of two", half_rubbed, free)}


def all_admissible(ask: Ask) -> list[Admissible]:
    found = []
    for i, (name, (label, build, target)) in enumerate(cases().items()):
        ask.report(0.9 + 0.09 * i / len(cases()), f"largest step of {label}")
        at = matrices_at(build(), target(), POINTS, ask.seed)
        columns = (at.diffusion + at.curl)[:, :, at.spans["position"]]
        b = columns @ np.swapaxes(columns, 1, 2)
        with jax.enable_x64(True):
            steps = _largest(jnp.asarray(at.diffusion), jnp.asarray(b))
        outside = max(share_outside(*pair) for pair in zip(at.diffusion, b, strict=True))
        found.append(Admissible(name, label, np.asarray(steps), outside))
    return found


def share_outside(d: np.ndarray, b: np.ndarray) -> float:
    """|(1 - P) B| / |B|, P the projection to the range of D."""
    onto = d @ np.linalg.pinv(d, rcond=OUTSIDE)
    return float(np.linalg.norm(b - onto @ b) / np.linalg.norm(b))


@jax.jit
def _largest(d: Any, b: Any) -> Any:
    return jax.vmap(lambda d, b: largest_step_dense(d, b, 1.0))(d, b)


def admissible_claim(found: list[Admissible]) -> Claim:
    """Asked of every sampler."""
    answers = [Answer(a.label, yes_if(a.least > 0)) for a in found]
    some, never = [a.least for a in found if a.least > 0], [a.label for a in found if not a.least > 0]
    upto = f"up to step size {min(some):.3g} at least, in {len(some)} of {len(found)} samplers" if some else "in none"
    return judged(
        "noise-psd",
        "With small eps, 2D - eps B is always positive semidefinite.",
        "section 2.3, below Eq. noisygrad",
        answers,
        f"With V = 1 it is so {upto}." + (f" No step size will do for {' and '.join(never)}." if never else ""),
        {
            "largest_step": {a.name: a.least for a in found},
            "share_of_B_outside_the_range_of_D": {a.name: a.outside for a in found},
            "no_step": never,
        },
        picture="largest-step",
        where=_where(found),
        rule=f"Sampler by sampler: at each of {POINTS} phases there is an eps > 0 up to which 2D - eps B is positive "
        "semidefinite, by the library's own bound.",
    )


def _where(found: list[Admissible]) -> str | None:
    """In short, where the ranges of B and D tell all samplers apart; else None, and the samplers are named."""
    is_the_range = all(a.is_within == (a.least > 0) for a in found)
    return "the range of B lies in that of D" if is_the_range else None


def admissible_table(found: list[Admissible]) -> Table:
    rows = [(a.label, a.least, float(a.steps.max()), a.is_within) for a in found]
    columns = ("sampler", "largest step, least over the phases", "largest step, most", "range of B within that of D")
    return Table(
        "largest-step", f"Largest eps with 2D - eps B PSD, V = 1, at {POINTS} phases.", columns, rows, shown=True
    )


def admissible_picture(found: list[Admissible]) -> Picture:
    figure, ((axis,),) = style.new_figure(squeeze=False, size=(7.0, 4.4))
    for place, a in enumerate(reversed(found)):
        colour = style.COLOURS.get(a.name, "#555555")
        if not a.least > 0:
            axis.text(0.02, place, "no step", color="#D55E00", va="center", transform=axis.get_yaxis_transform())
            continue
        axis.plot([a.least, a.steps.max()], [place, place], color=colour, linewidth=2)
        axis.plot(a.least, place, style.MARKERS.get(a.name, "o"), color=colour)
    axis.set(
        xscale="log",
        ylim=(-0.6, len(found) - 0.4),
        xlabel="largest admissible step size (time)",
        yticks=range(len(found)),
        yticklabels=[a.label for a in reversed(found)],
    )
    low, high = axis.get_xlim()
    axis.set_xlim(low / 2, high * 1.3)
    caption = f"Largest step with 2D - eps B PSD for V = 1: least (marker) to most over {POINTS} phases."
    return Picture("largest-step", caption, figure, "largest-step")
