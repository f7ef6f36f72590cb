"""Random recipes: smooth H, D(z) and Q(z) of any structure that a recipe can have.

The numbers of a recipe are arguments of what is compiled, so that all recipes of one `RecipePlan` share it.
"""

from collections.abc import Callable
from functools import cache
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree

import ergodica as eg
from ergodica.phase import phase_type
from ergodica_paper.processes import Waves, draw_bowl, draw_waves

TREE = {"matrix": (1, 2), "vector": (1,)}
KINDS = ("dense", "dense", "diagonal", "scaled", "")  # of a block of D; dense ones are the hard ones


class RecipePlan(NamedTuple):
    """The structure of a recipe, hashable: one compiled function serves every draw of its numbers.

    Args:
        position: a number of entries, or 0 for a dict with a matrix and a vector.
        momentum: entries of a vector slot, 0 for none. thermostat: whether there is a scalar slot.
        diffusion: a kind of field by slot. curl: pairs of slots; a kind by column.
    """

    position: int
    momentum: int
    thermostat: bool
    diffusion: tuple[tuple[str, str], ...]
    curl: tuple[tuple[tuple[str, str], str], ...]

    @property
    def sizes(self) -> dict[str, int]:
        sizes = {"position": self.position or 3, "momentum": self.momentum, "thermostat": int(self.thermostat)}
        return {slot: size for slot, size in sizes.items() if size}

    @property
    def dim(self) -> int:
        return sum(self.sizes.values())

    @property
    def spans(self) -> dict[str, slice]:
        spans, start = {}, 0
        for slot, size in self.sizes.items():
            spans[slot] = slice(start, start + size)
            start += size
        return spans

    def phase(self, z: Any) -> Any:
        """The flat vector as a phase."""
        values = {slot: z[span] for slot, span in self.spans.items()}
        if not self.position:
            q = values["position"]
            values["position"] = {"matrix": q[:2].reshape(TREE["matrix"]), "vector": q[2:]}
        if self.thermostat:
            values["thermostat"] = values["thermostat"].reshape(())
        return phase_type(tuple(values))(*values.values())

    def __str__(self) -> str:
        blocks = [f"D of {slot}: {kind}" for slot, kind in self.diffusion]
        blocks += [f"Q of {row} and {col}: {kind}" for (row, col), kind in self.curl]
        return f"{self.dim} numbers; {', '.join(blocks)}"


def draw_plan(seed: Any) -> RecipePlan:
    """2 to 6 numbers; at least one state-dependent block of D or Q."""
    rng = np.random.default_rng(seed)
    plan = RecipePlan(int(rng.integers(4)), int(rng.integers(3)), bool(rng.integers(2)), (), ())
    if plan.dim < 2:
        plan = plan._replace(position=2)
    slots = list(plan.sizes)
    diffusion = {slot: KINDS[rng.integers(len(KINDS))] for slot in slots}
    pairs = [(row, col) for i, row in enumerate(slots) for col in slots[: i + 1] if row != col or plan.sizes[row] > 1]
    curl = {}
    for row, col in pairs:
        if rng.integers(2):
            continue
        # either order may be given; a scalar slot may be the column of a Coupling
        order = (col, row) if row == "thermostat" or rng.integers(2) else (row, col)
        curl[order] = ("coupling", "dense")[rng.integers(2)] if order[1] == "thermostat" else "dense"
    if not curl:
        diffusion["position"] = "dense"
    return plan._replace(diffusion=tuple((s, k) for s, k in diffusion.items() if k), curl=tuple(curl.items()))


def draw_numbers(plan: RecipePlan, seed: Any) -> dict[str, Any]:
    """Coefficients of every smooth function: a bowl, and waves of every slot and pair of slots."""
    rng = np.random.default_rng(seed)

    def waves(*shape: int) -> Waves:
        return draw_waves(rng, plan.dim, *shape)

    return {
        "stiffness": draw_bowl(rng, plan.dim),
        "potential": waves(),
        "energy": {slot: waves() for slot in list(plan.sizes)[1:]},
        "diffusion": {slot: waves(plan.sizes[slot], plan.sizes[slot]) for slot, _ in plan.diffusion},
        "curl": {f"{r} {c}": waves(plan.sizes[r], plan.sizes[c]) for (r, c), _ in plan.curl},
    }


# -- the functions, of a flat vector; xp is jnp, or np for an oracle ------------------------------------


def potential(numbers: dict[str, Any], plan: RecipePlan, z: Any, xp: Any = jnp) -> Any:
    """U: of the position alone."""
    span = plan.spans["position"]
    q = z[span]
    ripple = numbers["potential"]
    return q @ numbers["stiffness"][span, span] @ q / 2 + Waves(ripple.waves[span], ripple.phases)(q, xp)


