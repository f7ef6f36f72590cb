"""The exact law of the discrete chain on a Gaussian target."""

from ergodica.verify.discrete.exact import exact_law
from ergodica.verify.discrete.law import DiscreteLaw, LawTable

__all__ = ["DiscreteLaw", "LawTable", "exact_law"]
