"""Twenty NumPyro models with small data, one at least for each construct that the bridge knows.

tests/unit/interop/test_numpyro.py compares their potentials with NumPyro's, benchmarks/models.py draws with NUTS'.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
from numpyro import handlers
from numpyro.distributions import constraints, transforms
from numpyro.infer.reparam import LocScaleReparam, TransformReparam


class Case(NamedTuple):
    """A model, what it is called with, and which of that are rows."""

    model: Callable
    arguments: dict[str, Any]
    rows: tuple[str, ...] = ()
    plain: Callable | None = None
    """The same law for NumPyro's own `potential_energy`, where that cannot take the model."""


RNG = np.random.default_rng(19)
N = 120  # rows of most models
X = RNG.normal(size=(N, 3))
LOGITS = X @ [1.0, -0.5, 0.3]
Y = LOGITS + 0.5 * RNG.normal(size=N) + 0.7
LABELS = (RNG.uniform(size=N) < 1 / (1 + np.exp(-LOGITS))).astype(np.int32)
COUNTS = RNG.poisson(np.exp(0.3 * LOGITS + 0.5)).astype(np.int32)
GROUP = RNG.integers(6, size=N)
EFFECTS = RNG.normal(size=6)
SEEN = RNG.uniform(size=N) < 0.8
WEIGHTS = RNG.uniform(0.5, 2.0, size=N)


def normal_mean(y):
    """No plate, nothing constrained."""
    mean = numpyro.sample("mean", dist.Normal(0.0, 10.0))
    numpyro.sample("y", dist.Normal(mean, 1.0), obs=y)


def linear(x, y):
    """A plate as long as the batch; a positive site."""
    weights = numpyro.sample("weights", dist.Normal(0.0, 1.0).expand([x.shape[1]]).to_event(1))
    noise = numpyro.sample("noise", dist.HalfNormal(1.0))
    with numpyro.plate("rows", x.shape[0]):
        numpyro.sample("y", dist.Normal(x @ weights, noise), obs=y)


def logistic(x, y):
    """A plate of all rows, whatever the batch."""
    weights = numpyro.sample("weights", dist.Normal(0.0, jnp.ones(3)))
    with numpyro.plate("rows", N):
        numpyro.sample("y", dist.Bernoulli(logits=x @ weights), obs=y)


def subsampled(x, y):
    """`subsample_size`, with the plate's indices."""
    weights = numpyro.sample("weights", dist.Normal(0.0, jnp.ones(3)))
    noise = numpyro.sample("noise", dist.Exponential(1.0))
    with numpyro.plate("rows", N, subsample_size=10) as index:
        numpyro.sample("y", dist.Normal(x[index] @ weights, noise), obs=y[index])


def subsample_statement(x, y):
    """`numpyro.subsample`, in a plate as long as the rows that it is given."""
    rate = numpyro.sample("rate", dist.Gamma(2.0, 1.0))
    slope = numpyro.sample("slope", dist.Normal(0.0, 1.0))
    with numpyro.plate("rows", x.shape[0], subsample_size=4):
        x, y = numpyro.subsample(x, event_dim=1), numpyro.subsample(y, event_dim=0)
        numpyro.sample("y", dist.Poisson(rate * jnp.exp(slope * x[:, 0])), obs=y)


def two_outcomes(x, y, counts):
    """Two observed sites in one plate, two in others; a deterministic site of each kind."""
    slope = numpyro.sample("slope", dist.Normal(0.0, 1.0))
    noise = numpyro.sample("noise", dist.LogNormal(0.0, 1.0))
    numpyro.deterministic("precision", noise**-2)
    numpyro.sample("measured", dist.Normal(slope, 0.5), obs=jnp.asarray(0.8))
    with numpyro.plate("rows", N):
        line = numpyro.deterministic("line", slope * x[:, 0])
        numpyro.sample("y", dist.Normal(line, noise), obs=y)
        numpyro.sample("counts", dist.Poisson(jnp.exp(0.3 * line)), obs=counts)


def masked(x, y, seen):
    """A mask over rows, and one over a site without rows."""
    slope = numpyro.sample("slope", dist.Normal(0.0, 1.0))
    noise = numpyro.sample("noise", dist.HalfCauchy(1.0))
    with handlers.mask(mask=False):
        numpyro.sample("unused", dist.Normal(slope, 1.0), obs=jnp.asarray(3.0))
    with numpyro.plate("rows", x.shape[0]), handlers.mask(mask=seen):
        numpyro.sample("y", dist.Normal(slope * x[:, 0], noise), obs=y)


