-- name: event.head
-- The latest sequence and the replay owner of an aggregate.
select seq, owner_id from event_sequence where aggregate_id = :aggregate_id

-- name: event.append
insert into event (id, aggregate_id, seq, type, data, metadata)
values (:id, :aggregate_id, :seq, :type, :data, :metadata)

-- name: event.advance
-- Takes the next :size sequences of an aggregate and returns the last of them.
insert into event_sequence (aggregate_id, seq) values (:aggregate_id, :size - 1)
on conflict (aggregate_id) do update set seq = seq + :size
returning seq

-- name: event.begin
-- The sequence before the first event of an aggregate that does not begin with 0.
insert into event_sequence (aggregate_id, seq) values (:aggregate_id, :seq)
on conflict (aggregate_id) do update set seq = excluded.seq where event_sequence.seq < 0

-- name: event.place
-- Where an event id already stands.
select aggregate_id, seq from event where id = :id

-- name: event.at
select id, type, data from event where aggregate_id = :aggregate_id and seq = :seq

-- name: event.claim
insert into event_sequence (aggregate_id, seq, owner_id) values (:aggregate_id, -1, :owner_id)
on conflict (aggregate_id) do update set owner_id = excluded.owner_id

-- name: event.remove_all
delete from event where aggregate_id = :aggregate_id

-- name: event.remove_sequence
delete from event_sequence where aggregate_id = :aggregate_id

-- name: event.any_of
-- Whether anything of an aggregate was ever stored and not removed.
select 1 from event_sequence where aggregate_id = :aggregate_id and seq >= 0

-- name: event.page
-- A page of everything, private rows included.
select seq, id, type, cast(data as blob) as data, metadata from event
where aggregate_id = :aggregate_id and seq > :after order by seq limit :limit

-- name: event.sizes
-- How large the next events are, without reading them.
select octet_length(data) from event
where aggregate_id = :aggregate_id and seq > :after order by seq limit :limit

-- name: event.page_of_types
-- A page of chosen types; :types is a JSON array, so that the filter comes before the limit.
select seq, id, type, cast(data as blob) as data, metadata from event
where aggregate_id = :aggregate_id and seq > :after and type in (select value from json_each(:types))
order by seq limit :limit

-- name: event.position
-- How far the log of all aggregates reaches, as text that only statements of this store interpret.
select cast(coalesce(max(position), 0) as text) as position from event

-- name: event.moved_since
-- Aggregates with events after a position: the sequences of these events, and the new position, the same in every row.
-- By position alone: an index would put the groups in order, and be read from end to end for that. A Session comes
-- before one that was created under it.
select aggregate_id, min(seq) as first, max(seq) as last,
  (select cast(max(position) as text) from event) as position
from event not indexed where position > cast(:position as integer) group by aggregate_id
order by min(position)

-- name: event.aggregates
-- Newest first: forks before the Sessions they were made from. Those that are being purged have only a part of their
-- events.
select aggregate_id from event_sequence
where not exists (select 1 from deleted_session where id = event_sequence.aggregate_id and purging = 1)
order by (select position from event where aggregate_id = event_sequence.aggregate_id order by seq limit 1) desc,
  aggregate_id

-- name: event.head_is
-- Whether nothing was appended since.
select 1 from event_sequence where aggregate_id = :aggregate_id and seq = :head

-- name: event.remove_after
-- Takes back what was taken over from another log.
delete from event where aggregate_id = :aggregate_id and seq > :head

-- name: event.end_with
update event_sequence set seq = :head where aggregate_id = :aggregate_id
