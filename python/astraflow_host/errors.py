"""An exception of an adapter as its author can use it: its text, and the lines of the package that it went through."""

from __future__ import annotations

import os
import traceback
from typing import Optional

_FRAMES_MAX = 20
_CAUSES_MAX = 3


def describe(thrown: BaseException) -> str:
    if isinstance(thrown, SystemExit):
        return f"the adapter called sys.exit({thrown.code!r}); it must return or raise"
    text = str(thrown)
    return f"{type(thrown).__name__}: {text}" if text else type(thrown).__name__


def package_stack(thrown: BaseException, package_dir: str) -> Optional[str]:
    """None where nothing of it happened in the package's own files."""
    parts: list[str] = []
    has_frames = False
    error: Optional[BaseException] = thrown
    for depth in range(_CAUSES_MAX + 1):
        if error is None:
            break
        frames = _package_frames(error, package_dir)
        has_frames = has_frames or bool(frames)
        parts.append("\n".join([("" if depth == 0 else "caused by ") + describe(error), *frames]))
        error = error.__cause__ or (None if error.__suppress_context__ else error.__context__)
    return "\n".join(parts) if has_frames else None


def _package_frames(error: BaseException, package_dir: str) -> list[str]:
    home = os.path.join(os.path.realpath(package_dir), "")
    frames = []
    for frame in traceback.extract_tb(error.__traceback__):
        file = os.path.realpath(frame.filename)
        if file.startswith(home):
            frames.append(f"    at {frame.name} ({file[len(home):]}:{frame.lineno})")
    # The innermost first, as in stacks of other handlers.
    return frames[::-1][:_FRAMES_MAX]
