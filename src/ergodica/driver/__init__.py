"""sample(): from target and recipe to draws."""

from ergodica.driver.run import Run, load
from ergodica.driver.same import same
from ergodica.driver.sample import sample
from ergodica.driver.schedules import cyclical, polynomial

__all__ = ["Run", "cyclical", "load", "polynomial", "same", "sample"]
