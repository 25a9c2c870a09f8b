-- Where a boundary is unknown, its sequence is null and nothing may be changed: `greatest` would ignore the null, so both
-- conditions are written out.

-- name: lineage.of
select source_id, after_seq, least(through_seq, :through::bigint) as through_seq from session_lineage segment
where session_id = :session_id and after_seq < :through and exists (
  select 1 from session_message m
  where m.session_id = segment.source_id and m.seq > segment.after_seq and m.seq <= segment.through_seq and m.seq <= :through)
order by after_seq

-- name: lineage.release_messages
delete from session_message gone using (
  select distinct m.session_id, m.seq from session_lineage segment
  join session_message m on m.session_id = segment.source_id
    and m.seq > segment.after_seq and m.seq <= segment.through_seq
    and m.seq > coalesce(:after, (select seq from session_message where id = :message_id and session_id = :session_id))
  where segment.session_id = :session_id
    and (m.session_id = :session_id or not exists (
      select 1 from session_lineage own
      where own.session_id = m.session_id and own.source_id = m.session_id
        and own.after_seq < m.seq and m.seq <= own.through_seq))
    and not exists (
      select 1 from session_lineage other
      where other.source_id = m.session_id and other.source_id <> other.session_id and other.session_id <> :session_id
        and other.after_seq < m.seq and m.seq <= other.through_seq)) released
where gone.session_id = released.session_id and gone.seq = released.seq

-- name: lineage.release_parts
delete from session_message_part gone using (
  select distinct part.session_id, part.message_seq from session_lineage segment
  join session_message_part part on part.session_id = segment.source_id
    and part.message_seq > segment.after_seq and part.message_seq <= segment.through_seq
    and part.message_seq > coalesce(
      :after, (select seq from session_message where id = :message_id and session_id = :session_id))
  where segment.session_id = :session_id and not exists (
    select 1 from session_message m where m.session_id = part.session_id and m.seq = part.message_seq)) released
where gone.session_id = released.session_id and gone.message_seq = released.message_seq

-- name: fork.newest
select newest.seq, newest.id from session_lineage segment
cross join lateral (
  select m.seq, m.id from session_message m
  where m.session_id = segment.source_id and m.seq > segment.after_seq and m.seq <= segment.through_seq
    and m.seq <= :through
  order by m.seq desc limit 1) newest
where segment.session_id = :session_id and segment.after_seq < :through
order by segment.after_seq desc limit 1

-- name: fork.next
select oldest.seq, oldest.id from session_lineage segment
cross join lateral (
  select m.seq, m.id from session_message m
  where m.session_id = segment.source_id and m.seq > segment.after_seq and m.seq <= segment.through_seq and m.seq > :after
  order by m.seq limit 1) oldest
where segment.session_id = :session_id and segment.through_seq > :after
order by segment.after_seq limit 1

-- name: fork.unfinished
select m.seq, m.id from session_message m
where m.session_id = :session_id and m.seq = (
  select min(open.seq) from (
    select answer.seq from session join session_message answer
      on answer.session_id = session.id and answer.seq = session.newest_assistant
    where session.id = :session_id and (
      answer.data::json #>> '{time,completed}' is null or exists (
        select 1 from session_message_part part
        where part.session_id = answer.session_id and part.message_seq = answer.seq
          and part.status in ('pending', 'running')))
    union all
    select shell.seq from session_message shell
    where shell.session_id = :session_id and shell.type = 'shell'
      and shell.data::json #>> '{time,completed}' is null
  ) open)
