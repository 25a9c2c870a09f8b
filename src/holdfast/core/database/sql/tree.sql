-- Trees of Sessions. The distance is limited, so that a damaged tree cannot be walked without end.

-- name: tree.members
-- A Session and its descendants, parents first, then by age: our ids sort newest first.
with recursive tree (id, depth, time_created) as (
  select id, 0, time_created from session where id = :id
  union all
  select child.id, tree.depth + 1, child.time_created
  from tree cross join session child indexed by session_parent on child.parent_id = tree.id where tree.depth < 100)
select id, depth from tree order by depth, time_created, id desc limit :limit

-- name: tree.usage
-- The same with what each has used.
with recursive tree (id, depth) as (
  select id, 0 from session where id = :id
  union all
  select child.id, tree.depth + 1
  from tree cross join session child indexed by session_parent on child.parent_id = tree.id where tree.depth < 100)
select tree.id, tree.depth, session.parent_id, session.cost, session.tokens_input, session.tokens_output,
  session.tokens_reasoning, session.tokens_cache_read, session.tokens_cache_write
from tree cross join session on session.id = tree.id
order by tree.depth, session.time_created, session.id desc

-- name: tree.roots
-- The parent, the root and the depth of each of these Sessions.
with recursive line (id, parent_id, top, next, depth) as (
  select id, parent_id, id, parent_id, 0 from session where id in (select value from json_each(:ids))
  union all
  select line.id, line.parent_id, session.id, session.parent_id, line.depth + 1
  from line cross join session on session.id = line.next where line.depth < 100)
select id, parent_id, top as root_id, max(depth) as depth from line group by id

-- name: tree.lines
-- Each of these Sessions with all above it; the root first, the Session itself last.
with recursive line (id, above_id, title, agent, directory, parent_id, distance) as (
  select id, id, title, agent, directory, parent_id, 0 from session where id in (select value from json_each(:ids))
  union all
  select line.id, session.id, session.title, session.agent, session.directory, session.parent_id, line.distance + 1
  from line cross join session on session.id = line.parent_id where line.distance < 100)
select id, above_id, title, agent, directory from line order by id, distance desc

-- name: tree.ancestors
-- Root first.
with recursive line (id, parent_id, title, agent, distance) as (
  select id, parent_id, title, agent, 0 from session where id = :id
  union all
  select session.id, session.parent_id, session.title, session.agent, line.distance + 1
  from line cross join session on session.id = line.parent_id where line.distance < 100)
select id, title, agent from line where distance > 0 order by distance desc

-- name: tree.has_child
select 1 from session where parent_id = :id

-- name: tree.background_tasks
-- Background tasks of a Session and its descendants whose result was not delivered; those of the deepest first.
with recursive tree (id, depth) as (
  select id, 0 from session where id = :id
  union all
  select child.id, tree.depth + 1
  from tree cross join session child indexed by session_parent on child.parent_id = tree.id where tree.depth < 100)
select task.session_id, task.message_id, task.call_id, task.child_id, task.root_id, task.prompt_id, task.result_id,
  task.agent, task.description, task.background, task.delivered, task.time_started as started
from tree cross join session_task task on task.session_id = tree.id
where task.background = 1 and task.delivered = 0
order by tree.depth desc, task.time_started desc, task.seq desc

-- name: tree.nodes
-- With what decides about the state of each.
select session.id, session.parent_id, session.title, session.agent, session.model, session.time_created,
  session.time_updated, session.time_archived, session.time_pinned,
  exists (select 1 from session_activity where session_id = session.id) as owes,
  (select count(*) from session_input where session_id = session.id and promoted_seq is null
    and withdrawn_seq is null) as pending,
  exists (select 1 from session_request where session_id = session.id and reply is null) as asks
from session where session.id in (select value from json_each(:ids))

-- name: tree.tasks
-- The newest task of each child, how far the child came with it, and the header of its newest answer.
select task.child_id, task.message_id, task.call_id, task.agent, task.description, task.background, task.time_started,
  input.id is not null as given, input.ended_seq is not null as ended, input.withdrawn_seq is not null as withdrawn,
  task.background = 0 or task.delivered = 0 as undelivered,
  exists (select 1 from session_blocked where session_id = task.child_id) as blocked,
  cast((
    select answer.data from session_message answer
    where answer.session_id = task.child_id and answer.type = 'assistant' and answer.seq > input.promoted_seq
      and answer.seq <= input.ended_seq order by answer.seq desc limit 1) as blob) as answer
from session_task task left join session_input input on input.id = task.prompt_id and input.session_id = task.child_id
where task.child_id in (select value from json_each(:ids)) and not exists (
  select 1 from session_task later where later.child_id = task.child_id
    and (later.time_started, later.seq) > (task.time_started, task.seq))

-- name: tree.turns
select turn.session_id, turn.time_dispatched as dispatched, turn.message_id, turn.model, (
  select data from event
  where aggregate_id = turn.session_id and seq > turn.seq and type = 'session.next.retried.1' order by seq desc limit 1) as retried
from session_turn turn where turn.session_id in (select value from json_each(:ids)) and turn.used is null

-- name: tree.calls
-- Calls without a settlement, and the children that they wait for.
select part.session_id, part.key, json_extract(part.data, '$.name') as name,
  coalesce(json_extract(part.data, '$.time.ran'), json_extract(part.data, '$.time.created')) as since,
  task.child_id, task.agent, task.description
from session_message_part part indexed by session_message_part_unsettled
join session_message answer on answer.session_id = part.session_id and answer.seq = part.message_seq
left join session_task task on task.session_id = part.session_id and task.message_id = answer.id
  and task.call_id = part.key and task.background = 0
where part.session_id in (select value from json_each(:ids)) and part.status in ('pending', 'running')
  and part.kind = 'tool'
order by part.session_id, part.message_seq, part.idx

-- name: tree.requests
select session_id, id, kind, time_created as since, data from session_request
where session_id in (select value from json_each(:ids)) and reply is null order by session_id, seq

-- name: tree.blocked
select session_id, since, name, message from session_blocked
where session_id in (select value from json_each(:ids)) and exists (
  select 1 from session_input where session_input.session_id = session_blocked.session_id and promoted_seq is null
    and withdrawn_seq is null)

-- name: tree.pauses
-- Those that wait for a budget, as long as something is owed or waits.
select session_id, budget_id, since from session_pause pause
where session_id in (select value from json_each(:ids)) and (
  exists (select 1 from session_activity where session_activity.session_id = pause.session_id) or exists (
    select 1 from session_input where session_input.session_id = pause.session_id and promoted_seq is null
      and withdrawn_seq is null))

-- name: tree.moved_since
-- Those of these Sessions that have events after a position, in the order of :ids, with the last sequence up to it. Read
-- from the newest event backwards, as far as events are newer.
select aggregate_id, reached from (
  select key, value as aggregate_id, (
    select seq from event where aggregate_id = value and position <= cast(:position as integer) order by seq desc limit 1
  ) as reached, (select seq from event_sequence where aggregate_id = value) as last from json_each(:ids)
) where last > coalesce(reached, -1) order by key
