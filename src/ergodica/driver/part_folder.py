"""An unfinished run on disk: the folder `run.nc.part`, which becomes `run.nc`.

posterior.<name>.bin, sample_stats.<name>.bin     draws and statistics, appended as they come (output/blocks.py)
checkpoint.npz                                     all else (checkpoint.py); how many draws belong to it, their
                                                   checksums, and the last of them, which may still be withdrawn
"""

from pathlib import Path
from typing import Any

import jax
import numpy as np
from jaxtyping import PyTree

from ergodica.driver.checkpoint import CHECKPOINT_FILE, Saved, read_checkpoint, starting_over
from ergodica.driver.draws import Store
from ergodica.errors import InputError
from ergodica.host.lock import LOCK_FILE
from ergodica.output.blocks import BlockFile
from ergodica.output.labelled import Moments, moment_variables, moments_from, unnamed

MOMENTS = "moments "


def part_folder(out: Path | str) -> Path:
    return Path(f"{out}.part")


class DrawFiles:
    """The files of draws beside a checkpoint, as they were when it was taken."""

    def __init__(self, store: Store):
        columns = columns_of(store)
        self._columns = list(columns.values())
        self.record = {name: column.description() for name, column in columns.items()}
        self.last = {
            f"last {name}": np.frombuffer(column.last().tobytes(), np.uint8) for name, column in columns.items()
        }

    def write(self, folder: Path) -> dict[str, Any]:
        for column in self._columns:
            column.sync()
        return self.record

    def clean(self, folder: Path) -> None:
        pass


def columns_of(store: Store) -> dict[str, BlockFile]:
    """The columns of a store on disk, by the names of their files."""
    columns = {f"posterior.{name}": column for name, column in store.leaves.items()}
    columns |= {f"sample_stats.{name}": column for name, column in store.stats.items()}
    return columns  # pyright: ignore[reportReturnType]


def numbered_leaves(tree: PyTree) -> dict[str, np.ndarray]:
    """The leaves of what the chains save, as copies: the chains go on while these are written."""
    return {f"leaf {i}": np.array(leaf) for i, leaf in enumerate(jax.tree.leaves(tree))}


def leaves_into(saved: Saved, like: PyTree, folder: Path) -> PyTree:
    """The saved leaves in the tree of a run that has just begun."""
    leaves, structure = jax.tree.flatten(like)
    found = [saved.arrays[name] for name in saved.arrays if name.startswith("leaf ")]
    expected = [(np.shape(leaf), np.asarray(leaf).dtype) for leaf in leaves]
    if [(array.shape, array.dtype) for array in found] != expected:
        raise InputError(f"the chains in {folder} have other shapes or dtypes than this run's: it is another model")
    return jax.tree.unflatten(structure, found)


def cut_to(saved: Saved, store: Store) -> None:
    """Cut the draws to those of the checkpoint; refused, before any is cut, where they are not as they were."""
    columns = columns_of(store)
    for name, column in columns.items():
        words = saved.beside.get(name, {})
        if (words.get("dtype"), words.get("shape")) != (column.dtype.name, list(column.shape)):
            raise InputError(f"{column.path} has other draws than this run: it is another model")
        column.verify(_draws(saved), words["sha256"])
    for name, column in columns.items():
        column.go_back(_draws(saved), _last(saved, name, column))


def _draws(saved: Saved) -> int:
    return int(saved.record["draws"])


def _last(saved: Saved, name: str, column: BlockFile) -> np.ndarray:
    """The last draw of a column, (1, ...), or none."""
    return saved.arrays[f"last {name}"].view(column.dtype).reshape(min(1, _draws(saved)), *column.shape)


def check_ours(folder: Path) -> None:
    """Refuse a folder without a checkpoint, unless it holds no more than a run that was killed before its first."""
    if (folder / CHECKPOINT_FILE).exists():
        return
    if (folder / "plan.json").exists():
        raise InputError(
            f"{folder} holds an unfinished run that was tuned: resume it without recipe, steps and step_size "
            "(--sampler, --steps and --step-size), or give another `out`"
        )
    for path in folder.iterdir():
        if path.suffix not in (".bin", ".json") and path.name != LOCK_FILE and CHECKPOINT_FILE not in path.name:
            raise InputError(f"{folder} holds {path.name} and no checkpoint: it is not of a run, give another `out`")
        if path.suffix == ".bin" and path.stat().st_size:
            raise InputError(
                f"{folder} holds draws ({path.name}) but no {CHECKPOINT_FILE}, without which they cannot be continued: "
                f"{starting_over(folder)}"
            )


# -- reading one that is not finished; nothing is written -----------------------------------------------


def read_part(folder: Path) -> tuple[PyTree, dict[str, np.ndarray], dict[str, Any], Moments | None]:
    """The draws, statistics and moments of the last checkpoint, verified, and the settings."""
    saved = read_checkpoint(folder)
    if saved is None:
        rungs = sorted({str(path).removesuffix(".part") for path in folder.glob("rung-*.nc*")})
        if rungs:
            raise InputError(f"{folder} is of a tuned run, which has no answer yet: parts of it are {', '.join(rungs)}")
        raise InputError(f"{folder} holds no checkpoint: expected the folder of an unfinished run")
    groups: dict[str, dict[str, np.ndarray]] = {"posterior": {}, "sample_stats": {}}
    for name, words in saved.beside.items():
        column = BlockFile.described(folder, name, words)
        column.verify(_draws(saved), words["sha256"])
        drawn = column.read_as_of(_draws(saved), _last(saved, name, column))
        group, _, variable = name.partition(".")
        groups.setdefault(group, {})[variable] = np.swapaxes(drawn, 0, 1)
    settings = saved.record["settings"] | {"is_finished": False}
    posterior = unnamed(groups["posterior"]) if groups["posterior"] else None
    moments = {name.removeprefix(MOMENTS): x for name, x in saved.arrays.items() if name.startswith(MOMENTS)}
    return posterior, groups["sample_stats"], settings, moments_from(moments)


def moment_arrays(moments: Moments | None) -> dict[str, np.ndarray]:
    """What a checkpoint holds of them, for those who read it without the target."""
    return {} if moments is None else {MOMENTS + name: np.array(x) for name, x in moment_variables(moments).items()}
