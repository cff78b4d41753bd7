"""For every self-contained page: data that cannot end its element, and a policy by hashes of what may run."""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Iterable
from typing import Any


def inert(data: Any) -> str:
    r"""Return JSON for a ``<script type="application/json">``, in which no name can end the element.

    >>> inert({"name": "</script>"})
    '{"name":"\\u003c/script\\u003e"}'
    """
    text = json.dumps(data, ensure_ascii=True, allow_nan=False, separators=(",", ":"))
    return text.replace("&", "\\u0026").replace("<", "\\u003c").replace(">", "\\u003e")


def digest(text: str) -> str:
    """Return the source expression by which a content-security policy allows this script or style.

    >>> digest("")
    "'sha256-47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU='"
    """
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


def policy(scripts: Iterable[str], styles: Iterable[str]) -> str:
    """Return a policy that allows scripts and styles by digest, images inside the page, and no request at all."""
    allowed = f"script-src {' '.join(scripts)}; style-src {' '.join(styles)}; img-src data:"
    return f"default-src 'none'; {allowed}; base-uri 'none'; form-action 'none'"
