"""Child processes: started in groups of their own, bounded, and ended with their call.

May import: web, filesystem."""
