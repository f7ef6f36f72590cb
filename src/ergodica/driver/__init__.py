"""sample(): from target and recipe to draws."""

from ergodica.driver.run import Run
from ergodica.driver.sample import sample

__all__ = ["Run", "sample"]
