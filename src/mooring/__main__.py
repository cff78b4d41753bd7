"""The ``mooring`` command, or one line that says what it needs."""

from __future__ import annotations

import sys


def main() -> None:
    """Run the command of :mod:`mooring.suite`, which the core installs without."""
    try:
        from mooring.suite.cli import main as run
    except ModuleNotFoundError as error:
        if error.name is None or error.name.partition(".")[0] == "mooring":
            raise
        sys.exit(f"mooring: the command needs the suite, and {error.name} is missing: pip install 'mooring[suite]'")
    run()


if __name__ == "__main__":
    main()
