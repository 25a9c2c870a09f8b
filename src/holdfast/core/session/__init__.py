"""Sessions: inbox, execution, the runner and their projections."""
