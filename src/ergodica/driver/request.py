"""The request: the arguments of `eg.sample`, listed here and nowhere else; checked, and in words for the file."""

from collections.abc import Callable, Mapping
from dataclasses import KW_ONLY, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import PyTree

from ergodica import structure
from ergodica.diagnostics.accuracy import Accuracy
from ergodica.driver.draws import KeptSteps
from ergodica.driver.keeping import Keeping, check_keep
from ergodica.driver.minibatches import BATCH_KINDS
from ergodica.driver.schedules import Cyclical
from ergodica.errors import InputError
from ergodica.fields import times
from ergodica.gradients.noise import PerExample
from ergodica.host import validate
from ergodica.host.tracing import without_addresses
from ergodica.host.validate import kind_of
from ergodica.integrators import Kernel, Leapfrog
from ergodica.integrators.base import Integrator
from ergodica.recipe import Recipe
from ergodica.report import plain
from ergodica.targets import DataTarget, Target
from ergodica.targets.coordinates import Coordinates
from ergodica.targets.networks import is_start_function

if TYPE_CHECKING:
    from ergodica.driver.optimise import Optimise
    from ergodica.gradients import ControlVariates, Svrg

# at least
WHOLE_NUMBERS = {"steps": 1, "chains": 1, "thin": 1, "warmup": 0, "seed": 0, "batch_size": 1, "resample_every": 1}
SPELT_OUT = 16  # numbers of a thing in words
REMEMBERED_WORDS = 256
LARGEST_SEED = 2**63 - 1  # as netCDF holds it


@dataclass(frozen=True, eq=False)
class Same:
    """A position that is not to be dispersed; made by `same`."""

    position: PyTree


@dataclass(frozen=True, eq=False)
class PerChain:
    """A start for each chain, in their order, and round again where there are more chains: what `eg.tune` gives.

    As chains hold them; `coordinates`: those they were made with, for a target without an `init`."""

    positions: tuple[PyTree, ...]
    coordinates: Coordinates | None = None


def same(position: Any) -> Same:
    """`init=eg.same(position)`: every chain begins exactly at this position.

    A plain position is dispersed by itself (docs/explanation/diagnostics.md), because R-hat says little of chains that
    began at one place. Where they have to begin there, to compare them or to follow their way from it, say so.

    Example:
        >>> import numpy as np, ergodica as eg
        >>> run = eg.sample(eg.gallery.gaussian(2), eg.sgld(), eg.same(np.zeros(2)), steps=4, step_size=1e-12)
        >>> float(abs(run.posterior).max()) < 1e-4
        True
    """
    if isinstance(position, Same) or is_start_function(position) or position is None:
        raise InputError("eg.same takes a position: a pytree of floating arrays")
    return Same(position)


