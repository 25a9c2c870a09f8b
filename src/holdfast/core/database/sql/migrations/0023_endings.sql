-- How the last activity of a Session ended is found without reading what came after it.
create index event_activity_ended on event (aggregate_id, seq) where type in (
  'session.next.activity.ended.1', 'session.next.revert.committed.1');

-- A revert takes the newest answer away; the one before it is the newest then.
update session set newest_assistant = (
  select m.seq from session_lineage segment
  cross join session_message m
  where segment.session_id = session.id and segment.source_id = session.id and m.session_id = session.id
    and m.seq > segment.after_seq and m.seq <= segment.through_seq and m.type = 'assistant'
  order by segment.after_seq desc, m.seq desc limit 1)
where newest_assistant is not null and exists (
  select 1 from event where aggregate_id = session.id and type = 'session.next.revert.committed.1');
