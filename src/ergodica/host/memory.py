"""How much memory can be taken: what the machine has, and what a container or a queue allows."""

import os
from pathlib import Path

GROUPS = Path("/sys/fs/cgroup")


def available_memory() -> int:
    """Bytes that can be taken without swapping, or being killed for it."""
    return min([_of_machine(), *_of_groups()])


def readable(size: float) -> str:
    """Bytes as people say them: 3.2 GB."""
    for unit in ("bytes", "kB", "MB", "GB"):
        if size < 1000:
            return f"{size:.3g} {unit}"
        size /= 1000
    return f"{size:,.4g} TB"


def _of_machine() -> int:
    try:
        for line in Path("/proc/meminfo").read_text().splitlines():
            if line.startswith("MemAvailable:"):
                return int(line.split()[1]) * 1024
    except OSError:
        pass
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def _of_groups(own: Path = Path("/proc/self/cgroup")) -> list[int]:
    """What is left in the control group of this process and in those around it, versions 1 and 2."""
    found = []
    try:
        lines = [line.split(":", 2) for line in own.read_text().splitlines()]
    except OSError:
        return found
    for _, controllers, path in lines:
        if "memory" in controllers.split(","):
            names, root = ("memory.limit_in_bytes", "memory.usage_in_bytes"), GROUPS / "memory"
        elif controllers == "":
            names, root = ("memory.max", "memory.current"), GROUPS
        else:
            continue
        # in a container the path may be that of the host, and only the root is there
        here = root / path.lstrip("/")
        folders = [here, *here.parents]
        found += [_left(folder, *names) for folder in folders[: folders.index(root) + 1]]
    return [left for left in found if left is not None]


def _left(folder: Path, limit: str, usage: str) -> int | None:
    try:
        most, used = int((folder / limit).read_text()), int((folder / usage).read_text())
        kinds = dict(line.split() for line in (folder / "memory.stat").read_text().splitlines())
    except (OSError, ValueError):  # not there, or "max"
        return None
    # pages of files that nobody has looked at lately are given up when memory is short
    idle = int(kinds.get("total_inactive_file", kinds.get("inactive_file", 0)))
    return max(0, most - used + idle)
