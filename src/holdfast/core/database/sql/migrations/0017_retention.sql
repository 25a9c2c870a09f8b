-- Deleted Sessions whose events are still in the log, and what each was part of. `purging` marks those that are being
-- removed for good. Operational: a rebuild leaves it as it is.
create table deleted_session (
  id text primary key not null,
  parent_id text,
  source_id text,
  time_updated integer not null,
  purging integer not null default 0
) without rowid;
create index deleted_session_parent on deleted_session (parent_id) where parent_id is not null;
create index deleted_session_source on deleted_session (source_id) where source_id is not null;
create index deleted_session_purging on deleted_session (id) where purging = 1;
insert or ignore into deleted_session (id, parent_id, source_id, time_updated)
select aggregate_id, json_extract(data, '$.info.parentID'), json_extract(data, '$.info.fork.sessionID'),
  coalesce(json_extract(data, '$.info.time.updated'), 0)
from event where type = 'session.deleted.1' and not exists (select 1 from session where id = event.aggregate_id);

-- When a person said that retention must not remove the Session.
alter table session add column time_pinned integer;

-- When a server last began to apply the retention policy by itself: one of several servers does.
create table retention_run (id integer primary key check (id = 0), time integer not null);
