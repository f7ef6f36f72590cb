"""Rows and batches: arrays, files larger than memory, iterables, and shuffled streams from them."""

from ergodica.data.arrays import npy
from ergodica.data.iterable import Batches, batches
from ergodica.data.parquet import parquet
from ergodica.data.source import Source
from ergodica.data.stream import Stream, open_stream

__all__ = ["Batches", "Source", "Stream", "batches", "npy", "open_stream", "parquet"]
