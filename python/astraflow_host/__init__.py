"""The Python host: runs the adapters of one package version and speaks with the worker. See docs/host-protocol.md."""
