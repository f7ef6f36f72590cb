"""A request carried out: the chains at their start, the loop, and what it leaves."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
from jaxtyping import PyTree

from ergodica.driver.build import Plan, plan_of
from ergodica.driver.draws import in_memory
from ergodica.driver.loop import run_loop
from ergodica.driver.request import Request
from ergodica.driver.run import Run
from ergodica.driver.work import Journal, SampledChains
from ergodica.kept_programs import keeping_programs

Longer = Callable[[PyTree, dict[str, np.ndarray]], int | None]
"""Told the draws and statistics of a run at its end: how many steps it should have instead, or None if they will do.
The steps made stay as they are: the longer run is what it had been with so many steps from the start."""


def execute(request: Request, longer: Longer | None = None, label: str = "sampling") -> Run:
    """The run that was requested; of one that is finished already, what it left.

    Args:
        label: of the progress display.
    """
    request.check()
    if request.out is not None:
        from ergodica.driver.run_file import execute_on_disk

        return execute_on_disk(request, longer, label)
    with keeping_programs():
        plan = plan_of(request, is_resumed=False)
    try:
        store = in_memory(plan.shape, request.kept.draws)
        work = SampledChains(plan.chains, store, Journal(request.total), {}, plan.settings, label)
        run_to_the_end(plan, work, longer, lambda: run_loop(work, plan.pace, None, None, request.progress))
        posterior, stats, settings = store.posterior(), store.statistics(), final_settings(plan, work)
        temperatures = plan.chains.temperatures()
        work.warn_of_what_was_met(stats, settings, temperatures)
        half = half_of(plan.request, settings)
        found = Run(posterior, stats, settings, plan.chains.moments(), temperatures=temperatures, run_halved=half)
        return replace(found, coordinates=plan.request.target.coordinates)
    finally:
        plan.chains.close()


def run_to_the_end(plan: Plan, work: SampledChains, longer: Longer | None, loop: Callable[[], None]) -> None:
    """The loop, and again where the run should be longer."""
    loop()
    while longer is not None:
        steps = longer(work.store.posterior(), work.store.statistics())
        if steps is None or steps <= plan.request.steps:
            return
        plan.extend(steps)
        work.journal.total = plan.request.total
        work.store.reserve(plan.request.kept.draws)
        loop()


def final_settings(plan: Plan, work: SampledChains) -> dict[str, Any]:
    """With what is known only at the end."""
    settings = plan.settings | {
        "seconds": round(work.journal.seconds, 3),
        "frozen": [one._asdict() for one in work.journal.frozen],
    }
    if plan.request.share_batches and plan.request.chains > 1:
        from ergodica.diagnostics.columns import chain_correlation

        settings["chain_correlation"] = chain_correlation(work.store.posterior())
    return settings


def half_of(request: Request, settings: dict[str, Any]) -> Callable[[], Run]:
    """Makes the run with half the step size, when it is asked for."""
    return lambda: execute(request.halved(settings))
