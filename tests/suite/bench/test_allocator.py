"""A tensor takes the memory of an earlier one of its size, without asking the system for pages."""

import platform
import subprocess
import sys

import pytest

PROGRAM = """
import resource, sys, torch
from mooring.suite.bench.allocator import keep_freed_memory
if sys.argv[1] == "keep":
    assert keep_freed_memory()
def faults():
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt
counts = []
for _ in range(6):
    before = faults()
    torch.ones(2**26)
    counts.append(faults() - before)
print(min(counts))
"""


def pages(how: str) -> int:
    done = subprocess.run([sys.executable, "-c", PROGRAM, how], capture_output=True, text=True, check=True)
    return int(done.stdout)


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="mallopt is glibc's")
def test_freed_memory_is_kept_once_asked_for() -> None:
    # The least of several, as in timings: now and then another block has taken a piece out of the hole. Pages may be
    # huge ones, of which 256 MiB has 128.
    assert pages("keep") < 32
    assert pages("give back") >= 128
