-- name: wait.tools
select part.key, part.data::json ->> 'name' as name,
  coalesce(part.data::json #>> '{time,ran}', part.data::json #>> '{time,created}')::bigint as since
from session_message_part part
where part.session_id = :session_id and part.status in ('pending', 'running')
  and part.message_seq = (select newest_assistant from session where id = :session_id)
order by part.idx
