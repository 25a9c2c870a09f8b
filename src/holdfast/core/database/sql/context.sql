-- Context Epochs. Every write compares what it was made from: the revision, and the baseline's sequence, because a
-- cleared and newly begun epoch counts its revisions from 0 again.

-- name: context.get
select baseline.content, snapshot.content, epoch.baseline_seq, epoch.revision, epoch.observed, epoch.offer
from session_context_epoch epoch
join context_text baseline on baseline.id = epoch.baseline_id
join context_text snapshot on snapshot.id = epoch.snapshot_id
where epoch.session_id = :session_id

-- name: context.offer
select offer from session_context_epoch where session_id = :session_id

-- name: context.store
insert into context_text (id, content) values (:id, :content)

-- name: context.begin
insert into session_context_epoch (session_id, baseline_id, snapshot_id, baseline_seq, revision, observed, offer)
values (:session_id, :baseline_id, :snapshot_id,
  coalesce((select seq from event_sequence where aggregate_id = :session_id), -1), 0, :observed, :offer)
on conflict (session_id) do nothing

-- name: context.replace
update session_context_epoch
set baseline_id = :baseline_id, snapshot_id = :snapshot_id, observed = :observed, offer = :offer,
  revision = revision + 1, baseline_seq = coalesce((select seq from event_sequence where aggregate_id = :session_id), -1)
where session_id = :session_id and revision = :revision and baseline_seq = :baseline_seq

-- name: context.advance
-- Only together with the message that tells the model.
update session_context_epoch
set snapshot_id = :snapshot_id, observed = :observed, revision = revision + 1
where session_id = :session_id and revision = :revision and baseline_seq = :baseline_seq

-- name: context.observe
update session_context_epoch
set observed = :observed, revision = revision + 1
where session_id = :session_id and revision = :revision and baseline_seq = :baseline_seq

-- name: context.take_over
-- A fork refers to the texts of its source, or has a snapshot of its own.
insert into session_context_epoch (session_id, baseline_id, snapshot_id, baseline_seq, revision, observed, offer)
select :session_id, baseline_id, coalesce(:snapshot_id, snapshot_id), baseline_seq, 0, observed, offer
from session_context_epoch
where session_id = :source_id and revision = :revision and baseline_seq = :baseline_seq

-- name: context.told_after
-- What the model was told after a position, and about which sources; null if that is not known any more.
select m.seq, change.keys from session_lineage segment
cross join session_message m indexed by session_message_system
left join session_context_change change on change.session_id = m.session_id and change.seq = m.seq
where segment.session_id = :session_id and m.session_id = segment.source_id and m.type = 'system'
  and m.seq > max(segment.after_seq, :after) and m.seq <= segment.through_seq

-- name: context.change
insert into session_context_change (session_id, seq, keys) values (:session_id, :seq, :keys)

-- name: context.forget_changes
delete from session_context_change where session_id = :id

-- name: context.changes
-- Which sources the newest system messages spoke for, newest first.
select seq, keys from session_context_change where session_id = :session_id order by seq desc limit :limit

-- name: context.breaks
-- The newest requests that did not begin with the bytes of the one before, newest first.
select seq, json_extract(data, '$.broke') as causes, json_extract(data, '$.brokeBy') as plugins from event
where aggregate_id = :session_id and type = 'session.next.turn.dispatched.1' and json_extract(data, '$.broke') is not null
order by seq desc limit :limit
