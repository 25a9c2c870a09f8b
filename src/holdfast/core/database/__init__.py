"""Storage: commits units of statements and reads rows. Only this package knows SQLite.

May import: nothing of core."""
