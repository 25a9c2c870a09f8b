-- Trees of Sessions. With `offset 0` each step of a recursion, and each `exists`, uses the index, also if the plan was made
-- while there were few Sessions.

-- name: tree.members
with recursive tree (id, depth, time_created) as (
  select id, 0, time_created from session where id = :id
  union all
  select child.id, tree.depth + 1, child.time_created from tree
  cross join lateral (select id, time_created from session where parent_id = tree.id offset 0) child
  where tree.depth < 100)
select id, depth from tree order by depth, time_created, id desc limit :limit

-- name: tree.usage
with recursive tree (id, depth) as (
  select id, 0 from session where id = :id
  union all
  select child.id, tree.depth + 1 from tree
  cross join lateral (select id from session where parent_id = tree.id offset 0) child where tree.depth < 100)
select tree.id, tree.depth, session.parent_id, session.cost, session.tokens_input, session.tokens_output,
  session.tokens_reasoning, session.tokens_cache_read, session.tokens_cache_write
from tree join session on session.id = tree.id
order by tree.depth, session.time_created, session.id desc

-- name: tree.roots
with recursive line (id, parent_id, top, next, depth) as (
  select id, parent_id, id, parent_id, 0 from session
  where id = any (array(select json_array_elements_text(:ids::json)))
  union all
  select line.id, line.parent_id, session.id, session.parent_id, line.depth + 1
  from line join session on session.id = line.next where line.depth < 100)
select distinct on (id) id, parent_id, top as root_id, depth from line order by id, depth desc

-- name: tree.lines
with recursive line (id, above_id, title, agent, directory, parent_id, distance) as (
  select id, id, title, agent, directory, parent_id, 0 from session where id = any (array(select json_array_elements_text(:ids::json)))
  union all
  select line.id, session.id, session.title, session.agent, session.directory, session.parent_id, line.distance + 1
  from line join session on session.id = line.parent_id where line.distance < 100)
select id, above_id, title, agent, directory from line order by id, distance desc

-- name: tree.ancestors
with recursive line (id, parent_id, title, agent, distance) as (
  select id, parent_id, title, agent, 0 from session where id = :id
  union all
  select session.id, session.parent_id, session.title, session.agent, line.distance + 1
  from line join session on session.id = line.parent_id where line.distance < 100)
select id, title, agent from line where distance > 0 order by distance desc

-- name: tree.background_tasks
with recursive tree (id, depth) as (
  select id, 0 from session where id = :id
  union all
  select child.id, tree.depth + 1 from tree
  cross join lateral (select id from session where parent_id = tree.id offset 0) child where tree.depth < 100)
select task.session_id, task.message_id, task.call_id, task.child_id, task.root_id, task.prompt_id, task.result_id,
  task.agent, task.description, task.background, task.delivered, task.time_started as started
from tree join session_task task on task.session_id = tree.id
where task.background = 1 and task.delivered = 0
order by tree.depth desc, task.time_started desc, task.seq desc

-- name: tree.nodes
select session.id, session.parent_id, session.title, session.agent, session.model, session.time_created,
  session.time_updated, session.time_archived, session.time_pinned,
  exists (select 1 from session_activity where session_id = session.id offset 0) as owes,
  (select count(*) from session_input where session_id = session.id and promoted_seq is null
    and withdrawn_seq is null) as pending,
  exists (select 1 from session_request where session_id = session.id and reply is null offset 0) as asks
from session where session.id = any (array(select json_array_elements_text(:ids::json))) order by session.id

-- name: tree.tasks
select task.child_id, task.message_id, task.call_id, task.agent, task.description, task.background, task.time_started,
  input.id is not null as given, input.ended_seq is not null as ended, input.withdrawn_seq is not null as withdrawn,
  task.background = 0 or task.delivered = 0 as undelivered,
  exists (select 1 from session_blocked where session_id = task.child_id offset 0) as blocked,
  (select answer.data from session_message answer
   where answer.session_id = task.child_id and answer.type = 'assistant' and answer.seq > input.promoted_seq
     and answer.seq <= input.ended_seq order by answer.seq desc limit 1) as answer
from session_task task left join session_input input on input.id = task.prompt_id and input.session_id = task.child_id
where task.child_id = any (array(select json_array_elements_text(:ids::json))) and not exists (
  select 1 from session_task later where later.child_id = task.child_id
    and (later.time_started, later.seq) > (task.time_started, task.seq))
order by task.child_id, task.session_id

-- name: tree.turns
select turn.session_id, turn.time_dispatched as dispatched, turn.message_id, turn.model, (
  select data from event
  where aggregate_id = turn.session_id and seq > turn.seq and type = 'session.next.retried.1' order by seq desc limit 1) as retried
from session_turn turn where turn.session_id = any (array(select json_array_elements_text(:ids::json))) and turn.used is null
order by turn.session_id

-- name: tree.calls
select part.session_id, part.key, part.data::json ->> 'name' as name,
  coalesce(part.data::json #>> '{time,ran}', part.data::json #>> '{time,created}')::bigint as since,
  task.child_id, task.agent, task.description
from session_message_part part
join session_message answer on answer.session_id = part.session_id and answer.seq = part.message_seq
left join session_task task on task.session_id = part.session_id and task.message_id = answer.id
  and task.call_id = part.key and task.background = 0
where part.session_id = any (array(select json_array_elements_text(:ids::json)))
  and part.status in ('pending', 'running') and part.kind = 'tool'
order by part.session_id, part.message_seq, part.idx

-- name: tree.requests
select session_id, id, kind, time_created as since, data from session_request
where session_id = any (array(select json_array_elements_text(:ids::json))) and reply is null order by session_id, seq

-- name: tree.blocked
select session_id, since, name, message from session_blocked
where session_id = any (array(select json_array_elements_text(:ids::json))) and exists (
  select 1 from session_input where session_input.session_id = session_blocked.session_id and promoted_seq is null
    and withdrawn_seq is null offset 0)
order by session_id

-- name: tree.pauses
select session_id, budget_id, since from session_pause pause
where session_id = any (array(select json_array_elements_text(:ids::json))) and (
  exists (select 1 from session_activity where session_activity.session_id = pause.session_id offset 0) or exists (
    select 1 from session_input where session_input.session_id = pause.session_id and promoted_seq is null
      and withdrawn_seq is null offset 0))
order by session_id

-- name: tree.moved_since
select aggregate_id, reached from (
  select place, given.id as aggregate_id, (
    select seq from event where aggregate_id = given.id and pg_visible_in_snapshot(position, :position::pg_snapshot)
    order by seq desc limit 1
  ) as reached, (select seq from event_sequence where aggregate_id = given.id) as last
  from json_array_elements_text(:ids::json) with ordinality as given (id, place)
) found where last > coalesce(reached, -1) order by place
