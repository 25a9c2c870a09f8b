-- name: message.insert
insert into session_message (session_id, seq, id, type, time_created, time_updated, data)
values (:session_id, :seq, :id, :type, :timestamp, :timestamp, :data)

-- name: message.exists
select 1 from session_message where id = :id

-- name: message.close_newest_assistant
-- A new step closes the newest assistant message that is still open; older ones stay as they are.
update session_message
set data = json_set(data, '$.time.completed', :timestamp), time_updated = :timestamp
where session_id = :session_id
  and seq = (select newest_assistant from session where id = :session_id)
  and json_extract(data, '$.time.completed') is null

-- name: message.note_assistant
update session set newest_assistant = :seq where id = :session_id

-- name: message.end_step
update session_message
set data = json_patch(data, :patch), time_updated = :timestamp
where id = :message_id and session_id = :session_id and type = 'assistant'

-- name: message.end_shell
update session_message
set data = json_patch(data, :patch), time_updated = :timestamp
where session_id = :session_id and seq = (
  select max(seq) from session_message indexed by session_message_shell
  where session_id = :session_id and type = 'shell' and json_extract(data, '$.callID') = :call_id
)

-- name: message.open_shell
-- One runs at a time, so only the newest may have no end.
with newest as (
  select data, time_created from session_message indexed by session_message_shell
  where session_id = :session_id and type = 'shell' order by seq desc limit 1
)
select json_extract(data, '$.callID') as call_id, json_extract(data, '$.command') as command, time_created as since
from newest where json_extract(data, '$.time.completed') is null

-- name: message.delete_after
delete from session_message
where session_id = :session_id
  and seq > (select seq from session_message where id = :message_id and session_id = :session_id)

-- name: message.undo_compaction
-- Only while nothing was promoted or generated after it.
delete from session_message
where id = :message_id and session_id = :session_id and type = 'compaction' and not exists (
  select 1 from session_message later
  where later.session_id = :session_id and later.seq > session_message.seq
    and later.type in ('user', 'assistant', 'synthetic', 'shell', 'compaction'))

-- name: part.delete_after
delete from session_message_part
where session_id = :session_id
  and message_seq > (select seq from session_message where id = :message_id and session_id = :session_id)

-- name: message.in_session
select 1 from session_message where id = :message_id and session_id = :session_id

-- name: part.supersede
-- Call ids may repeat within a message: what is meant by a key from now on is the item that is about to be added.
update session_message_part set key = '~' || key
where session_id = :session_id
  and message_seq = (select seq from session_message where id = :message_id and session_id = :session_id)
  and kind = :kind and key = :key

-- name: part.add
-- Appends a content item to an assistant message of this Session; unknown messages are ignored.
insert into session_message_part (session_id, message_seq, idx, kind, key, status, data)
select m.session_id, m.seq,
  coalesce((select max(idx) + 1 from session_message_part p where p.session_id = m.session_id and p.message_seq = m.seq), 0),
  :kind, :key, :status, :data
from session_message m
where m.id = :message_id and m.session_id = :session_id and m.type = 'assistant'

-- name: part.end_text
update session_message_part set data = json_set(data, '$.text', :text)
where session_id = :session_id
  and message_seq = (select seq from session_message where id = :message_id and session_id = :session_id)
  and kind = 'text' and key = :key

-- name: part.end_reasoning
-- Metadata given at the end replaces what came at the start.
update session_message_part
set data = json_set(
  case when :metadata is null then data else json_set(data, '$.providerMetadata', json(:metadata)) end,
  '$.text', :text, '$.time.completed', :timestamp)
where session_id = :session_id
  and message_seq = (select seq from session_message where id = :message_id and session_id = :session_id)
  and kind = 'reasoning' and key = :key

-- name: part.tool_input
update session_message_part set data = json_set(data, '$.state.input', :text)
where session_id = :session_id and status = 'pending'
  and message_seq = (select seq from session_message where id = :message_id and session_id = :session_id)
  and kind = 'tool' and key = :key

-- name: part.tool_called
update session_message_part
set status = 'running',
  data = json_set(data, '$.provider', json(:provider), '$.state', json(:state), '$.time.ran', :timestamp)
where session_id = :session_id and status = 'pending'
  and message_seq = (select seq from session_message where id = :message_id and session_id = :session_id)
  and kind = 'tool' and key = :key

-- name: part.tool_progress
update session_message_part
set data = json_set(data, '$.state.structured', json(:structured), '$.state.content', json(:content))
where session_id = :session_id and status = 'running'
  and message_seq = (select seq from session_message where id = :message_id and session_id = :session_id)
  and kind = 'tool' and key = :key

-- name: part.tool_success
-- The call's input stays; `executed` once true stays true; result-side metadata is kept beside the call's.
update session_message_part
set status = 'completed',
  data = json_set(
    case when :metadata is null then data else json_set(data, '$.provider.resultMetadata', json(:metadata)) end,
    '$.provider.executed', json(case when :executed or json_extract(data, '$.provider.executed') then 'true' else 'false' end),
    '$.state', json_set(json(:state), '$.input', data -> '$.state.input'),
    '$.time.completed', :timestamp)
where session_id = :session_id and status = 'running'
  and message_seq = (select seq from session_message where id = :message_id and session_id = :session_id)
  and kind = 'tool' and key = :key

