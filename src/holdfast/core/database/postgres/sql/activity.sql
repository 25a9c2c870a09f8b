-- What the model of a Session still owes. A row of a Session that does not exist has no key, and is refused.

-- name: activity.begin
insert into session_activity (session_id, seq, time_started, suspended)
values ((select id from session where id = :session_id), :seq, :timestamp, 0)
on conflict (session_id) do update set seq = excluded.seq, time_started = excluded.time_started, suspended = 0,
  decision_seq = null

-- name: activity.dispatch
insert into session_activity (session_id, seq, time_started, suspended)
values ((select id from session where id = :session_id), :seq, :timestamp, 0)
on conflict (session_id) do update set suspended = 0, decision_seq = null

-- name: activity.step_ended
delete from session_activity
where session_id = :session_id and not exists (
  select 1 from session_message_part part
  where part.session_id = :session_id and part.kind = 'tool'
    and part.message_seq = (select seq from session_message where id = :message_id and session_id = :session_id)
    and coalesce(part.data::json #>> '{provider,executed}', 'false') = 'false')

-- name: activity.rejections
select count(*) from event
where aggregate_id = :session_id and type = 'session.next.step.ended.2'
  and data::json ->> 'rejected' is not null and seq > coalesce((
    select seq from session_message
    where session_id = :session_id and type = 'user' and data::json #>> '{options,noReply}' is null
    order by seq desc limit 1), -1)

-- name: activity.suspend
insert into session_activity (session_id, seq, time_started, suspended)
values ((select id from session where id = :session_id), :seq, :timestamp, 1)
on conflict (session_id) do update set suspended = 1, decision_seq = null

-- name: activity.range
select activity.session_id, activity.seq, activity.time_started, activity.suspended, activity.decision_seq,
  session.time_compacting,
  (select newest.type from session_lineage segment
   cross join lateral (
     select m.type from session_message m
     where m.session_id = segment.source_id and m.seq > segment.after_seq and m.seq <= segment.through_seq
       and m.type in ('user', 'assistant', 'synthetic', 'shell')
       and (m.type <> 'user' or m.data::json #>> '{options,noReply}' is null)
     order by m.seq desc limit 1) newest
   where segment.session_id = activity.session_id
   order by segment.after_seq desc limit 1) as newest_type,
  turn.agent, turn.model, turn.attempt, turn.message_id, turn.time_dispatched, turn.used,
  exists (
    select 1 from session_request
    where session_id = activity.session_id and reply is null and (kind <> 'form' or resumable = 1)) as asks,
  exists (
    select 1 from session_message_part part
    join session_message answer on answer.session_id = part.session_id and answer.seq = part.message_seq
    join session_task task
      on task.session_id = part.session_id and task.message_id = answer.id and task.call_id = part.key
    where part.session_id = activity.session_id and part.status in ('pending', 'running')) as delegates,
  case when turn.message_id is null then null else (
    select coalesce('[' || string_agg(
      '{"id":' || to_json(part.key) || ',"tool":' || (part.data::json -> 'name') || ',"command":'
      || coalesce(to_json(left(part.data::json #>> '{state,input,command}', 500))::text, 'null') || '}',
      ',' order by part.idx) || ']', '[]')
    from session_message_part part
    where part.session_id = activity.session_id and part.status = 'running'
      and part.message_seq = (select seq from session_message
        where id = turn.message_id and session_id = activity.session_id)
      and not exists (
        select 1 from session_task
        where session_id = activity.session_id and message_id = turn.message_id and call_id = part.key)
      and coalesce((
        select request.resumable = 0 or request.taken = 1 from session_request request
        where request.session_id = activity.session_id and coalesce(
            request.data::json #>> '{source,callID}', request.data::json #>> '{tool,callID}') = part.key
          and coalesce(request.data::json #>> '{source,messageID}',
            request.data::json #>> '{tool,messageID}') = turn.message_id
        order by request.seq desc limit 1), true)) end as calls,
  coalesce((
    select count from session_attempt where session_id = activity.session_id and seq = activity.seq), 0) as attempts
from session_activity activity
join session on session.id = activity.session_id
left join session_turn turn on turn.session_id = activity.session_id
where activity.session_id between :first and :last
order by activity.time_started, activity.session_id limit :limit

-- name: activity.endings
select session.id, (
    select json_build_object('seq', answer.seq, 'id', answer.id, 'error', answer.data::json #>> '{error,message}',
      'code', answer.data::json #>> '{error,code}', 'finish', answer.data::json ->> 'finish',
      'rejected', answer.data::json ->> 'rejected')::text
    from session_message answer where answer.session_id = session.id and answer.seq = newest_assistant) as answer, (
    select json_build_object('seq', mark.seq, 'reason', mark.data::json ->> 'reason', 'promoted', (
      select promoted_seq from session_input
      where session_id = session.id and promoted_seq < mark.seq and no_reply = 0 order by promoted_seq desc limit 1))::text
    from event mark
    where mark.aggregate_id = session.id
      and mark.type in ('session.next.activity.ended.1', 'session.next.revert.committed.1')
    order by mark.seq desc limit 1) as ended
from session where session.id = any (array(select json_array_elements_text(:ids::json))) order by session.id

-- name: attempt.count
insert into session_attempt (session_id, seq, count)
select session_id, seq, 1 from session_activity where session_id = :session_id
on conflict (session_id) do update set
  count = case when session_attempt.seq = excluded.seq then session_attempt.count + 1 else 1 end, seq = excluded.seq

-- name: attempt.hold
insert into session_attempt (session_id, seq, count)
select session.id, coalesce((select seq from session_activity where session_id = session.id), -1), :count::bigint
from session where session.id = :session_id
on conflict (session_id) do update set seq = excluded.seq, count = excluded.count
