"""Adapters of the package `python`: summaries and keywords of texts, with the standard library alone."""
