"""What an adapter for AstraFlow imports: its context, its feedback, the resources of its worker, and its errors."""

from .context import Cancellation, ExecutionContext
from .errors import NextError, ResourceError, TaskCancelled, TaskError
from .feedback import FeedbackChannel, FeedbackPublisher
from .handlers import handles
from .resources import ResourceHandle, ResourceRegistry

__all__ = [
    "Cancellation",
    "ExecutionContext",
    "FeedbackChannel",
    "FeedbackPublisher",
    "NextError",
    "ResourceError",
    "ResourceHandle",
    "ResourceRegistry",
    "TaskCancelled",
    "TaskError",
    "handles",
]
