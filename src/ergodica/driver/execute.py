"""A request carried out: the chains at their start, the loop, and what it leaves."""

from collections.abc import Callable
from typing import Any

from ergodica.driver.build import Plan, plan_of
from ergodica.driver.draws import in_memory
from ergodica.driver.loop import run_loop
from ergodica.driver.request import Request
from ergodica.driver.run import Run
from ergodica.driver.work import Journal, SampledChains
from ergodica.kept_programs import keeping_programs


def execute(request: Request) -> Run:
    """The run that was requested; of one that is finished already, what it left."""
    request.check()
    if request.out is not None:
        from ergodica.driver.run_file import execute_on_disk

        return execute_on_disk(request)
    with keeping_programs():
        plan = plan_of(request, is_resumed=False)
    try:
        store = in_memory(plan.shape, request.kept.draws)
        work = SampledChains(plan.chains, store, Journal(request.total), {}, plan.settings)
        run_loop(work, plan.pace, None, None, request.progress)
        posterior, stats, settings = store.posterior(), store.statistics(), final_settings(plan, work)
        work.warn_of_what_was_met(stats, settings)
        return Run(posterior, stats, settings, plan.chains.moments(), run_halved=half_of(request, settings))
    finally:
        plan.chains.close()


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
