"""A second tensor of the same size takes the memory of the first, without asking the system for pages."""

import platform
import subprocess
import sys

import pytest

PROGRAM = """
import resource, sys, torch
from mooring.bench.allocator import keep_freed_memory
if sys.argv[1] == "keep":
    assert keep_freed_memory()
def faults():
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt
torch.ones(2**27)
before = faults()
torch.ones(2**27)
print(faults() - before)
"""


def pages(how: str) -> int:
    done = subprocess.run([sys.executable, "-c", PROGRAM, how], capture_output=True, text=True, check=True)
    return int(done.stdout)


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="mallopt is glibc's")
def test_freed_memory_is_kept_once_asked_for() -> None:
    # Pages may be huge ones, of which 512 MiB has 256; a busy system takes some back on its own.
    assert pages("keep") < 128
    assert pages("give back") >= 256
