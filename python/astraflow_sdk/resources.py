"""What the worker keeps under a name, for this task and for later ones: files, and values that stay in this process."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from datetime import datetime, timezone
from typing import Any, Callable, Mapping, Optional, Union

Expiry = Union[datetime, float, int, None]
#: Asks the worker and blocks for its answer: operation, arguments.
Ask = Callable[[str, Mapping[str, Any]], Any]


@dataclass(frozen=True)
class ResourceHandle:
    resource_id: str
    type: str
    scope: Optional[str]
    path: Optional[str]
    metadata: Mapping[str, Any]
    size_bytes: int
    created_at: datetime
    expires_at: datetime
    in_use: int
    #: idle, leased or dropped
    state: str
    #: What was registered, where that was in this process; otherwise None.
    value: Any = field(default=None, compare=False, repr=False)


class LiveValues:
    """The values of this process by the name of their resource."""

    def __init__(self) -> None:
        self._by_name: dict[str, int] = {}
        self._values: dict[int, tuple[Any, Optional[Callable[[str], None]]]] = {}
        self._count = 0

    def reserve(self, value: Any, on_drop: Optional[Callable[[str], None]]) -> int:
        self._count += 1
        self._values[self._count] = (value, on_drop)
        return self._count

    def forget(self, number: int) -> None:
        """It was refused: nobody will let it go."""
        self._values.pop(number, None)

    def name(self, number: int, name: str) -> None:
        if number in self._values:
            self._by_name[name] = number

    def find(self, name: str) -> Any:
        number = self._by_name.get(name)
        return None if number is None else self._values.get(number, (None, None))[0]

    def drop(self, number: int, reason: str) -> None:
        """The worker has let it go."""
        _, on_drop = self._values.pop(number, (None, None))
        for name, known in list(self._by_name.items()):
            if known == number:
                del self._by_name[name]
        if on_drop is not None:
            on_drop(reason)

    def drop_all(self, reason: str) -> None:
        for number in list(self._values):
            self.drop(number, reason)


class ResourceRegistry:
    """`ctx.resource_registry`. Each call waits for the worker; it may be used from any thread."""

    def __init__(self, ask: Ask, values: Optional[LiveValues] = None) -> None:
        self._ask = ask
        self._values = values or LiveValues()

    def register(
        self,
        resource_id: str,
        resource_type: str,
        scope: Optional[str] = None,
        path: Union[str, "os.PathLike[str]", None] = None,
        metadata: Optional[Mapping[str, Any]] = None,
        size_bytes: Optional[int] = None,
        expires_at: Expiry = None,
        value: Any = None,
        on_drop: Optional[Callable[[str], None]] = None,
    ) -> ResourceHandle:
        """`value` stays in this process and is handed to later tasks of this package version; `on_drop` is called once when it goes."""
        arguments = _arguments(resource_id, scope, metadata, size_bytes, expires_at)
        arguments["type"] = resource_type
        if path is not None:
            arguments["path"] = os.fspath(path)
        if value is None and on_drop is None:
            return self.restore(self._ask("register", arguments))
        number = self._values.reserve(value, on_drop)
        try:
            kept = self._ask("register", {**arguments, "value": number})
        except BaseException:
            self._values.forget(number)
            raise
        self._values.name(number, resource_id)
        return self.restore(kept)

    def register_file(
        self,
        resource_id: str,
        file_path: Union[str, "os.PathLike[str]"],
        scope: Optional[str] = None,
        metadata: Optional[Mapping[str, Any]] = None,
        expires_at: Expiry = None,
        resource_type: str = "file",
    ) -> ResourceHandle:
        """A file below `ctx.data_dir` moves to the worker's own folder; any other stays where it is."""
        arguments = _arguments(resource_id, scope, metadata, None, expires_at)
        path = os.path.abspath(os.fspath(file_path))
        return self.restore(self._ask("registerFile", {**arguments, "type": resource_type, "path": path}))

    def upload(
        self, resource_id: str, filename: Optional[str] = None, mime_type: Optional[str] = None
    ) -> "dict[str, Any]":
        """Stores a kept file with the scheduler: its `resourceId`, `downloadUrl`, `sizeBytes` and `sha256`."""
        given = {"id": resource_id, "filename": filename, "mimeType": mime_type}
        return dict(self._ask("upload", {key: value for key, value in given.items() if value is not None}))

    def download(
        self,
        stored_id: str,
        resource_id: Optional[str] = None,
        scope: Optional[str] = None,
        metadata: Optional[Mapping[str, Any]] = None,
        expires_at: Expiry = None,
    ) -> ResourceHandle:
        """Fetches a file that a worker has stored and keeps it here, by default as `file <stored_id>`; its `path` is in the answer."""
        arguments = _arguments(resource_id or f"file {stored_id}", scope, metadata, None, expires_at)
        return self.restore(self._ask("download", {**arguments, "resourceId": stored_id}))

    def get(self, resource_id: str) -> Optional[ResourceHandle]:
        found = self._ask("get", {"id": resource_id})
        return None if found is None else self.restore(found)

    def lease(self, resource_id: str) -> ResourceHandle:
        """While it is leased it neither expires nor is evicted. Raises a ResourceError (E.RESOURCE.MISSING) where it is not here."""
        return self.restore(self._ask("lease", {"id": resource_id}))

    def release(self, resource_id: str, reason: Optional[str] = None) -> None:
        del reason  # accepted for adapters that name one
        self._ask("release", {"id": resource_id})

    def touch(self, resource_id: str, expires_at: Expiry = None) -> bool:
        return bool(self._ask("touch", {"id": resource_id, **_expiry(expires_at)}))

    def drop(self, resource_id: str, reason: str = "dropped") -> bool:
        return bool(self._ask("drop", {"id": resource_id, "reason": reason}))

    def release_scope(self, scope: str) -> int:
        return int(self._ask("releaseScope", {"scope": scope}))

    def list(self, scope: Optional[str] = None, resource_type: Optional[str] = None) -> "list[ResourceHandle]":
        which = {key: value for key, value in (("scope", scope), ("type", resource_type)) if value is not None}
        return [self.restore(one) for one in self._ask("list", which)]

    def to_artifact_descriptor(self, resource_id: str, inline: bool = False) -> "dict[str, Any]":
        """For the `artifacts` of a result."""
        return dict(self._ask("artifact", {"id": resource_id, "inline": inline}))

    def restore(self, told: Mapping[str, Any]) -> ResourceHandle:
        """A resource as the worker tells of it."""
        return ResourceHandle(
            resource_id=told["id"],
            type=told["type"],
            scope=told.get("scope"),
            path=told.get("path"),
            metadata=told.get("metadata") or {},
            size_bytes=told["sizeBytes"],
            created_at=_instant(told["createdAt"]),
            expires_at=_instant(told["expiresAt"]),
            in_use=told["inUse"],
            state=told["state"],
            value=self._values.find(told["id"]),
        )


def _arguments(
    resource_id: str,
    scope: Optional[str],
    metadata: Optional[Mapping[str, Any]],
    size_bytes: Optional[int],
    expires_at: Expiry,
) -> "dict[str, Any]":
    given = {"id": resource_id, "scope": scope, "metadata": None if metadata is None else dict(metadata), "sizeBytes": size_bytes}
    return {**{key: value for key, value in given.items() if value is not None}, **_expiry(expires_at)}


def _expiry(expires_at: Expiry) -> "dict[str, Any]":
    if expires_at is None:
        return {}
    seconds = expires_at.timestamp() if isinstance(expires_at, datetime) else float(expires_at)
    return {"expiresAt": int(seconds * 1000)}


def _instant(milliseconds: float) -> datetime:
    return datetime.fromtimestamp(milliseconds / 1000, timezone.utc)
