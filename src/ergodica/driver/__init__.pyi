from .request import same
from .run import Run, load
from .schedules import cyclical, polynomial

__all__ = ["Run", "cyclical", "load", "polynomial", "same"]
