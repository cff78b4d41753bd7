"""The process that trains one run for the local engine: ``python -m mooring.suite.train.worker REQUEST_AS_JSON``."""

from __future__ import annotations

import os
import sys
import threading
import traceback

from mooring.suite.records import RecordError
from mooring.suite.train.engine_local import FAILED
from mooring.suite.train.run import RunRequest, resolve, run_one
from mooring.suite.train.view import PROGRESS_FILE, ProgressFile


def main(arguments: list[str]) -> int:
    """Run the request; 0 when its record is written, otherwise 1, with the reason as the last words on stderr."""
    request = RunRequest.from_json(arguments[0])
    threading.Thread(target=_die_with_parent, daemon=True).start()
    try:
        run_one(request, ProgressFile(resolve(request).folder / PROGRESS_FILE))
    except (RecordError, ArithmeticError) as error:
        # These messages say what to do; a traceback would hide them.
        print(f"{FAILED}{error}", file=sys.stderr)
        return 1
    except Exception as error:
        traceback.print_exc()
        print(f"{FAILED}{type(error).__name__}: {error}", file=sys.stderr)
        return 1
    return 0


def _die_with_parent() -> None:
    # The parent holds the other end of stdin and never writes: stdin ends when the parent does, even by SIGKILL.
    # Without this, orphans would keep training beside the workers of the next start.
    # Read without Python's buffer: a thread that waits in it would hold its lock when the interpreter shuts down.
    os.read(0, 1)
    os._exit(1)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
