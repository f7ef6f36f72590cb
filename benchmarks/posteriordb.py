"""Six posteriors of posteriordb, sampled by stochastic-gradient samplers without a Metropolis test.

    python benchmarks/posteriordb.py [NAME ...] [--json FILE] [--seed N]

Every posterior mean must be within 0.1 reference sd of the reference, every posterior sd within 10 %, and the Monte
Carlo error of every mean at most 0.02 sd; exit code 1 where one is not. The data are in ../shared/data/posteriordb
beside the repository, or in the folder that ERGODICA_DATA names.

All six are run by SGHMC (second-order splitting) on unconstrained coordinates, with the inverse of Laplace's covariance
at the mode as its mass: every direction then moves on the same scale, which is what diamonds needs (condition number
3.4e5). Where a batch is smaller than the data, gradients are compared with the full one at the mode: with plain
minibatches the sds of earnings come out more than 20 % too wide at the same settings.
"""

import argparse
import csv
import json
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

import ergodica as eg
from ergodica.gradients import ControlVariates, find_mode

MEAN_TOLERANCE, SD_TOLERANCE, ERROR_TOLERANCE = 0.1, 0.1, 0.02
SEGMENTS = 25  # of a chain, for the Monte Carlo error


class Model(NamedTuple):
    """A posterior on unconstrained coordinates, and its parameters as functions of a position."""

    target: Any
    parameters: Callable[[Any], dict[str, Any]]


class Settings(NamedTuple):
    """How a posterior is sampled; the step size and friction are in units of the preconditioned motion."""

    step_size: float
    steps: int
    batch_size: int | None = None  # None: all data
    friction: float = 1.0
    warmup: int = 2_000
    thin: int = 5
    chains: int = 4


def student(x: Any, scale: float) -> Any:
    """log density of Student-t with 3 degrees of freedom, up to a constant."""
    return -2 * jnp.log1p((x / scale) ** 2 / 3)


def normal(residual: Any, log_sigma: Any) -> Any:
    return -0.5 * (residual * jnp.exp(-log_sigma)) ** 2 - log_sigma


def numbered(name: str, values: Any) -> dict[str, Any]:
    return {f"{name}[{i + 1}]": values[i] for i in range(values.shape[0])}


def eight_schools(data: dict[str, Any]) -> Model:
    """Position: mu, log tau, eta (non-centred)."""
    rows = {"school": np.arange(8), "y": np.array(data["y"], float), "sigma": np.array(data["sigma"], float)}

    def log_prior(q):
        mu, log_tau, eta = q[0], q[1], q[2:]
        return -(mu**2) / 50 - jnp.log1p(jnp.exp(2 * log_tau) / 25) + log_tau - jnp.sum(eta**2) / 2

    def log_likelihood(q, batch):
        theta = q[0] + jnp.exp(q[1]) * q[2:][batch["school"]]
        return -(((batch["y"] - theta) / batch["sigma"]) ** 2) / 2

    def parameters(q):
        return numbered("theta", q[0] + jnp.exp(q[1]) * q[2:]) | {"mu": q[0], "tau": jnp.exp(q[1])}

    return Model(eg.Posterior(log_prior, log_likelihood, rows, init=jnp.zeros(10)), parameters)


def earnings(data: dict[str, Any]) -> Model:
    """Position: beta (4), log sigma."""
    height, male = np.array(data["height"], float), np.array(data["male"], float)
    z = (height - height.mean()) / height.std(ddof=1)
    rows = {"x": np.stack([np.ones_like(z), z, male, z * male], axis=1), "y": np.log(np.array(data["earn"], float))}

    def log_likelihood(q, batch):
        return normal(batch["y"] - batch["x"] @ q[:4], q[4])

    def parameters(q):
        return numbered("beta", q[:4]) | {"sigma": jnp.exp(q[4])}

    # flat in sigma: the Jacobian of sigma = exp(u) is all that is left
    return Model(eg.Posterior(lambda q: q[4], log_likelihood, rows, init=jnp.zeros(5)), parameters)