def missing(x, y, seen):
    """`obs_mask`: what was not observed is integrated out."""
    slope = numpyro.sample("slope", dist.Normal(0.0, 1.0))
    noise = numpyro.sample("noise", dist.HalfCauchy(1.0))
    with numpyro.plate("rows", x.shape[0]):
        numpyro.sample("y", dist.Normal(slope * x[:, 0], noise), obs=y, obs_mask=seen)


def weighted(x, y, weights):
    """`scale` by a number and by a weight of each row, beside a plate of all rows that scales by itself."""
    with handlers.scale(scale=0.5):
        slope = numpyro.sample("slope", dist.Normal(0.0, 1.0))
    noise = numpyro.sample("noise", dist.Gamma(3.0, 3.0))
    with numpyro.plate("rows", N), handlers.scale(scale=weights):
        numpyro.sample("y", dist.StudentT(4.0, slope * x[:, 0], noise), obs=y)


def factors(x, y):
    """Factors: one of each row, and one for all."""
    weights = numpyro.sample("weights", dist.Laplace(0.0, jnp.ones(3)))
    numpyro.factor("sum to one", -10.0 * (jnp.sum(weights) - 1.0) ** 2)
    numpyro.factor("likelihood", -jnp.sqrt(1.0 + (y - x @ weights) ** 2))


def schools_model(errors, y):
    mean = numpyro.sample("mean", dist.Normal(0.0, 5.0))
    width = numpyro.sample("width", dist.HalfNormal(5.0))
    with numpyro.plate("schools", y.shape[0]):
        effect = numpyro.sample("effect", dist.Normal(mean, width))
        numpyro.sample("y", dist.Normal(effect, errors), obs=y)


schools = handlers.reparam(schools_model, config={"effect": LocScaleReparam(0)})
"""A latent variable of each row, not centred: for all data."""


def groups_model(x, y, group, count):
    mean = numpyro.sample("mean", dist.Normal(0.0, 1.0))
    width = numpyro.sample("width", dist.LogNormal(0.0, 0.5))
    with numpyro.plate("groups", count):
        effect = numpyro.sample(
            "effect", dist.TransformedDistribution(dist.Normal(0.0, 1.0), transforms.AffineTransform(mean, width))
        )
    with numpyro.plate("rows", x.shape[0]):
        numpyro.sample("y", dist.Normal(effect[group] + x[:, 0], 0.7), obs=y)


groups = handlers.reparam(groups_model, config={"effect": TransformReparam()})
"""Groups of rows, with their number as an argument, by the base of a transformed distribution."""


def counted_groups(y, group, sizes):
    """Looks at the value of an argument, which stays whole."""
    spread = numpyro.sample("spread", dist.InverseGamma(3.0, 3.0))
    effect = numpyro.sample("effect", dist.Normal(jnp.zeros(int(np.max(sizes))), spread))
    with numpyro.plate("rows", y.shape[0]):
        numpyro.sample("y", dist.Normal(effect[group], 0.5), obs=y)


def panel(y):
    """The plate of the rows within another, on the axis behind it; each time has its own level."""
    levels = y.shape[1]
    with numpyro.plate("times", levels, dim=-2):
        level = numpyro.sample("level", dist.Normal(0.0, 3.0))
        noise = numpyro.sample("noise", dist.Weibull(1.0, 2.0))
        with numpyro.plate("rows", N, dim=-1):
            numpyro.sample("y", dist.Normal(level, noise), obs=y.T)


def outer_rows(y):
    """The plate of the rows around another, as long as there are rows: N of each."""
    with numpyro.plate("items", 12, dim=-1):
        ease = numpyro.sample("ease", dist.Normal(0.0, 1.0))
    with numpyro.plate("rows", 12, dim=-2), numpyro.plate("all items", 12, dim=-1):
        numpyro.sample("y", dist.Bernoulli(logits=ease), obs=y)


def shares(y):
    """A simplex."""
    share = numpyro.sample("share", dist.Dirichlet(jnp.ones(4)))
    with numpyro.plate("rows", y.shape[0]):
        numpyro.sample("y", dist.Categorical(share), obs=y)


def grades(x, y):
    """Ordered, with an improper prior; and an improper positive site."""
    cuts = numpyro.sample("cuts", dist.ImproperUniform(constraints.ordered_vector, (), (3,)))
    numpyro.factor("cuts are moderate", dist.Normal(0.0, 3.0).log_prob(cuts).sum())
    slope = numpyro.sample("slope", dist.ImproperUniform(constraints.positive, (), ()))
    with numpyro.plate("rows", x.shape[0]):
        numpyro.sample("y", dist.OrderedLogistic(slope * x[:, 0], cuts), obs=y)


