"""Data larger than memory: sources that read rows by their numbers, and streams of shuffled batches from them."""

from ergodica.data.batches import Batches, batches
from ergodica.data.npy import npy
from ergodica.data.parquet import parquet
from ergodica.data.stream import Stream, open_stream
from ergodica.targets.source import Source

__all__ = ["Batches", "Source", "Stream", "batches", "npy", "open_stream", "parquet"]
