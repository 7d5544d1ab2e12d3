"""Values of adapters as JSON: what JSON has, and what has one obvious form in it."""

from __future__ import annotations

import dataclasses
import json
from datetime import date, datetime
from enum import Enum
from pathlib import PurePath
from typing import Any, Mapping
from uuid import UUID


def to_json(value: Any) -> bytes:
    """Raises TypeError or ValueError where a value has no form in JSON, as bytes, NaN or a loop have none."""
    text = json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"), default=_replace)
    try:
        return text.encode("utf-8")
    except UnicodeEncodeError:
        # Half of a surrogate pair, which JSON can only escape.
        return json.dumps(value, allow_nan=False, separators=(",", ":"), default=_replace).encode("ascii")


def _replace(value: Any) -> Any:
    if isinstance(value, Mapping):
        return dict(value)
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, (PurePath, UUID)):
        return str(value)
    if isinstance(value, (datetime, date)):
        return value.isoformat()
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return dataclasses.asdict(value)
    raise TypeError(f"a value of type {type(value).__name__} cannot be written as JSON")
