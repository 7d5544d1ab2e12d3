"""Starts the Python host of one package version. The worker starts it with `python3 -I run_host.py`; see docs/host-protocol.md."""

import os
import sys

FOLDER = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, FOLDER)

from astraflow_host.main import main  # noqa: E402  (the path comes first)

if __name__ == "__main__":
    main(aliases=os.path.join(FOLDER, "aliases"))
