"""The audit as a plugin of pytest: ``pytest --mooring-audit package.module:Name``, and the fixture ``mooring_audit``.

pytest loads this file in every session of an environment that has Mooring, so torch is imported when it is needed.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from mooring.audit import Adapter, Card

VERDICTS = pytest.StashKey[dict[str, list[str]]]()


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("mooring", "measure graph modules: do they count, are they invariant")
    group.addoption(
        "--mooring-audit",
        action="append",
        default=[],
        metavar="TARGET",
        help="package.module:Name of an aggregation, a virtual node or a layer, its arguments after it: "
        "'torch_geometric.nn:GraphMultisetTransformer k=3'. One test per measurement; may be repeated.",
    )
    group.addoption("--mooring-audit-channels", type=int, default=16, help="Width of the node features; 16 by default.")


def pytest_configure(config: pytest.Config) -> None:
    config.stash[VERDICTS] = {}


@pytest.hookimpl(tryfirst=True)  # so that -k and --deselect apply to them too
def pytest_collection_modifyitems(session: pytest.Session, config: pytest.Config, items: list[pytest.Item]) -> None:
    for target in config.getoption("--mooring-audit"):
        from mooring.audit import MEASUREMENTS

        # Built now, so that a wrong name ends the session before the first test.
        adapter = build_adapter(target, config)
        for name in MEASUREMENTS:
            nodeid = f"mooring-audit[{target}]::{name}"
            items.append(Measured.from_parent(session, name=name, nodeid=nodeid, target=target, adapter=adapter))


def build_adapter(target: str, config: pytest.Config) -> Adapter:
    """Return the module of ``package.module:Name``, with its arguments after it, as the measurements call it."""
    from mooring.audit import adapt, parse_arguments, resolve
    from mooring.audit.runner import randomise_zero_weights, trainable

    folder = str(config.invocation_params.dir)
    if folder not in sys.path:  # as with `python -m pytest` and the command `mooring audit`
        sys.path.append(folder)
    channels = config.getoption("--mooring-audit-channels")
    name, *arguments = target.split()
    try:
        with warnings.catch_warnings(), trainable():
            warnings.simplefilter("ignore")
            adapter = adapt(resolve(name, channels, parse_arguments(arguments)), None, channels)
            randomise_zero_weights(adapter)
    except (TypeError, ValueError) as error:
        raise pytest.UsageError(
            f"--mooring-audit {target!r}: {error} Arguments follow the name: '{name} slots=4'."
        ) from error
    return adapter


class Measured(pytest.Item):
    """One measurement of one module, which fails if the module breaks an invariant."""

    def __init__(self, *, target: str, adapter: Adapter, **options: Any) -> None:
        super().__init__(**options)
        self.target = target
        self.adapter = adapter

    def runtest(self) -> None:
        from mooring.audit import measure

        with warnings.catch_warnings():
            # Deprecations of a foreign module are not for the audit to raise.
            warnings.simplefilter("ignore")
            finding = measure(self.name, self.adapter, seed=0, trials=12)
        verdicts = self.config.stash[VERDICTS].setdefault(self.target, [])
        verdicts.append(f"{finding.name.replace('_', ' '):<16} {finding.verdict}")
        if finding.broken:
            reason = f"{finding.verdict}\nworst case: {finding.worst_case} ({finding.explanation})"
            pytest.fail(reason, pytrace=False)

    def reportinfo(self) -> tuple[Any, int | None, str]:
        return self.path, None, self.nodeid


def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> None:
    for target, verdicts in config.stash[VERDICTS].items():
        terminalreporter.section(f"mooring audit: {target}")
        for verdict in verdicts:
            terminalreporter.write_line(verdict)


@pytest.fixture
def mooring_audit() -> Callable[..., Card]:
    """Return a function that audits a module, fails if it breaks an invariant, and returns its card.

    Its arguments are those of :func:`mooring.audit.audit`::

        def test_my_readout(mooring_audit):
            assert mooring_audit(MyReadout(16), channels=16).counts
    """

    def audited(module: Callable[..., Any], kind: str | None = None, **options: Any) -> Card:
        from mooring.audit import audit

        card = audit(module, kind, **options)
        card.raise_for_broken()
        return card

    return audited
