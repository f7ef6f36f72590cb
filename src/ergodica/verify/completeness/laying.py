"""Where the grid is laid: wide enough for the current to vanish at its faces, narrow enough to resolve it."""

import numpy as np

from ergodica.errors import InputError
from ergodica.host.progress import TellShare
from ergodica.verify.completeness.construction import Flow, flow_on
from ergodica.verify.completeness.extent import holding, mass_outside
from ergodica.verify.completeness.grid import Box, Grid, in_words
from ergodica.verify.functions import HandWritten

# Shares of the maximum to which exp(-H) falls at the faces, from the widest box down. What F leaves at the faces, and
# what it holds in its highest modes, both come back in Q p; a narrower box is tried while the second is the larger.
EDGES = {2: (1e-16, 1e-13, 1e-10, 1e-7), 3: (1e-11, 1e-9, 1e-7)}
ENOUGH = {2: 1e-13, 3: 3e-6}  # of the largest F: below it a narrower box is not looked for
CUT = 1e-5  # share of the mass that a given box may leave outside


def laid_flow(process: HandWritten, given: Box | None, resolution: int, lowest: float, tell: TellShare) -> Flow:
    """The current on the grid that loses least of it; `tell` is told the share that is done."""
    boxes = laid_boxes(process, given)
    best = flow_on(Grid(boxes[0], resolution), process, lowest, tell)
    for box in boxes[1:]:
        if best.tail <= max(best.edge, ENOUGH[process.dim] * best.largest):
            break
        other = flow_on(Grid(box, resolution), process, lowest, tell)
        if other.edge + other.tail < best.edge + best.tail:
            best = other
    return best


def laid_boxes(process: HandWritten, given: Box | None) -> list[Box]:
    """Boxes at whose faces exp(-H) has fallen to EDGES, the widest first; a given one is a part of all of them."""
    found = [holding(process.energies, process.dim, -np.log(edge)) for edge in EDGES[process.dim]]
    boxes = [each[0] for each in found if each is not None]
    if given is None:
        if not boxes:
            raise InputError(
                f"exp(-H) falls off too slowly to find a box at whose faces it is {EDGES[process.dim][-1]:g} of its "
                "maximum: give one, box=[(low, high), ...], and look at the error"
            )
        return boxes
    if boxes:
        check_cut(process, given, boxes[0])
    unions = [tuple((min(a, c), max(b, d)) for (a, b), (c, d) in zip(given, box, strict=True)) for box in boxes]
    # a hamiltonian that has no value beyond the given box (a logarithm) is taken at its word
    return [box for box in dict.fromkeys(unions) if is_finite_in(process, box)] or [given]


def check_cut(process: HandWritten, given: Box, whole: Box) -> None:
    outside = mass_outside(process.energies, given, whole)
    if outside > CUT:
        raise InputError(
            f"the box {in_words(given)} cuts off {100 * outside:.3g} % of the mass of exp(-H): Q p must vanish at its "
            f"faces, so use one like {in_words(whole)}, or leave box out"
        )


def is_finite_in(process: HandWritten, box: Box) -> bool:
    """Whether H is finite on a coarse grid in the box."""
    coarse = Grid(box, 32)
    return bool(np.all(np.isfinite(process.energies(coarse.points(0, coarse.size)))))