def energy(numbers: dict[str, Any], plan: RecipePlan, slot: str, z: Any, xp: Any = jnp) -> Any:
    """g of a slot, which reads every slot."""
    span = plan.spans[slot]
    own = z[span]
    return own @ numbers["stiffness"][span, span] @ own / 2 + 0.7 * numbers["energy"][slot](z, xp)


def diffusion_block(numbers: dict[str, Any], plan: RecipePlan, slot: str, kind: str, z: Any, xp: Any = jnp) -> Any:
    """A A^T + 0.2, a diagonal of it, or one number of it times the identity."""
    factor = numbers["diffusion"][slot](z, xp)
    if kind == "dense":
        return factor @ factor.T + 0.2 * xp.eye(plan.sizes[slot])
    entries = xp.sum(factor**2, axis=1) + 0.2
    return entries if kind == "diagonal" else entries[0]


def curl_block(numbers: dict[str, Any], pair: tuple[str, str], z: Any, xp: Any = jnp) -> Any:
    block = 1.2 * numbers["curl"][" ".join(pair)](z, xp)
    return block - block.T if pair[0] == pair[1] else block


# -- the same for the library: functions of the phase, which see the user's pytrees --------------------


class OfPhase(eqx.Module):
    """function(numbers, plan, *words, flat z) as a function of the phase."""

    numbers: dict[str, Any]
    function: Callable = eqx.field(static=True)
    plan: RecipePlan = eqx.field(static=True)
    words: tuple = eqx.field(static=True, default=())

    def __call__(self, z: Any) -> Any:
        flat = jnp.concatenate([ravel_pytree(getattr(z, slot))[0] for slot in self.plan.sizes])
        return self.function(self.numbers, self.plan, *self.words, flat)


class OfPosition(eqx.Module):
    """U of the user's pytree."""

    numbers: dict[str, Any]
    plan: RecipePlan = eqx.field(static=True)

    def __call__(self, q: Any) -> Any:
        flat = ravel_pytree(q)[0]
        return potential(self.numbers, self.plan, jnp.pad(flat, (0, self.plan.dim - flat.size)))


def _noise(numbers: dict[str, Any], plan: RecipePlan, slot: str, kind: str, z: Any) -> Any:
    block = diffusion_block(numbers, plan, slot, kind, z)
    return _like(plan, slot, block) if kind == "diagonal" else block


def _coupling(numbers: dict[str, Any], plan: RecipePlan, pair: tuple[str, str], kind: str, z: Any) -> Any:
    block = curl_block(numbers, pair, z)
    return _like(plan, pair[0], block[:, 0]) if kind == "coupling" else block


def _like(plan: RecipePlan, slot: str, vector: Any) -> Any:
    whole = jnp.zeros(plan.dim, vector.dtype).at[plan.spans[slot]].set(vector)
    return getattr(plan.phase(whole), slot)


FIELDS = {"dense": eg.Dense, "diagonal": eg.Diagonal, "scaled": eg.Scaled, "coupling": eg.Coupling}


def build(plan: RecipePlan, numbers: dict[str, Any]) -> tuple[eg.Recipe, eg.Density]:
    """The recipe and its target. H couples all slots: its law is exp(-H), but the position's is not exp(-U)."""

    def auxiliary(slot):
        return eg.Energy(OfPhase(numbers, energy, plan, (slot,)), _constant(_shape(plan, slot)))

    return _built(plan, numbers, {slot: auxiliary(slot) for slot in list(plan.sizes)[1:]})


def build_with_normals(plan: RecipePlan, numbers: dict[str, Any]) -> tuple[eg.Recipe, eg.Density]:
    """The same D and Q with standard normal auxiliaries, so that the position has the law exp(-U)."""
    return _built(plan, numbers, {slot: _normal(slot, _shape(plan, slot)) for slot in list(plan.sizes)[1:]})


def _built(plan: RecipePlan, numbers: dict[str, Any], energies: dict[str, Any]) -> tuple[eg.Recipe, eg.Density]:
    recipe = eg.Recipe(
        energy=energies,
        diffusion={slot: FIELDS[kind](OfPhase(numbers, _noise, plan, (slot, kind))) for slot, kind in plan.diffusion},
        curl={pair: FIELDS[kind](OfPhase(numbers, _coupling, plan, (pair, kind))) for pair, kind in plan.curl},
    )
    init = plan.phase(np.full(plan.dim, 0.3)).position
    return recipe, eg.Density(OfPosition(numbers, plan), init=init)


def _shape(plan: RecipePlan, slot: str) -> tuple[int, ...]:
    return () if slot == "thermostat" else (plan.sizes[slot],)


# Cached: one function object, and so one compiled program, for all recipes of a plan.
@cache
def _constant(shape: tuple[int, ...]) -> Callable:
    return lambda key, z: jnp.full(shape, 0.3)


@cache
def _normal(slot: str, shape: tuple[int, ...]) -> eg.Energy:
    def value(z):
        return jnp.sum(getattr(z, slot) ** 2) / 2

    return eg.Energy(value, lambda key, z: jax.random.normal(key, shape))