-- name: part.tool_failed
-- A running call keeps its input and its last checkpoint; a pending one had no input yet.
update session_message_part
set data = json_set(
    case when :metadata is null then data else json_set(data, '$.provider.resultMetadata', json(:metadata)) end,
    '$.provider.executed', json(case when :executed or json_extract(data, '$.provider.executed') then 'true' else 'false' end),
    '$.state', json_set(
      json(:state),
      '$.input', json(case when status = 'pending' then '{}' else data -> '$.state.input' end),
      '$.structured', json(case when status = 'pending' then '{}' else data -> '$.state.structured' end),
      '$.content', json(case when status = 'pending' then '[]' else data -> '$.state.content' end)),
    '$.time.completed', :timestamp),
  status = 'error'
where session_id = :session_id and status in ('pending', 'running')
  and message_seq = (select seq from session_message where id = :message_id and session_id = :session_id)
  and kind = 'tool' and key = :key

-- name: message.get
select m.seq, m.id, m.type, cast(m.data as blob) as data, cast((
  select group_concat(p.data, ',') from (
    select data from session_message_part
    where session_id = m.session_id and message_seq = m.seq order by idx) p
) as blob) as parts
from session_message m where m.id = :message_id and m.session_id = :session_id

-- name: message.page_desc
select m.seq, m.id, m.type, cast(m.data as blob) as data, cast((
  select group_concat(p.data, ',') from (
    select data from session_message_part
    where session_id = m.session_id and message_seq = m.seq order by idx) p
) as blob) as parts
from session_message m
where m.session_id = :session_id and m.seq < :anchor order by m.seq desc limit :limit

-- name: message.page_asc
select m.seq, m.id, m.type, cast(m.data as blob) as data, cast((
  select group_concat(p.data, ',') from (
    select data from session_message_part
    where session_id = m.session_id and message_seq = m.seq order by idx) p
) as blob) as parts
from session_message m
where m.session_id = :session_id and m.seq > :anchor order by m.seq asc limit :limit

-- name: message.active
-- Active history: from the newest checkpoint on, plus system messages newer than the baseline.
with cut as (
  select (select max(seq) from session_message where session_id = :session_id and type = 'compaction') as checkpoint,
         (select baseline_seq from session_context_epoch where session_id = :session_id) as baseline
)
select m.seq, m.id, m.type, cast(m.data as blob) as data, cast((
  select group_concat(p.data, ',') from (
    select data from session_message_part
    where session_id = m.session_id and message_seq = m.seq order by idx) p
) as blob) as parts
from session_message m, cut
where m.session_id = :session_id
  and (cut.checkpoint is null or m.seq >= cut.checkpoint
       or (m.type = 'system' and cut.baseline is not null and m.seq > cut.baseline))
  and (m.type <> 'system' or cut.baseline is null or m.seq > cut.baseline)
order by m.seq

-- name: message.open_input
-- What was put into the conversation before a position and no complete answer follows. A step that failed is no
-- answer; a step that called tools is part of one. A synthetic message is an input if it was admitted.
with newest as (
  select seq from session_message message
  where session_id = :session_id and seq < :before and (type = 'user' or type = 'synthetic' and exists (
    select 1 from session_input input where input.id = message.id))
  order by seq desc limit 1
), heard as (
  select coalesce((
    select m.seq from session_message m
    where m.session_id = :session_id and m.type = 'assistant' and m.seq < newest.seq
      and json_extract(m.data, '$.finish') is not null and json_extract(m.data, '$.error') is null
    order by m.seq desc limit 1), -1) as seq
  from newest
), taken as (
  select coalesce((
    select m.seq from session_message m
    where m.session_id = :session_id and m.type = 'assistant' and m.seq > newest.seq and m.seq < :before
      and json_extract(m.data, '$.finish') is not null and json_extract(m.data, '$.error') is null
    order by m.seq limit 1), :before) as seq
  from newest
)
select m.seq, m.id, m.type, cast(m.data as blob) as data, null as parts
from session_message m, newest, heard, taken
where m.session_id = :session_id and m.type in ('user', 'synthetic', 'shell')
  and m.seq > heard.seq and m.seq < taken.seq
  and not exists (
    select 1 from session_message answer
    where answer.session_id = :session_id and answer.type = 'assistant'
      and answer.seq > newest.seq and answer.seq < :before
      and json_extract(answer.data, '$.finish') is not null and json_extract(answer.data, '$.error') is null
      and not exists (
        select 1 from session_message_part part
        where part.session_id = :session_id and part.message_seq = answer.seq and part.kind = 'tool'
          and coalesce(json_extract(part.data, '$.provider.executed'), 0) = 0))
order by m.seq

-- name: message.after
-- The content of a message that the caller holds in memory is not put together.
select m.seq, m.id, m.type, cast(m.data as blob) as data, case when m.id is not :held then cast((
  select group_concat(p.data, ',') from (
    select data from session_message_part
    where session_id = m.session_id and message_seq = m.seq order by idx) p
) as blob) end as parts
from session_message m where m.session_id = :session_id and m.seq > :after order by m.seq

-- name: message.checkpoint
select max(seq) as seq from session_message where session_id = :session_id and type = 'compaction'

-- name: message.unsettled_tools
-- Calls that a previous drain left pending or running, with what their failure must carry.
select m.id as message_id, p.key as call_id, cast(p.data as blob) as data
from session_message_part p
join session_message m on m.session_id = p.session_id and m.seq = p.message_seq
where p.session_id = :session_id and p.status in ('pending', 'running')
order by p.message_seq, p.idx
