-- The conversation of a Session as segments of messages, its own and those of the Sessions it was forked from.
-- `:after` is the sequence of the last message that stays. Null stands for that of `:message_id`, if it is the Session's own.

-- name: lineage.begin
-- Everything of its own.
insert into session_lineage (session_id, after_seq, through_seq, source_id)
values (:session_id, -1, 4611686018427387904, :session_id)

-- name: lineage.insert
insert into session_lineage (session_id, after_seq, through_seq, source_id)
values (:session_id, :after, :through, :source_id)

-- name: lineage.covers
-- Whether a position is part of a Session's conversation.
select 1 from session_lineage where session_id = :session_id and after_seq < :after and :after <= through_seq

-- name: lineage.of
-- The segments up to a position, those without messages left out.
select source_id, after_seq, min(through_seq, :through) as through_seq from session_lineage segment
where session_id = :session_id and after_seq < :through and exists (
  select 1 from session_message m
  where m.session_id = segment.source_id and m.seq > segment.after_seq and m.seq <= min(segment.through_seq, :through))
order by after_seq

-- name: lineage.referring
-- Segments of other Sessions that refer to messages of this one.
select session_id, after_seq, through_seq from session_lineage
where source_id = :id and source_id <> session_id order by session_id, after_seq

-- name: lineage.remove_after
delete from session_lineage
where session_id = :session_id and after_seq >= coalesce(:after, (select seq from session_message where id = :message_id and session_id = :session_id))

-- name: lineage.end_at
update session_lineage set through_seq = coalesce(:after, (select seq from session_message where id = :message_id and session_id = :session_id))
where session_id = :session_id
  and through_seq > coalesce(:after, (select seq from session_message where id = :message_id and session_id = :session_id))

-- name: lineage.reopen
-- New messages of its own follow a revert.
insert into session_lineage (session_id, after_seq, through_seq, source_id)
select :session_id, :seq, 4611686018427387904, :session_id
where not exists (
  select 1 from session_lineage where session_id = :session_id and through_seq = 4611686018427387904)

-- name: lineage.find_newest_answer
-- Of the Session's own, after some were taken away.
update session set newest_assistant = (
  select m.seq from session_lineage segment
  cross join session_message m
  where segment.session_id = :session_id and segment.source_id = :session_id and m.session_id = :session_id
    and m.seq > segment.after_seq and m.seq <= segment.through_seq and m.type = 'assistant'
  order by segment.after_seq desc, m.seq desc limit 1)
where id = :session_id and newest_assistant is not null

-- name: lineage.split
-- Leaves one position out: what follows it becomes a segment.
insert into session_lineage (session_id, after_seq, through_seq, source_id)
select session_id, coalesce(:position, (select seq from session_message where id = :message_id)), through_seq, source_id
from session_lineage
where session_id = :session_id
  and after_seq < coalesce(:position, (select seq from session_message where id = :message_id))
  and through_seq > coalesce(:position, (select seq from session_message where id = :message_id))

-- name: lineage.shorten
update session_lineage
set through_seq = coalesce(:position, (select seq from session_message where id = :message_id)) - 1
where session_id = :session_id
  and after_seq < coalesce(:position, (select seq from session_message where id = :message_id)) - 1
  and through_seq >= coalesce(:position, (select seq from session_message where id = :message_id))

-- name: lineage.remove_empty
delete from session_lineage
where session_id = :session_id
  and after_seq = coalesce(:position, (select seq from session_message where id = :message_id)) - 1
  and through_seq >= coalesce(:position, (select seq from session_message where id = :message_id))

-- name: lineage.release_messages
-- Deletes the messages after a position that no other Session shows.
delete from session_message where rowid in (
  select m.rowid from session_lineage segment
  cross join session_message m
  where segment.session_id = :session_id
    and m.session_id = segment.source_id and m.seq <= segment.through_seq
    and m.seq > max(segment.after_seq, coalesce(:after, (select seq from session_message where id = :message_id and session_id = :session_id)))
    and (m.session_id = :session_id or not exists (
      select 1 from session_lineage own
      where own.session_id = m.session_id and own.source_id = m.session_id
        and own.after_seq < m.seq and m.seq <= own.through_seq))
    and not exists (
      select 1 from session_lineage other
      where other.source_id = m.session_id and other.source_id <> other.session_id and other.session_id <> :session_id
        and other.after_seq < m.seq and m.seq <= other.through_seq))

