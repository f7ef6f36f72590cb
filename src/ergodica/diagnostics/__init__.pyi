# The names of ergodica.diagnostics and where they are: `__init__.py` loads a module when one is first asked for.

from .summary_table import Summary, summary
from .verdict import Diagnosis, diagnose

__all__ = ["Diagnosis", "Summary", "diagnose", "summary"]
