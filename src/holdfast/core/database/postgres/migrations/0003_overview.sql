-- Sessions without a parent, by their last change.
create index session_changed on session (time_updated desc, id) where parent_id is null;
