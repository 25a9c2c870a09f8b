-- What retention looks at.

-- name: retention.bytes
select coalesce(sum(total), 0)::bigint as bytes from (
  select sum(octet_length(data)) as total from event
  where aggregate_id = any (array(select json_array_elements_text(:ids::json)))
  union all
  select sum(octet_length(data)) from session_message
  where session_id = any (array(select json_array_elements_text(:ids::json)))
  union all
  select sum(octet_length(data)) from session_message_part
  where session_id = any (array(select json_array_elements_text(:ids::json)))
  union all
  select sum(octet_length(content)) from session_attachment
  where session_id = any (array(select json_array_elements_text(:ids::json)))) sizes

-- name: retention.state
with recursive tree (root_id, id, depth) as (
  select id, id, 0 from session where id = any (array(select json_array_elements_text(:ids::json)))
  union all
  select tree.root_id, child.id, tree.depth + 1
  from tree join session child on child.parent_id = tree.id where tree.depth < 100)
select tree.root_id as id, max(session.time_updated) as updated, max((session.time_pinned is not null)::int) as pinned,
  max((exists (select 1 from session_activity where session_id = session.id)
    or exists (select 1 from session_request where session_id = session.id and reply is null)
    or exists (select 1 from session_input
      where session_id = session.id and promoted_seq is null and withdrawn_seq is null))::int) as busy
from tree join session on session.id = tree.id group by tree.root_id

-- name: retention.claim
insert into retention_run (id, time) values (0, :now)
on conflict (id) do update set time = excluded.time where retention_run.time <= :now::bigint - :interval::bigint
