"""How an adapter is found in its module and how it is called: the same in the host and in tests."""

from __future__ import annotations

import asyncio
import contextvars
import importlib
import inspect
from concurrent.futures import Executor
from types import ModuleType
from typing import Any, Callable, Mapping, Optional

from .context import ExecutionContext
from .handlers import MARK

Handler = Callable[[ExecutionContext], Any]

_INLINE_WORDS = {"inline", "async", "event_loop", "loop"}


class LoadError(Exception):
    """An entrypoint cannot be used; the text says why."""


def read_mode(*given: Any) -> str:
    """The first execution mode that is named: `auto`, `inline` or `thread`."""
    for word in given:
        mode = str(word).strip().lower() if isinstance(word, str) else ""
        if mode in _INLINE_WORDS:
            return "inline"
        if mode in ("auto", "thread"):
            return mode
    return "auto"


def load_entrypoint(entrypoint: str) -> Any:
    """`module:attribute`, where a class is instantiated once, or `module`."""
    name, _, attribute = entrypoint.partition(":")
    target: Any = importlib.import_module(name)
    for part in attribute.split(".") if attribute else ():
        try:
            target = getattr(target, part)
        except AttributeError:
            raise LoadError(f"entrypoint {entrypoint} names {attribute}, which module {name} does not have") from None
    return target() if inspect.isclass(target) else target


def find_handler(target: Any, node_type: str, key: str) -> Optional[Handler]:
    """By node type or handler key: marked functions, a table `handlers`, an attribute of that name; else `async_run`, `run`, or the call."""
    for member in _marked_members(target, (node_type, key)):
        return member
    table = getattr(target, "handlers", None)
    if isinstance(table, Mapping):
        for name in (node_type, key):
            if name in table:
                return as_handler(table[name])
    for name in (key, node_type.rpartition(".")[2]):
        member = None if name.startswith("_") else getattr(target, name, None)
        found = None if member is None else as_handler(member)
        if found is not None:
            return found
    return as_handler(target)


def as_handler(target: Any) -> Optional[Handler]:
    """A function, or an object or class with `async_run` or `run`."""
    if isinstance(target, ModuleType):
        return as_callable(getattr(target, "async_run", None)) or as_callable(getattr(target, "run", None))
    if inspect.isroutine(target):
        return target
    instance = target() if inspect.isclass(target) else target
    for name in ("async_run", "run"):
        found = as_callable(getattr(instance, name, None))
        if found is not None:
            return found
    return as_callable(instance)


def as_callable(target: Any) -> Optional[Handler]:
    return target if callable(target) else None


def _marked_members(target: Any, names: tuple[str, ...]) -> list[Handler]:
    owner = target if isinstance(target, ModuleType) else type(target)
    marked = [name for name, member in vars(owner).items() if set(getattr(member, MARK, ())) & set(names)]
    return [getattr(target, name) for name in marked]


def is_coroutine_handler(handler: Handler) -> bool:
    return inspect.iscoroutinefunction(handler) or inspect.iscoroutinefunction(getattr(handler, "__call__", None))


async def call_handler(handler: Handler, context: ExecutionContext, mode: str, pool: Executor) -> Any:
    """Coroutines run on the event loop; sync handlers in a thread, unless the mode is `inline`."""
    if mode == "inline" or is_coroutine_handler(handler):
        returned = handler(context)
    else:
        running = asyncio.get_running_loop().run_in_executor(pool, contextvars.copy_context().run, handler, context)
        # A thread cannot be cancelled: as long as it runs, so does the call.
        returned = await asyncio.shield(running)
    return await returned if inspect.isawaitable(returned) else returned
