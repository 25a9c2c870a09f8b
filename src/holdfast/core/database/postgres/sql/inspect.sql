-- What explains a Session.

-- name: inspect.turn_marks
select seq, type,
  case when type = 'session.next.turn.dispatched.1' then (data::json ->> 'attempt')::bigint end as attempt
from event
where aggregate_id = :session_id and seq > :after and seq <= :through and type in (
  'session.next.turn.dispatched.1', 'session.next.turn.abandoned.1', 'session.next.prompted.1')
order by seq

-- name: inspect.requests
select seq from event
where aggregate_id = :session_id and seq < :before and (
  type = 'session.next.usage.recorded.1'
  or case when type = 'session.next.turn.dispatched.1' then (data::json ->> 'attempt')::bigint > 0 else false end)
order by seq desc limit :limit

-- name: inspect.dispatch
select seq from event
where aggregate_id = :session_id and seq <= :through
  and case when type = 'session.next.turn.dispatched.1' then (data::json ->> 'attempt')::bigint > 0 else false end
order by seq desc limit 1

-- name: inspect.log_asc
select seq, id, type, octet_length(data) as size, substr(data, 1, 200) as head,
  case when octet_length(data) <= :most::bigint then data end as data
from event
where aggregate_id = :session_id and seq > :after and seq < :before
  and (:beginnings::text is null or exists (
    select 1 from json_array_elements_text(:beginnings::json) p where starts_with(event.type, p.value)))
  and (:texts::text is null or exists (
    select 1 from json_array_elements_text(:texts::json) p
    where position(p.value in lower(event.type)) > 0 or position(p.value in lower(event.data)) > 0))
order by seq limit :limit

-- name: inspect.log_desc
select seq, id, type, octet_length(data) as size, substr(data, 1, 200) as head,
  case when octet_length(data) <= :most::bigint then data end as data
from event
where aggregate_id = :session_id and seq > :after and seq < :before
  and (:beginnings::text is null or exists (
    select 1 from json_array_elements_text(:beginnings::json) p where starts_with(event.type, p.value)))
  and (:texts::text is null or exists (
    select 1 from json_array_elements_text(:texts::json) p
    where position(p.value in lower(event.type)) > 0 or position(p.value in lower(event.data)) > 0))
order by seq desc limit :limit

-- name: inspect.facts_asc
select seq, id, type, case when octet_length(data) <= :most::bigint then data else (
  select json_build_object(
    'timestamp', whole.data -> 'timestamp',
    'messageID', whole.data -> 'messageID',
    'assistantMessageID', whole.data -> 'assistantMessageID',
    'callID', whole.data -> 'callID',
    'requestID', whole.data -> 'requestID',
    'tool', whole.data -> 'tool',
    'delivery', whole.data -> 'delivery',
    'request', case when json_typeof(whole.data -> 'request') = 'object' then json_build_object(
      'id', whole.data #> '{request,id}',
      'action', whole.data #> '{request,action}',
      'source', whole.data #> '{request,source}',
      'tool', whole.data #> '{request,tool}') end)::text
  from (select event.data::json as data) whole) end as data
from event
where aggregate_id = :session_id and seq > :after
  and type = any (array(select json_array_elements_text(:types::json)))
order by seq limit :limit

-- name: inspect.facts_desc
select seq, id, type, case when octet_length(data) <= :most::bigint then data else (
  select json_build_object(
    'timestamp', whole.data -> 'timestamp',
    'messageID', whole.data -> 'messageID',
    'assistantMessageID', whole.data -> 'assistantMessageID',
    'callID', whole.data -> 'callID',
    'requestID', whole.data -> 'requestID',
    'tool', whole.data -> 'tool',
    'delivery', whole.data -> 'delivery',
    'request', case when json_typeof(whole.data -> 'request') = 'object' then json_build_object(
      'id', whole.data #> '{request,id}',
      'action', whole.data #> '{request,action}',
      'source', whole.data #> '{request,source}',
      'tool', whole.data #> '{request,tool}') end)::text
  from (select event.data::json as data) whole) end as data
from event
where aggregate_id = :session_id and seq < :before
  and type = any (array(select json_array_elements_text(:types::json)))
order by seq desc limit :limit

-- name: inspect.steps
select m.seq, (m.data::json -> 'snapshot')::text as snapshot, (
  select json_agg(p.data::json -> 'name')::text from session_message_part p
  where p.session_id = m.session_id and p.message_seq = m.seq and p.kind = 'tool') as tools
from session_lineage segment
join session_message m on m.session_id = segment.source_id and m.seq > segment.after_seq
  and m.seq <= segment.through_seq and m.type = 'assistant'
where segment.session_id = :session_id and segment.source_id = :session_id
  and exists (
    select 1 from session_message_part p
    where p.session_id = m.session_id and p.message_seq = m.seq and p.kind = 'tool')
order by m.seq

-- name: inspect.diffs
select (p.data::json #> '{state,structured,files}')::text as files
from session_lineage segment
join session_message_part p on p.session_id = segment.source_id and p.message_seq > segment.after_seq
  and p.message_seq <= segment.through_seq and p.kind = 'tool' and p.status = 'completed'
where segment.session_id = :session_id and segment.source_id = :session_id
  and p.data::json ->> 'name' = any (array(select json_array_elements_text(:tools::json)))
  and json_typeof(p.data::json #> '{state,structured,files}') = 'array'
order by p.message_seq, p.idx limit :limit
