"""`eg.tune`: everything that `eg.sample(target)` decides before its first step, to be read, changed or used by hand."""

from dataclasses import dataclass, field, replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import PyTree

from ergodica.diagnostics.accuracy import Accuracy
from ergodica.driver.build import kept_shapes
from ergodica.driver.constrained import as_begun, kept_of
from ergodica.driver.request import LARGEST_SEED, PerChain, Request, Same
from ergodica.errors import InputError
from ergodica.gradients.control import ControlVariates
from ergodica.host.progress import spinner
from ergodica.host.validate import kind_of
from ergodica.integrators import Leapfrog, Splitting
from ergodica.report import paragraph, plain
from ergodica.samplers import hmc, sghmc
from ergodica.targets import Posterior, Target
from ergodica.targets.coordinates import sampled
from ergodica.targets.networks import is_start_function
from ergodica.tuning.curvature import PosteriorRoot
from ergodica.tuning.laplace import Laplace, laplace
from ergodica.tuning.noise import Noise, noise_of
from ergodica.tuning.plan import Costs, SamplingWay, costs_of, direction_shares, predicted_bias, ways

FEWEST_ROWS = 64  # below, minibatches are not looked at
PRICED = {"Metropolis": "all data and a Metropolis test", "all data": "all data and no test"}
DOUBT_WORDS = (
    "a step costs more than its rows, and a way without a Metropolis test must be cheaper by a third to be chosen"
)
START_WIDTHS = 2.0  # times Laplace's: chains begin further apart than the posterior is wide
NOT_WITH_TUNING = ("batch_size", "integrator", "gradient_noise", "estimator", "share_batches", "batches", "warmup",
                   "thin", "resample_every")  # fmt: skip


