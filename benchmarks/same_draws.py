"""Digests of draws, to show that a change to the code changes no draw.

    python benchmarks/same_draws.py --write before.json      # in the old checkout
    python benchmarks/same_draws.py --against before.json    # in the new one, on the same machine

One case for each sampler, gradient estimator, kind of batch, data source and way of keeping, for gradients from outside
JAX, and for the four samplers of topic models with both Gibbs kernels. Public names only, so that the same script runs
in both checkouts. Digests depend on the processor and the versions of libraries: they are compared, never committed.
Exit code 1 if one differs.
"""

import os

os.environ.setdefault("JAX_PLATFORMS", "cpu")

import argparse
import hashlib
import json
import sys
import tempfile
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import ergodica as eg

CASES: dict[str, Callable[[], Any]] = {}
STEPS = 60


def case(name: str) -> Callable:
    def add(make: Callable[[], Any]) -> Callable[[], Any]:
        CASES[name] = make
        return make

    return add


def digest(tree: Any) -> str:
    hashed = hashlib.sha256()
    for leaf in jax.tree.leaves(tree):
        array = np.ascontiguousarray(leaf)
        hashed.update(f"{array.dtype}{array.shape}".encode() + array.tobytes())
    return hashed.hexdigest()[:16]


def kept(run: eg.Run) -> Any:
    found = run.moments
    moments = None if found is None else (found.count, found.mean, found.variance)
    return run.posterior, {name: run.stats[name] for name in sorted(run.stats)}, moments


# -- samplers on a density ----------------------------------------------------------------------------


def bent(q: Any) -> Any:
    return 0.5 * jnp.sum(q**2) + 0.3 * jnp.sin(q[0]) * q[1] + 0.05 * q[0] ** 4


def wavy(z: Any) -> Any:
    return 0.7 + 0.4 * jnp.sin(z.position) ** 2


SKEW = np.array([[0.0, -1.3], [1.3, 0.0]])
PSD = np.array([[1.2, 0.5], [0.5, 0.8]])
SAMPLERS: dict[str, Callable[[], eg.Recipe]] = {
    "sgld": lambda: eg.sgld(0.7),
    "sgld dense": lambda: eg.sgld(PSD),
    "sgrld": lambda: eg.sgrld(eg.Elementwise(wavy)),
    "sgrld potential_scaled": lambda: eg.sgrld(eg.potential_scaled()),
    "sgfs": lambda: eg.sgfs(np.array([2.0, 5.0]), 0.05, damping=0.4),
    "psgld": lambda: eg.psgld(lambda q: (0.5 + q**2) ** 2, damping=0.3),
    "irreversible_langevin": lambda: eg.irreversible_langevin(SKEW, PSD),
    "hmc": lambda: eg.hmc(1.7),
    "sghmc": lambda: eg.sghmc(0.8, 1.7),
    "sghmc dense": lambda: eg.sghmc(PSD, PSD),
    "relativistic_sghmc": lambda: eg.relativistic_sghmc(0.8, mass=0.6, speed=1.4),
    "sgnht": lambda: eg.sgnht(0.8),
    "coordinate_sgnht": lambda: eg.coordinate_sgnht(0.8),
    "riemannian_sgnht": lambda: eg.riemannian_sgnht(eg.Elementwise(wavy)),
    "sgrhmc": lambda: eg.sgrhmc(eg.Elementwise(wavy)),
    "gsgrhmc": lambda: eg.gsgrhmc(),
}


def _on_density(recipe: Callable[[], eg.Recipe], **more: Any) -> Callable[[], Any]:
    def make() -> Any:
        target = eg.Density(bent, init=jnp.array([0.6, -0.3]))
        return kept(eg.sample(target, recipe(), steps=STEPS, step_size=0.05, chains=2, seed=7, progress=False, **more))

    return make


for name, builder in SAMPLERS.items():
    case(name)(_on_density(builder))
case("euler")(_on_density(lambda: eg.sghmc(), integrator=eg.Euler()))
case("resample_every")(_on_density(lambda: eg.sghmc(), resample_every=7))
case("temperature, warm-up and thinning")(_on_density(lambda: eg.sghmc(), temperature=2.0, warmup=11, thin=3))
case("keep a function")(_on_density(lambda: eg.sghmc(), keep=lambda q: {"square": q**2}))
case("keep moments")(_on_density(lambda: eg.sghmc(), keep="moments"))
case("cyclical")(lambda: _schedule(eg.cyclical(0.1, 20)))
case("polynomial")(lambda: _schedule(eg.polynomial(0.1, 10.0, 0.5)))


def _schedule(sizes: Any) -> Any:
    target = eg.Density(bent, init=jnp.array([0.6, -0.3]))
    return kept(eg.sample(target, eg.sgld(), steps=STEPS, step_size=sizes, chains=2, seed=7, progress=False))


@case("domain")
def _domain() -> Any:
    target = eg.Density(lambda q: jnp.sum(q - 1.5 * jnp.log(q)), init=jnp.array([1.3, 2.1]), domain=eg.positive)
    return kept(eg.sample(target, eg.sghmc(), steps=STEPS, step_size=0.3, chains=2, seed=7, progress=False))


# -- minibatches --------------------------------------------------------------------------------------


def log_prior(q: Any) -> Any:
    return -0.5 * jnp.sum(q["w"] ** 2) - 0.5 * q["b"] ** 2


def log_likelihood(q: Any, batch: Any) -> Any:
    margin = (batch["x"] @ q["w"] + q["b"]) * batch["y"]
    return -jax.nn.softplus(-margin)


