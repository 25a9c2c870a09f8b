-- name: audit.of_sessions
select time_created as time, who, what, session_id, subject from audit_entry
where session_id = any (array(select json_array_elements_text(:ids::json)))
