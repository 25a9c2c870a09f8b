-- Sessions without a parent, by their last change.
create index session_changed on session (time_updated desc, id) where parent_id is null;

-- Only inputs that wait, so that those of all Sessions are found without reading the others.
create index session_input_waiting on session_input (session_id) where promoted_seq is null and withdrawn_seq is null;
