"""One seam to storage: commit units in, rows out. SQLite today; nothing above this package may know that."""
