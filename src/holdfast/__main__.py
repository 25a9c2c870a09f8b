"""`python -m holdfast` runs the command line."""

from __future__ import annotations

from holdfast.cli.main import main

if __name__ == "__main__":
    main()
