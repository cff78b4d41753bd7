"""Everything that trains, measures, reports or talks to a terminal: ``pip install 'mooring[suite]'``."""

from mooring.named import late

__all__ = ["late"]
