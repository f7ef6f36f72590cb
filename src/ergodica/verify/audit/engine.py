"""`eg.audit`: a step from any library, held against the law that it claims."""

import math
import operator
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import PyTree

from ergodica.errors import InputError
from ergodica.host.progress import waiting
from ergodica.verify.audit.chains import JaxChains, NumpyChains, words
from ergodica.verify.audit.cost import work
from ergodica.verify.audit.culprits import culprit
from ergodica.verify.audit.features import Features, features
from ergodica.verify.audit.ladder import Ladder
from ergodica.verify.audit.laws import expectations
from ergodica.verify.audit.moments import balance
from ergodica.verify.audit.noise import noise
from ergodica.verify.audit.reference import Reference, reference
from ergodica.verify.audit.result import Audit
from ergodica.verify.audit.steps import Step, as_step
from ergodica.verify.audit.summary import Findings, accused, stopped, summary, unfinished
from ergodica.verify.audit.trials import Trial, first_trial
from ergodica.verify.sde import widened

BUDGET = 1.5e10  # of all chains of a JAX step, as `work` counts it: 2e8 numbers moved by Langevin steps
CALLS = 1.2e6  # calls of a NumPy step
NUMPY_CHAINS = 32
NUMBERS = 2560  # moved at once by all chains
FEWEST, MOST = 256, 4096  # chains
LONG = 2000  # steps: fewer chains, down to FEW, where a budget has not as many for each
FEW = 128
DRAWS = 2**18 * 10  # numbers in the draws of the claimed law
OBSERVED = 256  # draws of each cluster that are averaged, where a law's own means are not known
ERROR = 0.006  # standard error of a coordinate's temperature, relative, at which averaging stops
READY = 0.1  # share of the work, as told, until chains run
BARE_ERROR = 0.013  # the same for a step without a state of its own, whose one step sees more


def audit(
    step: Callable[..., Any],
    target: Any,
    position: PyTree = None,
    *,
    init: Callable[..., Any] | None = None,
    read: Callable[[Any], PyTree] | None = None,
    step_size: float | None = None,
    temperature: float = 1.0,
    seed: int = 0,
    progress: bool = True,
    effort: float = 1.0,
) -> Audit:
    """Does anybody's step sample exp(-U/T), as its step size goes to 0? What does it sample?

    The null is about the limit: the bias of a discretised sampler is reported with its order, it does not reject. A
    right sampler is rejected once in 10,000 audits.

    Args:
        step: step(key, position, step_size) -> position; with a state of its own step(key, state, step_size) -> state.
            In JAX, or plain NumPy: then `key` is a `np.random.Generator`, and the step is called in a Python loop.
        target: eg.Density, eg.Posterior or one of eg.gallery, whose potential U the step claims to sample.
        position: an example of it; by default `target.init`.
        init: init(key, position) -> state, or init(position) -> state, for a step with a state of its own; or
            init(position, key), where the name of the second says that it is one.
        read: read(state) -> position; by default state.position.
        step_size: the one in use: its bias is reported. The audit finds step sizes for its verdict by itself.
        temperature: T of the claimed law.
        seed: same seed, same report.
        progress: show a bar where it takes longer than two seconds, on a terminal.
        effort: times the work; the errors that are seen shrink as its square root.

    Example:
        >>> import jax, jax.numpy as jnp, ergodica as eg
        >>> def langevin(key, x, h):
        ...     return x - h * x + jnp.sqrt(2 * h) * jax.random.normal(key, x.shape)
        >>> eg.audit(langevin, eg.gallery.gaussian(2), effort=0.1).passed
        True
    """
    with waiting("auditing", progress) as tell:
        return audited(step, target, position, init, read, step_size, temperature, seed, effort, tell)


def audited(
    step: Callable[..., Any], target: Any, position: PyTree, init: Callable[..., Any] | None,
    read: Callable[[Any], PyTree] | None, step_size: float | None, temperature: float, seed: int, effort: float,
    tell: Callable[[float], None],
) -> Audit:  # fmt: skip
    """The audit, which tells the share of its work that is done."""
    position = _position(target, position)
    temperature, effort = positive("temperature", temperature), positive("effort", effort)
    step_size = None if step_size is None else positive("step_size", step_size)
    seed = checked_seed(seed)
    # chains that become non-finite are found by their values, not by NumPy's warnings
    with jax.enable_x64(True), np.errstate(all="ignore"):
        position = widened(jax.tree.map(jnp.asarray, position))
        black_box = as_step(step, init, read, position, 1.0 if step_size is None else step_size)
        draws = int(effort**0.5 * DRAWS / black_box.dim)
        law = reference(target, position, temperature, _key(seed), draws, effort)
        tell(READY)
        bench = Bench(
            black_box, law, features(target, black_box.layout, law, temperature), target, seed, effort,
            lambda share: tell(READY + (1 - READY) * min(share, 1.0)),
        )  # fmt: skip
        return bench.audit(temperature, step_size)


def _key(seed: int) -> Any:
    return jax.random.wrap_key_data(jnp.asarray(words(seed, 0)))


