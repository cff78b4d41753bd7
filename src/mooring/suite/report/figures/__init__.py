"""One small file per figure; each maps records to a :class:`~mooring.suite.report.figures.style.Picture`."""

from mooring.suite.report.figures.style import Picture

__all__ = ["Picture"]
