"""Who speaks which protocol where."""
