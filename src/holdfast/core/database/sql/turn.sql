-- The dispatched turn that has no end yet.

-- name: turn.dispatch
insert into session_turn (session_id, seq, agent, model, attempt, message_id, time_dispatched)
values (:session_id, :seq, :agent, :model, :attempt, null, :timestamp)
on conflict (session_id) do update set seq = excluded.seq, agent = excluded.agent, model = excluded.model,
  attempt = excluded.attempt, message_id = null, time_dispatched = excluded.time_dispatched, used = null

-- name: turn.answer
update session_turn set message_id = :message_id where session_id = :session_id

-- name: turn.answered
update session_turn set used = :used where session_id = :session_id

-- name: turn.end
delete from session_turn where session_id = :session_id

-- name: turn.last_dispatch
-- The newest of its own, or else the newest in the history it shares.
select last.data as event, exists (
  select 1 from event
  where aggregate_id = :session_id and type = 'session.next.revert.committed.1' and seq > last.seq) as reverted
from event last where last.position = coalesce((
  select position from event
  where aggregate_id = :session_id and type = 'session.next.turn.dispatched.1' order by seq desc limit 1
), (
  select shared.position from session_lineage segment
  cross join event shared
  where segment.session_id = :session_id and segment.source_id <> :session_id
    and shared.aggregate_id = segment.source_id
    and shared.seq > segment.after_seq and shared.seq <= segment.through_seq
    and shared.type = 'session.next.turn.dispatched.1'
  order by segment.after_seq desc, shared.seq desc limit 1))

-- name: turn.dangling_compaction
select json_extract(started.data, '$.messageID') from event started
join session on session.id = started.aggregate_id and session.time_compacting is not null
where started.aggregate_id = :session_id and started.type = 'session.next.compaction.started.1'
order by started.seq desc limit 1
