"""A name that older adapters import from; the code is in astraflow_sdk."""

from astraflow_sdk.context import ExecutionContext

__all__ = ["ExecutionContext"]