@dataclass(frozen=True)
class Request:
    """The arguments of `eg.sample`, whose docstring says what they are.

    Without recipe, steps and step size it is a request for tuning (`is_tuned`), and the driver never sees it.
    """

    target: Target
    recipe: Recipe = None  # pyright: ignore[reportAssignmentType]
    init: PyTree | Callable[[Any], PyTree] | Same | PerChain | None = None
    _: KW_ONLY
    steps: int = None  # pyright: ignore[reportAssignmentType]
    step_size: float | Callable[[Any], Any] = None  # pyright: ignore[reportAssignmentType]
    accuracy: Accuracy | None = None
    batch_size: int | None = None
    chains: int = 4
    seed: int = 0
    temperature: float = 1.0
    integrator: Integrator | None = None
    gradient_noise: Any = None
    estimator: "ControlVariates | Svrg | None" = None
    share_batches: bool = False
    batches: str | None = None
    warmup: "int | Optimise" = 0
    thin: int = 1
    keep: str | Callable[[PyTree], PyTree] | Mapping[str, Any] = "draws"
    resample_every: int | None = None
    out: Path | str | None = None
    resume: bool = False
    progress: bool = True

    def __post_init__(self) -> None:
        for name in WHOLE_NUMBERS:
            value = getattr(self, name)
            if isinstance(value, np.integer):  # JSON knows Python's numbers only
                object.__setattr__(self, name, int(value))

    @property
    def is_tuned(self) -> bool:
        """Whether recipe, steps and step size are to be found; refused where some of them are given."""
        given = {"recipe": self.recipe, "steps": self.steps, "step_size": self.step_size}
        missing = [name for name, value in given.items() if value is None]
        if len(missing) in (1, 2):
            raise InputError(
                f"{' and '.join(missing)} {'is' if len(missing) == 1 else 'are'} missing: give recipe, steps and "
                "step_size, or none of them, and tuning chooses the three together"
            )
        return bool(missing)

    def check(self) -> None:
        """What can be seen without looking at the target."""
        if self.is_tuned:
            raise InputError("recipe, steps and step_size are missing: eg.sample finds them, eg.tune shows them")
        if self.accuracy is not None:
            raise InputError(
                "accuracy is for runs that are tuned: leave recipe, steps and step_size out, or leave accuracy out"
            )
        self._check_optimisers()
        self._check_kinds()
        self.check_numbers()
        if self.total >= 2**31:
            raise InputError(f"a run has at most {2**31 - 1:,} steps, got {self.total:,}: split it")
        if cycle_of(self.step_size)[1] and not self.kept.draws:
            raise InputError(
                f"{self.total:,} steps have no draw at the end of a cycle: give more steps, a shorter period, or a "
                "smaller thin or warmup"
            )
        if self.steps < self.thin:
            raise InputError(f"thin={self.thin} keeps none of {self.steps} steps: give more steps, or a smaller thin")
        if self.estimator is not None and self.batch_size is None:
            raise InputError("an estimator is for minibatches: give a batch_size, or leave the estimator out")
        if self.batches is not None and self.batch_size is None:
            raise InputError(f"batches={self.batches!r} is for minibatches: give a batch_size, or leave batches out")
        if self.resume and self.out is None:
            raise InputError("resume=True continues the run of a file: give its name as `out`")

    def check_numbers(self) -> None:
        """Those that are given, and what is kept; of a tuned run too."""
        for name, least in WHOLE_NUMBERS.items():
            value = self.settling if name == "warmup" else getattr(self, name)
            if value is not None or name in ("chains", "thin", "warmup", "seed"):
                validate.whole(name, value, least)
        if self.seed > LARGEST_SEED:
            raise InputError(f"seed must be at most 2**63 - 1, got {self.seed}")
        structure.check_temperature(self.temperature)
        check_keep(self.keep)

    def _check_optimisers(self) -> None:
        for given in (self.recipe, self.step_size, self.integrator, self.warmup):
            if isinstance(given, tuple) and hasattr(given, "init") and hasattr(given, "update"):  # of optax
                raise InputError(
                    "an optimiser is no sampler: rescaling or clipping noisy gradients while sampling changes the law; "
                    "give a recipe and a step_size, and the optimiser as warmup=eg.Optimise(optimiser, steps=...)"
                )

    def _check_kinds(self) -> None:
        if not isinstance(self.target, Target):
            raise InputError(f"target is {kind_of(self.target)}: expected an eg.Density, eg.Posterior or eg.External")
        if not isinstance(self.recipe, Recipe):
            raise InputError(f"recipe is {kind_of(self.recipe)}: expected what a builder returns, as eg.sghmc()")
        if isinstance(self.estimator, type) or not (self.estimator is None or hasattr(self.estimator, "prepare")):
            raise InputError(
                f"estimator is {kind_of(self.estimator)}: expected eg.ControlVariates(), eg.Svrg() or None"
            )
        if self.batches is not None and self.batches not in BATCH_KINDS:
            raise InputError(f"batches is {self.batches!r}: expected {', '.join(map(repr, BATCH_KINDS))}")

    def check_batches(self, kernel: Kernel, is_paired: bool) -> None:
        """What only the target and the recipe can tell."""
        target = kernel.target
        if self.batch_size is None:
            # the noise of gradients from outside is theirs
            if self.gradient_noise is not None and target.has_potential:
                raise InputError(
                    "gradient_noise is what minibatches bring, and without batch_size there are none: give a "
                    "batch_size, or leave gradient_noise out"
                )
            if self.share_batches and not target.has_potential:
                raise InputError("share_batches is for targets with data (eg.Posterior): leave it out")
            return
        if not isinstance(target, DataTarget):
            raise InputError("batch_size is for targets with data (eg.Posterior); this target has none: leave it out")
        target.check_batch_size(self.batch_size)
        if isinstance(kernel.integrator, Leapfrog):
            raise InputError(
                "a Metropolis test needs all data: leave batch_size out, or use a recipe with friction (eg.sghmc)"
            )
        if is_paired and (self.batch_size < 2 or self.batch_size % 2):
            raise InputError(
                f"the recipe reads z.potential, so a batch is two batches of half its size: give an even batch_size, "
                f"got {self.batch_size}"
            )
        self._check_source(target.source)
        noise, is_independent = kernel.gradient_noise, self.batches == "independent"
        if isinstance(noise, PerExample) and noise.replacement != is_independent:
            raise InputError(
                f"batches={self.batches or 'windows'!r} draws with{'' if is_independent else 'out'} replacement: give "
                f"eg.PerExample(replacement={is_independent})"
            )

    def _check_source(self, source: Any) -> None:
        """Data that are not in memory come in an order of their own."""
        if source is None or self.batches is None:
            return
        from ergodica.data import Batches

        if isinstance(source, Batches):
            raise InputError(f"the batches come as the iterable gives them: leave batches={self.batches!r} out")
        if self.batches != "epochs":
            raise InputError(
                f"data on disk come in epochs: leave batches={self.batches!r} out, or use target.loaded() if they fit "
                "in memory"
            )

    @property
    def is_spread(self) -> bool:
        """Whether chains are moved from one position to starts of their own."""
        init = self.target.init if self.init is None else self.init
        return self.chains > 1 and not is_start_function(init) and not isinstance(init, Same | PerChain)

    @property
    def keeping(self) -> Keeping:
        return Keeping.of(self.keep, self.target.coordinates)

    @property
    def settling(self) -> int:
        """Steps of the sampler before the first draw that is kept."""
        return getattr(self.warmup, "settle", self.warmup)  # pyright: ignore[reportReturnType]

    @property
    def total(self) -> int:
        return self.settling + self.steps

    @property
    def kept(self) -> KeptSteps:
        return KeptSteps(self.settling, self.thin, self.total, *cycle_of(self.step_size))

    def halved(self, settings: Mapping[str, Any]) -> "Request":
        """Half the step size, twice the steps, as many draws, from another seed; `settings` are those of the run.

        Where the only noise is on a Gaussian momentum and a splitting is used, friction is doubled: at constant
        friction times step the bias by gradient noise is of order 2 in the step (docs/explanation/diagnostics.md),
        while at constant friction its order is anything from 1 to 2. Such a chain takes four times as many steps to
        settle, so the warm-up is four times as long; half as many independent draws are enough, because a bias is now
        4/3 of the difference seen, and not twice it.
        """
        from ergodica.diagnostics.bias import has_friction

        given, pace = self.step_size, 4 if has_friction(settings) else 2
        half = _Halved(given, self.settling, pace) if callable(given) else given / 2
        changes: dict[str, Any] = {"steps": 2 * self.steps, "thin": 2 * self.thin, "warmup": pace * self.settling}
        if has_friction(settings):
            recipe = self.recipe
            diffusion = {slot: times(2.0, field) for slot, field in recipe.diffusion.items()}
            changes["recipe"] = Recipe(
                recipe.energy, diffusion, recipe.curl, recipe.gradient_noise, recipe.learns_scale
            )
        return replace(self, step_size=half, seed=(self.seed + 1) % LARGEST_SEED, out=None, resume=False, **changes)

    def described(self, kernel: Kernel) -> dict[str, Any]:
        """Provenance: what a reader of the file needs to make the run again."""
        recipe = self.recipe
        settings = {
            "recipe": {
                "energy": {slot: words(energy) for slot, energy in recipe.energy.items()},
                "diffusion": {slot: words(field) for slot, field in recipe.diffusion.items()},
                "curl": {" ".join(pair): words(field) for pair, field in recipe.curl.items()},
            },
            "integrator": words(kernel.integrator),
            "estimator": "minibatch" if self.estimator is None else words(self.estimator),
            "gradient_noise": None if self.gradient_noise is None else words(self.gradient_noise),
            "step_size": words(self.step_size) if callable(self.step_size) else float(self.step_size),
            "keep": self.keep if isinstance(self.keep, str) else words(self.keep),
        }
        if isinstance(self.keep, Mapping):
            settings["keep"] = {
                name: what if isinstance(what, str) else words(what) for name, what in self.keep.items()
            }
        settings |= {"warmup": self.settling, "cycle": cycle_of(self.step_size)[0]}
        names = ("steps", "thin", "batch_size", "chains", "seed", "temperature", "share_batches")
        return settings | {name: plain(getattr(self, name)) for name in (*names, "resample_every")}


