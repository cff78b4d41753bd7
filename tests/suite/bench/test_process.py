"""A measurement in a process of its own that does not end well says so, with that process's last words."""

import pytest

from mooring.suite.bench.process import ask


def test_a_process_that_falls_over_is_an_error_with_its_last_words() -> None:
    with pytest.raises(RuntimeError, match=r"(?s)^bench: mooring\.bench\.apart ended with 1: .*KeyError: 'threads'"):
        ask("mooring.suite.bench.apart", {})
