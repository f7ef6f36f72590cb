"""Is what the user wrote a recipe?

Keys and kinds are checked at construction; values (PSD, skew, elementwise) in `recipe.init`, at one point of the phase.
"""

from collections.abc import Mapping
from typing import Any, NamedTuple, Protocol

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, PyTree

from ergodica import tree
from ergodica.compiling import quick_filter_jit
from ergodica.energy import AuxiliaryEnergy, Energy, Gaussian
from ergodica.errors import InputError
from ergodica.fields import Constant, Coupling, Dense, Elementwise, Field, Root
from ergodica.host import validate
from ergodica.operators import DenseOperator, Operator, ScalarOperator
from ergodica.phase import Point

RESERVED_SLOTS = ("position", "potential", "temperature")
# relative asymmetry that rounding may leave: matrices are often made in float32 and widened later
SYMMETRY_TOLERANCE = 1e-5
DENSE_LIMIT = 2_000  # rows up to which the eigenvalues of a dense block are checked


class Blocks(Protocol):
    """What is checked of a recipe, which is a layer above."""

    @property
    def energy(self) -> dict[str, AuxiliaryEnergy]: ...
    @property
    def diffusion(self) -> dict[str, Field]: ...
    @property
    def curl(self) -> dict[tuple[str, str], Field]: ...


def check_blocks(energy: Mapping[str, Any], diffusion: Mapping[Any, Any], curl: Mapping[Any, Any]) -> None:
    """Keys, kinds and the signs of constants: all that needs no values."""
    _check_energy(energy)
    slots = ("position", *energy)
    _check_diffusion(diffusion, slots)
    for key, field in curl.items():
        _check_curl(key, field, curl, slots)


def _check_energy(energy: Mapping[str, Any]) -> None:
    for name, value in energy.items():
        if not isinstance(name, str) or not name.isidentifier() or name.startswith("_"):
            raise InputError(f"energy: a slot's name must be a plain word such as 'momentum', got {name!r}")
        if name in RESERVED_SLOTS:
            raise InputError(f"energy: {name!r} is reserved; the auxiliary slots need other names, such as 'momentum'")
        if not isinstance(value, AuxiliaryEnergy):
            raise InputError(
                f"energy[{name!r}]: expected eg.Gaussian, eg.Thermostat, eg.Relativistic or eg.Energy, got {value!r}"
            )


def _check_diffusion(diffusion: Mapping[Any, Any], slots: tuple[str, ...]) -> None:
    for slot, field in diffusion.items():
        if isinstance(slot, tuple):
            raise InputError(
                f"diffusion: keys are slots, got the pair {slot!r}: D is block-diagonal; pairs belong in curl"
            )
        _check_slot("diffusion", slot, slots)
        _check_field(f"diffusion[{slot!r}]", field)
        if isinstance(field, Coupling):
            raise InputError(f"diffusion[{slot!r}]: an eg.Coupling is a column between two slots: it belongs in curl")
        if isinstance(field, Constant):
            _check_sign(slot, field)


def _check_sign(slot: str, field: Constant) -> None:
    for leaf in jax.tree.leaves(field.entries):
        if tree.is_traced(leaf):
            continue
        if not np.all(np.isfinite(leaf)):
            raise InputError(f"diffusion[{slot!r}] holds NaN or infinity: D must be finite")
        # a square array may be a matrix, whose entries may be negative: it is checked in recipe.init
        is_square = leaf.ndim == 2 and leaf.shape[0] == leaf.shape[1]
        least = np.asarray(leaf).min()  # not leaf.min(): inside jit that has no value
        if not is_square and least < 0:
            raise InputError(
                f"diffusion[{slot!r}] is not positive semidefinite: its smallest entry is {float(least):g}, "
                "and D must be at least 0 everywhere"
            )


def _check_curl(key: Any, field: Any, curl: Mapping[Any, Any], slots: tuple[str, ...]) -> None:
    if not isinstance(key, tuple) or len(key) != 2:
        raise InputError(f"curl: keys are pairs (row, column) of slots, got {key!r}; slots belong in diffusion")
    row, col = key
    for slot in key:
        _check_slot("curl", slot, slots)
    _check_field(f"curl[{key!r}]", field)
    if row != col and (col, row) in curl:
        raise InputError(f"curl: both {key!r} and {(col, row)!r} are given: give one, the other is minus its transpose")
    if row == col:
        entries = jax.tree.leaves(field.entries) if isinstance(field, Constant) else []
        is_matrix = len(entries) == 1 and entries[0].ndim == 2
        if not (isinstance(field, Dense) or is_matrix):
            raise InputError(
                f"curl[{key!r}]: on the diagonal of Q only eg.Dense or an eg.Constant matrix can be skew-symmetric, "
                f"got {type(field).__name__}"
            )