def diamonds(data: dict[str, Any]) -> Model:
    """Position: b (24), Intercept, log sigma."""
    x = np.array(data["X"], float)[:, 1:]
    rows = {"x": x - x.mean(axis=0), "y": np.array(data["Y"], float)}

    def log_prior(q):
        return -jnp.sum(q[:24] ** 2) / 2 + student(q[24] - 8, 10) + student(jnp.exp(q[25]), 10) + q[25]

    def log_likelihood(q, batch):
        return normal(batch["y"] - q[24] - batch["x"] @ q[:24], q[25])

    def parameters(q):
        return numbered("b", q[:24]) | {"Intercept": q[24], "sigma": jnp.exp(q[25])}

    init = jnp.zeros(26).at[24].set(8.0)
    return Model(eg.Posterior(log_prior, log_likelihood, rows, init=init), parameters)


def low_dim_gauss_mix(data: dict[str, Any]) -> Model:
    """Position: mu_1, log(mu_2 - mu_1), log sigma (2), logit theta."""
    rows = np.array(data["y"], float)

    def unpacked(q):
        return jnp.stack([q[0], q[0] + jnp.exp(q[1])]), q[2:4], q[4]

    def log_prior(q):
        mu, log_sigma, logit = unpacked(q)
        log_theta, log_rest = -jax.nn.softplus(-logit), -jax.nn.softplus(logit)
        priors = -jnp.sum(mu**2) / 8 - jnp.sum(jnp.exp(2 * log_sigma)) / 8 + 4 * (log_theta + log_rest)
        return priors + q[1] + jnp.sum(log_sigma) + log_theta + log_rest

    def log_likelihood(q, batch):
        mu, log_sigma, logit = unpacked(q)
        first = normal(batch - mu[0], log_sigma[0]) - jax.nn.softplus(-logit)
        return jnp.logaddexp(first, normal(batch - mu[1], log_sigma[1]) - jax.nn.softplus(logit))

    def parameters(q):
        mu, log_sigma, logit = unpacked(q)
        return numbered("mu", mu) | numbered("sigma", jnp.exp(log_sigma)) | {"theta": jax.nn.sigmoid(logit)}

    init = jnp.array([-1.0, 0.7, 0.0, 0.0, 0.0])
    return Model(eg.Posterior(log_prior, log_likelihood, rows, init=init), parameters)


def gp_pois_regr(data: dict[str, Any]) -> Model:
    """Position: log rho, log alpha, v (11), where v would be N(0, I) if log counts were observed with Gaussian noise.

    f = L ft with L = chol(C). With pseudo-observations z = log(k + 1/2) of precision w = k + 1/2 the law of ft is
    N(B^-1 L^T w z, B^-1), B = I + L^T w L; ft = B^-1 L^T w z + R^-T v with R = chol(B). This is a change of variables,
    its Jacobian 1 / det R, and leaves little that hangs on rho and alpha. In ft itself the same step overflows.
    """
    x, counts = np.array(data["x"], float), np.array(data["k"], float)
    squares = (x[:, None] - x[None, :]) ** 2
    rows = {"place": np.arange(len(x)), "count": counts}
    precision, pseudo = counts + 0.5, np.log(counts + 0.5)

    def roots(q):
        covariance = jnp.exp(2 * q[1] - squares * jnp.exp(-2 * q[0]) / 2) + 1e-10 * jnp.eye(len(x))
        root = jnp.linalg.cholesky(covariance)
        return root, jnp.linalg.cholesky(jnp.eye(len(x)) + root.T @ (precision[:, None] * root))

    def white(q):
        root, narrow = roots(q)
        half = jax.scipy.linalg.solve_triangular(narrow, root.T @ (precision * pseudo), lower=True)
        return jax.scipy.linalg.solve_triangular(narrow.T, half + q[2:], lower=False)

    def function(q):
        return roots(q)[0] @ white(q)

    def log_prior(q):
        rho, alpha = jnp.exp(q[0]), jnp.exp(q[1])
        # Gamma(25, rate 4) and HalfNormal(2), each with the Jacobian of exp
        scales = 25 * q[0] - 4 * rho - alpha**2 / 8 + q[1]
        return scales - jnp.sum(white(q) ** 2) / 2 - jnp.sum(jnp.log(jnp.diag(roots(q)[1])))

    def log_likelihood(q, batch):
        f = function(q)[batch["place"]]
        return batch["count"] * f - jnp.exp(f)

    def parameters(q):
        return {"rho": jnp.exp(q[0]), "alpha": jnp.exp(q[1])} | numbered("f", function(q))

    init = jnp.zeros(13).at[0].set(1.8)
    return Model(eg.Posterior(log_prior, log_likelihood, rows, init=init), parameters)


