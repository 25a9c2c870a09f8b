-- Work that tool calls of a Session gave to child Sessions. A background task brings its result as an input.
create table session_task (
  session_id text not null,
  seq integer not null,
  message_id text not null,
  call_id text not null,
  child_id text not null,
  root_id text not null,
  prompt_id text not null unique,
  result_id text not null unique,
  caller text not null,
  agent text not null,
  description text not null,
  background integer not null,
  delivered integer not null default 0,
  time_started integer not null,
  primary key (session_id, seq)
);
create index session_task_call on session_task (session_id, message_id, call_id);
create index session_task_child on session_task (child_id);
create index session_task_undelivered on session_task (child_id) where background = 1 and delivered = 0;
create index session_task_of_tree on session_task (root_id) where background = 1 and delivered = 0;

-- The sequence at which the activity ended that a promoted input began or joined.
alter table session_input add column ended_seq integer;
create temp table activity_end (session_id text not null, seq integer not null, primary key (session_id, seq));
insert into activity_end
select ended.aggregate_id, ended.seq from event ended
where ended.type = 'session.next.activity.ended.1'
  or ended.type = 'session.next.step.failed.2' and not exists (
    select 1 from event suspended where suspended.aggregate_id = ended.aggregate_id
      and suspended.seq = ended.seq + 1 and suspended.type = 'session.next.activity.suspended.1')
  or ended.type = 'session.next.step.ended.2' and json_extract(ended.data, '$.rejected') is null and (
    json_type(ended.data, '$.structured') is not null or not exists (
      select 1 from session_message answer
      join session_message_part part on part.session_id = answer.session_id and part.message_seq = answer.seq
      where answer.id = json_extract(ended.data, '$.assistantMessageID') and answer.session_id = ended.aggregate_id
        and part.kind = 'tool' and coalesce(json_extract(part.data, '$.provider.executed'), 0) = 0));
update session_input set ended_seq = (
  select min(seq) from activity_end
  where activity_end.session_id = session_input.session_id and activity_end.seq > session_input.promoted_seq)
where promoted_seq is not null;
drop table activity_end;
create index session_input_open on session_input (session_id) where promoted_seq is not null and ended_seq is null;

-- Calls without a settlement, of which a Session has few, among all that it ever made.
create index session_message_part_unsettled on session_message_part (session_id, message_seq)
where status in ('pending', 'running');

-- The process in which a caller without a tool call waits for the answer.
alter table session_request add column owner text;
update session_request set owner = (
  select json_extract(asked.data, '$.owner') from event asked
  where asked.aggregate_id = session_request.session_id and asked.seq = session_request.seq);