def rows(size: int = 2_000) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(3)
    x = rng.normal(size=(size, 3)).astype(np.float32)
    y = np.where(rng.uniform(size=size) < 1 / (1 + np.exp(-x.sum(axis=1))), 1, -1).astype(np.float32)
    return {"x": x, "y": y}


def posterior(data: Any) -> eg.Posterior:
    init = {"w": np.zeros(3, np.float32), "b": np.zeros((), np.float32)}
    return eg.Posterior(log_prior, log_likelihood, data, init=init)


def _on_rows(recipe: Callable[[], eg.Recipe] = eg.sghmc, size: int = 20, **more: Any) -> Callable[[], Any]:
    def make() -> Any:
        settings = {"steps": STEPS, "step_size": 1e-3, "chains": 3, "seed": 5, "progress": False} | more
        return kept(eg.sample(posterior(rows()), recipe(), batch_size=size, **settings))

    return make


case("windows")(_on_rows())
case("windows, chains share")(_on_rows(share_batches=True))
case("epochs")(_on_rows(batches="epochs"))
case("independent with replacement")(_on_rows(batches="independent"))
case("large batches without replacement")(_on_rows(size=200))
case("all data")(_on_rows(size=None))  # type: ignore[arg-type]
case("all data, leapfrog")(_on_rows(eg.hmc, size=None, steps=10))  # type: ignore[arg-type]
case("control variates")(_on_rows(estimator=eg.ControlVariates()))
case("svrg")(_on_rows(estimator=eg.Svrg(refresh=25)))
case("compensated")(_on_rows(gradient_noise=eg.PerExample(replacement=True), batches="independent"))
case("sgnht on rows")(_on_rows(eg.sgnht))
case("potential from another batch")(_on_rows(lambda: eg.sgrld(eg.potential_scaled(offset=1e4)), step_size=1e-7))
case("several chunks and moments")(_on_rows(eg.sgld, steps=9_000, keep="moments", step_size=1e-5))


@case("npy files")
def _npy() -> Any:
    with tempfile.TemporaryDirectory() as folder:
        files = {}
        for name, values in rows().items():
            files[name] = Path(folder, f"{name}.npy")
            np.save(files[name], values)
        return kept(
            eg.sample(
                posterior(eg.data.npy(files)), eg.sghmc(), batch_size=20, steps=STEPS, step_size=1e-3, chains=2,
                seed=5, progress=False,
            )
        )  # fmt: skip


@case("gradients from outside")
def _external() -> Any:
    def gradient(position: Any, batch: Any, seed: Any) -> Any:
        return np.asarray(position) - np.mean(batch, axis=0)

    def batches() -> Any:
        rng = np.random.default_rng(1)
        while True:
            yield rng.normal(size=(4, 2))

    target = eg.External(gradient, batches(), init=np.zeros(2))
    return kept(eg.sample(target, eg.sghmc(), steps=STEPS, step_size=0.1, chains=2, seed=5, progress=False))


# -- checks -------------------------------------------------------------------------------------------


@case("exact law")
def _law() -> Any:
    law = eg.exact_law(eg.sghmc(0.9), eg.gallery.gaussian(3), step_size=0.3)
    return law.mean, law.covariance


def _figures(report: Any) -> Any:
    return [np.asarray([float(check.figure) for check in report.checks if np.size(check.figure) == 1])]


@case("certificate")
def _certificate() -> Any:
    return _figures(eg.certify(eg.sgrhmc(eg.Elementwise(wavy)), eg.Density(bent, init=jnp.array([0.6, -0.3]))))


@case("audit")
def _audit() -> Any:
    def step(key: Any, x: Any, h: Any) -> Any:
        return x - h * x + jnp.sqrt(2 * h) * jax.random.normal(key, x.shape)

    return _figures(eg.audit(step, eg.gallery.gaussian(2), np.zeros(2), effort=0.25))


# -- topic models -------------------------------------------------------------------------------------


def _topics(sampler: str, topics: int, **more: Any) -> Callable[[], Any]:
    def make() -> Any:
        rng = np.random.default_rng(2)
        counts = rng.poisson(rng.gamma(0.2, 1.0, size=(300, 60)))
        settings = {"preset": "tuned", "passes": 3, "held_out": 40, "batch_size": 50, "progress": False} | more
        model = eg.lda.LDA(topics=topics, sampler=sampler, seed=4, **settings).fit(counts)
        return model.components_, [row[2:] for row in model.history_], model.transform(counts[:5])

    return make


for sampler in ("sgld", "sghmc", "sgrld", "sgrhmc"):
    case(f"topics, {sampler}, dense kernel")(_topics(sampler, 5))
    case(f"topics, {sampler}, sparse kernel")(_topics(sampler, 200))
case("topics, paper preset, sampled counts")(_topics("sgrhmc", 5, preset="paper", sweeps=6))
case("topics, posterior preset")(_topics("sgrld", 5, preset="posterior"))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--write", type=Path)
    parser.add_argument("--against", type=Path)
    parser.add_argument("--only", default="", help="cases whose name contains this")
    given = parser.parse_args()
    warnings.simplefilter("ignore")
    before = {} if given.against is None else json.loads(given.against.read_text())
    found, different = {}, 0
    for name, make in CASES.items():
        if given.only not in name:
            continue
        found[name] = digest(make())
        is_same = before.get(name, found[name]) == found[name]
        different += not is_same
        note = "" if not before else "  same" if is_same and name in before else "  new" if is_same else "  DIFFERS"
        print(f"{found[name]}  {name}{note}", flush=True)
    if given.write is not None:
        given.write.write_text(json.dumps(found, indent=1))
    if before:
        print(f"{different} of {len(found)} differ")
    return int(different > 0)


if __name__ == "__main__":
    sys.exit(main())
