"""The identity of a run, which the record, the checkpoints and the caches of the run share."""

from __future__ import annotations

import ast
import contextlib
import hashlib
import importlib.util
import json
import sys
import sysconfig
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from mooring.suite.records.record import Record, RecordError

ABSENT = "<absent>"
# As much of a hash as a message shows.
SHOWN = 16
# The hardware that most runs are trained on; a run's own is recorded beside its configuration.
DEFAULT_HARDWARE: Mapping[str, Any] = {"devices": 1, "accelerator": "cpu"}
# Defaults of options that older records lack.
DEFAULTS_FOR_OLD_RECORDS: Mapping[str, Any] = {
    "address_norm": "layer",
    "addressed": True,
    "anchor_init": 0.0,
    "carry": False,
    "competition": False,
    "content_dropout": 0.0,
    "dropout": 0.0,
    "equal_parameters": True,
    "exact_ranks": False,
    "turns": 1,
    "hidden_channels": None,
    "integrate": "film",
    "mass_map": "mlp",
    "routing": "free",
    "split": True,
    "update_channels": None,
    "update_norm": "layer",
}


@dataclass(frozen=True)
class Identity:
    """Task, model, seed and config of a run, and the hashes of what it reads besides.

    Args:
        task, model, seed: as in the request.
        config: the config as JSON stores it, with what the run is trained on.
        data: hash of the files that the run reads, empty if it reads none; None if it is not known.
        code: hash of each file of user code, by its path (:func:`code_hashes`); None if it is not known.
        defaults: the value of a config field that a file does not have: options are added to configs, and older files
            were made as if with the defaults.
    """

    task: str
    model: str
    seed: int
    config: Mapping[str, Any]
    data: str | None = ""
    code: Mapping[str, str] | None = field(default_factory=dict)
    defaults: Mapping[str, Any] = field(default_factory=dict)

    def facts(self) -> dict[str, Any]:
        """Return the fields that a file stores."""
        return {name: value for name, value in vars(self).items() if name != "defaults"}

    def require(self, facts: Mapping[str, Any], path: Path, remedy: str) -> None:
        """Raise RecordError with the first field that differs if a file belongs to another run.

        A hash that either of the two lacks is not compared: older records have none.

        Args:
            facts: :meth:`facts` of the file.
            path: the file, for the message.
            remedy: the advice at the end of the message.
        """
        difference = self._difference(facts)
        if difference:
            raise RecordError(f"{path}: {difference}. {remedy}", path)

    def _difference(self, facts: Mapping[str, Any]) -> str:
        names = ("task", "model", "seed")
        if missing := [name for name in names if name not in facts]:
            return f"names no {missing[0]}, as it was written by an older version"
        theirs, ours = ({name: source[name] for name in names} for source in (facts, vars(self)))
        for have, want in ((theirs, ours), ({**self.defaults, **facts["config"]}, self.config)):
            if name := differing_field(want, have):
                asked = f"{name}={want.get(name, ABSENT)!r}"
                return f"made with {name}={have.get(name, ABSENT)!r}, but this run asks for {asked}"
        data = facts.get("data")
        if None not in (data, self.data) and data != self.data:
            return f"made with data of hash {_shown(data)}, but this run reads data of hash {_shown(self.data)}"
        code = facts.get("code")
        if code is not None and self.code is not None and (name := differing_field(self.code, code)):
            now = _shown(self.code.get(name))
            return f"made with {name} of hash {_shown(code.get(name))}, but now its hash is {now}"
        return ""


def hardware_of(record: Record) -> dict[str, Any]:
    """Return the number and kind of the devices that trained a run: k devices take batches k times as large."""
    values = {name: record.find(name) for name in DEFAULT_HARDWARE}
    return {name: DEFAULT_HARDWARE[name] if value is None else value for name, value in values.items()}


