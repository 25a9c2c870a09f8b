-- Messages. The newest or oldest message of a conversation is looked for segment by segment (`lateral`): PostgreSQL would
-- otherwise read and sort all messages of all segments.

-- name: message.close_newest_assistant
update session_message
set data = holdfast_json_put(data, 'time', holdfast_json_put(data::json ->> 'time', 'completed', :timestamp::bigint::text)),
  time_updated = :timestamp::bigint
where session_id = :session_id
  and seq = (select newest_assistant from session where id = :session_id)
  and data::json #>> '{time,completed}' is null

-- name: message.end_step
update session_message
set data = holdfast_json_end_step(data, :patch), time_updated = :timestamp
where id = :message_id and session_id = :session_id and type = 'assistant'

-- name: message.set_structured
update session_message
set data = holdfast_json_put(data, 'structured', :value)
where id = :message_id and session_id = :session_id and type = 'assistant'

-- name: message.end_shell
update session_message
set data = holdfast_json_patch(data, :patch), time_updated = :timestamp
where session_id = :session_id and seq = (
  select seq from session_message
  where session_id = :session_id and type = 'shell' and data::json ->> 'callID' = :call_id
  order by seq desc limit 1
)

-- name: message.open_shell
select data::json ->> 'callID' as call_id, data::json ->> 'command' as command, time_created as since
from session_message
where session_id = :session_id and type = 'shell' and data::json #>> '{time,completed}' is null
order by seq desc limit 1

-- name: message.undoable_checkpoint
select 1 from session_message m
cross join session_lineage segment
where m.id = :message_id and segment.session_id = :session_id and segment.source_id = m.session_id
  and segment.after_seq < m.seq and m.seq <= segment.through_seq and m.type = 'compaction' and not exists (
  select 1 from session_lineage following
  cross join session_message later
  where following.session_id = :session_id and following.through_seq > m.seq
    and later.session_id = following.source_id
    and later.seq > following.after_seq and later.seq > m.seq and later.seq <= following.through_seq
    and later.type in ('user', 'assistant', 'synthetic', 'shell', 'compaction'))

-- name: part.end_text
update session_message_part set data = holdfast_json_put(data, 'text', holdfast_json_quote(:text))
where session_id = :session_id
  and message_seq = (select seq from session_message where id = :message_id and session_id = :session_id)
  and kind = 'text' and key = :key

-- name: part.break_off
update session_message_part set data = holdfast_json_put(data, 'brokenOff', 'true')
where session_id = :session_id
  and message_seq = (select seq from session_message where id = :message_id and session_id = :session_id)
  and kind = :kind and key = :key

-- name: part.end_reasoning
update session_message_part
set data = holdfast_json_put(
  holdfast_json_put(holdfast_json_put(data, 'providerMetadata', :metadata), 'text', holdfast_json_quote(:text)),
  'time', holdfast_json_put(data::json ->> 'time', 'completed', :timestamp::bigint::text))
where session_id = :session_id
  and message_seq = (select seq from session_message where id = :message_id and session_id = :session_id)
  and kind = 'reasoning' and key = :key

-- name: part.tool_input
update session_message_part
set data = holdfast_json_put(data, 'state', holdfast_json_put(data::json ->> 'state', 'input', holdfast_json_quote(:text)))
where session_id = :session_id and status = 'pending'
  and message_seq = (select seq from session_message where id = :message_id and session_id = :session_id)
  and kind = 'tool' and key = :key

-- name: part.tool_called
update session_message_part
set status = 'running',
  data = holdfast_json_tool_called(data, :provider, :state, :timestamp)
where session_id = :session_id and status = 'pending'
  and message_seq = (select seq from session_message where id = :message_id and session_id = :session_id)
  and kind = 'tool' and key = :key

-- name: part.tool_progress
update session_message_part
set data = holdfast_json_put(data, 'state', holdfast_json_put(
  holdfast_json_put(data::json ->> 'state', 'structured', :structured), 'content', :content))
where session_id = :session_id and status = 'running'
  and message_seq = (select seq from session_message where id = :message_id and session_id = :session_id)
  and kind = 'tool' and key = :key

-- name: part.tool_success
update session_message_part
set status = 'completed',
  data = holdfast_json_tool_success(data, :state, :metadata, :executed::bigint <> 0, :timestamp)
where session_id = :session_id and status = 'running'
  and message_seq = (select seq from session_message where id = :message_id and session_id = :session_id)
  and kind = 'tool' and key = :key

