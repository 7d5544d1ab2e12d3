"""Where the modules of a package and of its dependencies are found."""

from __future__ import annotations

import importlib
import os
import pkgutil
import sys


def add_package_folders(directory: str, aliases: str) -> None:
    """Modules of the package first; names of older adapters last."""
    sys.path[:0] = [os.path.join(directory, "adapters"), directory]
    sys.path.append(aliases)


def merge_same_names(entrypoint: str, directory: str) -> None:
    """An adapter may lie in `adapters/<name>/` where `<name>` is one of its dependencies too: modules of both are found, its own first."""
    name, dot, _ = entrypoint.partition(":")[0].partition(".")
    own = os.path.join(directory, "adapters", name)
    if not dot or not os.path.isdir(own):
        return
    package = importlib.import_module(name)
    places = pkgutil.extend_path(list(package.__path__), name)
    package.__path__ = [own, *(place for place in places if place != own)]
