"""The exact law of a linear sampler's *discrete* chain on a Gaussian target, derived by hand.

Target U(q) = (q - m)^T K (q - m) / 2, momentum energy r^T M^-1 r / 2, law exp(-H/T). With constant D, Q and M every
integrator here is z' = A z + b + w with w ~ N(0, S) fresh each step, so the law of the chain is Gaussian at every
step and its stationary covariance solves Sigma = A Sigma A^T + S: bias of the step size included, no sampling.

An oracle: it imports nothing from `ergodica`, so that an error there cannot be repeated here.

The stochastic gradient is K (q - m) + n, n ~ N(0, V) fresh each step. `compensate` says what is done about n:
None: exact gradients (V is not read); False: n is there and left alone; True: n is there and the injected noise is
reduced by the covariance that n adds. Where the reduced covariance is not PSD it is cut at zero (see `cut`).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.linalg import block_diag, expm, solve_discrete_lyapunov

Array = NDArray[np.float64]


class Law(NamedTuple):
    """A Gaussian law."""

    mean: Array
    covariance: Array


class HasMoments(Protocol):
    """What `deviation` reads: a `Law`, or a `LinearChain` for its stationary law."""

    @property
    def mean(self) -> Array: ...
    @property
    def covariance(self) -> Array: ...


@dataclass(frozen=True, eq=False)
class LinearChain:
    """z' = transition z + offset + N(0, noise), the phase z = (position) or (position, momentum)."""

    transition: Array
    offset: Array
    noise: Array

    @cached_property
    def radius(self) -> float:
        """Spectral radius of the transition; the chain has a stationary law only below 1."""
        return float(np.max(np.abs(np.linalg.eigvals(self.transition))))

    @cached_property
    def mean(self) -> Array:
        """Stationary mean, (1 - A)^-1 b."""
        self._require_stationary()
        return np.linalg.solve(np.eye(len(self.offset)) - self.transition, self.offset)

    @cached_property
    def covariance(self) -> Array:
        """Stationary covariance, the solution of Sigma = A Sigma A^T + S."""
        self._require_stationary()
        sigma = solve_discrete_lyapunov(self.transition, self.noise)
        return (sigma + sigma.T) / 2

    def after(self, k: int, mean0: ArrayLike, cov0: ArrayLike) -> Law:
        """The law after k steps from N(mean0, cov0); needs no stationary law."""
        mean, cov = np.array(mean0, float), np.array(cov0, float)
        for _ in range(k):
            mean = self.transition @ mean + self.offset
            cov = self.transition @ cov @ self.transition.T + self.noise
        return Law(mean, cov)

    def covariance_after(self, k: int, sigma0: ArrayLike) -> Array:
        """The covariance after k steps from covariance sigma0 (it does not depend on the mean)."""
        return self.after(k, np.zeros_like(self.offset), sigma0).covariance

    def _require_stationary(self) -> None:
        if not self.radius < 1:
            raise ValueError(
                f"the spectral radius of the transition is {self.radius:.6g}, expected below 1: "
                "this chain has no stationary law; take a smaller step, or more diffusion"
            )


def euler(
    K: ArrayLike, m: ArrayLike, *, diffusion: Sequence[ArrayLike], eps: float,
    Q: ArrayLike | None = None, M: ArrayLike | None = None, T: float = 1.0,
    V: ArrayLike | None = None, compensate: bool | None = None,
) -> LinearChain:  # fmt: skip
    """Euler: z <- z - eps (D + Q) grad H + N(0, eps (2 T D - eps B)), B = (D + Q) blkdiag(V, 0) (D + Q)^T.

    diffusion: the blocks (D_q,) or, with a mass M, (D_q, D_r); each a scalar, a diagonal or a matrix. Q: the whole
    skew matrix of the phase. A scalar M takes its size from Q.
    """
    K, m = _potential(K, m)
    d_q = len(m)
    if M is None:
        sizes, hessian = [d_q], K
    else:
        M = _mass(M, d_q if Q is None else len(np.atleast_2d(Q)) - d_q)
        sizes, hessian = [d_q, len(M)], block_diag(K, np.linalg.inv(M))
    if len(diffusion) != len(sizes):
        raise ValueError(f"got {len(diffusion)} diffusion blocks, expected {len(sizes)}: one per slot")
    D = block_diag(*(_psd("a diffusion block", block, size) for block, size in zip(diffusion, sizes, strict=True)))
    push = D + (np.zeros_like(D) if Q is None else _skew(Q, len(D)))

    # grad H = hessian (z - mu) + (n, 0): the drift is linear in z - mu, and n enters as -eps (D + Q)(n, 0).
    transition = np.eye(len(D)) - eps * push @ hessian
    from_gradient = np.zeros_like(D)
    if compensate is not None:
        from_gradient = eps**2 * push[:, :d_q] @ _gradient_noise(V, d_q) @ push[:, :d_q].T
    return _centred(transition, m, _total_noise(2 * eps * T * D, from_gradient, compensate))


