from .keeping import mean, score
from .request import same
from .run import Run, load
from .schedules import cyclical, polynomial

__all__ = ["Run", "cyclical", "load", "mean", "polynomial", "same", "score"]
