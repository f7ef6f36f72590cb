"""Random recipes: the same smooth H, D and Q once as a recipe of the library, once as dense NumPy for the oracle."""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from hypothesis import strategies as st
from jax.flatten_util import ravel_pytree

import ergodica as eg
from ergodica.phase import phase_type

AUXILIARIES = {"momentum": "vector", "thermostat": "scalar"}
TREE = {"matrix": (1, 2), "vector": (1,)}


class Plan(NamedTuple):
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


@st.composite
def plans(draw) -> Plan:
    """2 to 6 numbers; at least one state-dependent block of D or Q."""
    position = draw(st.integers(0, 3))
    momentum = draw(st.integers(0, 2))
    thermostat = draw(st.booleans())
    plan = Plan(position, momentum, thermostat, (), ())
    if plan.dim < 2:
        plan = plan._replace(position=2)
    slots = list(plan.sizes)
    kinds = st.sampled_from(["dense", "dense", "diagonal", "scaled", ""])
    diffusion = {slot: draw(kinds) for slot in slots}
    pairs = [(row, col) for i, row in enumerate(slots) for col in slots[: i + 1] if row != col or plan.sizes[row] > 1]
    curl = {}
    for row, col in pairs:
        if not draw(st.booleans()):
            continue
        # either order may be given; a scalar slot may be the column of a Coupling
        order = (col, row) if row == "thermostat" or draw(st.booleans()) else (row, col)
        curl[order] = draw(st.sampled_from(["coupling", "dense"])) if order[1] == "thermostat" else "dense"
    if not curl:
        diffusion["position"] = "dense"
    return plan._replace(diffusion=tuple((s, k) for s, k in diffusion.items() if k), curl=tuple(curl.items()))


def draw_numbers(plan: Plan, seed: int) -> dict[str, Any]:
    """Coefficients of every smooth function: its waves (shape..., dim), phases and level."""
    rng = np.random.default_rng(seed)

    def waves(*shape):
        return {"waves": 0.6 * rng.normal(size=(*shape, plan.dim)), "phases": rng.uniform(0, 6, shape)}

    k = rng.normal(size=(plan.dim, plan.dim))
    return {
        "stiffness": 0.15 * k @ k.T + 0.8 * np.eye(plan.dim),
        "potential": waves(),
        "energy": {slot: waves() for slot in list(plan.sizes)[1:]},
        "diffusion": {slot: waves(plan.sizes[slot], plan.sizes[slot]) for slot, _ in plan.diffusion},
        "curl": {f"{r} {c}": waves(plan.sizes[r], plan.sizes[c]) for (r, c), _ in plan.curl},
    }


def smooth(numbers: dict[str, Any], z: Any, xp: Any) -> Any:
    return xp.sin(numbers["waves"] @ z + numbers["phases"])


def potential(numbers: dict[str, Any], plan: Plan, z: Any, xp: Any) -> Any:
    """U: of the position alone, so the other entries of z are put to zero."""
    span = plan.spans["position"]
    q = z[span]
    return q @ numbers["stiffness"][span, span] @ q / 2 + xp.sin(
        numbers["potential"]["waves"][span] @ q + numbers["potential"]["phases"]
    )


def energy(numbers: dict[str, Any], plan: Plan, slot: str, z: Any, xp: Any) -> Any:
    """g of a slot, which reads every slot."""
    span = plan.spans[slot]
    own = z[span]
    return own @ numbers["stiffness"][span, span] @ own / 2 + 0.7 * smooth(numbers["energy"][slot], z, xp)


def diffusion_block(numbers: dict[str, Any], plan: Plan, slot: str, kind: str, z: Any, xp: Any) -> Any:
    """A A^T + 0.2, a diagonal of it, or one number of it times the identity."""
    factor = smooth(numbers["diffusion"][slot], z, xp)
    if kind == "dense":
        return factor @ factor.T + 0.2 * xp.eye(plan.sizes[slot])
    entries = xp.sum(factor**2, axis=1) + 0.2
    return entries if kind == "diagonal" else entries[0]


def curl_block(numbers: dict[str, Any], pair: tuple[str, str], z: Any, xp: Any) -> Any:
    block = 1.2 * smooth(numbers["curl"][" ".join(pair)], z, xp)
    return block - block.T if pair[0] == pair[1] else block


# -- for the oracle -----------------------------------------------------------------------------------


def dense_hamiltonian(plan: Plan, numbers: dict[str, Any], z: np.ndarray) -> float:
    return potential(numbers, plan, z, np) + sum(energy(numbers, plan, s, z, np) for s in list(plan.sizes)[1:])


def dense_diffusion(plan: Plan, numbers: dict[str, Any], z: np.ndarray) -> np.ndarray:
    matrix = np.zeros((plan.dim, plan.dim))
    for slot, kind in plan.diffusion:
        block = diffusion_block(numbers, plan, slot, kind, z, np)
        matrix[plan.spans[slot], plan.spans[slot]] = block if kind == "dense" else block * np.eye(plan.sizes[slot])
    return matrix


def dense_curl(plan: Plan, numbers: dict[str, Any], z: np.ndarray) -> np.ndarray:
    matrix = np.zeros((plan.dim, plan.dim))
    for (row, col), _ in plan.curl:
        block = curl_block(numbers, (row, col), z, np)
        matrix[plan.spans[row], plan.spans[col]] = block
        if row != col:
            matrix[plan.spans[col], plan.spans[row]] = -block.T
    return matrix


# -- for the library ----------------------------------------------------------------------------------


def build(plan: Plan, numbers: dict[str, Any]) -> tuple[eg.Recipe, eg.Density]:
    """The recipe and its target; the fields see the user's pytrees, as any field does."""

    def flat(z):
        return jnp.concatenate([ravel_pytree(getattr(z, slot))[0] for slot in plan.sizes])

    def auxiliary(slot):
        shape = () if slot == "thermostat" else (plan.sizes[slot],)
        return eg.Energy(lambda z: energy(numbers, plan, slot, flat(z), jnp), lambda key, z: jnp.full(shape, 0.3))

    def noise(slot, kind):
        def fn(z):
            block = diffusion_block(numbers, plan, slot, kind, flat(z), jnp)
            return like(slot, block) if kind == "diagonal" else block

        return {"dense": eg.Dense, "diagonal": eg.Diagonal, "scaled": eg.Scaled}[kind](fn)

    def coupling(pair, kind):
        def fn(z):
            block = curl_block(numbers, pair, flat(z), jnp)
            return like(pair[0], block[:, 0]) if kind == "coupling" else block

        return (eg.Coupling if kind == "coupling" else eg.Dense)(fn)

    def like(slot, vector):
        whole = jnp.zeros(plan.dim).at[plan.spans[slot]].set(vector)
        return getattr(plan.phase(whole), slot)

    def potential_of_tree(q):
        whole = jnp.zeros(plan.dim).at[plan.spans["position"]].set(ravel_pytree(q)[0])
        return potential(numbers, plan, whole, jnp)

    recipe = eg.Recipe(
        energy={slot: auxiliary(slot) for slot in list(plan.sizes)[1:]},
        diffusion={slot: noise(slot, kind) for slot, kind in plan.diffusion},
        curl={pair: coupling(pair, kind) for pair, kind in plan.curl},
    )
    return recipe, eg.Density(potential_of_tree)


def ravel(phase: Any) -> jax.Array:
    return ravel_pytree(tuple(phase))[0]
