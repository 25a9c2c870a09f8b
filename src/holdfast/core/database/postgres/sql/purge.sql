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
