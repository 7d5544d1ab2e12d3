"""Limits of the process: memory once, processor time again for each call."""

from __future__ import annotations

from typing import Optional

try:
    import resource
except ImportError:  # not a Unix system: there is nothing to set
    resource = None  # type: ignore[assignment]


def limit_memory(megabytes: Optional[int]) -> None:
    """An adapter that needs more gets a MemoryError."""
    if resource is None:
        return
    # A dump of a process that was ended helps nobody here.
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    if megabytes is not None:
        limit = megabytes * 1024 * 1024
        resource.setrlimit(resource.RLIMIT_AS, (limit, limit))


def limit_processor_time(seconds: Optional[int]) -> None:
    """From now on so many seconds more; the process is ended by SIGXCPU beyond."""
    if resource is None or seconds is None:
        return
    used = resource.getrusage(resource.RUSAGE_SELF)
    _, hard = resource.getrlimit(resource.RLIMIT_CPU)
    soft = int(used.ru_utime + used.ru_stime) + seconds + 1
    if hard == resource.RLIM_INFINITY or soft <= hard:
        resource.setrlimit(resource.RLIMIT_CPU, (soft, hard))