def _check_slot(what: str, slot: Any, slots: tuple[str, ...]) -> None:
    if slot not in slots:
        raise InputError(f"{what}: there is no slot {slot!r}; the slots are {', '.join(slots)} (the keys of energy)")


def _check_field(what: str, field: Any) -> None:
    if not isinstance(field, Field):
        raise InputError(f"{what}: expected a field such as eg.Constant({field!r}), got {type(field).__name__}")


def check_temperature(temperature: Any) -> None:
    _check_positive("temperature", temperature)


def check_step_size(step_size: Any) -> None:
    _check_positive("step size", step_size)


def check_seed(seed: Any) -> None:
    validate.whole("seed", seed)


def _check_positive(what: str, value: Any) -> None:
    if tree.is_traced(value):
        return
    if not isinstance(value, int | float | np.ndarray | np.generic | jax.Array) or jnp.shape(value) != ():
        raise InputError(f"the {what} must be a number, got {value!r}")
    if not (float(value) > 0 and np.isfinite(float(value))):
        raise InputError(f"the {what} must be a positive number, got {float(value):g}")


# -- with values, outside jit -------------------------------------------------------------------------


def check_at(recipe: Blocks, point: Point) -> None:
    """D PSD, Q skew, `Elementwise` true, masses positive definite, at this point of the phase."""
    check_look(recipe, _compiled_look(recipe, point))


def check_look(recipe: Blocks, found: "Look") -> None:
    """`check_at`, of what has been computed at a point."""
    for field in recipe.diffusion.values():
        message = explanation(field, found.potential)
        if message:
            raise InputError(message)
    for name, mass in found.masses.items():
        check_psd(f"the mass of {name!r}", mass, strict=True)
    for slot, operator in found.diffusion.items():
        check_psd(f"diffusion[{slot!r}]", operator, strict=False)
    for (row, col), operator in found.curl.items():
        _check_finite(f"curl[{(row, col)!r}]", operator)
        if row == col:
            _check_skew(f"curl[{(row, col)!r}]", operator)
    for (what, row, col, slot), (gap, bound) in found.mixed.items():
        is_diffusion = what == "diffusion"
        field = recipe.diffusion[row] if is_diffusion else recipe.curl[row, col]
        key = row if is_diffusion else (row, col)
        _check_elementwise(f"{what}[{key!r}]", field, slot, np.asarray(gap), float(bound))


class Look(NamedTuple):
    """What there is to check at a point: operators, and how far elementwise fields are from being so."""

    potential: Any
    masses: dict[str, Operator]
    diffusion: dict[str, Operator]
    curl: dict[tuple[str, str], Operator]
    mixed: dict[tuple[str, str, str, str], tuple[Array, Array]]  # by block and slot that it reads: gaps and their bound


def look(recipe: Blocks, point: Point) -> Look:
    """What `check_look` checks. Compile it: operation by operation it takes more than a second."""
    layout = tree.Layout.of(point.slot("position"))
    masses = {n: energy.mass_operator(layout) for n, energy in recipe.energy.items() if isinstance(energy, Gaussian)}
    for name, energy in recipe.energy.items():
        if isinstance(energy, Energy):
            jax.eval_shape(lambda phase, e=energy, n=name: e.value(point._replace(phase=phase), n), point.phase)
    diffusion = {slot: field.at(point, slot, slot) for slot, field in recipe.diffusion.items()}
    curl = {(row, col): field.at(point, row, col) for (row, col), field in recipe.curl.items()}
    blocks = [("diffusion", slot, slot, field) for slot, field in recipe.diffusion.items()]
    blocks += [("curl", row, col, field) for (row, col), field in recipe.curl.items()]
    mixed = {
        (what, row, col, slot): gaps
        for what, row, col, field in blocks
        for slot, gaps in _mixing(field, point, row, col).items()
    }
    return Look(point.potential, masses, diffusion, curl, mixed)


_compiled_look = quick_filter_jit(look)


def explanation(field: Field, potential: Any) -> str | None:
    """What a field's function finds wrong with a potential, and what to do (`eg.gsgrhmc`: its offset)."""
    explain = getattr(getattr(field, "fn", None), "explain", None)
    return None if explain is None or potential is None else explain(float(potential))


def _entries(operator: Operator) -> PyTree:
    return operator.matrix if isinstance(operator, DenseOperator) else operator.value  # pyright: ignore


def _check_finite(what: str, operator: Operator) -> None:
    value = _entries(operator)
    for path, leaf in zip(tree.paths(value), jax.tree.leaves(value), strict=True):
        if not np.all(np.isfinite(np.asarray(leaf))):
            where = np.argwhere(~np.isfinite(np.asarray(leaf)))[0]
            raise InputError(f"{what} is not finite at the start: entry {path}{where.tolist()} is NaN or infinite")


