"""Written by `make generate`."""
