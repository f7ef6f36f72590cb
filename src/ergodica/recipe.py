"""The recipe: energy H, PSD diffusion D and skew curl Q; drift, correction and noise are derived from them, once.

    dz = f(z) dt + sqrt(2 T D(z)) dW  leaves exp(-H/T) invariant when
    f(z) = -(D(z) + Q(z)) grad H(z) + T Gamma(z),  Gamma_i = sum_j d/dz_j (D_ij + Q_ij)

(Ma, Chen and Fox, 2015, Theorem 1 and Eq. 3, https://arxiv.org/abs/1506.04696; with temperature,
docs/explanation/mathematics.md.)

Where Gamma comes from. Write p = exp(-H/T). The probability current of the process is

    J_i = f_i p - T sum_j d/dz_j (D_ij p)

Differentiating the product, with d p/dz_j = -p dH/dz_j / T, gives J_i = p (f_i + (D grad H)_i - T (div D)_i). Insert f:
everything with D cancels. The term T div D in f is there to undo the drift that noise of varying strength causes by
itself. What is left is made of Q alone, and is itself a derivative:

    J_i = p (-(Q grad H)_i + T (div Q)_i) = T sum_j d/dz_j (Q_ij p)

So div J = T sum_ij d^2/dz_i dz_j (Q_ij p), a symmetric derivative summed against a skew matrix: zero. Probability flows
in closed loops, and p stays as it is. Without T div Q, J would not be such a derivative, and p would change.
"""

from collections.abc import Iterable, Mapping
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, PyTree

from ergodica import structure, tree
from ergodica.compiling import traceable
from ergodica.energy import AuxiliaryEnergy
from ergodica.errors import InputError
from ergodica.fields import EXACT_LIMIT, Field
from ergodica.operators import Operator, act, scaled
from ergodica.phase import BatchPair, Evaluation, Phase, Point, phase_type
from ergodica.targets.base import Target
from ergodica.tree import Combination, Layout

Operators = dict[Any, Operator]