-- name: part.tool_failed
update session_message_part
set data = holdfast_json_put(
    holdfast_json_put(
      holdfast_json_put(data, 'provider', holdfast_json_put(
        holdfast_json_put(data::json ->> 'provider', 'resultMetadata', :metadata), 'executed',
        case when :executed::bigint <> 0 or data::json #>> '{provider,executed}' = 'true' then 'true' else 'false' end)),
      'state', holdfast_json_put(holdfast_json_put(holdfast_json_put(
        :state,
        'input', case when status = 'pending' then '{}' else coalesce((data::json #> '{state,input}')::text, 'null') end),
        'structured',
        case when status = 'pending' then '{}' else coalesce((data::json #> '{state,structured}')::text, 'null') end),
        'content',
        case when status = 'pending' then '[]' else coalesce((data::json #> '{state,content}')::text, 'null') end)),
    'time', holdfast_json_put(data::json ->> 'time', 'completed', :timestamp::bigint::text)),
  status = 'error'
where session_id = :session_id and status in ('pending', 'running')
  and message_seq = (select seq from session_message where id = :message_id and session_id = :session_id)
  and kind = 'tool' and key = :key

-- name: message.get
select m.seq, m.id, m.type, m.session_id as owner_id, m.data, (
  select string_agg(p.data, ',' order by p.idx) from session_message_part p
  where p.session_id = m.session_id and p.message_seq = m.seq) as parts
from session_message m
cross join session_lineage segment
where m.id = :message_id and segment.session_id = :session_id and segment.source_id = m.session_id
  and segment.after_seq < m.seq and m.seq <= segment.through_seq

-- name: message.page_desc
select m.seq, m.id, m.type, m.session_id as owner_id, m.data, (
  select string_agg(p.data, ',' order by p.idx) from session_message_part p
  where p.session_id = m.session_id and p.message_seq = m.seq) as parts
from (
  select segment.after_seq, found.* from session_lineage segment
  cross join lateral (
    select m.session_id, m.seq, m.id, m.type, m.data from session_message m
    where m.session_id = segment.source_id
      and m.seq > segment.after_seq and m.seq <= segment.through_seq and m.seq < :anchor
    order by m.seq desc limit :limit) found
  where segment.session_id = :session_id and segment.after_seq < :anchor
  order by segment.after_seq desc, found.seq desc limit :limit) m
order by m.after_seq desc, m.seq desc

-- name: message.page_asc
select m.seq, m.id, m.type, m.session_id as owner_id, m.data, (
  select string_agg(p.data, ',' order by p.idx) from session_message_part p
  where p.session_id = m.session_id and p.message_seq = m.seq) as parts
from (
  select segment.after_seq, found.* from session_lineage segment
  cross join lateral (
    select m.session_id, m.seq, m.id, m.type, m.data from session_message m
    where m.session_id = segment.source_id
      and m.seq > segment.after_seq and m.seq <= segment.through_seq and m.seq > :anchor
    order by m.seq limit :limit) found
  where segment.session_id = :session_id and segment.through_seq > :anchor
  order by segment.after_seq, found.seq limit :limit) m
order by m.after_seq, m.seq

-- name: message.active
-- What comes before the checkpoint is not read, but for system messages, which have an index.
with cut as (
  select (
    select newest.seq from session_lineage segment
    cross join lateral (
      select m.seq from session_message m
      where m.session_id = segment.source_id and m.type = 'compaction'
        and m.seq > segment.after_seq and m.seq <= segment.through_seq
      order by m.seq desc limit 1) newest
    where segment.session_id = :session_id
    order by segment.after_seq desc limit 1) as checkpoint,
    (select baseline_seq from session_context_epoch where session_id = :session_id) as baseline
)
select m.seq, m.id, m.type, m.session_id as owner_id, m.data, (
  select string_agg(p.data, ',' order by p.idx) from session_message_part p
  where p.session_id = m.session_id and p.message_seq = m.seq) as parts
from (
  select segment.after_seq, m.session_id, m.seq, m.id, m.type, m.data
  from cut
  cross join session_lineage segment
  cross join session_message m
  where segment.session_id = :session_id and m.session_id = segment.source_id
    and m.seq > segment.after_seq and m.seq <= segment.through_seq and m.seq >= coalesce(cut.checkpoint, -1)
    and (m.type <> 'system' or cut.baseline is null or m.seq > cut.baseline)
  union all
  select segment.after_seq, m.session_id, m.seq, m.id, m.type, m.data
  from cut
  cross join session_lineage segment
  cross join session_message m
  where segment.session_id = :session_id and m.session_id = segment.source_id
    and m.seq > segment.after_seq and m.seq <= segment.through_seq
    and m.seq < cut.checkpoint and m.type = 'system' and m.seq > cut.baseline) m
order by m.after_seq, m.seq

-- name: message.open_input
with newest as (
  select found.seq from session_lineage segment
  cross join lateral (
    select m.seq from session_message m
    where m.session_id = segment.source_id and m.seq > segment.after_seq and m.seq <= segment.through_seq
      and m.seq < :before and (
        m.type = 'user' and m.data::json #>> '{options,noReply}' is null
        or m.type = 'synthetic' and exists (
          select 1 from event promoted
          where promoted.aggregate_id = m.session_id and promoted.seq = m.seq
            and promoted.data::json ->> 'delivery' is not null))
    order by m.seq desc limit 1) found
  where segment.session_id = :session_id and segment.after_seq < :before
  order by segment.after_seq desc limit 1
), heard as (
  select coalesce((
    select found.seq from session_lineage segment
    cross join lateral (
      select m.seq from session_message m
      where m.session_id = segment.source_id and m.seq > segment.after_seq and m.seq <= segment.through_seq
        and m.seq < newest.seq and m.type = 'assistant'
        and m.data::json ->> 'finish' is not null and m.data::json ->> 'error' is null
        and m.data::json ->> 'rejected' is null
      order by m.seq desc limit 1) found
    where segment.session_id = :session_id and segment.after_seq < newest.seq
    order by segment.after_seq desc limit 1), -1) as seq
  from newest
), taken as (
  select coalesce((
    select found.seq from session_lineage segment
    cross join lateral (
      select m.seq from session_message m
      where m.session_id = segment.source_id and m.seq > segment.after_seq and m.seq <= segment.through_seq
        and m.seq > newest.seq and m.seq < :before and m.type = 'assistant'
        and m.data::json ->> 'finish' is not null and m.data::json ->> 'error' is null
        and m.data::json ->> 'rejected' is null
      order by m.seq limit 1) found
    where segment.session_id = :session_id and segment.through_seq > newest.seq
    order by segment.after_seq limit 1), :before) as seq
  from newest
)
select m.seq, m.id, m.type, m.session_id as owner_id, m.data, null as parts
from newest
cross join heard
cross join taken
cross join session_lineage segment
cross join session_message m
where segment.session_id = :session_id and m.session_id = segment.source_id
  and m.seq > segment.after_seq and m.seq > heard.seq and m.seq <= segment.through_seq and m.seq < taken.seq
  and m.type in ('user', 'synthetic', 'shell')
  and not exists (
    select 1 from session_lineage following
    cross join session_message answer
    where following.session_id = :session_id and answer.session_id = following.source_id and answer.type = 'assistant'
      and answer.seq > following.after_seq and answer.seq > newest.seq
      and answer.seq <= following.through_seq and answer.seq < :before
      and answer.data::json ->> 'finish' is not null and answer.data::json ->> 'error' is null
      and answer.data::json ->> 'rejected' is null
      and (answer.data::json -> 'structured' is not null or not exists (
        select 1 from session_message_part part
        where part.session_id = answer.session_id and part.message_seq = answer.seq and part.kind = 'tool'
          and coalesce(part.data::json #>> '{provider,executed}', 'false') = 'false')))
order by m.seq

-- name: message.after
select m.seq, m.id, m.type, m.session_id as owner_id, m.data, case when m.id is distinct from :held then (
  select string_agg(p.data, ',' order by p.idx) from session_message_part p
  where p.session_id = m.session_id and p.message_seq = m.seq) end as parts
from session_lineage segment
cross join session_message m
where segment.session_id = :session_id and segment.through_seq > :after and m.session_id = segment.source_id
  and m.seq > segment.after_seq and m.seq > :after and m.seq <= segment.through_seq
order by segment.after_seq, m.seq

-- name: message.checkpoint
select newest.seq from session_lineage segment
cross join lateral (
  select m.seq from session_message m
  where m.session_id = segment.source_id and m.type = 'compaction'
    and m.seq > segment.after_seq and m.seq <= segment.through_seq
  order by m.seq desc limit 1) newest
where segment.session_id = :session_id
order by segment.after_seq desc limit 1

-- name: message.unsettled_tools
select m.id as message_id, p.key as call_id, p.data
from session_message_part p
join session_message m on m.session_id = p.session_id and m.seq = p.message_seq
where p.session_id = :session_id and p.status in ('pending', 'running')
order by p.message_seq, p.idx
