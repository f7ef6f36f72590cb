"""What a run keeps where the user's functions see something else than what is sampled (targets/coordinates.py)."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import equinox as eqx
import numpy as np
from jaxtyping import PyTree

from ergodica.driver.keys import Purpose, seed_words, start_keys
from ergodica.driver.request import PerChain, Request, Same
from ergodica.errors import InputError
from ergodica.targets import Target
from ergodica.targets.coordinates import Coordinates, begun_at, in_coordinates
from ergodica.targets.networks import is_start_function


class AsSampled(eqx.Module):
    """`keep` of pilots: the numbers that chains move, whatever users see of them."""

    def __call__(self, u: PyTree) -> PyTree:
        return u


class SeenFunction(eqx.Module):
    """A function of what users see, as one of what is sampled; without one, the draw."""

    coordinates: Coordinates
    function: Callable[[PyTree], PyTree] | None = None

    def __call__(self, u: PyTree) -> PyTree:
        if self.function is None:
            return self.coordinates.drawn(u)
        return self.function(self.coordinates.seen(u))


def kept_of(request: Request) -> Any:
    """`keep`, of what is sampled: "draws", "moments", or a function of u."""
    coordinates, keep = request.target.coordinates, request.keep
    if coordinates is None or isinstance(keep, AsSampled):
        return keep
    if callable(keep):
        return SeenFunction(coordinates, keep)
    if coordinates.is_drawn_as_sampled:
        return keep
    if keep == "moments":
        raise InputError(
            "keep='moments' of a target with transform= would be those of the unconstrained numbers: use keep='draws', "
            "or a function of the position"
        )
    return SeenFunction(coordinates)


def as_sampled(request: Request) -> Any:
    """`keep` for all that chains move, as they hold it."""
    coordinates = request.target.coordinates
    return "draws" if coordinates is None or coordinates.is_drawn_as_sampled else AsSampled()


def as_begun(request: Request) -> Request:
    """The request for a target that knows its coordinates, and the temperature that its Jacobian is taken at."""
    target, init = request.target, request.init
    if not isinstance(target, Target):  # refused by who knows what was expected
        return request
    if target.init is None and isinstance(init, PerChain):
        target = in_coordinates(target, init.coordinates or target.coordinates)
    elif target.init is None:
        target = begun_at(target, _first_given(init, request.seed))
    target = target.tempered(request.temperature)
    return request if target is request.target else replace(request, target=target)


def _first_given(init: Any, seed: int) -> PyTree:
    """The start of chain 0, as the user gave it."""
    init = init.position if isinstance(init, Same) else init
    return init(start_key(seed, 0, Purpose.START)) if is_start_function(init) else init


def start_key(seed: int, chain: int, purpose: Purpose) -> Any:
    keys = start_keys(seed_words(seed), np.asarray(chain, np.int32))
    return keys[0 if purpose is Purpose.INIT else 1]
