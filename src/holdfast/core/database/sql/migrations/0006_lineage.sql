-- The conversation of a Session as segments: messages of Session `source_id` with a sequence in (after_seq, through_seq].
-- A plain Session has one segment of its own; a fork begins with segments of others.
create table session_lineage (
  session_id text not null,
  after_seq integer not null,
  through_seq integer not null,
  source_id text not null,
  primary key (session_id, after_seq)
) without rowid;
create index session_lineage_source on session_lineage (source_id, through_seq) where source_id <> session_id;

-- What committed reverts and undone compactions took away is left out. A revert whose boundary is gone lies inside of a
-- later one.
create temp table hidden (session_id text not null, after_seq integer not null, through_seq integer not null);
insert into hidden
select reverted.aggregate_id, boundary.seq, max(reverted.seq) from event reverted
join session_message boundary
  on boundary.id = json_extract(reverted.data, '$.messageID') and boundary.session_id = reverted.aggregate_id
where reverted.type = 'session.next.revert.committed.1'
group by reverted.aggregate_id, boundary.seq;
insert into hidden
select ended.aggregate_id, ended.seq - 1, ended.seq from event undone
join event ended on ended.aggregate_id = undone.aggregate_id
  and ended.type in ('session.next.compaction.ended.1', 'session.next.compaction.ended.2')
  and json_extract(ended.data, '$.messageID') = json_extract(undone.data, '$.messageID')
where undone.type = 'session.next.compaction.undone.1' and not exists (
  select 1 from hidden
  where session_id = ended.aggregate_id and after_seq < ended.seq and ended.seq <= through_seq);
insert into hidden select id, -2, -1 from session;
insert into session_lineage (session_id, after_seq, through_seq, source_id)
select session_id, after_seq, through_seq, session_id from (
  select hidden.session_id, hidden.through_seq as after_seq,
    lead(hidden.after_seq, 1, 4611686018427387904) over (
      partition by hidden.session_id order by hidden.after_seq) as through_seq
  from hidden join session on session.id = hidden.session_id
) where after_seq < through_seq;
drop table hidden;

alter table session add column fork text;

-- The sequence of the event that replaced the list.
alter table todo add column seq integer not null default -1;
update todo set seq = newest.seq from (
  select aggregate_id, max(seq) as seq from event where type = 'session.next.todos.replaced.1' group by aggregate_id
) newest where newest.aggregate_id = todo.session_id;

-- Messages and attachments may outlive their Session, as long as a fork shows them: no foreign key to it.
create table new_session_message (
  session_id text not null,
  seq integer not null,
  id text not null unique,
  type text not null,
  time_created integer not null,
  time_updated integer not null,
  data text not null,
  primary key (session_id, seq)
);
insert into new_session_message select * from session_message order by session_id, seq;
drop table session_message;
alter table new_session_message rename to session_message;
create index session_message_checkpoint on session_message (session_id, seq) where type = 'compaction';
create index session_message_shell on session_message (session_id, seq) where type = 'shell';
create index session_message_system on session_message (session_id, seq) where type = 'system';
create index session_message_running_shell on session_message (session_id, seq)
where type = 'shell' and json_extract(data, '$.time.completed') is null;

create table new_session_attachment (
  session_id text not null,
  message_id text not null,
  idx integer not null,
  mime text not null,
  kind text not null,
  content text not null,
  primary key (session_id, message_id, idx)
);
insert into new_session_attachment select * from session_attachment order by session_id, message_id, idx;
drop table session_attachment;
alter table new_session_attachment rename to session_attachment;

-- The texts of Context Epochs. A fork refers to those of its source.
create table context_text (
  id text primary key not null,
  content text not null
);
insert into context_text select 'baseline ' || session_id, baseline from session_context_epoch;
insert into context_text select 'snapshot ' || session_id, snapshot from session_context_epoch;

create table new_session_context_epoch (
  session_id text primary key not null references session (id) on delete cascade,
  baseline_id text not null,
  snapshot_id text not null,
  baseline_seq integer not null,
  revision integer not null default 0,
  observed text not null default '{}'
);
insert into new_session_context_epoch
select session_id, 'baseline ' || session_id, 'snapshot ' || session_id, baseline_seq, revision, observed
from session_context_epoch;
drop table session_context_epoch;
alter table new_session_context_epoch rename to session_context_epoch;
create index session_context_epoch_baseline on session_context_epoch (baseline_id);
create index session_context_epoch_snapshot on session_context_epoch (snapshot_id);

-- A text goes with the last epoch that refers to it.
create trigger context_text_unused_after_delete after delete on session_context_epoch begin
  delete from context_text where id in (old.baseline_id, old.snapshot_id)
    and not exists (select 1 from session_context_epoch where baseline_id = context_text.id)
    and not exists (select 1 from session_context_epoch where snapshot_id = context_text.id);
end;
create trigger context_text_unused_after_update after update of baseline_id, snapshot_id on session_context_epoch begin
  delete from context_text where id in (old.baseline_id, old.snapshot_id)
    and not exists (select 1 from session_context_epoch where baseline_id = context_text.id)
    and not exists (select 1 from session_context_epoch where snapshot_id = context_text.id);
end;