def positive(name: str, value: Any) -> float:
    """A number above 0, from Python, NumPy or JAX."""
    try:
        number = math.nan if isinstance(value, str | bytes | bool) or np.ndim(value) else float(value)
    except (TypeError, ValueError):
        number = math.nan
    if not (math.isfinite(number) and number > 0):
        raise InputError(f"{name} is {value!r}: expected a number above 0")
    return number


def checked_seed(seed: Any) -> int:
    try:
        number = operator.index(seed)
    except TypeError:
        number = -1
    if number < 0 or isinstance(seed, bool):
        raise InputError(f"seed is {seed!r}: expected a whole number of at least 0")
    return number


def _position(target: Any, position: PyTree) -> PyTree:
    """The position to use; refuses a target that cannot be audited."""
    if not hasattr(target, "evaluate") or not getattr(target, "has_potential", False):
        raise InputError(
            f"target is {type(target).__name__}: an audit needs a potential that JAX can differentiate, "
            "as eg.Density(potential, init=position)"
        )
    position = target.init if position is None else position
    if position is None:
        raise InputError("no position: give audit(step, target, position), an example of where the step starts")
    target.check(position)
    return position


@dataclass
class Bench:
    """A step and the law that it claims, with what is needed to try the one against the other."""

    step: Step
    law: Reference
    features: Features
    target: Any
    seed: int
    effort: float
    tell: Callable[[float], None]

    def audit(self, temperature: float, step_size: float | None) -> Audit:
        chains = self._chains()
        trial = first_trial(chains, self.starts(chains.chains), self.step.dim, step_size, self.seed)
        if trial.is_final:
            return stopped(trial, self.step, temperature)
        ladder = self._ladder(chains, trial)
        if not ladder.climb():
            if ladder.escape is None and ladder.is_finite:
                return unfinished(self.step, temperature, ladder.smallest)
            trial = trial._replace(is_finite=False, escape=ladder.escape, step_size=ladder.smallest)
            return stopped(trial, self.step, temperature)
        if step_size is not None:
            self._look_at(ladder, step_size)
        first = ladder.three[0].step_size
        balanced = None
        if self.step.is_bare:
            balanced = balance(self.step, self.features, self.law, first, self.seed, self.effort)
        noisy = None
        # chains that have not relaxed may change in phase by themselves
        if not (self.step.is_jax and self.step.is_bare) and ladder.three[0].is_relaxed:
            noisy = noise(chains, ladder.three[0], ladder.three[1], self.step.dim)
        expected = expectations(self.features, self.law, self._observed(chains))
        found = Findings(self.step, self.law, self.features, ladder, trial, balanced, noisy, *expected)
        report = summary(found, temperature, step_size)
        if report.verdict != "NOT PASSED" or balanced is None or not self.step.is_jax:
            return report
        return accused(report, culprit(self.step, self.features, self.law, balanced, self.seed))

    def _chains(self) -> JaxChains | NumpyChains:
        if not self.step.is_jax:
            return NumpyChains(self.step, self.features, NUMPY_CHAINS)
        usual = np.clip(2 ** round(np.log2(NUMBERS / self.step.dim)), FEWEST, MOST)
        affordable = 2 ** round(np.log2(self._chain_steps() / LONG))
        return JaxChains(self.step, self.features, int(np.clip(affordable, FEW, usual)))

    def _chain_steps(self) -> float:
        """Steps of a single chain that the effort is good for."""
        return self.effort * (BUDGET / (work(self.step) * self.step.dim) if self.step.is_jax else CALLS)

    def starts(self, count: int) -> Callable[[int], np.ndarray]:
        """Draws of the claimed law, others for every place: one of each cluster, then the next of each."""
        rows = np.swapaxes(self.law.draws, 0, 1).reshape(-1, self.step.dim)

        def fresh(place: int) -> np.ndarray:
            at = (place * 7919 * count) % max(len(rows) - count, 1)
            return rows[at : at + count]

        return fresh

    def _ladder(self, chains: Any, trial: Trial) -> Ladder:
        budget = self._chain_steps() / chains.chains
        error = (BARE_ERROR if self.step.is_bare else ERROR) / np.sqrt(self.effort)
        return Ladder(
            chains, self.features, self.starts(chains.chains), trial.step_size, self.seed, int(budget), error, self.tell
        )

    def _look_at(self, ladder: Ladder, step_size: float) -> None:
        """A rung at the user's own step size; a whole number of halvings away from the others where trials began."""
        place = round(float(np.log2(ladder.base / step_size)))
        if abs(ladder.base / 2.0**place / step_size - 1) < 1e-9:
            ladder.rung(place)

    def _observed(self, chains: Any) -> np.ndarray | None:
        """Averages of the features over draws, a row for each cluster; None where their means are known."""
        if self.law.is_gaussian:
            return None
        count = min(self.law.draws.shape[1], OBSERVED)
        return np.mean([chains.observe(self.law.draws[:, k]) for k in range(count)], axis=0)
