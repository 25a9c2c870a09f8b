"""What means the same inside and outside: plain immutable records, ids, the event manifest. No I/O, no clocks."""
