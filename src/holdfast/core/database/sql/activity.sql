-- What the model of a Session still owes.

-- name: activity.begin
insert into session_activity (session_id, seq, time_started, suspended) values (:session_id, :seq, :timestamp, 0)
on conflict (session_id) do update set seq = excluded.seq, time_started = excluded.time_started, suspended = 0,
  decision_seq = null

-- name: activity.dispatch
-- A turn without a new input: somebody asked for a run from history.
insert into session_activity (session_id, seq, time_started, suspended) values (:session_id, :seq, :timestamp, 0)
on conflict (session_id) do update set suspended = 0, decision_seq = null

-- name: activity.step_ended
-- With a call of a local tool the model is owed another turn.
delete from session_activity
where session_id = :session_id and not exists (
  select 1 from session_message_part part
  where part.session_id = :session_id and part.kind = 'tool'
    and part.message_seq = (select seq from session_message where id = :message_id and session_id = :session_id)
    and coalesce(json_extract(part.data, '$.provider.executed'), 0) = 0)

-- name: activity.end
delete from session_activity where session_id = :session_id

-- name: activity.rejections
-- How many answers were rejected since the newest prompt that asks for one.
select count(*) from event
where aggregate_id = :session_id and type = 'session.next.step.ended.2'
  and json_extract(data, '$.rejected') is not null and seq > coalesce((
    select seq from session_message
    where session_id = :session_id and type = 'user' and json_extract(data, '$.options.noReply') is null
    order by seq desc limit 1), -1)

-- name: activity.suspend
insert into session_activity (session_id, seq, time_started, suspended) values (:session_id, :seq, :timestamp, 1)
on conflict (session_id) do update set suspended = 1, decision_seq = null

-- name: activity.decide
update session_activity set decision_seq = :seq where session_id = :session_id

-- name: activity.is_undecided
select 1 from session_activity
where session_id = :session_id and seq = :activity_seq and decision_seq is null

-- name: activity.range
-- `calls` are those of the open step that may have started: they neither wait for a person nor for a child.
-- Activities of the Sessions whose ids lie between two, both included; oldest first.
select activity.session_id, activity.seq, activity.time_started, activity.suspended, activity.decision_seq,
  session.time_compacting,
  (select m.type from session_lineage segment
   cross join session_message m
   where segment.session_id = activity.session_id and m.session_id = segment.source_id
     and m.seq > segment.after_seq and m.seq <= segment.through_seq
     and m.type in ('user', 'assistant', 'synthetic', 'shell')
     and (m.type <> 'user' or json_extract(m.data, '$.options.noReply') is null)
   order by segment.after_seq desc, m.seq desc limit 1) as newest_type,
  turn.agent, turn.model, turn.attempt, turn.message_id, turn.time_dispatched, turn.used,
  exists (
    select 1 from session_request
    where session_id = activity.session_id and reply is null and (kind <> 'form' or resumable = 1)) as asks,
  exists (
    select 1 from session_message_part part indexed by session_message_part_unsettled
    join session_message answer on answer.session_id = part.session_id and answer.seq = part.message_seq
    join session_task task
      on task.session_id = part.session_id and task.message_id = answer.id and task.call_id = part.key
    where part.session_id = activity.session_id and part.status in ('pending', 'running')) as delegates,
  case when turn.message_id is null then null else (
    select json_group_array(json_object('id', part.key, 'tool', json_extract(part.data, '$.name'),
      'command', substr(json_extract(part.data, '$.state.input.command'), 1, 500)) order by part.idx)
    from session_message_part part indexed by session_message_part_unsettled
    where part.session_id = activity.session_id and part.status in ('pending', 'running') and part.status = 'running'
      and part.message_seq = (select seq from session_message
        where id = turn.message_id and session_id = activity.session_id)
      and not exists (
        select 1 from session_task
        where session_id = activity.session_id and message_id = turn.message_id and call_id = part.key)
      and coalesce((
        select request.resumable = 0 or request.taken = 1 from session_request request
        where request.session_id = activity.session_id and coalesce(
            json_extract(request.data, '$.source.callID'), json_extract(request.data, '$.tool.callID')) = part.key
          and coalesce(json_extract(request.data, '$.source.messageID'),
            json_extract(request.data, '$.tool.messageID')) = turn.message_id
        order by request.seq desc limit 1), 1)) end as calls,
  coalesce((
    select count from session_attempt where session_id = activity.session_id and seq = activity.seq), 0) as attempts
from session_activity activity
join session on session.id = activity.session_id
left join session_turn turn on turn.session_id = activity.session_id
where activity.session_id between :first and :last
order by activity.time_started, activity.session_id limit :limit

-- name: activity.endings
-- The end of each Session's newest answer, and its newest activity that ended by an event of its own, unless a revert came
-- later: then with where its newest input was promoted.
select session.id, (
    select json_object('seq', answer.seq, 'id', answer.id, 'error', answer.data ->> '$.error.message',
      'code', answer.data ->> '$.error.code', 'finish', answer.data ->> '$.finish',
      'rejected', answer.data ->> '$.rejected')
    from session_message answer where answer.session_id = session.id and answer.seq = newest_assistant) as answer, (
    select json_object('seq', mark.seq, 'reason', mark.data ->> '$.reason', 'promoted', (
      select promoted_seq from session_input
      where session_id = session.id and promoted_seq < mark.seq and no_reply = 0 order by promoted_seq desc limit 1))
    from event mark indexed by event_activity_ended
    where mark.aggregate_id = session.id
      and mark.type in ('session.next.activity.ended.1', 'session.next.revert.committed.1')
    order by mark.seq desc limit 1) as ended
from session where session.id in (select value from json_each(:ids))

-- name: attempt.count
insert into session_attempt (session_id, seq, count)
select session_id, seq, 1 from session_activity where session_id = :session_id
on conflict (session_id) do update set count = case when seq = excluded.seq then count + 1 else 1 end, seq = excluded.seq

-- name: attempt.hold
-- No process goes on by itself with a Session that came with a bundle: neither with what it owes, nor with results of
-- background tasks.
insert into session_attempt (session_id, seq, count)
select session.id, coalesce((select seq from session_activity where session_id = session.id), -1), :count
from session where session.id = :session_id
on conflict (session_id) do update set seq = excluded.seq, count = excluded.count

-- name: attempt.forget
delete from session_attempt where session_id = :session_id

-- name: blocked.set
insert into session_blocked (session_id, since, name, message) values (:session_id, :since, :name, :message)
on conflict (session_id) do update set name = excluded.name, message = excluded.message

-- name: blocked.clear
delete from session_blocked where session_id = :session_id

-- name: blocked.of
-- Only as long as something waits.
select since, name, message from session_blocked where session_id = :session_id and exists (
  select 1 from session_input
  where session_id = :session_id and promoted_seq is null and withdrawn_seq is null)
