# The public names of ergodica.data and where they are: `__init__.py` loads a module when one is first asked for.

from .arrays import npy
from .iterable import Batches, batches
from .parquet_files import parquet
from .source import Source
from .stream import Stream, open_stream

__all__ = ["Batches", "Source", "Stream", "batches", "npy", "open_stream", "parquet"]