class Recipe(eqx.Module):
    """A sampler, written as its energy, its diffusion D and one triangle of its curl Q.

    Use it to invent a sampler; `eg.sghmc` and the other builders return one. You write H, D and Q: drift, correction
    and noise are derived from them, so the law is right whatever you write, as long as D is positive semidefinite. That
    the chain also reaches every place is up to you: there must be some noise, and a path from it to the position.

        dz = [-(D + Q) grad H + T Gamma] dt + sqrt(2 T D) dW,  Gamma_i = sum_j d/dz_j (D_ij + Q_ij)

    Leaves invariant: exp(-H/T), H = U(position) + the energies of the auxiliary slots.

    Args:
        energy: the auxiliary slots by name, each with its energy. `position` is always there.
        diffusion: PSD blocks of D by slot. A slot that is absent has no noise.
        curl: blocks of Q by (row, column): dz_row = -Q_rc dH/dz_c. The other triangle, minus the transpose, is derived.
        gradient_noise: V, where the recipe is built for a known one (`eg.sgfs`); a run with batches compensates for it.

    Example:
        >>> import jax, ergodica as eg
        >>> recipe = eg.Recipe(  # SGHMC
        ...     energy={"momentum": eg.Gaussian(mass=1.0)},
        ...     diffusion={"momentum": eg.Constant(1.0)},
        ...     curl={("momentum", "position"): eg.Constant(1.0)},
        ... )
        >>> target = eg.gallery.gaussian(2)
        >>> phase = recipe.init(target, target.init, jax.random.key(0))
        >>> recipe.correction(target, phase).momentum.tolist()  # T Gamma: D and Q are constant
        [0.0, 0.0]

    Reference:
        Ma, Chen and Fox (2015), https://arxiv.org/abs/1506.04696.
    """

    slots: tuple[str, ...] = eqx.field(static=True)
    energies: tuple[AuxiliaryEnergy, ...]
    diffusion: dict[str, Field]
    curl: dict[tuple[str, str], Field]
    gradient_noise: Any = None

    def __init__(
        self,
        energy: Mapping[str, AuxiliaryEnergy] | None = None,
        diffusion: Mapping[str, Field] | None = None,
        curl: Mapping[tuple[str, str], Field] | None = None,
        gradient_noise: Any = None,
    ):
        energy, diffusion, curl = dict(energy or {}), dict(diffusion or {}), dict(curl or {})
        structure.check_blocks(energy, diffusion, curl)
        self.slots = ("position", *energy)
        self.energies = tuple(energy.values())
        # sorted, as JAX sorts dictionaries on their way through jit: sums keep one order everywhere
        self.diffusion = {slot: diffusion[slot] for slot in sorted(diffusion)}
        self.curl = {pair: curl[pair] for pair in sorted(curl)}
        self.gradient_noise = gradient_noise

    @property
    def energy(self) -> dict[str, AuxiliaryEnergy]:
        return dict(zip(self.slots[1:], self.energies, strict=True))

    @property
    def momenta(self) -> tuple[str, ...]:
        """The auxiliary slots that move the position: those with a block of Q to it."""
        return tuple(s for s in self.slots[1:] if (s, "position") in self.curl or ("position", s) in self.curl)

    # -- what users call --------------------------------------------------------------------------

    def init(self, target: Target, position: PyTree, key: Array, temperature: Any = 1.0) -> Phase:
        """The phase at `position`, with auxiliary slots drawn from exp(-g/T).

        Outside jit it also checks values at that point: D is PSD, Q is skew, an `eg.Elementwise` is elementwise, and
        everything is finite.
        """
        position, target = jax.tree.map(jnp.asarray, position), target.tempered(temperature)
        traced = tree.is_traced((position, key, self, temperature)) or tree.is_staged()
        structure.check_temperature(temperature)
        if not traced:
            target.check(position)
        phase = self.draw_auxiliaries(position, key, temperature)
        if not traced:
            with traceable("a field or an energy of the recipe"):
                structure.check_at(self, self.point_at(target, phase, temperature))
        return phase

    def hamiltonian(self, target: Target, phase: Phase, batch: PyTree | None = None, temperature: Any = 1.0) -> Array:
        """H = U(position) + the energies of the auxiliary slots."""
        point = Point(phase, temperature=temperature)
        return target.tempered(temperature).potential(phase.position, batch) + self.auxiliary_energy(point)

    def drift(self, target: Target, phase: Phase, batch: PyTree | None = None, temperature: Any = 1.0) -> Phase:
        """f(z) = -(D + Q) grad H + T Gamma, like the phase. `batch=None`: all data."""
        tempered = target.tempered(temperature)
        evaluations = evaluate(tempered, phase.position, batch, self.reads_potential(phase))
        return _like(phase, self.moves(phase, evaluations, temperature, 1.0))

    def correction(self, target: Target, phase: Phase, batch: PyTree | None = None, temperature: Any = 1.0) -> Phase:
        """T Gamma, like the phase. Above `fields.EXACT_LIMIT` entries an `eg.Diagonal` takes a random probe."""
        tempered = target.tempered(temperature)
        evaluations = evaluate(tempered, phase.position, batch, self.reads_potential(phase))
        gammas = [self.gamma(self.point(phase, e, temperature)) for e in evaluations]
        shares = [{slot: value.scaled(temperature / len(gammas)) for slot, value in g.items()} for g in gammas]
        return _like(phase, _sums(shares))

    def matrices(self, target: Target, phase: Phase, temperature: Any = 1.0) -> tuple[Array, Array]:
        """D and Q as dense matrices over the whole phase, to inspect small problems."""
        point = self.point_at(target, phase, temperature)
        layout = Layout.of(phase)
        starts, start = {}, 0
        for slot in self.slots:
            starts[slot] = start
            start += Layout.of(point.slot(slot)).size
        d, q = (jnp.zeros((layout.size, layout.size), layout.dtype) for _ in range(2))
        for slot, operator in self.diffusion_at(point).items():
            d = jax.lax.dynamic_update_slice(d, operator.to_dense().astype(d.dtype), (starts[slot], starts[slot]))
        for (row, col), operator in self.curl_at(point).items():
            block = operator.to_dense().astype(q.dtype)
            q = jax.lax.dynamic_update_slice(q, block, (starts[row], starts[col]))
            if row != col:
                q = jax.lax.dynamic_update_slice(q, -block.T, (starts[col], starts[row]))
        return d, q

    # -- what integrators call --------------------------------------------------------------------

    def draw_auxiliaries(self, position: PyTree, key: Array, temperature: Any) -> Phase:
        names, values = ("position",), (position,)
        if not self.energy:
            return phase_type(names)(*values)
        keys = jax.random.split(key, max(len(self.energies), 1))
        for k, (name, energy) in zip(keys, self.energy.items(), strict=False):
            point = Point(phase_type(names)(*values), temperature=temperature)
            names, values = (*names, name), (*values, energy.draw(k, point, name))
        return phase_type(names)(*values)

    def curl_key(self, row: str, col: str) -> tuple[str, str]:
        """The pair under which the block of Q between two slots was given."""
        return (row, col) if (row, col) in self.curl else (col, row)

    def curl_block(self, operators: Operators, row: str, col: str) -> Operator:
        """Q_row,col from the triangle that was given."""
        return operators[row, col] if (row, col) in operators else scaled(-1, operators[col, row].transpose())

    def point(self, phase: Phase, evaluation: Evaluation, temperature: Any) -> Point:
        return Point(phase, evaluation.potential, evaluation.potential_gradient, temperature)

    def reads_potential(self, phase: Phase) -> bool:
        """Whether a block of D or Q looks at z.potential."""
        dtype = tree.common_dtype(phase.position)
        point = Point(phase, jax.ShapeDtypeStruct((), dtype))
        return any("potential" in self.reads(point, key) for key in (*self.diffusion, *self.curl))

    def reads(self, point: Point, key: str | tuple[str, str]) -> set[str]:
        """What the block of D (a slot) or Q (a pair) depends on."""
        row, col = (key, key) if isinstance(key, str) else key
        field = self.diffusion[key] if isinstance(key, str) else self.curl[key]
        return field.reads(point, row, col)

    def diffusion_at(self, point: Point) -> Operators:
        return {slot: field.at(point, slot, slot) for slot, field in self.diffusion.items()}

    def curl_at(self, point: Point) -> Operators:
        return {(row, col): field.at(point, row, col) for (row, col), field in self.curl.items()}

    def auxiliary_energy(self, point: Point) -> Array:
        dtype = tree.common_dtype(point.slot("position"))
        values = [energy.value(point, name).astype(dtype) for name, energy in self.energy.items()]
        return sum(values, start=jnp.zeros((), dtype))

    def hamiltonian_gradient(self, point: Point, gradient: PyTree) -> dict[str, Combination]:
        """grad H by slot, from the gradient of U at hand."""
        shares = [{"position": Combination.of(gradient)}]
        shares += [energy.slope(point, name) for name, energy in self.energy.items()]
        return _sums(shares)

    def gamma(self, point: Point, key: Array | None = None) -> dict[str, Combination]:
        """Gamma_i = sum_j d/dz_j (D_ij + Q_ij) by slot; a slot where it vanishes by structure is absent.

        Each block knows the cheapest way to its own divergence (fields/kinds.py); here they are only added up.
        """
        shares = [{slot: field.divergence(point, slot, slot, False, key)} for slot, field in self.diffusion.items()]
        for (row, col), field in self.curl.items():
            shares.append({row: field.divergence(point, row, col, False, key)})
            if row != col:
                derived = field.divergence(point, row, col, True, key)
                shares.append({col: None if derived is None else derived.scaled(-1)})
        return _sums(shares)

    def moves(
        self, phase: Phase, evaluations: tuple[Evaluation, ...], temperature: Any, time: Any, key: Array | None = None
    ) -> dict[str, Combination]:
        """time * f(z) = time * [-(D + Q) grad H + T Gamma] by slot; a slot that does not move is absent.

        From a cross-fitted pair, D, Q and Gamma are averages over both. Only what multiplies the gradient of U is not:
        there each potential's operator meets the other batch's gradient, because an operator and a gradient from one
        batch are correlated, and E[D g] is then not E[D] E[g].
        """
        points = [self.point(phase, e, temperature) for e in evaluations]
        slopes = [self.hamiltonian_gradient(p, e.gradient) for p, e in zip(points, evaluations, strict=True)]
        each_d, each_q = [self.diffusion_at(p) for p in points], [self.curl_at(p) for p in points]
        mean_d, mean_q = mean_operators(each_d), mean_operators(each_q)
        shares: list[dict[str, Combination | None]] = []
        times = {1: time, -1: -time}  # one object for each sign, by which `Combination` sees what to add up first

        def push(row: str, col: str, sign: int, mean: Operator, each: list[Operator]) -> None:
            if col != "position":
                shares.append({row: act(mean, slopes[0][col]).scaled(times[sign])})
                return
            for operator, slope in zip(each, slopes, strict=True):
                share = times[sign] if len(each) == 1 else times[sign] / len(each)
                shares.append({row: act(operator, slope[col]).scaled(share)})

        for slot in self.diffusion:
            push(slot, slot, -1, mean_d[slot], [d[slot] for d in each_d])
        for row, col in self.curl:
            each = [q[row, col] for q in each_q]
            push(row, col, -1, mean_q[row, col], each)
            if row != col:
                push(col, row, 1, mean_q[row, col].transpose(), [q.transpose() for q in each])
        for gamma in (self.gamma(point, key) for point in points):
            shares.append({slot: value.scaled(time * temperature / len(points)) for slot, value in gamma.items()})
        return _sums(shares)

    def is_probed(self, phase: Phase) -> bool:
        """Whether the correction takes a random probe, and so a key, at this size."""
        is_large = any(Layout.of(value).size > EXACT_LIMIT for value in phase)
        return is_large and any(field.is_probed for field in (*self.diffusion.values(), *self.curl.values()))

    def point_at(self, target: Target, phase: Phase, temperature: Any) -> Point:
        """The point with the full-data potential, computed only where a field reads it."""
        # without a potential a field that reads z.potential raises, with advice
        if not self.reads_potential(phase) or not target.has_potential:
            return Point(phase, temperature=temperature)
        potential, gradient = target.tempered(temperature).evaluate(phase.position, None)
        return Point(phase, potential, gradient, temperature)