def correlated(y):
    """A Cholesky factor of a correlation; rows that are vectors."""
    width = numpyro.sample("width", dist.HalfNormal(jnp.ones(3)).to_event(1))
    cholesky = numpyro.sample("cholesky", dist.LKJCholesky(3, 2.0))
    numpyro.deterministic("correlation", cholesky @ cholesky.T)
    with numpyro.plate("rows", y.shape[0]):
        numpyro.sample("y", dist.MultivariateNormal(0.0, scale_tril=width[:, None] * cholesky), obs=y)


def nested_supports(y):
    """A support that depends on another site."""
    high = numpyro.sample("high", dist.Gamma(4.0, 1.0))
    low = numpyro.sample("low", dist.Uniform(0.0, high))
    with numpyro.plate("rows", y.shape[0]):
        numpyro.sample("y", dist.Normal(high - low, 1.0), obs=y)


def mixture(y):
    """A mixture with its labels summed out."""
    share = numpyro.sample("share", dist.Beta(2.0, 2.0))
    ordered = dist.TransformedDistribution(dist.Normal(0.0, 2.0).expand([2]), transforms.OrderedTransform())
    middle = numpyro.sample("middle", ordered)
    parts = dist.MixtureSameFamily(dist.Categorical(jnp.stack([share, 1.0 - share])), dist.Normal(middle, 0.6))
    with numpyro.plate("rows", y.shape[0]):
        numpyro.sample("y", parts, obs=y)


SCHOOLS = {"errors": np.array([15.0, 10, 16, 11, 9, 11, 10, 18]), "y": np.array([28.0, 8, -3, 7, -1, 1, 18, 12])}
XY = {"x": X, "y": Y}
MIXED = np.where(RNG.uniform(size=N) < 0.4, -1.5, 1.5) + 0.6 * RNG.normal(size=N)

MODELS = {
    "normal_mean": Case(normal_mean, {"y": Y}, ("y",)),
    "linear": Case(linear, XY, ("x", "y")),
    "logistic": Case(logistic, {"x": X, "y": LABELS}, ("x", "y")),
    "subsampled": Case(subsampled, XY, ("x", "y"), handlers.substitute(subsampled, data={"rows": jnp.arange(N)})),
    "subsample_statement": Case(
        subsample_statement,
        {"x": X, "y": COUNTS},
        ("x", "y"),
        handlers.substitute(subsample_statement, data={"rows": jnp.arange(N)}),
    ),
    "two_outcomes": Case(two_outcomes, XY | {"counts": COUNTS}, ("x", "y", "counts")),
    "masked": Case(masked, XY | {"seen": SEEN}, ("x", "y", "seen")),
    "missing": Case(missing, XY | {"seen": SEEN}, ("x", "y", "seen"), masked),
    "weighted": Case(weighted, XY | {"weights": WEIGHTS}, ("x", "y", "weights")),
    "factors": Case(factors, XY, ("x", "y")),
    "schools": Case(schools, SCHOOLS),
    "groups": Case(groups, {"x": X, "y": Y + EFFECTS[GROUP], "group": GROUP, "count": 6}, ("x", "y", "group")),
    "counted_groups": Case(
        counted_groups,
        {"y": EFFECTS[GROUP] + 0.5 * RNG.normal(size=N), "group": GROUP, "sizes": np.arange(7)},
        ("y", "group"),
    ),
    "panel": Case(panel, {"y": RNG.normal(size=(N, 4)) + np.arange(4.0)}, ("y",)),
    "outer_rows": Case(outer_rows, {"y": (RNG.uniform(size=(12, 12)) < 0.6).astype(np.int32)}, ("y",)),
    "shares": Case(shares, {"y": RNG.choice(4, size=N, p=[0.1, 0.2, 0.3, 0.4])}, ("y",)),
    "grades": Case(grades, {"x": X, "y": np.digitize(1.5 * X[:, 0] + RNG.logistic(size=N), [-1, 0.5, 2])}, ("x", "y")),
    "correlated": Case(correlated, {"y": X @ [[1.0, 0.5, 0.2], [0, 0.8, 0.3], [0, 0, 0.6]]}, ("y",)),
    "nested_supports": Case(nested_supports, {"y": 2.0 + RNG.normal(size=30)}, ("y",)),
    "mixture": Case(mixture, {"y": MIXED}, ("y",)),
}
