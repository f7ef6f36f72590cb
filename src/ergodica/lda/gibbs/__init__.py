"""Gibbs sampling of the topics of a batch, with the topics' words given: what the gradient of LDA is made of."""

import os

# Numba's threads are OpenMP's, and one that waits spins by default: it would hold a core that JAX, or the thread that
# reads ahead, could use (on a busy machine ten times the processor time). Read when Numba first starts threads.
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")

from ergodica.host.extras import require

require("numba", extra="lda", by="eg.lda")  # before a module imports it

from ergodica.lda.gibbs.estimate import (  # noqa: E402
    Expectations,
    WholeCounts,
    expectations,
    float_counts,
    whole_counts,
)

__all__ = ["Expectations", "WholeCounts", "expectations", "float_counts", "whole_counts"]
