"""`eg.sample(target)`: the plan carried out and checked, in memory or on disk.

With `out` everything goes to the folder `run.nc.part`, from which it can be resumed at any point:

    plan.json, plan.npz     what was planned, before the first step: read when resumed, never planned again
    rung-K.json             how long a rung is to become, each time before it is lengthened
    rung-K.nc               a rung that is finished; rung-K.nc.part one that is not (driver/run_file.py)

Rungs are ordinary runs, and every decision follows from their draws: so a run that was killed and resumed ends with the
same bytes.
"""

import json
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import PyTree

from ergodica.diagnostics.accuracy import Accuracy
from ergodica.driver.checkpoint import check_same, reading, starting_over
from ergodica.driver.constrained import as_begun, kept_of
from ergodica.driver.execute import execute
from ergodica.driver.identity import coordinates_digest, data_digest
from ergodica.driver.part_folder import part_folder
from ergodica.driver.request import Request, words
from ergodica.driver.run import Run, load
from ergodica.driver.run_file import AT_ITS_END
from ergodica.errors import InputError
from ergodica.host import seal
from ergodica.host.atomic_files import check_name, could_not, remove_folder, remove_stale, write_whole
from ergodica.host.lock import Lock
from ergodica.host.signals import answered_interrupts, noted_interrupts
from ergodica.host.tracing import digest, traced_digest, versions
from ergodica.kept_programs import keeping_programs
from ergodica.output.files import check_free
from ergodica.output.labelled import named
from ergodica.report import plain
from ergodica.tree import Layout
from ergodica.tuning.curvature import PosteriorRoot
from ergodica.tuning.ladder import MOST_RUNGS, Longer, Outcome, Place, climb, in_memory
from ergodica.tuning.laplace import Laplace, Peak
from ergodica.tuning.noise import Noise
from ergodica.tuning.pilots import metropolis
from ergodica.tuning.plan import Costs
from ergodica.tuning.report import finished_run
from ergodica.tuning.settings import Settings, checked, planned, settings_for

PLAN_FORMAT = 1


def sample_tuned(request: Request) -> Run:
    """The run that reaches the accuracy requested, or says why it does not."""
    if request.out is not None:
        return _on_disk(request)
    if request.resume:
        raise InputError("resume=True continues the run of a file: give its name as `out`")
    with keeping_programs():
        plan = settings_for(request)
    return finished_run(plan, carried_out(plan, in_memory()))


def carried_out(plan: Settings, place: Place) -> Outcome:
    """The ladder, or all data with a Metropolis test; this too where the ladder ends without an answer."""
    if plan.method == "Metropolis":
        return metropolis(plan, place)
    outcome = climb(plan, place)
    spent = sum(rung.passes() for rung in outcome.rungs)
    exact = [way for way in plan.ways if way.method == "Metropolis"]
    # not where it would take ten times what was spent in vain
    if outcome.is_reached or not exact or exact[0].cost > 10 * max(spent, plan.way.cost):
        return outcome
    # a rung of its own: a folder already holds those of the ladder
    second = metropolis(replace(plan, rung=MOST_RUNGS + 1), place)
    if second.answer is None:
        return outcome
    return second._replace(rungs=outcome.rungs + second.rungs, before=f"{plan.method}: {outcome.trouble}")


# -- on disk --------------------------------------------------------------------------------------------


def _on_disk(request: Request) -> Run:
    out = Path(request.out or "")
    folder = part_folder(out)
    check_name(folder)
    advice = f"the same call with resume=True (command line: --resume) resumes {out}"
    with Lock.beside(out), answered_interrupts(advice):
        request = as_begun(request)
        position = checked(request)
        identity = _identity(request, position)
        if request.resume and out.exists():
            found = _finished(out, folder, identity)
            return found if request.target.coordinates is None else as_drawn(found, request, position)
        check_free(out)
        with keeping_programs():
            plan = _plan(request, position, identity, out, folder)
        run = finished_run(plan, carried_out(plan, _place(folder)))
        run = replace(run, settings=run.settings | {"identity": identity})
        with noted_interrupts(advice) as interrupts:
            run.save(out)
            remove_folder(folder, out)
            if interrupts.received is not None:
                interrupts.stop(AT_ITS_END.format(out))
        return run


def _identity(request: Request, position: PyTree) -> dict[str, Any]:
    """What must be the same for a run to be resumed."""
    target = request.target
    bare, keep = target.without_data(), kept_of(request)
    rows = None if target.size is None else target.rows(np.arange(min(2, target.size)))  # type: ignore[attr-defined]
    kept = "draws" if not callable(keep) else traced_digest(keep, position)
    accuracy = words(request.accuracy or Accuracy())
    known = {} if target.coordinates is None else {"coordinates": coordinates_digest(target.coordinates)}
    return plain(known | {
        "tuned": PLAN_FORMAT, "model": traced_digest(lambda q, batch: bare.evaluate(q, batch), position, rows),
        "data": data_digest(target), "start": digest(*(np.asarray(leaf) for leaf in jax.tree.leaves(position))),
        "keep": kept, "accuracy": accuracy, "chains": request.chains, "seed": request.seed,
        "temperature": request.temperature, "versions": versions(),
    })  # fmt: skip


def _finished(out: Path, folder: Path, identity: dict[str, Any]) -> Run:
    found = load(out)
    _check_same(found.settings.get("identity"), identity, out)
    with suppress(OSError, ValueError, KeyError):  # a folder that can only be read, or is not known to be of this run
        remove_stale(out)
        # what a kill left between the last byte of the file and the end
        if json.loads((folder / "plan.json").read_text())["identity"] == identity:
            remove_folder(folder, out)
    return found


