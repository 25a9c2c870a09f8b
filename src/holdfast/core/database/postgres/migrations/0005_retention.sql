-- Deleted Sessions whose events are still in the log, and what each was part of. `purging` marks those that are being
-- removed for good.
create table deleted_session (
  id text collate "C" not null,
  parent_id text collate "C",
  source_id text collate "C",
  time_updated bigint not null,
  purging bigint not null default 0,
  primary key (id)
);
create index deleted_session_parent on deleted_session (parent_id) where parent_id is not null;
create index deleted_session_source on deleted_session (source_id) where source_id is not null;
create index deleted_session_purging on deleted_session (id) where purging = 1;
insert into deleted_session (id, parent_id, source_id, time_updated)
select aggregate_id, data::json #>> '{info,parentID}', data::json #>> '{info,fork,sessionID}',
  coalesce((data::json #>> '{info,time,updated}')::bigint, 0)
from event where type = 'session.deleted.1' and not exists (select 1 from session where id = event.aggregate_id)
on conflict do nothing;

-- When a person said that retention must not remove the Session.
alter table session add column time_pinned bigint;

-- When a server last began to apply the retention policy by itself: one of several servers does.
create table retention_run (id bigint not null, time bigint not null, primary key (id));
