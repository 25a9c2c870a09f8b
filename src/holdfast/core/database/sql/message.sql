-- name: message.insert
-- Only into a Session that exists.
insert into session_message (session_id, seq, id, type, time_created, time_updated, data)
select :session_id, :seq, :id, :type, :timestamp, :timestamp, :data
where exists (select 1 from session where id = :session_id)

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

-- name: message.set_structured
-- Not by `json_patch`, which would remove nulls inside the value.
update session_message
set data = json_set(data, '$.structured', json(:value))
where id = :message_id and session_id = :session_id and type = 'assistant'

-- name: message.end_shell
update session_message
set data = json_patch(data, :patch), time_updated = :timestamp
where session_id = :session_id and seq = (
  select max(seq) from session_message indexed by session_message_shell
  where session_id = :session_id and type = 'shell' and json_extract(data, '$.callID') = :call_id
)

-- name: message.boundary
-- Whether a revert may name a message: the Session shows it, or it is one of others, whose rows a rebuild may make later.
select 1 where exists (
  select 1 from session_message m
  join session_lineage segment on segment.session_id = :session_id and segment.source_id = m.session_id
    and segment.after_seq < m.seq and m.seq <= segment.through_seq
  where m.id = :message_id
) or (
  exists (select 1 from session_lineage where session_id = :session_id and source_id <> :session_id)
  and not exists (select 1 from session_message where id = :message_id))

-- name: message.open_shell
-- The Session's own: what a fork shares is complete. One runs at a time.
select json_extract(data, '$.callID') as call_id, json_extract(data, '$.command') as command, time_created as since
from session_message indexed by session_message_running_shell
where session_id = :session_id and type = 'shell' and json_extract(data, '$.time.completed') is null
order by seq desc limit 1

-- name: message.place
select m.seq, m.session_id as owner_id from session_message m
cross join session_lineage segment
where m.id = :message_id and segment.session_id = :session_id and segment.source_id = m.session_id
  and segment.after_seq < m.seq and m.seq <= segment.through_seq

-- name: message.undoable_checkpoint
-- Only while nothing was promoted or generated after it.
select 1 from session_message m
cross join session_lineage segment
where m.id = :message_id and segment.session_id = :session_id and segment.source_id = m.session_id
  and segment.after_seq < m.seq and m.seq <= segment.through_seq and m.type = 'compaction' and not exists (
  select 1 from session_lineage following
  cross join session_message later
  where following.session_id = :session_id and following.through_seq > m.seq
    and later.session_id = following.source_id
    and later.seq > max(following.after_seq, m.seq) and later.seq <= following.through_seq
    and later.type in ('user', 'assistant', 'synthetic', 'shell', 'compaction'))

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

-- name: part.break_off
update session_message_part set data = json_set(data, '$.brokenOff', json('true'))
where session_id = :session_id
  and message_seq = (select seq from session_message where id = :message_id and session_id = :session_id)
  and kind = :kind and key = :key

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
select m.seq, m.id, m.type, m.session_id as owner_id, cast(m.data as blob) as data, cast((
  select group_concat(p.data, ',') from (
    select data from session_message_part
    where session_id = m.session_id and message_seq = m.seq order by idx) p
) as blob) as parts
from session_message m
cross join session_lineage segment
where m.id = :message_id and segment.session_id = :session_id and segment.source_id = m.session_id
  and segment.after_seq < m.seq and m.seq <= segment.through_seq

-- name: message.page_desc
select m.seq, m.id, m.type, m.session_id as owner_id, cast(m.data as blob) as data, cast((
  select group_concat(p.data, ',') from (
    select data from session_message_part
    where session_id = m.session_id and message_seq = m.seq order by idx) p
) as blob) as parts
from session_lineage segment
cross join session_message m
where segment.session_id = :session_id and segment.after_seq < :anchor
  and m.session_id = segment.source_id
  and m.seq > segment.after_seq and m.seq <= min(segment.through_seq, :anchor - 1)
order by segment.after_seq desc, m.seq desc limit :limit

-- name: message.page_asc
select m.seq, m.id, m.type, m.session_id as owner_id, cast(m.data as blob) as data, cast((
  select group_concat(p.data, ',') from (
    select data from session_message_part
    where session_id = m.session_id and message_seq = m.seq order by idx) p
) as blob) as parts
from session_lineage segment
cross join session_message m
where segment.session_id = :session_id and segment.through_seq > :anchor
  and m.session_id = segment.source_id
  and m.seq > max(segment.after_seq, :anchor) and m.seq <= segment.through_seq
order by segment.after_seq, m.seq limit :limit

-- name: message.active
-- Active history: from the newest checkpoint on, plus system messages newer than the baseline.
with cut as (
  select (
    select m.seq from session_lineage segment
    cross join session_message m indexed by session_message_checkpoint
    where segment.session_id = :session_id and m.session_id = segment.source_id and m.type = 'compaction'
      and m.seq > segment.after_seq and m.seq <= segment.through_seq
    order by segment.after_seq desc, m.seq desc limit 1) as checkpoint,
    (select baseline_seq from session_context_epoch where session_id = :session_id) as baseline
)
select m.seq, m.id, m.type, m.session_id as owner_id, cast(m.data as blob) as data, cast((
  select group_concat(p.data, ',') from (
    select data from session_message_part
    where session_id = m.session_id and message_seq = m.seq order by idx) p
) as blob) as parts
from cut
cross join session_lineage segment
cross join session_message m
where segment.session_id = :session_id and m.session_id = segment.source_id
  and m.seq > segment.after_seq and m.seq <= segment.through_seq
  and (cut.checkpoint is null or m.seq >= cut.checkpoint
       or (m.type = 'system' and cut.baseline is not null and m.seq > cut.baseline))
  and (m.type <> 'system' or cut.baseline is null or m.seq > cut.baseline)
