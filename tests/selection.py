"""Which of a test's parameters are in `make test`, and which only in `make test-all`; which files hold in float32."""

import os
from collections.abc import Callable, Iterable
from typing import Any

import pytest

# Files that are run in 32 bits too, and their tests that are not: those compare with tolerances, dtypes or sizes in
# memory of 64 bits. `test_starts_stay_inside_the_domain` is an open question: in 32 bits 15 of its 20 starts differ.
FLOAT32: dict[str, tuple[str, ...]] = {
    "cli/test_sample.py": (),
    "unit/data/test_damaged.py": (),
    "unit/data/test_sources.py": ("test_a_posterior_over_a_source_is_the_one_in_memory",),
    "unit/data/test_stream.py": (),
    "unit/driver/test_frozen.py": ("test_chains_in_a_group_are_frozen_apart_and_frozen_draws_are_no_part_of_moments",),
    "unit/driver/test_keep.py": (
        "test_a_function_of_the_position_is_kept_in_its_place",
        "test_moments_are_those_of_the_draws",
        "test_the_statistics_are_what_they_say",
        "test_kinetic_temperature_is_weighed_with_the_mass",
        "test_leapfrog_notes_the_gradient_where_it_ends",
        "test_draws_that_do_not_fit_say_how_much_they_need",
    ),
    "unit/driver/test_starts.py": (
        "test_a_function_gives_every_chain_its_start",
        "test_starts_stay_inside_the_domain",
    ),
    "unit/output/test_blocks.py": (),
    "unit/output/test_damage.py": (),
    "unit/output/test_files.py": (),
    "unit/output/test_names.py": (),
    "unit/test_bad_input.py": (),
    "unit/test_kernel.py": (
        "test_a_chain_under_vmap_is_the_chain_alone",
        "test_gradient_through_a_step_is_that_of_finite_differences",
        "test_gradient_through_dense_noise_where_eigenvalues_meet",
    ),
    "unit/test_phase.py": (
        "test_batches_are_unbiased",
        "test_cross_fitted_sgrld_has_the_drift_of_the_mean_metric",
        "test_the_same_batch_for_both_is_biased_by_their_covariance",
        "test_cross_fitted_gsgrhmc_has_the_drift_of_the_mean_metric",
    ),
}


def every(step: int, cases: Iterable[tuple[Any, ...]]) -> list[Any]:
    """Cases of several arguments as parameters, all but one in `step` of them marked long."""
    return [pytest.param(*case, marks=pytest.mark.long if i % step else ()) for i, case in enumerate(cases)]


def long_unless(cases: Iterable[Any], *short: str, name: Callable[[Any], str] = str) -> list[Any]:
    """The cases as parameters, those not named `short` marked long: what they share is seen in these already."""
    cases = list(cases)
    unknown = set(short) - {name(case) for case in cases}
    assert not unknown, f"no such cases: {unknown}"
    return [case if name(case) in short else pytest.param(case, marks=pytest.mark.long) for case in cases]


def is_float32() -> bool:
    """Whether this is the pass in JAX's default precision: `make test-float32`."""
    return os.environ.get("ERGODICA_FLOAT32", "") not in ("", "0")
