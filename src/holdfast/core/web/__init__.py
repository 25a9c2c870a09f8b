"""Reading the web: which addresses may be reached, guarded requests, and pages as text."""
