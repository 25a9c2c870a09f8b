-- Tries are counted for one activity, named by the sequence it began with.
alter table session_attempt add column seq integer not null default -1;
