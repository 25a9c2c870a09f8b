"""Guarded web requests: which addresses may be contacted, sizes, redirects.

May import: the modules beside the packages."""
