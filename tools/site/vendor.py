"""What the site draws formulas and searches with: from the npm registry once, checked, so that no page fetches it."""

from __future__ import annotations

import base64
import hashlib
import shutil
import subprocess
import tarfile
from dataclasses import dataclass
from pathlib import Path

FOLDER = Path(__file__).parents[2] / ".cache" / "site"


@dataclass(frozen=True)
class Package:
    """An npm package: the digest of its archive, and which of its files the site has under which names."""

    name: str
    version: str
    sha512: str
    files: tuple[tuple[str, str], ...]


PACKAGES = (
    Package(
        "katex",
        "0.19.1",
        "jG8uKntjSEcm2EpQOh0XturpPuuC9r3Sq5HLHdsFdWZT27E672SF19QEi+of0/YeOy15lDgRhKvr5614uRrEfA==",
        (("LICENSE", "katex/LICENSE"), ("dist/katex.min.js", "katex/"), ("dist/katex.min.css", "katex/"),
         ("dist/fonts/*.woff2", "katex/fonts/")),
    ),
    # A page opened from a file may start no worker, and search is one.
    Package(
        "iframe-worker",
        "1.0.4",
        "roeaaI+Lg1LJNfgpCjoRe/+WzEjy9+Z08LoEvu85MCPbBjwm+qXz8Ag5U05lHa6V1CysZyGzE0SOkAtSUA5q7Q==",
        (("LICENSE", "iframe-worker/LICENSE"), ("shim/index.js", "iframe-worker/shim.js")),
    ),
)  # fmt: skip


def fetched(folder: Path = FOLDER) -> Path:
    """The folder with the files of all packages; what is there already is not fetched again."""
    for package in PACKAGES:
        done = folder / f"{package.name}-{package.version}.done"
        if done.exists():
            continue
        archive = _archive(package, folder)
        _unpack(package, archive, folder)
        done.touch()
    return folder / "files"


def _archive(package: Package, folder: Path) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    wanted = f"{package.name}@{package.version}"
    npm = shutil.which("npm")
    if npm is None:
        raise SystemExit(f"make docs: {wanted} comes from the npm registry, and there is no npm. Install Node.js.")
    command = [npm, "pack", wanted, "--silent", "--pack-destination", str(folder)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    archive = folder / f"{package.name}-{package.version}.tgz"
    if done.returncode or not archive.exists():
        raise SystemExit(f"make docs: `npm pack {wanted}` failed: {done.stderr.strip() or done.stdout.strip()}")
    digest = base64.b64encode(hashlib.sha512(archive.read_bytes()).digest()).decode()
    if digest != package.sha512:
        archive.unlink()
        raise SystemExit(f"make docs: the archive of {wanted} has digest {digest}, expected {package.sha512}.")
    return archive


def _unpack(package: Package, archive: Path, folder: Path) -> None:
    with tarfile.open(archive) as packed:
        for member in packed.getmembers():
            inside = Path(member.name).relative_to("package")
            for pattern, place in package.files:
                if member.isfile() and inside.match(pattern):
                    target = folder / "files" / (f"{place}{inside.name}" if place.endswith("/") else place)
                    target.parent.mkdir(parents=True, exist_ok=True)
                    content = packed.extractfile(member)
                    assert content is not None
                    target.write_bytes(content.read())