def _check_same(before: Any, identity: dict[str, Any], path: Path) -> None:
    if not isinstance(before, dict) or "tuned" not in before:
        raise InputError(
            f"{path} holds a run that was not tuned: resume it with its own settings, or give another `out`"
        )
    check_same(before, identity, path)


def _plan(request: Request, position: PyTree, identity: dict[str, Any], out: Path, folder: Path) -> Settings:
    """The plan, from the folder where there is one."""
    remove_stale(out)
    if folder.exists() and not request.resume and any(folder.iterdir()):
        raise InputError(
            f"{folder} holds an unfinished run: resume it (resume=True, --resume), remove it, or give another `out`"
        )
    path = folder / "plan.json"
    if path.exists():
        return _read_plan(request, position, identity, folder)
    if folder.exists() and any(not other.name.startswith(("plan.", ".plan.")) for other in folder.iterdir()):
        raise InputError(f"{folder} has no plan of a tuned run: {starting_over(folder)}")
    plan = settings_for(request)
    try:
        folder.mkdir(exist_ok=True)
    except OSError as error:
        raise could_not("write", folder, error) from error
    _write_plan(plan, identity, folder)
    return plan


def _write_plan(plan: Settings, identity: dict[str, Any], folder: Path) -> None:
    """The arrays first: plan.json, which has their checksum, says that all of it is there."""
    found, noise = plan.laplace, plan.noise
    arrays: dict[str, np.ndarray] = {}
    for number, peak in enumerate((found.peak, *found.others)):
        arrays |= {f"point {number}": peak.point}
        arrays |= {f"root {number} {name}": array for name, array in peak.root.arrays().items()}
    if noise is not None:
        arrays |= {"noise": noise.values}
        arrays |= {f"noise root {name}": array for name, array in noise.root.arrays().items()}
    write_whole(folder / "plan.npz", lambda file: np.savez(file, **arrays))  # type: ignore[arg-type]
    record = {
        "identity": identity, "settings": plan.to_dict(), "costs": list(plan.costs), "trouble": found.trouble,
        "peaks": [[peak.potential, peak.is_proper, peak.slowest] for peak in (found.peak, *found.others)],
        "spent": [found.evaluations, found.products, None if noise is None else noise.passes],
        "arrays": {name: seal.of_array(array) for name, array in arrays.items()},
    }  # fmt: skip
    text = json.dumps(seal.sealed(plain(record)), indent=1).encode()
    write_whole(folder / "plan.json", lambda file: file.write(text))


def _read_plan(request: Request, position: PyTree, identity: dict[str, Any], folder: Path) -> Settings:
    path, advice = folder / "plan.json", starting_over(folder)
    with reading(path, folder):
        record = seal.unsealed(json.loads(path.read_text()), path, advice)
    with reading(folder / "plan.npz", folder), np.load(folder / "plan.npz", allow_pickle=False) as file:
        arrays = {name: file[name] for name in file.files}
    if {name: seal.of_array(array) for name, array in arrays.items()} != record["arrays"]:
        raise seal.damaged(folder / "plan.npz", advice)
    _check_same(record["identity"], identity, folder)
    peaks = [
        Peak(arrays[f"point {number}"], _root(arrays, f"root {number}"), *told)
        for number, told in enumerate(record["peaks"])
    ]
    evaluations, products, passes = record["spent"]
    found = Laplace(
        Layout.of(jax.tree.map(jnp.asarray, position)), peaks[0], tuple(peaks[1:]), evaluations, products,
        record["trouble"],
    )  # fmt: skip
    noise = None if passes is None else Noise(arrays["noise"], _root(arrays, "noise root"), passes)
    return planned(request, position, found, noise, Costs(*record["costs"]))


def _root(arrays: dict[str, np.ndarray], name: str) -> PosteriorRoot:
    return PosteriorRoot(*(arrays.get(f"{name} {part}") for part in PosteriorRoot._fields))  # type: ignore[arg-type]


def _place(folder: Path) -> Place:
    def made(settings: Settings, label: str, longer: Longer) -> Run:
        out, state = folder / f"rung-{settings.rung}.nc", folder / f"rung-{settings.rung}.json"
        if out.exists():
            return as_drawn(load(out), settings.request, settings.laplace.layout.like())
        lengths = _lengths(state, folder)

        def noted(posterior: PyTree, stats: Any) -> int | None:
            steps = longer(posterior, stats, len(lengths))
            if steps is not None:
                lengths.append(steps)
                text = json.dumps(seal.sealed({"lengths": lengths})).encode()
                write_whole(state, lambda file: file.write(text))
            return steps

        arguments = settings.arguments | {"progress": settings.request.progress, "out": out, "resume": True}
        if lengths:
            arguments["steps"] = lengths[-1]
        request = Request(settings.request.target, **arguments)
        return execute(request, noted, label)

    return Place(made)


def _lengths(state: Path, folder: Path) -> list[int]:
    """Those that a rung was to become, one after the other."""
    if not state.exists():
        return []
    with reading(state, folder):
        return seal.unsealed(json.loads(state.read_text()), state, starting_over(folder))["lengths"]


def as_drawn(run: Run, request: Request, like: PyTree) -> Run:
    """With the tree that the draws had, of which a file knows only the names: decisions go by the order of numbers."""
    keep = kept_of(request)
    like = jax.eval_shape(keep, like) if callable(keep) else like
    found = named(run.posterior)
    leaves = [np.asarray(found[name], leaf.dtype) for name, leaf in named(like).items()]
    posterior = jax.tree.unflatten(jax.tree.structure(like), leaves)
    return replace(run, posterior=posterior, coordinates=request.target.coordinates)
