"""Verdicts on draws: did the chains meet, how many draws are they worth, and is it the law that was asked for?"""

from ergodica.diagnostics.summary import summary
from ergodica.diagnostics.verdict import Diagnosis, diagnose

__all__ = ["Diagnosis", "diagnose", "summary"]
