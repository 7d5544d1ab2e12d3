"""Marks a function or method as the handler of node types."""

from __future__ import annotations

from typing import Callable, TypeVar

F = TypeVar("F", bound=Callable)  # type: ignore[type-arg]

#: Where `handles` notes the names; the host looks for it.
MARK = "__astraflow_handles__"


def handles(*names: str) -> Callable[[F], F]:
    """`@handles("acme.resize")`: calls this for the node type, or the handler key, of that name, whatever the function is called."""

    def mark(function: F) -> F:
        setattr(function, MARK, (*getattr(function, MARK, ()), *names))
        return function

    return mark
