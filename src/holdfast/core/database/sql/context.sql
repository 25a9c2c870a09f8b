-- Context Epochs. Every write compares what it was made from: the revision, and the baseline's sequence, because a
-- cleared and newly begun epoch counts its revisions from 0 again.

-- name: context.get
select baseline, snapshot, baseline_seq, revision, observed from session_context_epoch where session_id = :session_id

-- name: context.begin
insert into session_context_epoch (session_id, baseline, snapshot, baseline_seq, revision, observed)
values (:session_id, :baseline, :snapshot,
  coalesce((select seq from event_sequence where aggregate_id = :session_id), -1), 0, :observed)
on conflict (session_id) do nothing

-- name: context.replace
update session_context_epoch
set baseline = :baseline, snapshot = :snapshot, observed = :observed, revision = revision + 1,
  baseline_seq = coalesce((select seq from event_sequence where aggregate_id = :session_id), -1)
where session_id = :session_id and revision = :revision and baseline_seq = :baseline_seq

-- name: context.advance
-- Only together with the message that tells the model.
update session_context_epoch
set snapshot = :snapshot, observed = :observed, revision = revision + 1
where session_id = :session_id and revision = :revision and baseline_seq = :baseline_seq

-- name: context.observe
update session_context_epoch
set observed = :observed, revision = revision + 1
where session_id = :session_id and revision = :revision and baseline_seq = :baseline_seq

-- name: context.change
insert into session_context_change (session_id, seq, keys) values (:session_id, :seq, :keys)

-- name: context.changes
-- Which sources the newest system messages spoke for, newest first.
select seq, keys from session_context_change where session_id = :session_id order by seq desc limit :limit

-- name: context.breaks
-- The newest requests that did not begin with the bytes of the one before, newest first.
select seq, json_extract(data, '$.broke') as causes from event
where aggregate_id = :session_id and type = 'session.next.turn.dispatched.1' and json_extract(data, '$.broke') is not null
order by seq desc limit :limit
