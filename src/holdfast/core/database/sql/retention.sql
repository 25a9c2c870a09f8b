-- What retention looks at.

-- name: retention.sessions
-- All Sessions, page by page.
select id, parent_id, title, directory, time_updated, time_archived, time_pinned from session
where id > :after order by id limit :limit

-- name: retention.busy
-- Sessions that work, have input that waits, or ask a person.
select session_id from session_activity
union select session_id from session_input where promoted_seq is null and withdrawn_seq is null
union select session_id from session_request where reply is null
union select session_id from session_turn

-- name: retention.state
-- The trees of these roots as they are now.
with recursive tree (root_id, id, depth) as (
  select id, id, 0 from session where id in (select value from json_each(:ids))
  union all
  select tree.root_id, child.id, tree.depth + 1
  from tree cross join session child indexed by session_parent on child.parent_id = tree.id where tree.depth < 100)
select tree.root_id as id, max(session.time_updated) as updated, max(session.time_pinned is not null) as pinned,
  max(exists (select 1 from session_activity where session_id = session.id)
    or exists (select 1 from session_request where session_id = session.id and reply is null)
    or exists (select 1 from session_input
      where session_id = session.id and promoted_seq is null and withdrawn_seq is null)) as busy
from tree cross join session on session.id = tree.id group by tree.root_id

-- name: retention.forks
-- Which Sessions show messages of which others.
select distinct source_id, session_id from session_lineage where source_id <> session_id

-- name: retention.bytes
-- About how many bytes the rows of these Sessions have.
select coalesce(sum(total), 0) as bytes from (
  select sum(octet_length(data)) as total from event where aggregate_id in (select value from json_each(:ids))
  union all
  select sum(octet_length(data)) from session_message where session_id in (select value from json_each(:ids))
  union all
  select sum(octet_length(data)) from session_message_part where session_id in (select value from json_each(:ids))
  union all
  select sum(octet_length(content)) from session_attachment where session_id in (select value from json_each(:ids))) more

-- name: retention.claim
-- One of several servers begins when the last one began long enough ago.
insert into retention_run (id, time) values (0, :now)
on conflict (id) do update set time = excluded.time where retention_run.time <= :now - :interval