def aboba(
    K: ArrayLike, m: ArrayLike, *, diffusion: ArrayLike, eps: float,
    R: ArrayLike = 1.0, M: ArrayLike = 1.0, T: float = 1.0,
    V: ArrayLike | None = None, compensate: bool | None = None,
) -> LinearChain:  # fmt: skip
    """Half move, half kick, exact friction, half kick with the *same* gradient, half move.

    R = Q_rq and diffusion = D_r. With x = q - m at the half-moved position and h = eps/2,
    r <- a (r - h R g) + N(0, O) - h R g = a r - h (1 + a) R g + N(0, O), where g = K x + n.
    """
    K, m, R, M, a, friction = _parts(K, m, diffusion, eps, R, M, T)
    h = eps / 2
    kick = h * (np.eye(len(a)) + a) @ R
    move = _move(h, R, M)
    transition = move @ _kicked(kick @ K, a) @ move
    return _with_momentum_noise(transition, m, move, friction, kick, V, compensate)


def boa(
    K: ArrayLike, m: ArrayLike, *, diffusion: ArrayLike, eps: float,
    R: ArrayLike = 1.0, M: ArrayLike = 1.0, T: float = 1.0,
    V: ArrayLike | None = None, compensate: bool | None = None,
) -> LinearChain:  # fmt: skip
    """Kick with the gradient at the start, exact friction, move with the new momentum.

    R = Q_rq and diffusion = D_r: r <- a (r - eps R g) + N(0, O), then q <- q + eps R^T M^-1 r.
    """
    K, m, R, M, a, friction = _parts(K, m, diffusion, eps, R, M, T)
    kick = eps * a @ R
    move = _move(eps, R, M)
    transition = move @ _kicked(kick @ K, a)
    return _with_momentum_noise(transition, m, move, friction, kick, V, compensate)


def curl_of(R: ArrayLike, d_q: int, d_r: int) -> Array:
    """The skew Q of the phase (position, momentum) with Q_rq = R and Q_qr = -R^T."""
    R = _matrix("R", R, (d_r, d_q))
    return np.block([[np.zeros((d_q, d_q)), -R.T], [R, np.zeros((d_r, d_r))]])


def cut(covariance: Array) -> Array:
    """The nearest PSD matrix: negative eigenvalues become 0 (for a diagonal matrix: negative entries)."""
    values, vectors = np.linalg.eigh(covariance)
    return (vectors * np.maximum(values, 0)) @ vectors.T


def standard_errors(cov: ArrayLike, n: int) -> Array:
    """Standard error of each entry of the sample covariance of n independent Gaussian draws.

    sqrt((S_ii S_jj + S_ij^2) / (n - 1)), the variance of a Wishart entry over (n - 1)^2.
    """
    cov = np.asarray(cov, float)
    variances = np.diag(cov)
    return np.sqrt((np.outer(variances, variances) + cov**2) / (n - 1))


class Deviation(NamedTuple):
    """Largest distance of a sample covariance and of a sample mean from the truth, in standard errors."""

    covariance: float
    mean: float


def deviation(samples: ArrayLike, chain: HasMoments) -> Deviation:
    """Compare *independent* draws, shaped (n, d), with a chain's stationary law or with a `Law`.

    A NaN or infinity among the draws counts as infinitely far, so that `max(deviation(...)) < 4.5` cannot pass on it.
    """
    samples = np.asarray(samples, float)
    if samples.ndim != 2 or samples.shape[1] != len(chain.mean):
        raise ValueError(f"got samples of shape {samples.shape}, expected (n, {len(chain.mean)})")
    if not np.all(np.isfinite(samples)):
        return Deviation(np.inf, np.inf)
    n = len(samples)
    variances = np.diag(chain.covariance)
    if not np.all(variances > 0):
        raise ValueError(f"got variances {variances}, expected positive ones: a deviation is in units of them")
    error = np.atleast_2d(np.cov(samples, rowvar=False)) - chain.covariance
    mean_error = samples.mean(axis=0) - chain.mean
    return Deviation(
        float(np.max(np.abs(error) / standard_errors(chain.covariance, n))),
        float(np.max(np.abs(mean_error) / np.sqrt(variances / n))),
    )


