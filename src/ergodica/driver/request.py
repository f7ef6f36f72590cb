"""What was asked for in a call of sample(), checked, and in words for the file."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import numpy as np
from jaxtyping import PyTree

from ergodica import structure
from ergodica.driver.batches import KINDS
from ergodica.errors import InputError
from ergodica.gradients import PerExample
from ergodica.integrators import Kernel, Leapfrog
from ergodica.recipe import Recipe
from ergodica.report import plain


@dataclass(frozen=True, kw_only=True)
class Request:
    """The arguments of sample()."""

    target: Any
    recipe: Recipe
    init: PyTree | Callable[[Any], PyTree] | None
    steps: int
    step_size: float | Callable[[Any], Any]
    batch_size: int | None
    chains: int
    seed: int
    temperature: float
    integrator: Any
    gradient_noise: Any
    estimator: Any
    share_batches: bool
    batches: str
    warmup: int
    thin: int
    keep: str | Callable
    resample_every: int | None
    out: Path | None
    resume: bool
    progress: bool

    def check(self) -> None:
        """What can be seen without looking at the target."""
        for name, least in (("steps", 1), ("chains", 1), ("thin", 1), ("warmup", 0), ("seed", 0)):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < least:
                raise InputError(f"{name} must be a whole number of at least {least}, got {value!r}")
        if self.total >= 2**31:
            raise InputError(f"a run has at most {2**31 - 1:,} steps, got {self.total:,}: split it")
        structure.check_temperature(self.temperature)
        if self.keep not in ("draws", "moments") and not callable(self.keep):
            raise InputError(f"keep is {self.keep!r}: expected 'draws', 'moments', or a function of the position")
        if self.batches not in KINDS:
            raise InputError(f"batches is {self.batches!r}: expected {', '.join(map(repr, KINDS))}")
        if self.estimator is not None and self.batch_size is None:
            raise InputError("an estimator is for minibatches: give a batch_size, or leave the estimator out")
        if self.resume and self.out is None:
            raise InputError("resume=True goes on with the run of a file: give its name as `out`")

    def check_batches(self, kernel: Kernel, is_paired: bool) -> None:
        """What only the target and the recipe can tell."""
        if self.batch_size is None:
            return
        target = kernel.target
        if target.size is None:
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
        noise = kernel.gradient_noise
        if self.batches == "independent" and isinstance(noise, PerExample) and not noise.replacement:
            raise InputError("batches='independent' draws with replacement: give eg.PerExample(replacement=True)")

    @property
    def total(self) -> int:
        return self.warmup + self.steps

    def halved(self) -> "Request":
        """Half the step size over the same time, as many draws, from another seed."""
        given = self.step_size
        half = _Halved(given) if callable(given) else given / 2
        changes: dict[str, Any] = {name: 2 * getattr(self, name) for name in ("steps", "warmup", "thin")}
        return replace(self, step_size=half, seed=self.seed + 1, out=None, resume=False, **changes)

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
        names = ("steps", "warmup", "thin", "batch_size", "batches", "chains", "seed", "temperature", "share_batches")
        return settings | {name: plain(getattr(self, name)) for name in names} | {"resample_every": self.resample_every}


class _Halved(eqx.Module):
    """A schedule at half its size and half its pace."""

    schedule: Callable[[Any], Any]

    def __call__(self, step: Any) -> Any:
        return self.schedule(step // 2) / 2


def words(thing: Any) -> str:
    """A module or a function in words; of large arrays the shape only."""
    leaves = [np.asarray(leaf) for leaf in jax.tree.leaves(thing) if eqx.is_array(leaf)]
    is_large = sum(leaf.size for leaf in leaves) > 16
    text = eqx.tree_pformat(thing, width=10_000, short_arrays=is_large)
    return " ".join(text.split()) if len(text) < 1_000 else type(thing).__name__
