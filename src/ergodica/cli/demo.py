"""A first look: the paper's correlated density, three samplers, one picture."""

import json
from pathlib import Path
from typing import Any

import click
import jax
import jax.numpy as jnp
import numpy as np

import ergodica as eg

SAMPLERS = {
    "SGLD": (lambda: eg.sgld(), 0.02, "#0072B2"),
    "SGHMC": (lambda: eg.sghmc(friction=1.0), 0.1, "#009E73"),
    "gSGRHMC": (lambda: eg.gsgrhmc(scale=1.5, offset=0.5), 0.05, "#D55E00"),
}


@click.command()
@click.option("--out", type=click.Path(file_okay=False, path_type=Path), default=Path("report"), show_default=True)
@click.option("--steps", type=click.IntRange(min=100), default=50_000, show_default=True)
@click.option("--seed", type=int, default=0, show_default=True)
@click.option("--json", "as_json", is_flag=True, help="Print the figures as JSON.")
def demo(out: Path, steps: int, seed: int, as_json: bool) -> None:
    """Sample the paper's correlated 2-D density with three samplers, and leave a picture."""
    out.mkdir(parents=True, exist_ok=True)
    target = eg.gallery.correlated()
    runs = {}
    for name, (build, step_size, _) in SAMPLERS.items():
        if not as_json:
            click.echo(f"sampling with {name}: 4 chains of {steps:,} steps of size {step_size:g}")
        runs[name] = eg.sample(target, build(), steps=steps, step_size=step_size, warmup=steps // 10, seed=seed)
    rows = _figures(target, runs)
    picture = out / "demo.png"
    draw(target, runs, picture)
    if as_json:
        click.echo(json.dumps({"picture": str(picture), "samplers": rows}))
        return
    click.echo(f"\n{'':10}{'mean':>18}{'sd':>18}")
    for name, row in rows.items():
        cells = ("  ".join(f"{x:6.3f}" for x in row[key]) for key in ("mean", "sd"))
        click.echo(f"{name:10}" + "".join(f"{cell:>18}" for cell in cells))
    click.echo(f"\npicture: {picture}")


def _figures(target: Any, runs: dict[str, Any]) -> dict[str, dict[str, list[float]]]:
    truth = {"mean": np.asarray(target.truth.mean), "sd": np.sqrt(np.diag(np.asarray(target.truth.covariance)))}
    rows = {"truth": truth}
    for name, run in runs.items():
        rows[name] = {"mean": run.posterior.mean((0, 1)), "sd": run.posterior.std((0, 1))}
    return {name: {key: [float(x) for x in value] for key, value in row.items()} for name, row in rows.items()}


def draw(target: Any, runs: dict[str, Any], path: Path) -> None:
    """Contours of the density with the first draws as a path, above; the marginal of theta_1, below."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    x, y = np.meshgrid(np.linspace(-3, 3, 240), np.linspace(-1.9, 1.1, 240))
    grid = jnp.asarray(np.stack([x.ravel(), y.ravel()], axis=1), jnp.float32)
    potential = np.asarray(jax.vmap(target.potential)(grid)).reshape(x.shape)
    line = np.linspace(-3, 3, 400)
    figure, axes = plt.subplots(2, len(runs), figsize=(4.2 * len(runs), 6.6), height_ratios=(2, 1), squeeze=False)
    exact = np.exp(-(line**4) / 10)
    exact /= np.trapezoid(exact, line)
    for column, (name, run) in enumerate(runs.items()):
        colour = SAMPLERS[name][2]
        top, bottom = axes[:, column]
        top.contour(x, y, np.exp(-potential), levels=(0.02, 0.1, 0.3, 0.5, 0.7, 0.9), colors="0.6", linewidths=0.8)
        path_ = run.posterior[0, :60]
        top.plot(path_[:, 0], path_[:, 1], "-o", color=colour, markersize=2.5, linewidth=0.8)
        top.set(title=f"{name}: 60 steps", xlabel=r"$\theta_1$", xlim=(-3, 3), ylim=(-1.9, 1.1))
        bottom.hist(run.posterior[..., 0].ravel(), bins=60, density=True, color=colour, alpha=0.5, label="draws")
        bottom.plot(line, exact, color="black", linewidth=1, label="exact")
        bottom.set(xlabel=r"$\theta_1$", xlim=(-3, 3))
    axes[0, 0].set_ylabel(r"$\theta_2$")
    axes[1, 0].set_ylabel("density")
    axes[1, 0].legend(frameon=False)
    figure.suptitle(r"$U = \theta_1^4/10 + (4(\theta_2 + 1.2) - \theta_1^2)^2/2$ (Ma, Chen and Fox, 2015)")
    figure.tight_layout()
    figure.savefig(path, dpi=130)
    plt.close(figure)