def _parts(
    K: ArrayLike, m: ArrayLike, diffusion: ArrayLike, eps: float, R: ArrayLike, M: ArrayLike, T: float
) -> tuple[Array, Array, Array, Array, Array, Array]:
    """Matrices of a splitting: a = exp(-eps D_r M^-1), and the covariance of its exact friction.

    dr = -D_r M^-1 r dt + sqrt(2 T D_r) dW has stationary covariance T M (D_r M^-1 T M is symmetric and equals T D_r);
    over a time eps the part T a M a^T of it is remembered, so T (M - a M a^T) is new.
    """
    K, m = _potential(K, m)
    d_r = len(m) if np.ndim(R) == 0 else np.shape(R)[0]
    R, M = _matrix("R", R, (d_r, len(m))), _mass(M, d_r)
    a = expm(-eps * _psd("the diffusion", diffusion, d_r) @ np.linalg.inv(M))
    return K, m, R, M, a, T * (M - a @ M @ a.T)


def _move(time: float, R: Array, M: Array) -> Array:
    """q <- q + time R^T M^-1 r."""
    d_r, d_q = R.shape
    return np.block([[np.eye(d_q), time * R.T @ np.linalg.inv(M)], [np.zeros((d_r, d_q)), np.eye(d_r)]])


def _kicked(force: Array, a: Array) -> Array:
    """r <- a r - force x, x = q - m."""
    d_r, d_q = force.shape
    return np.block([[np.eye(d_q), np.zeros((d_q, d_r))], [-force, a]])


def _with_momentum_noise(
    transition: Array, m: Array, move: Array, friction: Array, kick: Array, V: ArrayLike | None, compensate: bool | None
) -> LinearChain:
    """Both noises of a splitting, friction's and -kick n, enter the momentum and are carried on by the last move."""
    from_gradient = np.zeros_like(friction)
    if compensate is not None:
        from_gradient = kick @ _gradient_noise(V, len(m)) @ kick.T
    total = _total_noise(friction, from_gradient, compensate)
    last = move[:, len(m) :]
    return _centred(transition, m, last @ total @ last.T)


def _total_noise(injected: Array, from_gradient: Array, compensate: bool | None) -> Array:
    """What is injected (reduced and cut, when compensated) plus what the gradient brings."""
    return (cut(injected - from_gradient) if compensate else injected) + from_gradient


def _centred(transition: Array, m: Array, noise: Array) -> LinearChain:
    """The chain whose steps are linear in z - mu, mu = (m, 0): z' = mu + A (z - mu) + w."""
    mu = np.concatenate([m, np.zeros(len(transition) - len(m))])
    return LinearChain(transition, mu - transition @ mu, (noise + noise.T) / 2)


def _matrix(name: str, value: ArrayLike, shape: tuple[int, int]) -> Array:
    """A matrix from a scalar (times identity), a diagonal, or a matrix."""
    array = np.asarray(value, float)
    if array.ndim < 2 and shape[0] == shape[1]:
        array = np.diag(np.broadcast_to(array, shape[:1]))
    if array.shape != shape:
        raise ValueError(f"{name} has shape {np.shape(value)}, expected {shape}")
    return array


def _psd(name: str, value: ArrayLike, size: int) -> Array:
    matrix = _matrix(name, value, (size, size))
    if not np.allclose(matrix, matrix.T, rtol=0, atol=1e-12 * np.max(np.abs(matrix))):
        raise ValueError(f"{name} is not symmetric: got\n{matrix}")
    if (lowest := np.linalg.eigvalsh(matrix)[0]) < -1e-12 * np.max(np.abs(matrix)):
        raise ValueError(f"{name} has the eigenvalue {lowest:.3g}, expected none below 0")
    return matrix


def _potential(K: ArrayLike, m: ArrayLike) -> tuple[Array, Array]:
    m = np.atleast_1d(np.asarray(m, float))
    return _psd("K", K, len(m)), m


def _mass(M: ArrayLike, size: int) -> Array:
    return _psd("the mass", M, size)


def _gradient_noise(V: ArrayLike | None, size: int) -> Array:
    if V is None:
        raise ValueError("got compensate without V; give the gradient noise V, or compensate=None for exact gradients")
    return _psd("the gradient noise", V, size)


def _skew(Q: ArrayLike, size: int) -> Array:
    matrix = _matrix("Q", Q, (size, size))
    if not np.allclose(matrix, -matrix.T, rtol=0, atol=1e-12 * np.max(np.abs(matrix))):
        raise ValueError(f"Q is not skew-symmetric: got\n{matrix}")
    return matrix
