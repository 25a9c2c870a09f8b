-- Context Epochs.

-- name: context.begin
insert into session_context_epoch (session_id, baseline_id, snapshot_id, baseline_seq, revision, observed, offer)
values ((select id from session where id = :session_id), :baseline_id, :snapshot_id,
  coalesce((select seq from event_sequence where aggregate_id = :session_id), -1), 0, :observed, :offer)
on conflict (session_id) do nothing

-- name: context.take_over
insert into session_context_epoch (session_id, baseline_id, snapshot_id, baseline_seq, revision, observed, offer)
select (select id from session where id = :session_id), baseline_id, coalesce(:snapshot_id, snapshot_id), baseline_seq, 0,
  observed, offer
from session_context_epoch
where session_id = :source_id and revision = :revision and baseline_seq = :baseline_seq

-- name: context.told_after
select m.seq, change.keys from session_lineage segment
join session_message m on m.session_id = segment.source_id and m.type = 'system'
  and m.seq > segment.after_seq and m.seq > :after and m.seq <= segment.through_seq
left join session_context_change change on change.session_id = m.session_id and change.seq = m.seq
where segment.session_id = :session_id
order by segment.after_seq, m.seq

-- name: context.change
insert into session_context_change (session_id, seq, keys)
values ((select id from session where id = :session_id), :seq, :keys)

-- name: context.breaks
select seq, data::json ->> 'broke' as causes, data::json ->> 'brokeBy' as plugins from event
where aggregate_id = :session_id and type = 'session.next.turn.dispatched.1' and data::json ->> 'broke' is not null
order by seq desc limit :limit
