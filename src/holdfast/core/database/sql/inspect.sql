-- What explains a Session: reads of its log. `octet_length` does not read the data.

-- name: inspect.turn_marks
-- The dispatches between two sequences, and what separates one turn from the next.
select seq, type, case when type = 'session.next.turn.dispatched.1' then json_extract(data, '$.attempt') end as attempt
from event indexed by event_turn_mark
where aggregate_id = :session_id and seq > :after and seq <= :through and type in (
  'session.next.turn.dispatched.1', 'session.next.turn.abandoned.1', 'session.next.prompted.1')
order by seq

-- name: inspect.requests
-- The newest requests to models before a sequence, newest first.
select seq from event
where aggregate_id = :session_id and seq < :before and (
  type = 'session.next.usage.recorded.1'
  or type = 'session.next.turn.dispatched.1' and json_extract(data, '$.attempt') > 0)
order by seq desc limit :limit

-- name: inspect.dispatch
-- The newest request of a turn up to a sequence.
select seq from event
where aggregate_id = :session_id and seq <= :through
  and type = 'session.next.turn.dispatched.1' and json_extract(data, '$.attempt') > 0
order by seq desc limit 1

-- name: inspect.size_at
-- The size of an event of a Session, or of one in the history that it shares.
select octet_length(data) as size from event where aggregate_id = :session_id and seq = :at
union all
select octet_length(shared.data) from session_lineage segment
cross join event shared
where segment.session_id = :session_id and segment.source_id <> :session_id
  and segment.after_seq < :at and segment.through_seq >= :at
  and shared.aggregate_id = segment.source_id and shared.seq = :at
limit 1

-- name: inspect.log_asc
-- Events between two sequences, by beginnings of types and by contained texts. Data above `:most` bytes is left out.
select seq, id, type, octet_length(data) as size, substr(data, 1, 200) as head,
  case when octet_length(data) <= :most then cast(data as blob) end as data
from event
where aggregate_id = :session_id and seq > :after and seq < :before
  and (:beginnings is null or exists (
    select 1 from json_each(:beginnings) p where substr(event.type, 1, length(p.value)) = p.value))
  and (:texts is null or exists (
    select 1 from json_each(:texts) p where instr(lower(event.type), p.value) > 0 or instr(lower(event.data), p.value) > 0))
order by seq limit :limit

-- name: inspect.log_desc
select seq, id, type, octet_length(data) as size, substr(data, 1, 200) as head,
  case when octet_length(data) <= :most then cast(data as blob) end as data
from event
where aggregate_id = :session_id and seq > :after and seq < :before
  and (:beginnings is null or exists (
    select 1 from json_each(:beginnings) p where substr(event.type, 1, length(p.value)) = p.value))
  and (:texts is null or exists (
    select 1 from json_each(:texts) p where instr(lower(event.type), p.value) > 0 or instr(lower(event.data), p.value) > 0))
order by seq desc limit :limit

-- name: inspect.facts_asc
-- Events of some types; of large ones only what the timeline shows.
select seq, id, type, case when octet_length(data) <= :most then data else json_object(
  'timestamp', json_extract(data, '$.timestamp'),
  'messageID', json_extract(data, '$.messageID'),
  'assistantMessageID', json_extract(data, '$.assistantMessageID'),
  'callID', json_extract(data, '$.callID'),
  'requestID', json_extract(data, '$.requestID'),
  'tool', json_extract(data, '$.tool'),
  'delivery', json_extract(data, '$.delivery'),
  'request', case when json_type(data, '$.request') = 'object' then json_object(
    'id', json_extract(data, '$.request.id'),
    'action', json_extract(data, '$.request.action'),
    'source', json_extract(data, '$.request.source'),
    'tool', json_extract(data, '$.request.tool')) end) end as data
from event
where aggregate_id = :session_id and seq > :after and type in (select value from json_each(:types))
order by seq limit :limit

-- name: inspect.facts_desc
select seq, id, type, case when octet_length(data) <= :most then data else json_object(
  'timestamp', json_extract(data, '$.timestamp'),
  'messageID', json_extract(data, '$.messageID'),
  'assistantMessageID', json_extract(data, '$.assistantMessageID'),
  'callID', json_extract(data, '$.callID'),
  'requestID', json_extract(data, '$.requestID'),
  'tool', json_extract(data, '$.tool'),
  'delivery', json_extract(data, '$.delivery'),
  'request', case when json_type(data, '$.request') = 'object' then json_object(
    'id', json_extract(data, '$.request.id'),
    'action', json_extract(data, '$.request.action'),
    'source', json_extract(data, '$.request.source'),
    'tool', json_extract(data, '$.request.tool')) end) end as data
from event
where aggregate_id = :session_id and seq < :before and type in (select value from json_each(:types))
order by seq desc limit :limit

-- name: inspect.steps
-- The Session's own answers with tool calls: the trees around each, and the tools.
select m.seq, json_extract(m.data, '$.snapshot') as snapshot, (
  select json_group_array(json_extract(p.data, '$.name')) from session_message_part p
  where p.session_id = m.session_id and p.message_seq = m.seq and p.kind = 'tool') as tools
from session_lineage segment
cross join session_message m
where segment.session_id = :session_id and segment.source_id = :session_id and m.session_id = :session_id
  and m.seq > segment.after_seq and m.seq <= segment.through_seq and m.type = 'assistant'
  and exists (
    select 1 from session_message_part p
    where p.session_id = m.session_id and p.message_seq = m.seq and p.kind = 'tool')
order by m.seq

-- name: inspect.diffs
-- What complete calls of the Session say of the files that they changed.
select json_extract(p.data, '$.state.structured.files') as files
from session_lineage segment
cross join session_message_part p
where segment.session_id = :session_id and segment.source_id = :session_id and p.session_id = :session_id
  and p.message_seq > segment.after_seq and p.message_seq <= segment.through_seq
  and p.kind = 'tool' and p.status = 'completed'
  and json_extract(p.data, '$.name') in (select value from json_each(:tools))
  and json_type(p.data, '$.state.structured.files') = 'array'
order by p.message_seq, p.idx limit :limit
