"""Files of a Location: where a path leads, how it is read, and how it is changed without loss."""
