"""A build hook: the commit that a wheel or sdist is built from, as the file that `a2b --version` reads."""

from __future__ import annotations

import subprocess
import tempfile
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

COMMIT = "overlay/app/COMMIT"


class CommitHook(BuildHookInterface[Any]):
    """Adds the file where the source is a checkout; an sdist has it already."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Before a build; an editable installation shows whatever is checked out, so that no commit is noted."""
        file, commit = Path(self.root, COMMIT), "" if version == "editable" else _commit(Path(self.root))
        if commit:
            self._folder = tempfile.TemporaryDirectory()
            file = Path(self._folder.name, "COMMIT")
            file.write_text(f"{commit}\n")
        if file.exists():
            build_data["force_include"][str(file)] = COMMIT


def _commit(root: Path) -> str:
    """The commit that is checked out in a folder, with `-modified` where files are not as it has them; "" for none."""
    top = _git(root, "rev-parse", "--show-toplevel")
    if not top or Path(top).resolve() != root.resolve():
        return ""
    modified = "-modified" if _git(root, "status", "--porcelain", "--untracked-files=no") else ""
    return _git(root, "rev-parse", "HEAD") + modified


def _git(root: Path, *arguments: str) -> str:
    try:
        done = subprocess.run(["git", "-C", root, *arguments], capture_output=True, text=True)
    except OSError:  # no git here
        return ""
    return done.stdout.strip() if done.returncode == 0 else ""
