"""A real browser where there is one: the system's chromium, driven by playwright, which keeps what went wrong."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

NAMES = ("chromium", "chromium-browser", "google-chrome-stable", "google-chrome")
# Without these it looks for updates, which no test may wait for.
QUIET = ("--disable-gpu", "--disable-background-networking", "--disable-component-update", "--disable-sync")
SERIOUS = {"serious", "critical"}


@contextmanager
def started() -> Iterator[Any]:
    """A browser; the test is skipped with the reason where none can be had."""
    api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed: pip install playwright")
    path = next((found for name in NAMES if (found := shutil.which(name))), None)
    if path is None:
        pytest.skip(f"no browser is installed, none of {', '.join(NAMES)}: apt-get install chromium")
    with api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=list(QUIET))
        yield browser
        browser.close()


class Visit:
    """One page, opened with everything that it complains about or asks for kept.

    Args:
        browser: what :func:`started` gives.
        address: a file or a URL.
        width: of the window. scheme: light or dark.
    """

    def __init__(self, browser: Any, address: Path | str, width: int = 1400, scheme: str = "light") -> None:
        self.address = address.as_uri() if isinstance(address, Path) else address
        self.page = browser.new_page(viewport={"width": width, "height": 900}, color_scheme=scheme)
        self.complaints: list[str] = []
        self.requests: list[str] = []
        self.page.on("console", lambda said: self.complaints.append(said.text) if said.type == "error" else None)
        self.page.on("pageerror", lambda error: self.complaints.append(str(error)))
        self.page.on("request", lambda request: self.requests.append(request.url))
        self.page.goto(self.address)

    def __enter__(self) -> Visit:
        return self

    def __exit__(self, *_: object) -> None:
        self.page.close()

    def elsewhere(self, home: str) -> list[str]:
        """What was asked for outside of ``home``."""
        return [url for url in self.requests if not url.startswith((home, "data:", "blob:"))]

    def overflow(self) -> int:
        """By how much the page is wider than the window."""
        return self.page.evaluate("document.documentElement.scrollWidth - innerWidth")

    def violations(self) -> list[str]:
        """What axe finds serious or critical, with the first place of each."""
        axe = pytest.importorskip("axe_playwright_python.sync_playwright", reason="accessibility is checked by axe")
        found = axe.Axe().run(self.page).response["violations"]
        return [f"{one['id']}: {one['nodes'][0]['html'][:120]}" for one in found if one["impact"] in SERIOUS]
