"""Where the packaged data (schemas, topics) lies: inside the wheel, or beside the package in a checkout."""

from __future__ import annotations

from pathlib import Path


def resource_folder(name: str) -> Path:
    """Return the folder ``name`` (``schemas`` or ``topics``).

    Raises:
        FileNotFoundError: neither the wheel nor the checkout has it.
    """
    package = Path(__file__).parent
    for folder in (package / "resources" / name, package.parent / name):
        if folder.is_dir():
            return folder
    raise FileNotFoundError(f"{name}/ is missing from the installation in {package}; install engram-stream again")
