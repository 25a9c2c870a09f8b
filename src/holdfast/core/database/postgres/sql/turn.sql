-- name: turn.dispatch
insert into session_turn (session_id, seq, agent, model, attempt, message_id, time_dispatched)
values ((select id from session where id = :session_id), :seq, :agent, :model, :attempt, null, :timestamp)
on conflict (session_id) do update set seq = excluded.seq, agent = excluded.agent, model = excluded.model,
  attempt = excluded.attempt, message_id = null, time_dispatched = excluded.time_dispatched, used = null

-- name: turn.last_dispatch
select last.data as event, exists (
  select 1 from event
  where aggregate_id = :session_id and type = 'session.next.revert.committed.1' and seq > last.seq) as reverted
from (
  (select seq, data, 0 as choice from event
   where aggregate_id = :session_id and type = 'session.next.turn.dispatched.1' order by seq desc limit 1)
  union all
  (select shared.seq, shared.data, 1 from session_lineage segment
   cross join lateral (
     select seq, data from event
     where aggregate_id = segment.source_id and seq > segment.after_seq and seq <= segment.through_seq
       and type = 'session.next.turn.dispatched.1'
     order by seq desc limit 1) shared
   where segment.session_id = :session_id and segment.source_id <> :session_id
   order by segment.after_seq desc limit 1)) last
order by last.choice limit 1

-- name: turn.dangling_compaction
select started.data::json ->> 'messageID' from event started
join session on session.id = started.aggregate_id and session.time_compacting is not null
where started.aggregate_id = :session_id and started.type = 'session.next.compaction.started.1'
order by started.seq desc limit 1
