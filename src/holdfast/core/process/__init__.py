"""Child processes: started in groups of their own, bounded, and gone when their call ends."""
