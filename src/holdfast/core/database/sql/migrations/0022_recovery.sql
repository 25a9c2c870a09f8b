-- The sequence of the decision that left the work to a person; null without one.
alter table session_activity add column decision_seq integer;
