-- Work that tool calls of a Session gave to child Sessions.

-- name: task.insert
insert into session_task (
  session_id, seq, message_id, call_id, child_id, root_id, prompt_id, result_id, caller, agent, description, background,
  time_started)
values (
  :session_id, :seq, :message_id, :call_id, :child_id, :root_id, :prompt_id, :result_id, :caller, :agent, :description,
  :background, :timestamp)

-- name: task.move
update session_task set background = 1
where session_id = :session_id and message_id = :message_id and call_id = :call_id and background = 0

-- name: task.deliver
update session_task set delivered = 1 where result_id = :id and session_id = :session_id

-- name: task.take_back
-- Results that a committed revert takes out of the inbox, and that nobody has read, are to be delivered again.
update session_task set delivered = 0 where session_id = :session_id and result_id in (
  select id from session_input
  where session_id = :session_id and promoted_seq is null and withdrawn_seq is null and admitted_seq > coalesce(
    :after, (select seq from session_message where id = :message_id and session_id = :session_id)))

-- name: task.delete_after
-- A committed revert forgets what was started after its boundary.
delete from session_task
where session_id = :session_id and seq > coalesce(
  :after, (select seq from session_message where id = :message_id and session_id = :session_id))

-- name: task.call_runs
-- Whether a call has begun and has no settlement.
select 1 from session_message answer
join session_message_part part on part.session_id = answer.session_id and part.message_seq = answer.seq
where answer.id = :message_id and answer.session_id = :session_id
  and part.kind = 'tool' and part.key = :call_id and part.status = 'running'

-- name: task.of_call
select session_id, message_id, call_id, child_id, root_id, prompt_id, result_id, agent, description, background,
  delivered, time_started as started
from session_task where session_id = :session_id and message_id = :message_id and call_id = :call_id

-- name: task.of_child
-- What a child was given and its callers still wait for, oldest first: of a foreground task the call runs; a background
-- task has not been delivered.
select task.session_id, task.message_id, task.call_id, task.child_id, task.root_id, task.prompt_id, task.result_id,
  task.agent, task.description, task.background, task.delivered, task.time_started as started
from session_task task
where task.child_id = :child_id and case when task.background = 1 then task.delivered = 0 else exists (
  select 1 from session_message answer
  join session_message_part part on part.session_id = answer.session_id and part.message_seq = answer.seq
  where answer.id = task.message_id and answer.session_id = task.session_id
    and part.kind = 'tool' and part.key = task.call_id and part.status = 'running') end
order by task.time_started, task.seq

-- name: task.open
-- Tasks of a Session whose calls run, in the order of the calls.
select task.session_id, task.message_id, task.call_id, task.child_id, task.root_id, task.prompt_id, task.result_id,
  task.agent, task.description, task.background, task.delivered, task.time_started as started
from session_message_part part indexed by session_message_part_unsettled
join session_message answer on answer.session_id = part.session_id and answer.seq = part.message_seq
join session_task task
  on task.session_id = part.session_id and task.message_id = answer.id and task.call_id = part.key
where part.session_id = :session_id and part.status in ('pending', 'running') and part.kind = 'tool'
order by part.message_seq, part.idx

-- name: task.left_behind
-- Foreground tasks that go on, of the newest step that gave any, whose calls have ended.
select task.session_id, task.message_id, task.call_id, task.child_id, task.root_id, task.prompt_id, task.result_id,
  task.agent, task.description, task.background, task.delivered, task.time_started as started
from session_task task
join session_input input on input.id = task.prompt_id and input.session_id = task.child_id
where task.session_id = :session_id and task.message_id = (
    select message_id from session_task where session_id = :session_id order by seq desc limit 1)
  and task.background = 0 and input.ended_seq is null and input.withdrawn_seq is null and not exists (
    select 1 from session_message answer
    join session_message_part part on part.session_id = answer.session_id and part.message_seq = answer.seq
    where answer.id = task.message_id and answer.session_id = task.session_id
      and part.kind = 'tool' and part.key = task.call_id and part.status = 'running')
order by task.seq

