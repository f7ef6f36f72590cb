from .keeping import mean, score
from .optimise import Optimise
from .request import same
from .run import Run, load
from .schedules import cyclical, polynomial

__all__ = ["Optimise", "Run", "cyclical", "load", "mean", "polynomial", "same", "score"]