def ark(data: dict[str, Any]) -> Model:
    """Position: alpha, beta (5), log sigma; a row is y_t with the five before it."""
    y = np.array(data["y"], float)
    rows = {"before": np.stack([y[5 - k : len(y) - k] for k in range(1, 6)], axis=1), "y": y[5:]}

    def log_prior(q):
        return -jnp.sum(q[:6] ** 2) / 200 - jnp.log1p((jnp.exp(q[6]) / 2.5) ** 2) + q[6]

    def log_likelihood(q, batch):
        return normal(batch["y"] - q[0] - batch["before"] @ q[1:6], q[6])

    def parameters(q):
        return {"alpha": q[0]} | numbered("beta", q[1:6]) | {"sigma": jnp.exp(q[6])}

    return Model(eg.Posterior(log_prior, log_likelihood, rows, init=jnp.zeros(7)), parameters)


class Case(NamedTuple):
    """A posterior by its name in the reference, its model and how it is sampled."""

    reference: str
    build: Callable[[dict[str, Any]], Model]
    settings: Settings


# Tuned by hand on short runs. In these units a step of 2 is unstable and one of 0.2 is off by less than 1 %.
POSTERIORS: dict[str, Case] = {
    "earnings": Case("earnings-logearn_interaction_z", earnings, Settings(0.25, 20_000, batch_size=119)),
    "low_dim_gauss_mix": Case("low_dim_gauss_mix-low_dim_gauss_mix", low_dim_gauss_mix, Settings(0.25, 20_000, 100)),
    "arK": Case("arK-arK", ark, Settings(0.3, 20_000)),
    "diamonds": Case("diamonds-diamonds", diamonds, Settings(0.15, 30_000, batch_size=500)),
    "eight_schools": Case("eight_schools-eight_schools_noncentered", eight_schools, Settings(0.2, 80_000)),
    "gp_pois_regr": Case("gp_pois_regr-gp_pois_regr", gp_pois_regr, Settings(0.2, 20_000)),
}


class Figure(NamedTuple):
    """One parameter: how far its mean and sd are from the reference, and how well its mean is known."""

    parameter: str
    mean: float
    sd: float
    mean_error: float
    """In reference sds."""
    sd_error: float
    """Relative."""
    monte_carlo_error: float
    """Of the mean, in reference sds."""

    @property
    def passed(self) -> bool:
        is_close = abs(self.mean_error) < MEAN_TOLERANCE and abs(self.sd_error) < SD_TOLERANCE
        return bool(is_close and self.monte_carlo_error <= ERROR_TOLERANCE)


def data_folder() -> Path:
    named = os.environ.get("ERGODICA_DATA")
    folder = Path(named) if named else Path(__file__).resolve().parents[2] / "shared" / "data"
    if not (folder / "posteriordb" / "reference_summary.csv").is_file():
        raise eg.InputError(f"no posteriordb in {folder}: set ERGODICA_DATA to the folder that holds posteriordb/")
    return folder / "posteriordb"


def references(folder: Path, posterior: str) -> dict[str, tuple[float, float]]:
    """The mean and sd of every parameter."""
    with open(folder / "reference_summary.csv", newline="") as file:
        lines = [line for line in csv.DictReader(file) if line["posterior"] == posterior]
    return {line["parameter"]: (float(line["mean"]), float(line["sd"])) for line in lines}


