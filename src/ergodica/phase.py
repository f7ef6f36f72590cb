"""The phase z = (position, auxiliary slots by name), what a field sees of it, and the evaluation of one step."""

from collections import namedtuple
from collections.abc import Mapping
from functools import lru_cache
from typing import Any, NamedTuple

from jaxtyping import Array, PyTree

from ergodica.errors import InputError

Phase = Any  # a NamedTuple made by `phase_type`: its fields are the slots of the recipe


@lru_cache
def phase_type(names: tuple[str, ...]) -> type:
    """The NamedTuple of a recipe's slots: one class for equal names, so that a step compiles once."""
    return namedtuple("Phase", names)


class Evaluation(NamedTuple):
    """The gradient that moves the phase, and the potential that fields may read.

    With full data `potential_gradient` is `gradient`. With minibatches the potential is that of another batch than
    the gradient it multiplies (docs/explanation/mathematics.md), and its own gradient is there for the correction.
    """

    gradient: PyTree
    potential: Array | None = None
    potential_gradient: PyTree | None = None


class View:
    """What a field's or an energy's function sees of the phase, noting what it reads.

    A slot that is never read has no derivative to take, so the correction costs nothing there. XLA would not remove
    `0 * gradient` by itself: it must keep the NaN of 0 * infinity.
    """

    def __init__(self, slots: Mapping[str, PyTree], potential: Array | None, temperature: Any, reads: set[str]):
        self._slots = slots
        self._potential = potential
        self._temperature = temperature
        self._reads = reads

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        if name not in self._slots:
            known = ", ".join(f"z.{slot}" for slot in self._slots)
            raise InputError(
                f"a field or an energy reads z.{name}, but the phase has only {known} (and z.potential, z.temperature)"
            )
        self._reads.add(name)
        return self._slots[name]

    @property
    def potential(self) -> Array:
        self._reads.add("potential")
        if self._potential is None:
            raise InputError(
                "the recipe reads z.potential, but this target gives gradients only: "
                "use a recipe that does not scale with the potential (eg.sghmc, eg.sgrld, ...), "
                "or a target with a potential (eg.Density, eg.Posterior)"
            )
        return self._potential

    @property
    def temperature(self) -> Any:
        return self._temperature


class Point(NamedTuple):
    """A phase with the potential that fields may read there, and the temperature of the run."""

    phase: Phase
    potential: Any = None  # a scalar; its shape alone where only what a field reads is asked
    potential_gradient: PyTree | None = None
    temperature: Any = 1.0

    def view(self, reads: set[str] | None = None, **changed: PyTree) -> View:
        """The view of this point with some slots (or `potential`) replaced: what derivatives are taken through."""
        potential = changed.pop("potential", self.potential)
        slots = {**self.phase._asdict(), **changed}
        return View(slots, potential, self.temperature, set() if reads is None else reads)

    def slot(self, name: str) -> PyTree:
        return getattr(self.phase, name)


class BatchPair(NamedTuple):
    """Two batches, drawn independently of each other, for one step of a recipe that reads `z.potential`.

    Use it in a loop of your own around `eg.Kernel` with such a recipe (`eg.gsgrhmc`, or a metric from
    `eg.potential_scaled`); `eg.sample` draws the pairs by itself. Each batch's potential multiplies the other one's
    gradient. With a single batch the two would be correlated, and the drift wrong at every step size by
    -Cov(D + Q, grad U) (docs/explanation/mathematics.md).

    Args:
        first: a batch, as the target's likelihood takes it.
        second: another, of the same size. Two halves cost what one whole batch does.

    Example:
        >>> import ergodica as eg
        >>> pair = eg.BatchPair(first={"x": [0.1, 0.7]}, second={"x": [0.4, -1.2]})
    """

    first: PyTree
    second: PyTree
