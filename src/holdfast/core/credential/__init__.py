"""Provider credentials, stored in a file that only its owner can read.

May import: the modules beside the packages (clock, file_lock, ...)."""
