"""What a run leaves: the draws and what the steps met; to be looked at, judged, saved and read again."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import jax
import numpy as np
from jaxtyping import PyTree

from ergodica.driver.kept import kept_by_name, split_draws, stored_draws
from ergodica.errors import InputError
from ergodica.report import plain
from ergodica.targets import Target
from ergodica.targets.coordinates import Coordinates


@dataclass(frozen=True, eq=False, repr=False)
class Tuning:
    """How a tuned run came about; `print(run.tuning)`.

    Attributes:
        reached: whether every number has the accuracy asked for, by the sum that is printed.
        settings: an `eg.tune` plan, as the last rung used it; None of a run that was read from a file.
        rungs: of each pilot, witness and answer: method, step, steps, passes over the data.
        figures: the sum of each number: bias and error of mean and sd.
        words: the report.
    """

    reached: bool
    words: str
    rungs: list[dict[str, Any]]
    figures: dict[str, Any]
    spent: dict[str, float]
    settings: Any = None

    def __str__(self) -> str:
        return self.words

    __repr__ = __str__

    def to_dict(self) -> dict[str, Any]:
        kept = {"reached": self.reached, "words": self.words, "rungs": self.rungs, "figures": self.figures}
        return plain(kept | {"spent": self.spent})


@dataclass(frozen=True, eq=False)
class Run:
    """The draws of a run.

    Attributes:
        posterior: the tree of the start, with NumPy leaves shaped (chain, draw, ...); of `keep=function` the tree that
            it returns; None where the draws were not kept.
        stats: arrays (chain, draw) of each step kept: `step_size`, `potential` (of its batch), `gradient_norm`,
            `kinetic_temperature`, `diverging` (the chain is frozen), `accepted`.
        settings: what the run was made with.
        moments: count, mean and variance of each chain, trees with leaves (chain, ...); None unless asked for.
        halved: the same run with half the step size, to see what the step size does; None unless made by `halve`.

    Example:
        >>> import ergodica as eg
        >>> run = eg.sample(eg.gallery.gaussian(2), eg.sghmc(), steps=100, step_size=0.3, chains=2)
        >>> run
        Run(2 chains of 100 draws: position (2,))
        >>> sorted(run.stats)[:2], run.is_finite
        (['accepted', 'diverging'], True)
    """

    posterior: PyTree
    stats: dict[str, np.ndarray]
    settings: dict[str, Any]
    moments: Any = None
    halved: "Run | None" = None
    witness: "Run | None" = None
    """Of a tuned run, the one with twice the step that it was compared with."""
    tuning: "Tuning | None" = None
    """Of a tuned run, how it came about and whether the accuracy was reached: print(run.tuning)."""
    temperatures: Any = None
    """Of each coordinate of the momentum, in stretches of the run, (chain, stretch, coordinate); None where there is no
    thermometer by coordinate."""
    predicted: dict[str, Any] = field(default_factory=dict, repr=False)
    """Groups that `with_predictions` added, xarray.Datasets by name."""
    run_halved: Callable[[], "Run"] | None = field(default=None, repr=False)
    """Makes the run with half the step size, where the target is at hand."""
    values: dict[str, Any] | None = field(default=None, repr=False)
    """Of keep={...}, the draws of functions by name; `kept` has all that was kept."""
    coordinates: Coordinates | None = field(default=None, repr=False)
    """Of the target: how a draw is put together to a network; None where draws are what its functions see."""

    def __post_init__(self) -> None:
        if isinstance(self.settings.get("keep"), Mapping) and self.values is None:
            posterior, values = split_draws(self.posterior, self.settings["keep"])
            object.__setattr__(self, "posterior", posterior)
            object.__setattr__(self, "values", values)

    def __repr__(self) -> str:
        chains, draws = self.stats["step_size"].shape
        kept = ", ".join(self.kept) if self.posterior is None else ", ".join(self._shapes())
        beside = "" if self.halved is None else ", beside one with half the step"
        return f"Run({chains} chain{'s' * (chains != 1)} of {draws:,} draws: {kept}{beside})"

    def __str__(self) -> str:
        return repr(self) if self.tuning is None else f"{self!r}\n{self.tuning}"

    def _shapes(self) -> list[str]:
        from ergodica.output.labelled import named

        return [f"{name} {values.shape[2:] or ''}".strip() for name, values in named(self.posterior).items()]

    @property
    def kept(self) -> dict[str, Any]:
        """What was kept, by the names of keep: draws, averages (`mean`, `sd`, `error`, `r_hat`) and scores.

        Example:
            >>> import ergodica as eg
            >>> keep = {"position": "moments", "size": lambda x: x @ x}
            >>> run = eg.sample(eg.gallery.gaussian(2), eg.sghmc(), steps=400, step_size=0.3, chains=2, keep=keep)
            >>> run.kept["position"].mean.shape, run.kept["size"].shape
            ((2,), (2, 400))
        """
        return kept_by_name(self.posterior, self.values, self.moments, self.settings)

    @property
    def stored(self) -> PyTree:
        """All that was kept of each draw, as it is written: the posterior, or what keep={...} names."""
        return stored_draws(self.posterior, self.values, self.settings.get("keep"))

    @property
    def is_finite(self) -> bool:
        """Whether no chain had to be frozen."""
        return not np.any(self.stats["diverging"][:, -1:]) and not self.settings.get("frozen")

    @property
    def drawn_coordinates(self) -> Coordinates | None:
        """Those that put a draw together; None where it is what functions see, or was made by keep=function."""
        keep = self.settings.get("keep", "draws")
        return self.coordinates if keep == "draws" or isinstance(keep, Mapping) else None

    def draw(self, chain: int, i: int) -> Any:
        """One position, of the type that went in: a network is a network. With keep=function, what that returned.

        Example:
            >>> import ergodica as eg
            >>> run = eg.sample(eg.gallery.gaussian(2), eg.sghmc(), steps=10, step_size=0.3, chains=2)
            >>> run.draw(chain=1, i=-1).shape
            (2,)
        """
        if self.posterior is None:
            raise InputError("this run kept no draws of the position: there is none to give")
        coordinates = self.drawn_coordinates
        draw = jax.tree.map(lambda leaf: np.asarray(leaf[chain, i]), self.posterior)
        return draw if coordinates is None else coordinates.assemble(draw)

    def to_datatree(self) -> Any:
        """An xarray.DataTree, which ArviZ 1.x takes; ArviZ 0.23 reads the file that `save` writes."""
        from ergodica.output.labelled import datatree

        kept = (self.stored, self.stats, self.settings, self.moments)
        return datatree(*kept, self.halved, self.witness, self.temperatures, self.predicted)

    def save(self, path: Path | str, overwrite: bool = False) -> None:
        """Write one netCDF file; `eg.load` reads it."""
        from ergodica.output.files import save

        save(self.to_datatree(), path, overwrite)

    def summary(self) -> Any:
        """Mean, sd, Monte Carlo error, ESS and R-hat of every number."""
        from ergodica.diagnostics import summary

        return summary(*self._judged())

    def diagnose(self, target: Target | None = None, seed: int = 0) -> Any:
        """A verdict in words, with thresholds and what to change; with the target also what its gradients say."""
        from ergodica.diagnostics import diagnose

        tuned = {"witness": self.witness, "tuning": self.tuning, "measured": self.temperatures}
        return diagnose(*self._judged(), target=target, seed=seed, **tuned)

    def plot(self, folder: Path | str) -> Any:
        """Trace, marginals, pairs, running means and bias against step, as pictures in a folder."""
        from ergodica.diagnostics import plots

        return plots.plot(*self._judged(), folder=folder)

    def predict(
        self,
        fn: Callable,
        rows: PyTree = None,
        batch_size: int = 1_000,
        reduce: Any = "mean",
        thin: int = 1,
        progress: bool = True,
    ) -> PyTree:
        """Predictions by all draws, for rows in batches; frozen chains are left out, with a warning.

        Args:
            fn: fn(position, rows) -> an array or a pytree of them, each (n, ...) for n rows, each row's by that row
                alone. `position` is one draw, of the kind that the target's functions see. Without rows fn(position),
                of any shape.
            rows: a pytree of arrays with one leading axis, memory-mapped or not, or a data source (`eg.data.npy`,
                `eg.data.parquet`), which is read once, in order.
            batch_size: how many rows at a time.
            reduce: over chains and draws, "mean", "sd" or "log_mean_exp" (the log of the mean of exp(fn), for log
                densities), each as draws come, in float64, in the memory of the answer; a list of quantiles, leaves
                (quantile, n, ...); "draws", no reduction, leaves (chain, draw, n, ...).
            thin: use every N-th draw.

        Example:
            >>> import numpy as np, ergodica as eg
            >>> run = eg.sample(eg.gallery.gaussian(2), eg.sghmc(), steps=100, step_size=0.3, chains=2)
            >>> run.predict(lambda position, rows: rows @ position, np.eye(2), reduce=[0.05, 0.95]).shape
            (2, 2)
        """
        from ergodica.driver.predictions import predict

        return predict(self, fn, rows, batch_size, reduce, thin, progress)

    def log_likelihood(self, target: Target, batch_size: int = 1_000, thin: int = 1, progress: bool = True) -> Any:
        """log_likelihood of every row of an `eg.Posterior` by every draw, (chain, draw, n): what ArviZ's `loo` needs.

        Args:
            target: the one that was sampled, or the same model with other rows.
        """
        from ergodica.driver.predictions import log_likelihood

        return log_likelihood(self, target, batch_size, thin, progress)

    def with_predictions(
        self, posterior_predictive: Any = None, log_likelihood: Any = None, observed_data: Any = None, thin: int = 1
    ) -> "Run":
        """This run with groups beside its draws, which `save` and `to_datatree` write: ArviZ's `loo` and `plot_ppc`
        take them from there. A group that is there already is replaced.

        Args:
            posterior_predictive: arrays by name, (chain, draw, n, ...): as `predict` makes them with reduce="draws",
                or data made up from these.
            log_likelihood: the same; of an `eg.Posterior`, {"y": run.log_likelihood(target)}.
            observed_data: arrays by name, (n, ...).
            thin: the predictions are of every N-th draw.

        Example:
            >>> import numpy as np, ergodica as eg
            >>> run = eg.sample(eg.gallery.gaussian(2), eg.sghmc(), steps=100, step_size=0.3, chains=2)
            >>> run = run.with_predictions(observed_data={"y": np.zeros(10)})
            >>> run.predicted["observed_data"]["y"].shape
            (10,)
        """
        from ergodica.driver.predictions import groups

        return replace(
            self, predicted=self.predicted | groups(self, posterior_predictive, log_likelihood, observed_data, thin)
        )

    def _judged(self) -> tuple[Any, ...]:
        posterior = self.posterior if self.posterior is not None else self.values or None
        return posterior, self.stats, self.settings, self.moments, self.halved

    def halve(self) -> "Run":
        """This run beside one with half the step size, twice the steps and another seed: `diagnose` compares them.

        Where a splitting has friction on a Gaussian momentum, that friction is doubled: then the bias has
        order 2 at any friction.
        """
        if self.run_halved is None:
            raise InputError("this run was read from a file and the target is not at hand: run eg.sample(...).halve()")
        return replace(self, halved=self.run_halved())


def load(path: Path | str, halved: Path | str | None = None, like: Any = None) -> Run:
    """A run from its netCDF file; of one that was stopped, what it had drawn (`run.nc.part`).

    Args:
        halved: the file of the same run with half the step size, where it was saved apart.
        like: a position of the kind that was sampled, such as the network: then `run.draw(chain, i)` is one, and
            `run.posterior` has its tree. A file by itself knows names only, and gives nested dictionaries.

    Example:
        >>> import tempfile, ergodica as eg
        >>> settings = dict(steps=10, step_size=0.3, chains=2)
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     run = eg.sample(eg.gallery.gaussian(2), eg.sghmc(), out=f"{folder}/run.nc", **settings)
        ...     again = eg.load(f"{folder}/run.nc")
        >>> bool((again.posterior == run.posterior).all())
        True
    """
    from ergodica.driver.part_folder import part_folder, read_part
    from ergodica.output.files import load as load_file

    if not Path(path).exists() and part_folder(path).is_dir():
        run = Run(*read_part(part_folder(path)))
    else:
        run = _run_of(load_file(path))
    if like is not None:
        run = _run_like(run, like, path)
    return run if halved is None else replace(run, halved=load(halved))


def _run_like(run: Run, like: Any, path: Any) -> Run:
    from ergodica.output.labelled import Moments, as_tree_of

    coordinates = Coordinates.of(like)
    x = like if coordinates is None else coordinates.take_apart(like)
    if run.posterior is not None:
        run = replace(run, posterior=as_tree_of(run.posterior, x, 2, path))
    if run.settings.get("keep") == "moments":
        mean, variance = (as_tree_of(part, x, 1, path) for part in (run.moments.mean, run.moments.variance))
        run = replace(run, moments=Moments(run.moments.count, mean, variance))
    return replace(run, coordinates=coordinates)


def _run_of(loaded: Any) -> Run:
    halved, witness = (None if one is None else _run_of(one) for one in (loaded.halved, loaded.witness))
    tuning = None
    if "tuning" in loaded.settings:
        tuning = Tuning(**loaded.settings["tuning"])
    kept = (loaded.posterior, loaded.stats, loaded.settings, loaded.moments)
    return Run(*kept, halved, witness, tuning, loaded.temperatures, predicted=loaded.predicted or {})
