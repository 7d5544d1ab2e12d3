"""A name that older adapters import from; the code is in astraflow_sdk."""

from astraflow_sdk.feedback import FeedbackChannel

__all__ = ["FeedbackChannel"]