def evaluate(target: Target, position: PyTree, batch: PyTree | None, reads_potential: bool) -> tuple[Evaluation, ...]:
    """Potential and gradient, computed once and handed to all that need them; two, cross-fitted, from a pair."""
    if isinstance(batch, BatchPair):
        u_first, g_first = target.evaluate(position, batch.first)
        u_second, g_second = target.evaluate(position, batch.second)
        return Evaluation(g_first, u_second, g_second), Evaluation(g_second, u_first, g_first)
    if reads_potential and batch is not None:
        raise InputError(
            "the recipe reads z.potential, and a metric from the gradient's own batch is biased at every step size: "
            "give two batches drawn independently, eg.BatchPair(first, second), each of half the size"
        )
    potential, gradient = target.evaluate(position, batch)
    return (Evaluation(gradient, potential, gradient),)


def mean_operators(operators: list[Operators]) -> Operators:
    """The average of D or Q over the evaluations of a cross-fitted pair."""
    if len(operators) == 1:
        return operators[0]
    first, second = operators
    return {key: jax.tree.map(lambda a, b: (a + b) / 2, first[key], second[key]) for key in first}


def _sums(shares: Iterable[Mapping[str, Combination | None]]) -> dict[str, Combination]:
    """The sum of the shares of each slot; a slot without any is left out."""
    total: dict[str, Combination] = {}
    for share in shares:
        for slot, value in share.items():
            if value is not None:
                total[slot] = total[slot] + value if slot in total else value
    return total


def _like(phase: Phase, slots: dict[str, Combination]) -> Phase:
    """These slots as a phase, zero elsewhere."""
    return jax.tree.map(jnp.zeros_like, phase)._replace(**{slot: value.value() for slot, value in slots.items()})
