"""What an unfinished run has left so far, for a look at it; nothing is written."""

from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import PyTree

from ergodica.driver.checkpoint import Saved, read_checkpoint
from ergodica.driver.moments import Running, merged, summed
from ergodica.errors import InputError
from ergodica.output.blocks import BlockFile
from ergodica.output.labelled import Moments, unnamed


def read_part(folder: Path) -> tuple[PyTree, dict[str, np.ndarray], dict[str, Any], Moments | None]:
    """The draws, statistics and moments of the last checkpoint, verified, and the settings."""
    saved = read_checkpoint(folder)
    if saved is None:
        raise InputError(f"{folder} holds no checkpoint: expected the folder of an unfinished run")
    groups: dict[str, dict[str, np.ndarray]] = {"posterior": {}, "sample_stats": {}}
    for name, words in saved.manifest["columns"].items():
        column = BlockFile.described(folder, name, words)
        column.verify(saved.draws, words["sha256"])
        drawn = column.read_as_of(saved.draws, saved.last(name, column))
        group, _, variable = name.partition(".")
        groups.setdefault(group, {})[variable] = np.swapaxes(drawn, 0, 1)
    settings = saved.manifest["settings"] | {"is_finished": False}
    posterior = unnamed(groups["posterior"]) if groups["posterior"] else None
    return posterior, groups["sample_stats"], settings, _moments(saved)


def _moments(saved: Saved) -> Moments | None:
    places = saved.manifest.get("moments")
    if places is None:
        return None

    def running(number: int, *trees: dict[str, int]) -> Running:
        mean, spread = ({name: saved.arrays[i] for name, i in tree.items()} for tree in trees)
        return Running(saved.arrays[number], mean, spread)

    chains = []
    for first, *rest in places:
        total = running(*first)
        for part in rest:
            total = merged(total, running(*part))
        chains.append(total)
    found = summed(chains)
    return Moments(found.count, unnamed(found.mean), unnamed(found.variance))
