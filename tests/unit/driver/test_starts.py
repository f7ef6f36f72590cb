"""Chains begin apart, by themselves: reproducibly, inside the domain, never where nothing can be evaluated."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import ergodica as eg
from ergodica.driver.request import Request
from ergodica.driver.starts import Motion, Starts
from ergodica.errors import InputError
from ergodica.integrators import Kernel
from tests.unit.driver.runs import ROWS, TARGET


def flat(q):
    return jnp.zeros(()) * q["w"].sum()


START = {"w": np.array([1.0, -2.0, 0.5]), "s": np.array(0.25)}
FLAT = eg.Density(flat, init=START)


@pytest.fixture
def starts():
    """The first states of a run, not one step of which is made."""

    def made(target=FLAT, recipe=None, init=None, step_size=0.1, **changes):
        recipe = eg.sgld() if recipe is None else recipe
        request = Request(target, recipe, init, steps=1, step_size=step_size, **changes)
        kernel = Kernel(target, recipe)
        found = Starts(kernel, request)
        first = found.first()
        if found.is_spread:
            found.jitter(Motion(kernel, first, request.temperature), step_size)
        return [state.phase.position for state in (first, *found.others())], found

    return made


def flattened(positions):
    return np.stack([np.append(q["w"], q["s"]) for q in positions])


def test_a_position_is_dispersed_for_every_chain_but_the_first(starts):
    four, found = starts(chains=4)
    x = flattened(four)
    assert (x[0] == flattened([START])[0]).all()
    assert len(np.unique(x, axis=0)) == 4
    assert np.abs(x - x[0]).max() <= 2
    assert found.words(four)["starts"] == "dispersed by a jitter"
    assert found.words(four)["start_widths"] == pytest.approx({"w": 2 / 3**0.5, "s": 2 / 3**0.5})
    six, _ = starts(chains=6)
    assert (flattened(six)[:4] == x).all()  # whatever the number of chains
    other, _ = starts(chains=4, seed=1)
    assert (flattened(other)[1:] != x[1:]).all()


@pytest.mark.parametrize("changes", [{"init": eg.same(START), "chains": 3}, {"chains": 1}])
def test_one_place_where_that_is_asked_for(starts, changes):
    positions, found = starts(**changes)
    assert (flattened(positions) == flattened([START])).all()
    assert found.words(positions) == {"starts": "one", "start_widths": None}


def test_a_function_gives_every_chain_its_start(starts):
    def start(key):
        return jax.tree.map(lambda leaf: leaf + jax.random.normal(key, leaf.shape, leaf.dtype), START)

    positions, found = starts(init=start, chains=3)
    assert len(np.unique(flattened(positions), axis=0)) == 3
    assert found.words(positions) == {"starts": "dispersed", "start_widths": None}


@pytest.mark.parametrize(
    ("recipe", "step", "reach"),
    [
        (eg.sgld(1e-4), 0.02, np.sqrt(2 * 0.02 * 1e-4)),
        (eg.sghmc(mass=100.0), 0.02, 0.02 / 10),
        (eg.sgnht(), 1e-3, 1e-3),
        (eg.sgrld(eg.Scaled(lambda z: 1e-6 + 0 * z.position["s"])), 0.02, np.sqrt(2 * 0.02e-6)),
    ],
)
def test_small_steps_have_small_jitters(starts, recipe, step, reach):
    positions, _ = starts(recipe=recipe, step_size=step, chains=8)
    shifts = np.abs(flattened(positions) - flattened([START]))
    assert 10 * reach < shifts.max() <= 20 * reach * (1 + 1e-9)


def test_a_posterior_is_about_as_narrow_as_its_rows_are_many(starts):
    positions, _ = starts(TARGET, step_size=10.0, chains=8)
    shifts = np.abs(np.stack([q["mean"] for q in positions]))
    assert 3 < shifts.max() * np.sqrt(len(ROWS)) <= 6


def test_starts_stay_inside_the_domain(starts):
    domain = {"w": eg.Box(-2.001, 1.001), "s": eg.positive}
    positions, _ = starts(eg.Density(flat, init=START, domain=domain), chains=20)
    x = flattened(positions)
    assert np.abs(x[:, :3] + 0.5).max() < 1.501
    assert x[:, 3].min() > 0.1
    assert len(np.unique(x[:, 0])) == 20


def test_a_start_that_is_refused_is_taken_closer(starts):
    """D is positive near the position only."""
    recipe = eg.Recipe(diffusion={"position": eg.Scaled(lambda z: 0.05 - (z.position["s"] - 0.25) ** 2)})
    positions, _ = starts(recipe=recipe, chains=12, step_size=1.0)
    away = np.abs(flattened(positions)[1:, 3] - 0.25)
    assert (away < 0.05**0.5).all()
    assert (away > 0).all()


def test_a_mode_at_hand_gives_laplaces_width():
    settings = {"steps": 1, "step_size": 1e-9, "batch_size": 20, "chains": 6, "progress": False}
    run = eg.sample(TARGET, eg.sgld(), estimator=eg.ControlVariates(), **settings)
    width = 1 / np.sqrt(1 + len(ROWS))
    assert run.settings["starts"] == "dispersed by Laplace's width"
    assert run.settings["start_widths"] == pytest.approx({"mean": width})
    assert 0.5 * width < run.posterior["mean"][1:, 0].std() < 1.7 * width
    given = eg.sample(TARGET, eg.sgld(), estimator=eg.ControlVariates(eg.find_mode(TARGET)), **settings)
    np.testing.assert_array_equal(given.posterior["mean"][1:], run.posterior["mean"][1:])
    hot = eg.sample(TARGET, eg.sgld(), estimator=eg.ControlVariates(), temperature=4.0, **settings)
    assert hot.settings["start_widths"] == pytest.approx({"mean": 2 * width})


def wall(q):
    return -jnp.where(q["s"] > 0.3, jnp.inf, 0.0)


@pytest.mark.parametrize(
    "target",
    [
        eg.Density(lambda q: jnp.sum(q["w"] ** 2) - wall(q), init=START),
        eg.Posterior(wall, lambda q, rows: -((rows - q["s"]) ** 2), np.arange(9.0), init=START),
    ],
)
def test_a_start_where_the_potential_is_not_finite_is_taken_closer(starts, target):
    """Nobody gave these starts: they must not be a reason to refuse a run that could start at the position."""
    positions, _ = starts(target, chains=6)
    x = flattened(positions)[:, 3]
    assert x.max() <= 0.3
    assert len(np.unique(x)) == 6


def test_same_takes_a_position():
    for wrong in (None, lambda key: START, eg.same(START)):
        with pytest.raises(InputError, match=r"eg\.same takes a position"):
            eg.same(wrong)


def test_a_function_that_gives_one_place_disperses_nothing():
    target = eg.Density(lambda q: jnp.sum(q**2) / 2)
    run = eg.sample(target, eg.sghmc(), lambda key: jnp.zeros(2), steps=20, step_size=0.1, chains=3, progress=False)
    assert run.settings["starts"] == "one"


def test_starts_that_were_all_refused_are_one():
    """Twelve numbers that must be in order, next to each other: no jitter keeps them so."""
    target = eg.Density(lambda q: jnp.sum(q**2) / 2 + jnp.where(jnp.all(jnp.diff(q) > 0), 0.0, jnp.inf))
    start = jnp.linspace(-1e-9, 1e-9, 12)
    run = eg.sample(target, eg.hmc(), start, steps=5, step_size=1e-13, chains=3, progress=False)
    assert run.settings["starts"] == "one" or max(run.settings["start_widths"].values()) < 1e-6