class _Halved(eqx.Module):
    """A schedule at half its size and half its pace; in the warm-up at a pace of its own."""

    schedule: Callable[[Any], Any]
    warmup: int = eqx.field(static=True)
    pace: int = eqx.field(static=True)

    def __call__(self, step: Any) -> Any:
        longer = self.pace * self.warmup
        return self.schedule(jnp.where(step < longer, step // self.pace, self.warmup + (step - longer) // 2)) / 2


def cycle_of(schedule: Any) -> tuple[int | None, int]:
    """The period of a cyclical schedule and the steps kept of it; None and 0 of any other."""
    if isinstance(schedule, _Halved):
        period, tail = cycle_of(schedule.schedule)
        return (None, 0) if period is None else (2 * period, 2 * tail)
    return (schedule.period, schedule.kept) if isinstance(schedule, Cyclical) else (None, 0)


def words(thing: Any) -> str:
    """A module or a function in words; of large arrays the shape only."""
    leaves, structure = jax.tree.flatten(thing)
    if not all(isinstance(leaf, np.ndarray | jax.Array) and leaf.size <= SPELT_OUT for leaf in leaves):
        return _words(thing)
    # small things are the same in most runs of a process, and putting them in words takes as long as many steps
    values = tuple((type(leaf), leaf.dtype, leaf.shape, np.asarray(leaf).tobytes()) for leaf in leaves)
    kind = (type(thing), str(structure), values)
    found = _known_words.get(kind)
    if found is None:
        if len(_known_words) >= REMEMBERED_WORDS:
            _known_words.clear()
        found = _known_words[kind] = _words(thing)
    return found


_known_words: dict[Any, str] = {}


def _words(thing: Any) -> str:
    is_large = sum(leaf.size for leaf in jax.tree.leaves(thing) if eqx.is_array(leaf)) > SPELT_OUT
    text = without_addresses(eqx.tree_pformat(thing, width=10_000, short_arrays=is_large))
    return " ".join(text.split()) if len(text) < 1_000 else type(thing).__name__
