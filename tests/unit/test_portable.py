"""Every module can be imported where the system has no `fcntl`, no `resource` and no `os.sched_getaffinity`."""

import subprocess
import sys

# What Windows does not have, and macOS only in part. A module that is None in sys.modules cannot be imported.
ELSEWHERE = """
import importlib, os, pkgutil, sys

for name in ("fcntl", "resource", "pwd", "grp", "termios"):
    sys.modules[name] = None
for name in ("sched_getaffinity", "posix_fallocate", "preadv", "pread", "pwrite", "fork", "sysconf", "O_CLOEXEC"):
    if hasattr(os, name):
        delattr(os, name)

import ergodica

names = [module.name for module in pkgutil.walk_packages(ergodica.__path__, "ergodica.")]
for name in names:
    importlib.import_module(name)
assert "ergodica.driver.execute" in names
print(len(names))
"""


def test_every_module_is_imported_without_what_unix_alone_has():
    done = subprocess.run([sys.executable, "-c", ELSEWHERE], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) > 100