def changed_fields(record: Record) -> frozenset[str]:
    """Return the config fields in which a run differs from its preset.

    Records from before the field ``changed`` have them in the name of their folder, as in ``full,epochs=8``.
    """
    if record.find("changed") is not None:
        return frozenset(record.mapping("changed"))
    preset, *changes = record.origin.parent.name.split(",")
    return frozenset(change.partition("=")[0] for change in changes) if preset == record.preset else frozenset()


def record_key(record: Record) -> tuple[Any, ...]:
    """Return a key that two records of the same run, module or measurement share."""
    if record.kind == "run":
        # One of two records of a run may be from before an option existed.
        config = {**DEFAULTS_FOR_OLD_RECORDS, **record.mapping("config"), **hardware_of(record)}
        named = (record.task, record.preset, record.model, record.seed)
        return ("run", *named, json.dumps(config, sort_keys=True))
    if record.kind == "audit":
        return ("audit", record.name("module"))
    return (record.kind, record.find("name") or record.origin.stem)


def differing_field(left: Mapping[str, Any], right: Mapping[str, Any]) -> str | None:
    """Name the first field in which two JSON objects differ; None when they are equal."""
    for name in [*left, *(name for name in right if name not in left)]:
        # Compared as text because nan differs from itself.
        if json.dumps(left.get(name, ABSENT)) != json.dumps(right.get(name, ABSENT)):
            return name
    return None


def digest(parts: Iterable[Any]) -> str:
    """Return the SHA-256 of texts and buffers, one after the other."""
    total = hashlib.sha256()
    for part in parts:
        total.update(part.encode() if isinstance(part, str) else part)
    return total.hexdigest()


def code_hashes(modules: Iterable[str]) -> dict[str, str]:
    """Return the hash of the source of each module and of what it imports from the same folder or below, by path.

    Modules of Python and of this library are left out; of an installed package the module's own file is taken alone.

    Args:
        modules: names of modules.
    """
    hashes: dict[str, str] = {}
    for module in modules:
        top, *_ = module.split(".")
        file = None if top in ("mooring", *sys.stdlib_module_names) else _source(module)
        if file is None:
            continue
        root = file.parents[module.count(".") + (file.name == "__init__.py")]
        installed = any(root.is_relative_to(sysconfig.get_path(kind)) for kind in ("purelib", "platlib"))
        files = {file} if installed else _with_imports(file, root, set())
        hashes |= {path.relative_to(root).as_posix(): digest([path.read_bytes()]) for path in files}
    return dict(sorted(hashes.items()))


def _source(module: str) -> Path | None:
    """Return the file of a module; None if there is no such module, and in a notebook."""
    origin = None
    if module in sys.modules:
        origin = getattr(sys.modules[module], "__file__", None)
    else:
        with contextlib.suppress(ImportError, ValueError):
            origin = getattr(importlib.util.find_spec(module), "origin", None)
    return Path(origin).absolute() if origin and Path(origin).is_file() else None


def _with_imports(file: Path, root: Path, files: set[Path]) -> set[Path]:
    if file not in files:
        files.add(file)
        for path in _imports(file, root):
            _with_imports(path, root, files)
    return files


def _imports(file: Path, root: Path) -> Iterator[Path]:
    """Yield the files below the root that the import statements of a file name."""
    try:
        tree = ast.parse(file.read_bytes())
    except (SyntaxError, ValueError):  # a compiled module has no such text
        return
    package = file.relative_to(root).parent.parts
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names = [alias.name.split(".") for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            above = package[: len(package) + 1 - node.level] if node.level else ()
            base = [*above, *(node.module or "").split(".")]
            names = [[part for part in (*base, alias.name) if part] for alias in node.names]
        else:
            continue
        for name in names:
            # This library may lie beside the user's code; its commit is in the record.
            for end in range(1, len(name) + 1) if name[0] != "mooring" else ():
                place = root.joinpath(*name[:end])
                yield from (path for path in (place.with_suffix(".py"), place / "__init__.py") if path.is_file())


def _shown(value: str | None) -> str:
    return ABSENT if value is None else f"{value!s:.{SHOWN}}…" if value else "none"
