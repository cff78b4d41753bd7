"""Makes the table of checks importable beside its test."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
