"""From a request to a run: chains in compiled chunks, draws, checkpoints, resuming.

request -> build (a Plan) -> execute: loop over chunks (work, engine, chunk) -> run
"""

from ergodica.driver.request import same
from ergodica.driver.run import Run, load
from ergodica.driver.schedules import cyclical, polynomial

__all__ = ["Run", "cyclical", "load", "polynomial", "same"]
