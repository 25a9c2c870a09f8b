"""Running a Session: the drain, one provider turn, lowering, publication, tool calls."""
