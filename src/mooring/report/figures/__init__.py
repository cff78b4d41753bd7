"""One small file per figure; each maps records to a :class:`~mooring.report.figures.style.Picture`."""

from mooring.report.figures.style import Picture

__all__ = ["Picture"]
