"""Running a Session: the drain, one provider turn, lowering, publication, tool calls, compaction.

May import: every package of core but location and runtime."""
