"""Up to which step size 2D - eps B is positive semidefinite, B = (D + Q) blkdiag(V, 0) (D + Q)^T: the library's own
bound, 2 / lambda_max(D^+1/2 B D^+1/2), and 0 where B leaves the range of D."""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

import ergodica as eg
from ergodica.integrators.compensation import largest_step_dense
from ergodica.paper import style
from ergodica.paper.flat import matrices_at
from ergodica.paper.result import Ask, Claim, Picture, Table
from ergodica.paper.samplers import LABELS, SAMPLERS, free

POINTS = 32


class Admissible(NamedTuple):
    """The largest admissible step sizes of a sampler at the drawn phases, with V = 1."""

    name: str
    label: str
    steps: np.ndarray

    @property
    def least(self) -> float:
        return float(self.steps.min())


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
        with jax.enable_x64(True):
            b = jnp.asarray(columns @ np.swapaxes(columns, 1, 2))
            steps = _largest(jnp.asarray(at.diffusion), b)
        found.append(Admissible(name, label, np.asarray(steps)))
    return found


@jax.jit
def _largest(d: Any, b: Any) -> Any:
    return jax.vmap(lambda d, b: largest_step_dense(d, b, 1.0))(d, b)


def admissible_claim(found: list[Admissible]) -> Claim:
    """Reproduced if every sampler has an admissible step; under conditions if some have none."""
    never = [a.label for a in found if not a.least > 0]
    verdict = "reproduced"
    if never:
        verdict = "reproduced under conditions" if len(never) < len(found) else "not reproduced"
    some = [a.least for a in found if a.least > 0]
    words = (
        f"With V = 1, {len(some)} of {len(found)} samplers admit every step size up to "
        f"{min(some, default=0):.3g} … {max(some, default=0):.3g}. "
    ) + (f"No step at all for {' and '.join(never)}: B leaves the range of D." if never else "None has no step at all.")
    return Claim(
        "noise-psd",
        "With small eps, 2D - eps B is always positive semidefinite.",
        "section 2.3, below Eq. noisygrad",
        verdict,
        words,
        {"largest_step": {a.name: a.least for a in found}, "no_step": never},
        conditions="the range of B lies in that of D; else no step size will do" if never else "",
        picture="largest-step",
    )


def admissible_table(found: list[Admissible]) -> Table:
    rows = [(a.label, a.least, float(a.steps.max()), a.least > 0) for a in found]
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
