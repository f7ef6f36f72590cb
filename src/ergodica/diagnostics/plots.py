"""Pictures of a run: trace, marginals, pairs, running mean with its error, bias against step size. PNG files."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import PyTree

from ergodica.diagnostics import mixing
from ergodica.diagnostics.bias import Bias, compare
from ergodica.diagnostics.columns import Columns, Effective, Named, check_draws, columns, correlation_of, effective
from ergodica.diagnostics.thresholds import LARGEST_BIAS
from ergodica.errors import InputError
from ergodica.host.atomic_files import could_not
from ergodica.host.extras import require
from ergodica.output.labelled import named

CHAIN_COLOURS = ("#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#D55E00", "#000000", "#F0E442")  # Okabe, Ito
SHOWN_NUMBERS, PAIRED_NUMBERS = 6, 4  # numbers in a picture
MOST_POINTS = 2000  # of a line or a cloud
AXIS_GREY = "0.45"


class Shown(NamedTuple):
    """The numbers that are drawn: those on which the chains agree least."""

    columns: Columns
    found: Effective
    chain_numbers: np.ndarray
    title: str

    def lines(self, number: int) -> Iterator[tuple[np.ndarray, dict[str, Any]]]:
        """The draws of each chain of one number, and how they are drawn."""
        for chain, name in enumerate(self.chain_numbers):
            colour = CHAIN_COLOURS[chain % len(CHAIN_COLOURS)]
            yield self.columns.values[chain, :, number], {"color": colour, "label": f"chain {name}"}


def plot(
    posterior: PyTree, stats: Named, settings: Named, moments: Any = None, halved: Any = None, *, folder: Path | str
) -> list[Path]:
    """Leave the pictures in `folder`, which is made if need be; nothing there is overwritten. Returns their paths."""
    if posterior is None:
        raise InputError("this run kept no draws, only moments: there is nothing to draw")
    require("matplotlib", extra="plot", by="a picture of a run")
    check_draws(named(posterior), settings)
    looked_at = columns(named(posterior))
    good, _ = mixing.finite_chains(stats, settings, looked_at.values)
    if not good.any() or mixing.too_short(looked_at) is not None:
        raise InputError("there are too few draws of finite chains to draw a picture: ergodica diagnose says why")
    kept = looked_at.only(good)
    found = effective(kept, correlation_of(settings))
    shown = _shown(kept, found, np.flatnonzero(good))
    figures = {"trace": trace(shown), "marginals": marginals(shown), "running_mean": running_mean(shown)}
    if len(shown.columns.names) > 1:
        figures["pairs"] = pairs(shown)
    if halved is not None:
        compared = compare(found, stats, settings, halved, looked_at)
        figures["bias"] = bias_against_step(compared, float(np.mean(stats.get("step_size", 1.0))))
    return _written(figures, Path(folder))


def _written(figures: dict[str, Any], folder: Path) -> list[Path]:
    paths = {name: folder / f"{name}.png" for name in figures}
    there = [str(path) for path in paths.values() if path.exists()]
    if there:
        raise InputError(f"{there[0]} exists already and is left as it is: give another folder, or remove it first")
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for name, path in paths.items():
            figures[name].savefig(path, dpi=110)
    except OSError as error:
        raise could_not("write", folder, error) from error
    return list(paths.values())


def _shown(kept: Columns, found: Effective, chain_numbers: np.ndarray) -> Shown:
    order = _largest(np.nan_to_num(found.r_hat, nan=np.inf))
    some = Columns([kept.names[i] for i in order], kept.values[:, :, order], kept.places[order], kept.total)
    figures = Effective(some.names, *(np.asarray(x)[order] for x in found[1:]))
    title = f"{len(order)} of {kept.total:,} numbers, those with the largest R-hat"
    return Shown(some, figures, chain_numbers, title if kept.total > SHOWN_NUMBERS else "")


def _largest(figures: np.ndarray) -> np.ndarray:
    return np.sort(np.argsort(-figures, kind="stable")[:SHOWN_NUMBERS])


def _figure(width: float, height: float, title: str) -> Any:
    from matplotlib.figure import Figure  # not pyplot: a notebook keeps its own backend

    figure = Figure(figsize=(width, height), layout="constrained")
    if title:
        figure.suptitle(title, fontsize=10)
    return figure


def _spread(count: int) -> np.ndarray:
    return np.unique(np.linspace(0, count - 1, min(count, MOST_POINTS)).astype(int))


def _stacked(shown: Shown, height: float) -> tuple[Any, np.ndarray]:
    """A figure with a row of this height for each number, and the axes."""
    count = shown.columns.values.shape[2]
    figure = _figure(8, 1.2 + height * count, shown.title)
    return figure, figure.subplots(count, 1, sharex=True, squeeze=False)[:, 0]


def _legend(axis: Any, chains: int, others: int = 0) -> None:
    """Of the chains, unless there is one or there are too many to tell apart, and of `others` that follow them."""
    handles, labels = axis.get_legend_handles_labels()
    first = 0 if 1 < chains <= len(CHAIN_COLOURS) else chains
    last = chains + others
    if first < last:
        shown = handles[first:last], labels[first:last]
        axis.figure.legend(*shown, loc="outside lower center", ncols=max(6, chains), fontsize=8, frameon=False)


def window(values: np.ndarray) -> tuple[float, float]:
    """The central 99.8 %, or as little as 95 % where a few draws far out leave no room for the rest; and a margin."""
    low, high = np.quantile(values, (0.001, 0.999))
    for tail in (0.005, 0.025):
        inner = np.quantile(values, (tail, 1 - tail))
        if 0 < inner[1] - inner[0] < (high - low) / 4:
            low, high = inner
    margin = (high - low) / 3
    return float(max(low - margin, values.min())), float(min(high + margin, values.max()))


def trace(shown: Shown) -> Any:
    """Every draw of every chain, in order."""
    values, (figure, axes) = shown.columns.values, _stacked(shown, 1.3)
    at = _spread(values.shape[1])
    for number, axis in enumerate(axes):
        for draws, style in shown.lines(number):
            axis.plot(at, draws[at], lw=0.5, alpha=0.8, **style)
        axis.set_ylabel(shown.columns.names[number])
    axes[-1].set(xlabel="draw", xlim=(0, values.shape[1]))
    figure.align_ylabels()
    _legend(axes[0], len(values))
    return figure


def marginals(shown: Shown) -> Any:
    """Histograms of each chain over that of all draws."""
    values = shown.columns.values
    across = min(3, values.shape[2])
    down = -(-values.shape[2] // across)
    figure = _figure(1 + 2.9 * across, 0.8 + 2.4 * down, shown.title)
    axes = figure.subplots(down, across, squeeze=False).ravel()
    for number, axis in enumerate(axes[: values.shape[2]]):
        pooled = values[:, :, number].ravel()
        low, high = window(pooled)
        edges = np.linspace(low, high, 41) if high > low else 10
        axis.hist(pooled, edges, density=True, color="0.85")
        outside = np.count_nonzero((pooled < low) | (pooled > high))
        if outside:
            axis.set_title(f"{outside:,} of {pooled.size:,} draws lie outside", fontsize=7, color=AXIS_GREY)
        for draws, style in shown.lines(number):
            axis.hist(draws, edges, density=True, histtype="step", **style)
        axis.set(xlabel=shown.columns.names[number], ylabel="density")
    for axis in axes[values.shape[2] :]:
        axis.set_axis_off()
    _legend(axes[0], len(values))
    return figure


def pairs(shown: Shown) -> Any:
    """Clouds of two numbers at a time, a colour for each chain, histograms on the diagonal."""
    count = min(PAIRED_NUMBERS, shown.columns.values.shape[2])
    values, names = shown.columns.values[:, :, :count], shown.columns.names
    title = shown.title and f"{count} of {shown.columns.total:,} numbers"
    figure = _figure(1.5 + 1.9 * count, 1.5 + 1.8 * count, title)
    axes = figure.subplots(count, count, squeeze=False, sharex="col")
    windows = [window(values[:, :, number]) for number in range(count)]
    at = _spread(values.shape[1])[:: max(1, len(values) * min(MOST_POINTS, values.shape[1]) // MOST_POINTS)]
    for row, col in np.ndindex(count, count):
        axis = axes[row, col]
        axis.locator_params(nbins=3)
        if row < col:
            axis.set_axis_off()
        elif row == col:
            inside = windows[col] if windows[col][1] > windows[col][0] else None
            axis.hist(values[:, :, col].ravel(), 40, range=inside, density=True, color="0.75")
            axis.set_yticks([])
        else:
            for (x, style), (y, _) in zip(shown.lines(col), shown.lines(row), strict=True):
                axis.plot(x[at], y[at], ".", ms=2, alpha=0.5, **style)
            axis.set(xlim=_wider(windows[col]), ylim=_wider(windows[row]))
            axis.tick_params(labelleft=col == 0)  # or columns with labels would be narrower than others
        if row == count - 1:
            axis.set_xlabel(names[col])
        if col == 0:
            axis.set_ylabel("density" if row == 0 else names[row])
    figure.align_ylabels()
    _legend(axes[1, 0], len(values))
    return figure


def _wider(window: tuple[float, float]) -> tuple[float, float] | None:
    """A window with room at its ends; None, for any, where it is empty."""
    room = 0.05 * (window[1] - window[0])
    return (window[0] - room, window[1] + room) if room > 0 else None


def running_mean(shown: Shown) -> Any:
    """The mean of all draws so far, of each chain's, and two Monte Carlo errors about it, wider where draws are few."""
    values, (figure, axes) = shown.columns.values, _stacked(shown, 1.5)
    draws = values.shape[1]
    at, count = _spread(draws), np.arange(1, draws + 1)
    for number, axis in enumerate(axes):
        means = np.cumsum(values[:, :, number], axis=1) / count
        mean = means.mean(axis=0)
        error = shown.found.mean_error[number] * np.sqrt(draws / count)
        for (_, style), of_chain in zip(shown.lines(number), means, strict=True):
            axis.plot(at, of_chain[at], lw=0.6, alpha=0.8, **style)
        axis.fill_between(at, (mean - 2 * error)[at], (mean + 2 * error)[at], color="0.8", label="± 2 errors")
        axis.plot(at, mean[at], color="black", lw=1.4, label="all chains")
        reach = 6 * shown.found.mean_error[number] + np.abs(mean[draws // 10 :] - mean[-1]).max()
        reach = max(reach, np.abs(means[:, -1] - mean[-1]).max())
        if reach > 0:
            axis.set_ylim(mean[-1] - 1.5 * reach, mean[-1] + 1.5 * reach)
        axis.set_ylabel(f"mean of {shown.columns.names[number]}")
    axes[-1].set(xlabel="draws of each chain", xlim=(0, draws))
    figure.align_ylabels()
    _legend(axes[0], len(values), others=2)
    return figure


def bias_against_step(compared: Bias, step: float) -> Any:
    """Bias of means and sds, in sds, by extrapolation to step zero; bars are two Monte Carlo errors."""
    size = np.maximum(np.abs(compared.mean_difference), np.abs(compared.sd_difference))
    order = _largest(np.nan_to_num(size))
    title = f"{len(order)} of {len(size):,} numbers, those that halving the step changes most"
    figure = _figure(8, 3.8, title if len(size) > SHOWN_NUMBERS else "")
    axes = figure.subplots(1, 2, sharex=True)
    steps = np.linspace(0, step, 50)
    parts = (("means", compared.mean_bias, compared.mean_error), ("sds", compared.sd_bias, compared.sd_error))
    for axis, (what, biases, error) in zip(axes, parts, strict=True):
        axis.axhspan(-LARGEST_BIAS, LARGEST_BIAS, color="0.93", label=f"within {LARGEST_BIAS} sd")
        axis.axhline(0, color=AXIS_GREY, lw=0.8)
        for place, i in enumerate(order):
            colour = CHAIN_COLOURS[place % len(CHAIN_COLOURS)]
            total = biases[i]
            axis.plot(steps, total * (steps / step) ** compared.order, color=colour, lw=1)
            shift = 0.008 * step * (place - len(order) / 2)  # error bars side by side
            at, share = np.array([step / 2, step]) + shift, np.array([0.5**compared.order, 1])
            bars = 2 * compared.extrapolation * error[i] * share
            axis.errorbar(at, total * share, bars, color=colour, fmt="o", ms=4, label=compared.names[i])
        axis.set(xlabel="step size", ylabel=f"bias of {what}, in sds (order {compared.order:.2g})")
    _legend(axes[0], 0, others=len(order) + 1)
    return figure