def sampled(model: Model, settings: Settings, seed: int) -> dict[str, np.ndarray]:
    """Draws (chain, draw) of every parameter."""
    mode = find_mode(model.target)
    mass = np.linalg.inv(mode.covariance(model.target))
    run = eg.sample(
        model.target,
        eg.sghmc(friction=settings.friction * mass, mass=mass),
        mode.position,
        steps=settings.steps,
        warmup=settings.warmup,
        thin=settings.thin,
        step_size=settings.step_size,
        batch_size=settings.batch_size,
        estimator=None if settings.batch_size is None else ControlVariates(mode),
        chains=settings.chains,
        seed=seed,
        progress=False,
    )
    return {name: np.asarray(values) for name, values in _named(model)(jnp.asarray(run.posterior)).items()}


def _named(model: Model) -> Callable:
    return jax.jit(jax.vmap(jax.vmap(model.parameters)))


def figure(parameter: str, draws: np.ndarray, mean: float, sd: float) -> Figure:
    """The Monte Carlo error is that of the means of segments, each much longer than the correlation of the chain."""
    length = draws.shape[1] // SEGMENTS
    segments = draws[:, : length * SEGMENTS].reshape(-1, length).mean(axis=1)
    error = segments.std(ddof=1) / np.sqrt(len(segments)) / sd
    return Figure(parameter, draws.mean(), draws.std(), (draws.mean() - mean) / sd, draws.std() / sd - 1, float(error))


def measure(name: str, folder: Path, seed: int = 0) -> tuple[list[Figure], float]:
    """Every parameter of a posterior, and the seconds it took."""
    case = POSTERIORS[name]
    started = time.perf_counter()
    model = case.build(json.loads((folder / "data" / f"{name}.json").read_text()))
    draws = sampled(model, case.settings, seed)
    expected = references(folder, case.reference)
    if set(draws) != set(expected):
        raise eg.InputError(f"{name}: the reference has {sorted(expected)}, but the model gives {sorted(draws)}")
    return [figure(key, draws[key], *expected[key]) for key in expected], time.perf_counter() - started


def report(name: str, figures: list[Figure], seconds: float) -> bool:
    settings = POSTERIORS[name].settings
    rows = "all data" if settings.batch_size is None else f"batches of {settings.batch_size}"
    head = f"{settings.chains} chains x {settings.steps} steps of {settings.step_size}, {rows}, {seconds:.0f} s"
    worst = {
        "mean": max(abs(f.mean_error) for f in figures),
        "sd": max(abs(f.sd_error) for f in figures),
        "error": max(f.monte_carlo_error for f in figures),
    }
    passed = all(f.passed for f in figures)
    print(
        f"{name:18s} {'ok' if passed else 'FAILED':6s} mean off by {worst['mean']:.3f} sd, sd by {worst['sd']:.1%}, "
        f"Monte Carlo error {worst['error']:.3f} sd   ({len(figures)} parameters; {head})",
        flush=True,
    )
    for f in figures:
        if not f.passed:
            print(f"    {f.parameter}: {f.mean_error:+.3f} sd, sd {f.sd_error:+.1%}, error {f.monte_carlo_error:.3f}")
    return passed


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", help=f"some of {', '.join(POSTERIORS)}; all by default")
    parser.add_argument("--json", type=Path, help="where to write every figure")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    jax.config.update("jax_enable_x64", True)  # gp_pois_regr and diamonds need it
    try:
        folder = data_folder()
        unknown = [name for name in options.names if name not in POSTERIORS]
        if unknown:
            raise eg.InputError(f"no posterior {unknown[0]!r}: expected some of {', '.join(POSTERIORS)}")
        results, passed = {}, True
        for name in options.names or POSTERIORS:
            figures, seconds = measure(name, folder, options.seed)
            passed &= report(name, figures, seconds)
            results[name] = {
                "settings": POSTERIORS[name].settings._asdict(),
                "seconds": seconds,
                "parameters": [f._asdict() | {"passed": f.passed} for f in figures],
            }
    except eg.InputError as error:
        print(f"posteriordb: {error}", file=sys.stderr)
        return 2
    if options.json:
        options.json.write_text(json.dumps(results, indent=1, default=float))
    return 0 if passed else 1


if __name__ == "__main__":
    sys.exit(main())