-- name: task.of_prompts
-- Prompts of an activity that are to be given to subagents, and were not.
select input.id, json_extract(input.prompt, '$.text') as text, json_extract(input.prompt, '$.task') as task
from session_input input indexed by session_input_open
where input.session_id = :session_id and input.promoted_seq is not null and input.ended_seq is null
  and json_extract(input.prompt, '$.task') is not null and not exists (
    select 1 from session_message answer
    join session_message_part part on part.session_id = answer.session_id and part.message_seq = answer.seq
    where answer.session_id = input.session_id and answer.seq > input.promoted_seq
      and part.kind = 'tool' and part.key = 'call_' || substr(input.id, 5))
order by input.promoted_seq

-- name: task.newest
-- The newest task of each child of a Session, newest first.
select task.session_id, task.message_id, task.call_id, task.child_id, task.root_id, task.prompt_id, task.result_id,
  task.agent, task.description, task.background, task.delivered, task.time_started as started
from session_task task
where task.session_id = :session_id and task.seq = (
  select max(other.seq) from session_task other
  where other.child_id = task.child_id and other.session_id = task.session_id)
order by task.seq desc limit :limit

-- name: task.joined
-- Whether a child went on with a later task in the same activity: the result of that one is the result of both.
select 1 from session_task task
join session_input input on input.id = task.prompt_id and input.session_id = task.child_id
where task.child_id = :child_id and task.session_id = :session_id and task.background = 1
  and input.promoted_seq > :promoted_seq and input.ended_seq = :ended_seq

-- name: task.undelivered
-- Children of background tasks whose result was not delivered.
select distinct child_id from session_task
where background = 1 and delivered = 0 and not exists (
  select 1 from session_attempt held where held.session_id = session_task.session_id and held.count >= :held)
order by child_id limit :limit

-- name: task.undelivered_of
-- Background tasks of a Session whose result was not delivered.
select session_id, message_id, call_id, child_id, root_id, prompt_id, result_id, agent, description, background,
  delivered, time_started as started
from session_task where session_id = :session_id and background = 1 and delivered = 0 order by seq

-- name: task.background_of_tree
-- How many background tasks of a tree have not been delivered.
select count(*) from session_task where root_id = :root_id and background = 1 and delivered = 0

-- name: task.goes_on
-- Whether a task was handed over and is not over.
select 1 from session_input
where id = :prompt_id and session_id = :child_id and ended_seq is null and withdrawn_seq is null

-- name: task.state
-- How far a child came with a task. Without a row it was not handed over, or the child or its history is gone.
select input.promoted_seq, input.ended_seq, input.withdrawn_seq,
  exists (select 1 from session_wake where input_id = input.id) as wanted,
  (select message from session_blocked where session_id = input.session_id) as blocked
from session_input input where input.id = :prompt_id and input.session_id = :child_id

-- name: task.answer
-- The newest answer that a child gave to a task.
select id from session_message
where session_id = :child_id and type = 'assistant' and seq > :promoted_seq and seq <= :ended_seq
order by seq desc limit 1

-- name: task.calls
-- What a child did for a task: how often it called which tool.
select json_extract(part.data, '$.name'), count(*) from session_message_part part
where part.session_id = :child_id and part.message_seq > :promoted_seq and part.message_seq <= :ended_seq
  and part.kind = 'tool'
group by 1 order by 1

-- name: task.ancestors
-- From the parent up to the root.
with recursive line(id, parent_id, distance) as (
  select id, parent_id, 0 from session where id = :session_id
  union all
  select session.id, session.parent_id, line.distance + 1 from line join session on session.id = line.parent_id
  where line.distance < 100)
select id from line where distance > 0 order by distance

-- name: task.any_for
-- Whether a child was ever given something.
select 1 from session_task where child_id = :child_id limit 1

-- name: task.any_active_below
-- Whether a Session in a directory, or below it, owes something.
select 1 from session_activity activity cross join session on session.id = activity.session_id
where session.directory = :directory or substr(session.directory, 1, length(:directory) + 1) = :directory || '/'
limit 1

-- name: task.any_unfinished
-- Whether a child of this Session works on a background task.
select 1 from session_task where session_id = :session_id and background = 1 and delivered = 0 limit 1

-- name: task.giver
-- The Session whose call gave this input to a child.
select session_id from session_task where child_id = :child_id and prompt_id = :prompt_id limit 1
