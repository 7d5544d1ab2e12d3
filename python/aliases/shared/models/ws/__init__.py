"""A name that older adapters import from; the code is in astraflow_sdk."""