order by segment.after_seq, m.seq

-- name: message.open_input
-- What was put into the conversation before a position and no complete answer follows. A step that failed or was
-- rejected is no answer; a step that called tools is part of one, unless it holds the structured answer. A message that
-- asks for no answer is not what a step works on. A synthetic message is an input if it was admitted; the log knows it
-- also of a deleted Session.
with newest as (
  select m.seq from session_lineage segment
  cross join session_message m
  where segment.session_id = :session_id and segment.after_seq < :before and m.session_id = segment.source_id
    and m.seq > segment.after_seq and m.seq <= min(segment.through_seq, :before - 1) and (
      m.type = 'user' and json_extract(m.data, '$.options.noReply') is null
      or m.type = 'synthetic' and exists (
        select 1 from event promoted
        where promoted.aggregate_id = m.session_id and promoted.seq = m.seq
          and json_extract(promoted.data, '$.delivery') is not null))
  order by segment.after_seq desc, m.seq desc limit 1
), heard as (
  select coalesce((
    select m.seq from session_lineage segment
    cross join session_message m
    where segment.session_id = :session_id and segment.after_seq < newest.seq and m.session_id = segment.source_id
      and m.seq > segment.after_seq and m.seq <= min(segment.through_seq, newest.seq - 1) and m.type = 'assistant'
      and json_extract(m.data, '$.finish') is not null and json_extract(m.data, '$.error') is null
      and json_extract(m.data, '$.rejected') is null
    order by segment.after_seq desc, m.seq desc limit 1), -1) as seq
  from newest
), taken as (
  select coalesce((
    select m.seq from session_lineage segment
    cross join session_message m
    where segment.session_id = :session_id and segment.through_seq > newest.seq and m.session_id = segment.source_id
      and m.seq > max(segment.after_seq, newest.seq) and m.seq <= min(segment.through_seq, :before - 1)
      and m.type = 'assistant'
      and json_extract(m.data, '$.finish') is not null and json_extract(m.data, '$.error') is null
      and json_extract(m.data, '$.rejected') is null
    order by segment.after_seq, m.seq limit 1), :before) as seq
  from newest
)
select m.seq, m.id, m.type, m.session_id as owner_id, cast(m.data as blob) as data, null as parts
from newest
cross join heard
cross join taken
cross join session_lineage segment
cross join session_message m
where segment.session_id = :session_id and m.session_id = segment.source_id
  and m.seq > max(segment.after_seq, heard.seq) and m.seq <= min(segment.through_seq, taken.seq - 1)
  and m.type in ('user', 'synthetic', 'shell')
  and not exists (
    select 1 from session_lineage following
    cross join session_message answer
    where following.session_id = :session_id and answer.session_id = following.source_id and answer.type = 'assistant'
      and answer.seq > max(following.after_seq, newest.seq) and answer.seq <= min(following.through_seq, :before - 1)
      and json_extract(answer.data, '$.finish') is not null and json_extract(answer.data, '$.error') is null
      and json_extract(answer.data, '$.rejected') is null
      and (json_type(answer.data, '$.structured') is not null or not exists (
        select 1 from session_message_part part
        where part.session_id = answer.session_id and part.message_seq = answer.seq and part.kind = 'tool'
          and coalesce(json_extract(part.data, '$.provider.executed'), 0) = 0)))
order by m.seq

-- name: message.after
-- The content of a message that the caller holds in memory is not put together.
select m.seq, m.id, m.type, m.session_id as owner_id, cast(m.data as blob) as data, case when m.id is not :held then cast((
  select group_concat(p.data, ',') from (
    select data from session_message_part
    where session_id = m.session_id and message_seq = m.seq order by idx) p
) as blob) end as parts
from session_lineage segment
cross join session_message m
where segment.session_id = :session_id and segment.through_seq > :after and m.session_id = segment.source_id
  and m.seq > max(segment.after_seq, :after) and m.seq <= segment.through_seq
order by segment.after_seq, m.seq

-- name: message.checkpoint
select m.seq from session_lineage segment
cross join session_message m indexed by session_message_checkpoint
where segment.session_id = :session_id and m.session_id = segment.source_id and m.type = 'compaction'
  and m.seq > segment.after_seq and m.seq <= segment.through_seq
order by segment.after_seq desc, m.seq desc limit 1

-- name: message.unsettled_tools
-- Calls that a previous drain left pending or running, with what their failure must carry.
select m.id as message_id, p.key as call_id, cast(p.data as blob) as data
from session_message_part p indexed by session_message_part_unsettled
join session_message m on m.session_id = p.session_id and m.seq = p.message_seq
where p.session_id = :session_id and p.status in ('pending', 'running')
order by p.message_seq, p.idx