def check_psd(what: str, operator: Operator, strict: bool) -> None:
    """Refuse an operator that is not positive semidefinite (strict: definite), and say where and by how much."""
    _check_finite(what, operator)
    word, bound = ("positive definite", "more than") if strict else ("positive semidefinite", "at least")
    if isinstance(operator, DenseOperator):
        _check_psd_matrix(what, np.asarray(operator.matrix), word, strict)
        return
    value = _entries(operator)
    for path, leaf in zip(tree.paths(value), jax.tree.leaves(value), strict=True):
        least = float(np.min(leaf))
        if least < 0 or (strict and least == 0):
            where = list(np.unravel_index(int(np.argmin(leaf)), leaf.shape))
            at = "" if isinstance(operator, ScalarOperator) else f" at entry {path}{[int(i) for i in where]}"
            raise InputError(f"{what} is not {word} at the start: it is {least:g}{at}, expected {bound} 0")


def _check_psd_matrix(what: str, matrix: np.ndarray, word: str, strict: bool) -> None:
    size = np.max(np.abs(matrix), initial=0.0)
    rounding = 100 * len(matrix) * np.finfo(matrix.dtype).eps * size
    skew = np.abs(matrix - matrix.T)
    if skew.max(initial=0.0) > max(rounding, SYMMETRY_TOLERANCE * size):
        i, j = (int(k) for k in np.unravel_index(skew.argmax(), skew.shape))
        raise InputError(
            f"{what} is not symmetric: entries ({i}, {j}) = {matrix[i, j]:g} and ({j}, {i}) = {matrix[j, i]:g} "
            f"differ by {skew[i, j]:g}"
        )
    if len(matrix) > DENSE_LIMIT:
        return
    values, vectors = np.linalg.eigh(matrix)
    if values[0] < -rounding or (strict and values[0] <= 0):
        most = int(np.abs(vectors[:, 0]).argmax())
        raise InputError(
            f"{what} is not {word} at the start: its smallest eigenvalue is {values[0]:g}, with an eigenvector that is "
            f"largest at entry {most}"
        )


def _check_skew(what: str, operator: Operator) -> None:
    matrix = np.asarray(operator.to_dense())
    even = np.abs(matrix + matrix.T)
    if even.max(initial=0.0) > SYMMETRY_TOLERANCE * np.abs(matrix).max(initial=0.0):
        i, j = (int(k) for k in np.unravel_index(even.argmax(), even.shape))
        raise InputError(
            f"{what} is not skew-symmetric: entries ({i}, {j}) = {matrix[i, j]:g} and ({j}, {i}) = {matrix[j, i]:g} "
            f"should cancel, their sum is {matrix[i, j] + matrix[j, i]:g}"
        )


def _mixing(field: Field, point: Point, row: str, col: str) -> dict[str, tuple[Array, Array]]:
    """For each slot that an elementwise field reads, |J v - v * J 1| for a random v, and what rounding may leave of it.

    Entry i depends on coordinate i alone exactly when J v = v * (J 1) for every v.
    """
    inner = field.inner if isinstance(field, Root) else field
    if not (isinstance(inner, Elementwise) or (isinstance(inner, Coupling) and inner.elementwise)):
        return {}
    rows, cols = tree.Layout.of(point.slot(row)), tree.Layout.of(point.slot(col))
    found = {}
    for slot in sorted(field.reads(point, row, col) - {"potential"}):
        x = point.slot(slot)
        if tree.Layout.of(x).shapes != rows.shapes or rows.is_scalar:
            continue
        if isinstance(field, Coupling) and slot != row:
            continue  # a column's divergence is taken along its own slot alone

        def entries(x: PyTree, slot: str = slot) -> PyTree:
            return field.value(point.view(**{slot: x}), rows, cols)

        v = tree.normal_like(jax.random.key(20150615), x)
        along_v = rows.ravel(jax.jvp(entries, (x,), (v,))[1])
        expected = rows.ravel(tree.multiply(v, jax.jvp(entries, (x,), (tree.ones_like(x),))[1]))
        bound = 1e3 * jnp.finfo(rows.dtype).eps * (jnp.max(jnp.abs(along_v)) + jnp.max(jnp.abs(expected)))
        found[slot] = jnp.abs(along_v - expected), bound
    return found


def _check_elementwise(what: str, field: Field, slot: str, gap: np.ndarray, bound: float) -> None:
    if not gap.max() > bound:
        return
    inner = field.inner if isinstance(field, Root) else field
    advice = "use eg.Diagonal" if isinstance(inner, Elementwise) else "leave out elementwise=True"
    i = int(np.argmax(gap))
    raise InputError(
        f"{what}: entry {i} of this eg.{type(inner).__name__} depends on other coordinates of z.{slot} than "
        f"its own (J v differs from v * J 1 by {float(gap[i]):g}): {advice}"
    )