-- name: lineage.release_parts
-- Foreign keys rest during a rebuild.
delete from session_message_part where rowid in (
  select part.rowid from session_lineage segment
  cross join session_message_part part
  where segment.session_id = :session_id
    and part.session_id = segment.source_id and part.message_seq <= segment.through_seq
    and part.message_seq > max(segment.after_seq, coalesce(:after, (select seq from session_message where id = :message_id and session_id = :session_id)))
    and not exists (
      select 1 from session_message m where m.session_id = part.session_id and m.seq = part.message_seq))

-- name: lineage.release_attachments
-- Of Sessions that are gone: without its message, an attachment has no use.
delete from session_attachment
where session_id in (select source_id from session_lineage where session_id = :session_id)
  and not exists (select 1 from session where id = session_attachment.session_id)
  and not exists (select 1 from session_message m where m.id = session_attachment.message_id)

-- name: lineage.release_checkpoint
-- A checkpoint that was left out, unless another Session shows it.
delete from session_message
where id = :message_id and type = 'compaction'
  and not exists (
    select 1 from session_lineage own
    where own.session_id = session_message.session_id and own.source_id = session_message.session_id
      and own.after_seq < session_message.seq and session_message.seq <= own.through_seq)
  and not exists (
    select 1 from session_lineage other
    where other.source_id = session_message.session_id and other.source_id <> other.session_id
      and other.after_seq < session_message.seq and session_message.seq <= other.through_seq)

-- name: fork.newest
-- The newest message up to a position.
select m.seq, m.id from session_lineage segment
cross join session_message m
where segment.session_id = :session_id and segment.after_seq < :through
  and m.session_id = segment.source_id and m.seq > segment.after_seq and m.seq <= min(segment.through_seq, :through)
order by segment.after_seq desc, m.seq desc limit 1

-- name: fork.next
-- The oldest message after a position.
select m.seq, m.id from session_lineage segment
cross join session_message m
where segment.session_id = :session_id and segment.through_seq > :after
  and m.session_id = segment.source_id and m.seq > max(segment.after_seq, :after) and m.seq <= segment.through_seq
order by segment.after_seq, m.seq limit 1

-- name: fork.unfinished
-- The oldest message that may still change: an answer without its end or with an open call, or a running command. Only
-- the newest answer can be open, and messages of others are complete.
select m.seq, m.id from session_message m
where m.session_id = :session_id and m.seq = (
  select min(open.seq) from (
    select answer.seq from session join session_message answer
      on answer.session_id = session.id and answer.seq = session.newest_assistant
    where session.id = :session_id and (
      json_extract(answer.data, '$.time.completed') is null or exists (
        select 1 from session_message_part part
        where part.session_id = answer.session_id and part.message_seq = answer.seq
          and part.status in ('pending', 'running')))
    union all
    select shell.seq from session_message shell indexed by session_message_running_shell
    where shell.session_id = :session_id and shell.type = 'shell'
      and json_extract(shell.data, '$.time.completed') is null
  ) open)

-- name: fork.source_changed
-- Whether messages were taken away from a Session after a sequence.
select 1 from event where aggregate_id = :session_id and seq > :head and type in (
  'session.next.revert.committed.1', 'session.next.compaction.undone.1', 'session.deleted.1')

-- name: fork.instructions
select path, seq from session_instruction
where session_id = :session_id and directory = :directory and workspace_id = :workspace_id and seq <= :through
order by seq, path

-- name: fork.todos
-- Nothing if the list was replaced after the position.
select content, status, priority, seq from todo where session_id = :session_id and seq <= :through order by position
