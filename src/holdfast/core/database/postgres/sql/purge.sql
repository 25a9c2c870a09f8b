-- Deleted Sessions, and removing what is left of them for good.

-- name: deleted.related
select id from deleted_session where parent_id = any (array(select json_array_elements_text(:ids::json)))
union
select id from deleted_session where source_id = any (array(select json_array_elements_text(:ids::json)))

-- name: purge.forks
select distinct session_id from session_lineage
where source_id = any (array(select json_array_elements_text(:ids::json))) and source_id <> session_id
  and session_id <> all (array(select json_array_elements_text(:ids::json)))
order by session_id

-- name: purge.order
select session_id as earlier, source_id as later from session_lineage
where source_id = any (array(select json_array_elements_text(:ids::json))) and source_id <> session_id
union
select id, parent_id from session where parent_id = any (array(select json_array_elements_text(:ids::json)))

-- name: purge.heads
select id, seq from session join event_sequence on aggregate_id = id
where id = any (array(select json_array_elements_text(:ids::json)))

-- name: purge.changed
select 1 from json_each_text(:heads::json) head left join event_sequence now on now.aggregate_id = head.key
where now.seq is distinct from head.value::bigint limit 1
