"""What explains a Session: its requests to models, its context window, where its time went, its log, what it was at a
sequence, and which files it changed. Everything is read from the log and its projections when somebody asks."""
