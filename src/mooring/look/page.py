"""One self-contained HTML page: markup, style, script and data, and nothing that it would have to fetch."""

from __future__ import annotations

import html
import os
from collections.abc import Mapping
from importlib.resources import files
from pathlib import Path
from string import Template
from typing import Any

from mooring.markup import digest, inert, policy

HEIGHT = 820


class Page:
    """What a memory does on a graph, to open in a browser or to show in a notebook.

    Args:
        title: of the page.
        data: what is drawn.
    """

    def __init__(self, title: str, data: Mapping[str, Any]) -> None:
        self.title = title
        self.data = data

    @property
    def html(self) -> str:
        """The page. Its policy allows this script and this style by their hashes, and no request at all."""
        parts = "".join(_asset(f"{name}.js") for name in ("values", "reading", "panel", "page"))
        script = f'"use strict";\n(() => {{\n{parts}}})();'
        style = _asset("page.css")
        return Template(_asset("page.html")).substitute(
            policy=policy([digest(script)], [digest(style)]),
            title=html.escape(self.title),
            style=style,
            script=script,
            data=inert(self.data),
        )

    def save(self, path: str | Path) -> Path:
        """Write the page; a reader of ``path`` sees the old file or the new one, never a part of one."""
        path = Path(path)
        path.parent.mkdir(parents=True, exist_ok=True)
        beside = path.with_name(f".{path.name}.{os.getpid()}.tmp")
        try:
            beside.write_text(self.html, encoding="utf-8")
            beside.replace(path)
        finally:
            beside.unlink(missing_ok=True)
        return path

    def _repr_html_(self) -> str:
        """For a notebook: the page in a frame of its own, which may run its script, save pictures and nothing else."""
        return (
            f'<iframe srcdoc="{html.escape(self.html)}" title="{html.escape(self.title)}" '
            'sandbox="allow-scripts allow-downloads" '
            f'style="width: 100%; height: {HEIGHT}px; border: 0" loading="lazy"></iframe>'
        )

    def __repr__(self) -> str:
        graphs, calls = len(self.data["graphs"]), len(self.data["calls"])
        return (
            f"{type(self).__name__}({self.title!r}, {graphs} graph{'s' * (graphs != 1)}, "
            f"{calls} {'memory' if calls == 1 else 'memories'})"
        )


def _asset(name: str) -> str:
    return (files("mooring.look") / name).read_text(encoding="utf-8")
