"""Models of AstraFlow's wire for Python: frames of every dialect (v1, v2, first_generation) and the REST bodies of runs."""

from . import first_generation, runs, v1, v2
from .reading import ModelError, read

__all__ = ["ModelError", "first_generation", "read", "runs", "v1", "v2"]
