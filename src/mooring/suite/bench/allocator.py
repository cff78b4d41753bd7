"""Whether freed memory goes back to the system between two timings."""

from __future__ import annotations

import ctypes
import platform

# Names of glibc's mallopt(3).
M_TRIM_THRESHOLD, M_MMAP_MAX = -1, -4
NEVER = -1


def keep_freed_memory() -> bool:
    """Let this process keep what it frees, as a caching allocator does; False where the C library cannot.

    Otherwise a tensor of half a gigabyte is given back after every pass and fetched again, page by page, before the
    next: on a virtual machine that can take longer than the pass, and differs from moment to moment.
    """
    if platform.libc_ver()[0] != "glibc":
        return False
    libc = ctypes.CDLL(None)
    # All blocks from the heap, whose end is never cut.
    return bool(libc.mallopt(M_MMAP_MAX, 0)) and bool(libc.mallopt(M_TRIM_THRESHOLD, NEVER))