@dataclass(frozen=True, eq=False, repr=False)
class Settings:
    """What `eg.tune` chose, why, and what each way would cost; `print` it.

    Attributes:
        method: "minibatches", "all data" or "Metropolis".
        reason: why that one, in a sentence.
        arguments: for `eg.sample(target, **settings.arguments)`: the run without witness and lengthening.
        predicted: the bias of sds, correlation times and passes over the data, by method.

    Example:
        >>> import ergodica as eg
        >>> settings = eg.tune(eg.gallery.gaussian(2))
        >>> settings.method
        'Metropolis'
    """

    request: Request
    laplace: Laplace
    noise: Noise | None
    costs: Costs
    ways: tuple[SamplingWay, ...]
    shares: np.ndarray | None = field(repr=False)
    kept: int = 1
    rung: int = 1
    starts: tuple[PyTree, ...] | None = None
    """Where chains begin, as they hold it; None: around the modes."""

    @property
    def way(self) -> SamplingWay:
        return self.ways[0]

    @property
    def asked(self) -> Accuracy:
        return self.request.accuracy or Accuracy()

    @property
    def accuracy(self) -> Accuracy:
        """That the sums must have. Of means half of what was asked, where there are several modes: their weights, which
        means tell, are known only as well as chains go from one to the other."""
        asked = self.asked
        return replace(asked, mean=asked.mean / 2) if self.laplace.others else asked

    @property
    def method(self) -> str:
        return self.way.method

    @property
    def root(self) -> PosteriorRoot:
        """R with R R^T = H^-1, turned to the directions of the gradient noise."""
        return self.laplace.peak.root if self.noise is None else self.noise.root

    @property
    def mode(self) -> PyTree:
        return jax.tree.map(np.asarray, self.laplace.position(self.laplace.peak.point))

    @property
    def steps(self) -> int:
        """Of each chain."""
        return max(self.way.thin, -(-int(np.ceil(self.way.steps)) // self.request.chains))

    @property
    def seed(self) -> int:
        """Every rung has its own."""
        return (self.request.seed + self.rung) % LARGEST_SEED

    @property
    def arguments(self) -> dict[str, Any]:
        way, request, laplace = self.way, self.request, self.laplace
        scale = self.root.scale(laplace.layout)
        starts = self.starts or laplace.starts(
            request.target, request.chains, START_WIDTHS, request.seed, request.temperature
        )
        found: dict[str, Any] = {
            "init": PerChain(starts, request.target.coordinates), "steps": self.steps, "step_size": way.step_size,
            "warmup": way.warmup, "thin": way.thin, "chains": request.chains, "seed": self.seed,
            "temperature": request.temperature, "keep": request.keep,
        }  # fmt: skip
        if way.method == "Metropolis":
            return {"recipe": hmc(scale=scale), "integrator": Leapfrog(way.leaps)} | found
        found = {"recipe": sghmc(way.friction, scale=scale), "integrator": Splitting()} | found
        if way.batch_size is not None:
            found |= {"batch_size": way.batch_size, "estimator": ControlVariates(self.mode, is_sampled=True)}
        return found

    def with_way(self, way: SamplingWay, rung: int, steps: int | None = None) -> "Settings":
        """Another way first, at a rung of the ladder; `steps` of each chain."""
        way = way if steps is None else way._replace(steps=float(steps * self.request.chains))
        return replace(self, ways=(way, *self.ways[1:]), rung=rung)

    def bias(self, way: SamplingWay) -> np.ndarray | float:
        """Predicted for the sd of every kept number."""
        return predicted_bias(way, self.noise, self.costs.rows, self.shares)

    @property
    def predicted(self) -> dict[str, dict[str, float]]:
        return {
            way.method: {"passes": way.passes, "bias_of_sds": way.bias, "steps_per_draw": way.time} for way in self.ways
        }

    @property
    def reason(self) -> str:
        target, found = self.request.target, self.laplace
        if target.domain is not None:
            return "the target has a domain: all data, with reflection at its walls"
        if found.others:
            return f"{len(found.others) + 1} modes were found, and control variates are centred at one: all data"
        if not found.peak.is_proper:
            return f"{found.trouble}: all data, and widths from pilot runs"
        prices = ", ".join(f"{way.passes:,.0f} with {PRICED.get(way.method, way.method)}" for way in self.ways)
        rows = "passes over the data" if isinstance(target, Posterior) else "gradients"
        doubt = "" if self.way.passes <= min(way.passes for way in self.ways) else f"; {DOUBT_WORDS}"
        return f"{rows} predicted: {prices}{doubt}"

    def to_dict(self) -> dict[str, Any]:
        """For the file of a run."""
        way, found = self.way, self.laplace
        return plain({
            "method": way.method, "reason": self.reason, "step_size": way.step_size, "friction": way.friction,
            "batch_size": way.batch_size, "leaps": way.leaps, "steps": self.steps, "warmup": way.warmup,
            "thin": way.thin, "chains": self.request.chains, "seed": self.seed, "predicted": self.predicted,
            "modes": 1 + len(found.others), "rows": self.costs.rows, "numbers": found.size,
        })  # fmt: skip

    def method_words(self) -> str:
        way = self.way
        if way.method == "Metropolis":
            leaps = f"{way.leaps} leapfrog step{'s' * (way.leaps != 1)} of {way.step_size:.3g} in whitened units"
            return f"all data, trajectories of {leaps}, each with a Metropolis test"
        batch = "all data" if way.batch_size is None else f"minibatches of {way.batch_size} with control variates"
        return f"{batch}, step {way.step_size:.3g} in whitened units, friction {way.friction:.3g}"

    def __str__(self) -> str:
        way = self.way
        chains = f"{self.request.chains} chain{'s' * (self.request.chains != 1)}"
        length = f"{chains} of {self.steps:,} steps after {way.warmup} of warm-up"
        if way.witness_steps:
            length += f"; before them a witness, with twice the step, {int(way.witness_steps):,} steps in all"
        parts = {"method": self.method_words(), "why": self.reason, "length": f"{length}; more where errors need it"}
        if way.batch_size is not None:
            parts["bias"] = f"{way.bias:+.2%} predicted for the sd in the worst direction"
        parts["use"] = "eg.sample(target) runs this and checks it, eg.sample(target, **settings.arguments) only runs it"
        lines = [line for label, text in parts.items() for line in paragraph(text, f"  {label:<10} ")]
        return "\n".join([f"Plan for {self.asked.words(self.kept)}:", *lines])

    __repr__ = __str__


def tune(
    target: Target,
    init: PyTree = None,
    *,
    accuracy: Accuracy | None = None,
    chains: int = 4,
    seed: int = 0,
    temperature: float = 1.0,
    keep: Any = "draws",
) -> Settings:
    """The plan of `eg.sample(target)`: mode, widths, gradient noise, and the way that costs least. No chain is run.

    Use it to see what a run would cost before it starts, and to start from sound settings where you want your own:
    `eg.sample(target, **settings.arguments | {"steps": 10_000})`.

    Args:
        target: an eg.Density or eg.Posterior.
        init: where to look for a mode; None: `target.init`.
        accuracy: an `eg.Accuracy`.
        chains, seed, temperature, keep: as in `eg.sample`.

    Example:
        >>> import ergodica as eg
        >>> settings = eg.tune(eg.gallery.gaussian(3))
        >>> run = eg.sample(eg.gallery.gaussian(3), **settings.arguments | {"steps": 100})
        >>> run.posterior.shape
        (4, 100, 3)
    """
    given = {"accuracy": accuracy, "chains": chains, "seed": seed, "temperature": temperature, "keep": keep}
    request = Request(target, init=init, **given)  # type: ignore[arg-type]
    return settings_for(request)


def settings_for(request: Request) -> Settings:
    """The plan for what was requested."""
    request = as_begun(request)
    position = checked(request)
    target = request.target
    with spinner("looking for modes", request.progress):
        found = laplace(target, position, request.seed)
    costs, noise = costs_of(target, found), None
    is_simple = not found.others and found.peak.is_proper and target.domain is None
    if isinstance(target, Posterior) and is_simple and target.size >= FEWEST_ROWS:
        with spinner("measuring gradient noise", request.progress):
            noise = noise_of(target, found, request.temperature, request.seed)
    return planned(request, position, found, noise, costs)


def planned(request: Request, position: PyTree, found: Laplace, noise: Noise | None, costs: Costs) -> Settings:
    """The plan, from what was measured."""
    keep = kept_of(request)
    keep, kept = keep if callable(keep) else None, found.size
    if keep is not None:
        leaves = jax.tree.leaves(jax.eval_shape(lambda q: jax.tree.map(jnp.asarray, keep(q)), position))
        kept = sum(leaf.size for leaf in leaves)
        if not kept or any(jnp.issubdtype(leaf.dtype, jnp.complexfloating) for leaf in leaves):
            raise InputError("the function given as keep returned no numbers, or complex ones: expected real numbers")
    shares = direction_shares(keep, found, found.peak.root if noise is None else noise.root)
    asked = request.accuracy or Accuracy()
    choice = tuple(ways(request.target, found, noise, asked, kept, costs, request.temperature))
    if not choice and request.target.source is None:
        raise InputError(
            f"the potential is {found.peak.potential:.3g} at the mode, and numbers of {found.layout.dtype} are "
            f"{found.rounding:.2g} apart there, too far for the Metropolis test that this target needs: leave out "
            "constants, or use float64 (jax_enable_x64)"
        )
    if not choice:
        raise InputError(
            "the data stay on disk, and what tuning found needs all of them in every step (several modes, a domain, no "
            "mode, or too much gradient noise): use target.loaded() if they fit in memory, or give recipe, steps and "
            "step_size yourself"
        )
    return Settings(request, found, noise, costs, choice, shares, kept)


def checked(request: Request) -> PyTree:
    """Where to begin; refused is what cannot be tuned for, with the way to go on."""
    target = request.target
    by_hand = "give recipe, steps and step_size yourself"
    if not isinstance(target, Target):
        raise InputError(f"target is {kind_of(target)}: expected an eg.Density, eg.Posterior or eg.External")
    request.check_numbers()
    for name in NOT_WITH_TUNING:
        if getattr(request, name) != getattr(Request, name, None):
            raise InputError(f"{name} is chosen by tuning: leave it out, or {by_hand}")
    if request.accuracy is not None and not isinstance(request.accuracy, Accuracy):
        raise InputError(f"accuracy is {kind_of(request.accuracy)}: expected eg.Accuracy(mean=0.1, sd=0.05)")
    if request.keep == "moments":
        raise InputError(f"tuning looks at draws, and keep='moments' keeps none: use keep=function, or {by_hand}")
    if not target.has_potential:
        raise InputError(f"tuning needs a potential, and this target gives gradients only (eg.External): {by_hand}")
    from ergodica.data import Batches

    if isinstance(target.source, Batches):
        raise InputError(
            "tuning needs rows that can be read more than once, and these come as a stream of batches: use eg.data.npy "
            f"or eg.data.parquet, or {by_hand}"
        )
    given = request.init.position if isinstance(request.init, Same) else request.init
    if is_start_function(given):
        given = given(jax.random.key(request.seed, impl="threefry2x32"))
    if given is None and target.init is None:
        raise InputError("no start: give eg.sample(target, init=position), or the target an `init`")
    position = jax.tree.map(jnp.asarray, target.init if given is None else sampled(target, given))
    target.check(position)
    if callable(keep := kept_of(request)):
        kept_shapes(keep, position)
    return position
