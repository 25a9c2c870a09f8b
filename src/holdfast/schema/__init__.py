"""Records shared by all layers: immutable data, ids, the event manifest. No I/O, no clocks."""
