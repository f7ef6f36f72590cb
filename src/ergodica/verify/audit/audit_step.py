"""`eg.audit`: a step from any library, held against the law that it claims."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import PyTree

from ergodica.host.progress import TellShare, waiting
from ergodica.host.validate import positive_number, whole
from ergodica.targets import Target
from ergodica.verify.audit.black_box import Step, as_step, work
from ergodica.verify.audit.chains import Chains, JaxChains, NumpyChains, key_base
from ergodica.verify.audit.checks import Findings
from ergodica.verify.audit.features import Features, features
from ergodica.verify.audit.ladder import Ladder
from ergodica.verify.audit.law_tests import expectations
from ergodica.verify.audit.noise import noise
from ergodica.verify.audit.one_step import balance
from ergodica.verify.audit.reference import Reference, reference
from ergodica.verify.audit.report import Audit, stopped, summary, unfinished
from ergodica.verify.audit.trials import Trial, first_trial
from ergodica.verify.sde import checked_position, widened

JAX_BUDGET = 1.5e10  # of all chains of a JAX step, as `work` counts it: 2e8 numbers moved by Langevin steps
NUMPY_BUDGET = 1.2e6  # calls of a NumPy step
NUMPY_CHAINS = 32
NUMBERS_AT_ONCE = 2560  # moved by all chains
FEWEST_CHAINS, MOST_CHAINS = 256, 4096
LONG_CHAIN = 2000  # steps: fewer chains, down to FEW_CHAINS, where a budget has not as many for each
FEW_CHAINS = 128
NUMBERS_DRAWN = 2**18 * 10  # in the draws of the claimed law
DRAWS_OBSERVED = 256  # of each cluster that are averaged, where a law's own means are not known
ENOUGH_ERROR = 0.006  # standard error of a coordinate's temperature, relative, at which averaging stops
BARE_ERROR = 0.013  # the same for a step without a state of its own, whose one step sees more
SHARE_READY = 0.1  # of the work, as told, until chains run


def audit(
    step: Callable[..., Any],
    target: Target,
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

    Use it for an update rule from any library or paper, in JAX or NumPy: it is treated as a black box, and run as many
    chains at step sizes that the audit finds for itself. Held against draws of the claimed law are the temperature,
    means, variances and shape in the limit of small steps, the balance of drift and noise in one step, and the noise of
    consecutive steps. The null is about the limit: the bias of a discretised sampler is reported with its order, it
    does not reject. A right sampler is rejected once in 10,000 audits; what would have been seen is in the report. The
    idea, checks that a wrong sampler must fail, is that of Geweke (2004, https://doi.org/10.1198/016214504000001132).

    Args:
        step: step(key, position, step_size) -> position; with a state of its own step(key, state, step_size) -> state.
            In JAX, or plain NumPy: then `key` is a `np.random.Generator`, and the step is called in a Python loop.
        target: eg.Density, eg.Posterior or one of eg.gallery, whose potential U the step claims to sample.
        position: an example of it; by default `target.init`. With `transform=` of the target, or a network, the step is
            one of the position as chains hold it (`target.init`).
        init: init(key, position) -> state, or init(position) -> state, for a step with a state of its own; or
            init(position, key), where the name of the second says that it is one.
        read: read(state) -> position; by default state.position.
        step_size: the one in use: its bias is reported. The audit finds step sizes for its verdict by itself.
        temperature: T of the claimed law.
        seed: same seed, same report.
        progress: show a bar where it takes longer than two seconds, on a terminal.
        effort: times the work; the errors that are seen shrink as its square root.

    Returns:
        An `Audit`: `passed`, `verdict`, the `temperature` sampled, a table of `bias` by step size, its `order`.

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
    step: Callable[..., Any], target: Target, position: PyTree, init: Callable[..., Any] | None,
    read: Callable[[Any], PyTree] | None, step_size: float | None, temperature: float, seed: int, effort: float,
    tell: TellShare,
) -> Audit:  # fmt: skip
    """The audit, which tells the share of its work that is done."""
    advice = "an audit needs one that JAX can differentiate, as eg.Density(potential, init=position)"
    target, position = checked_position("audit", target, position, advice, temperature)
    target.check(position)
    temperature, effort = positive_number("temperature", temperature), positive_number("effort", effort)
    step_size = None if step_size is None else positive_number("step_size", step_size)
    seed = whole("seed", seed)
    # chains that become non-finite are found by their values, not by NumPy's warnings
    with jax.enable_x64(True), np.errstate(all="ignore"):
        position = widened(jax.tree.map(jnp.asarray, position))
        black_box = as_step(step, init, read, position, 1.0 if step_size is None else step_size)
        key = jax.random.wrap_key_data(jnp.asarray(key_base(seed, 0)))
        draws = int(effort**0.5 * NUMBERS_DRAWN / black_box.dim)
        law = reference(target, position, temperature, key, draws, effort)
        tell(SHARE_READY)
        bench = Bench(
            black_box, law, features(target, black_box.layout, law, temperature), seed, effort,
            lambda share: tell(SHARE_READY + (1 - SHARE_READY) * min(share, 1.0)),
        )  # fmt: skip
        return bench.audit(temperature, step_size)


@dataclass
class Bench:
    """A step and the law that it claims, with what is needed to try the one against the other."""

    step: Step
    law: Reference
    features: Features
    seed: int
    effort: float
    tell: TellShare

    def audit(self, temperature: float, step_size: float | None) -> Audit:
        step, chains = self.step, self._chains()
        trial = first_trial(chains, self.starts(chains.chains), step.dim, step_size, self.seed)
        if trial.is_final:
            return stopped(trial, step, temperature)
        ladder = self._ladder(chains, trial)
        if not ladder.climb():
            if ladder.escape is None and ladder.is_finite:
                return unfinished(step, temperature, ladder.smallest)
            trial = trial._replace(is_finite=False, escape=ladder.escape, step_size=ladder.smallest)
            return stopped(trial, step, temperature)
        if step_size is not None:
            self._look_at(ladder, step_size)
        first, second, _ = ladder.three
        balanced = noisy = None
        if step.is_bare:
            balanced = balance(step, self.features, self.law, first.step_size, self.seed, self.effort)
        # chains that have not relaxed may change in phase by themselves
        if not (step.is_jax and step.is_bare) and first.is_relaxed:
            noisy = noise(chains, first, second, step.dim)
        expected = expectations(self.features, self.law, self._observed(chains))
        report = summary(
            Findings(step, self.law, self.features, ladder, trial, balanced, noisy, *expected, temperature, step_size)
        )
        if report.verdict != "NOT PASSED" or balanced is None or not step.is_jax:
            return report
        from ergodica.verify.audit.culprits import culprit  # few steps are rejected

        words = culprit(step, self.features, self.law, balanced, self.seed)
        if words is None:
            return report
        return replace(report, notes=(words, *report.notes), figures=report.figures | {"culprit": words})

    def _chains(self) -> Chains:
        if not self.step.is_jax:
            return NumpyChains(self.step, self.features, NUMPY_CHAINS)
        usual = np.clip(2 ** round(np.log2(NUMBERS_AT_ONCE / self.step.dim)), FEWEST_CHAINS, MOST_CHAINS)
        affordable = 2 ** round(np.log2(self._chain_steps() / LONG_CHAIN))
        return JaxChains(self.step, self.features, int(np.clip(affordable, FEW_CHAINS, usual)))

    def _chain_steps(self) -> float:
        """Steps of a single chain that the effort is good for."""
        return self.effort * (JAX_BUDGET / (work(self.step) * self.step.dim) if self.step.is_jax else NUMPY_BUDGET)

    def starts(self, count: int) -> Callable[[int], np.ndarray]:
        """Draws of the claimed law, others for every place: one of each cluster, then the next of each."""
        rows = np.swapaxes(self.law.draws, 0, 1).reshape(-1, self.step.dim)

        def fresh(place: int) -> np.ndarray:
            at = (place * 7919 * count) % max(len(rows) - count, 1)
            return rows[at : at + count]

        return fresh

    def _ladder(self, chains: Chains, trial: Trial) -> Ladder:
        budget = self._chain_steps() / chains.chains
        error = (BARE_ERROR if self.step.is_bare else ENOUGH_ERROR) / np.sqrt(self.effort)
        return Ladder(
            chains, self.features, self.starts(chains.chains), trial.step_size, self.seed, int(budget), error, self.tell
        )

    def _look_at(self, ladder: Ladder, step_size: float) -> None:
        """A rung at the user's own step size; a whole number of halvings away from the others where trials began."""
        place = round(float(np.log2(ladder.base / step_size)))
        if abs(ladder.base / 2.0**place / step_size - 1) < 1e-9:
            ladder.rung(place)

    def _observed(self, chains: Chains) -> np.ndarray | None:
        """Averages of the features over draws, a row for each cluster; None where their means are known."""
        if self.law.is_gaussian:
            return None
        count = min(self.law.draws.shape[1], DRAWS_OBSERVED)
        return np.mean([chains.observe(self.law.draws[:, k]) for k in range(count)], axis=0)
