"""Files of a Location: resolving paths, reading, and changing files without loss.

May import: the modules beside the packages."""
