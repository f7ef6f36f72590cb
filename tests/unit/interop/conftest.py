"""What all tests of bridges run under."""

import jax
import pytest


@pytest.fixture(scope="module", autouse=True)
def promotion():
    """Other libraries are written for JAX's defaults; not by a context, which holds for one thread."""
    jax.config.update("jax_numpy_dtype_promotion", "standard")
    jax.config.update("jax_numpy_rank_promotion", "allow")
    yield
    jax.config.update("jax_numpy_dtype_promotion", "strict")
    jax.config.update("jax_numpy_rank_promotion", "raise")
