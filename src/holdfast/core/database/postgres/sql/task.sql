-- name: task.open
select task.session_id, task.message_id, task.call_id, task.child_id, task.root_id, task.prompt_id, task.result_id,
  task.agent, task.description, task.background, task.delivered, task.time_started as started
from session_message_part part
join session_message answer on answer.session_id = part.session_id and answer.seq = part.message_seq
join session_task task
  on task.session_id = part.session_id and task.message_id = answer.id and task.call_id = part.key
where part.session_id = :session_id and part.status in ('pending', 'running') and part.kind = 'tool'
order by part.message_seq, part.idx, task.seq

-- name: task.of_prompts
select input.id, input.prompt::json ->> 'text' as text, input.prompt::json ->> 'task' as task
from session_input input
where input.session_id = :session_id and input.promoted_seq is not null and input.ended_seq is null
  and input.prompt::json ->> 'task' is not null and not exists (
    select 1 from session_message answer
    join session_message_part part on part.session_id = answer.session_id and part.message_seq = answer.seq
    where answer.session_id = input.session_id and answer.seq > input.promoted_seq
      and part.kind = 'tool' and part.key = 'call_' || substr(input.id, 5))
order by input.promoted_seq

-- name: task.calls
select (part.data::json ->> 'name') collate "C", count(*) from session_message_part part
where part.session_id = :child_id and part.message_seq > :promoted_seq and part.message_seq <= :ended_seq
  and part.kind = 'tool'
group by 1 order by 1

-- name: task.any_active_below
select 1 from session_activity activity join session on session.id = activity.session_id
where session.directory = :directory or starts_with(session.directory, :directory || '/')
limit 1
