-- Events. Their position is the number of their transaction, and a position of the log is a snapshot: it shows the
-- transactions that had committed when it was taken.

-- name: event.advance
insert into event_sequence (aggregate_id, seq) values (:aggregate_id, :size::bigint - 1)
on conflict (aggregate_id) do update set seq = event_sequence.seq + :size::bigint
returning seq, set_config('holdfast.head', seq::text, true)

-- name: event.page
select seq, id, type, data, metadata from event
where aggregate_id = :aggregate_id and seq > :after order by seq limit :limit

-- name: event.page_of_types
select seq, id, type, data, metadata from event
where aggregate_id = :aggregate_id and seq > :after
  and type = any (array(select json_array_elements_text(:types::json)))
order by seq limit :limit

-- name: event.position
select pg_current_snapshot()::text as position

-- name: event.moved_since
-- A snapshot does not show what began after it, and what ran then. The last condition leaves out events of a restored
-- database whose transactions had higher numbers. In the order of the transactions, so that a Session comes before one
-- that was created under it.
select aggregate_id, min(seq) as first, max(seq) as last, pg_current_snapshot()::text as position from event
where (position >= pg_snapshot_xmax(:position::pg_snapshot)
    or position = any (array(select pg_snapshot_xip(:position::pg_snapshot))))
  and pg_visible_in_snapshot(position, pg_current_snapshot())
group by aggregate_id order by min(position::text::bigint), aggregate_id
