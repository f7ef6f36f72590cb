"""The tests of ergodica and these run under the same: float64, strict promotion, and the shared data."""

from tests.conftest import data_dir, old_objects

__all__ = ["data_dir", "old_objects"]
