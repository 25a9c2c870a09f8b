-- Tables whose rows may be large become rowid tables.
-- A table without rowid is an index: to find a row, SQLite compares whole rows on the way, and reads each of them from
-- its first to its last page. One row of 100 MB made every lookup of the neighbouring Sessions read 100 MB. In a rowid
-- table the keys are in a small index, and a row is read only where it is asked for.
-- Columns, their order, keys, indexes and cascades stay as they were.

create table new_session (
  id text primary key not null,
  project_id text not null references project (id) on delete cascade,
  workspace_id text,
  parent_id text,
  slug text not null,
  directory text not null,
  path text,
  title text not null,
  version text not null,
  share_url text,
  summary_additions integer,
  summary_deletions integer,
  summary_files integer,
  summary_diffs text,
  metadata text,
  cost real not null default 0,
  tokens_input integer not null default 0,
  tokens_output integer not null default 0,
  tokens_reasoning integer not null default 0,
  tokens_cache_read integer not null default 0,
  tokens_cache_write integer not null default 0,
  revert text,
  permission text,
  agent text,
  model text,
  time_created integer not null,
  time_updated integer not null,
  time_compacting integer,
  time_archived integer,
  newest_assistant integer
);
insert into new_session select * from session order by id;
drop table session;
alter table new_session rename to session;
create index session_project on session (project_id);
create index session_workspace on session (workspace_id);
create index session_parent on session (parent_id);
create index session_created on session (time_created desc, id);

create table new_session_message (
  session_id text not null references session (id) on delete cascade,
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

create table new_session_message_part (
  session_id text not null,
  message_seq integer not null,
  idx integer not null,
  kind text not null,
  key text not null,
  status text,
  data text not null,
  primary key (session_id, message_seq, idx),
  foreign key (session_id, message_seq) references session_message (session_id, seq) on delete cascade
);
insert into new_session_message_part select * from session_message_part order by session_id, message_seq, idx;
drop table session_message_part;
alter table new_session_message_part rename to session_message_part;

create table new_session_input (
  session_id text not null references session (id) on delete cascade,
  admitted_seq integer not null,
  id text not null unique,
  prompt text not null,
  delivery text not null,
  promoted_seq integer,
  withdrawn_seq integer,
  time_created integer not null,
  primary key (session_id, admitted_seq)
);
insert into new_session_input select * from session_input order by session_id, admitted_seq;
drop table session_input;
alter table new_session_input rename to session_input;
create index session_input_pending on session_input (session_id, promoted_seq, delivery, admitted_seq);
create unique index session_input_promoted on session_input (session_id, promoted_seq);

create table new_session_context_epoch (
  session_id text primary key not null references session (id) on delete cascade,
  baseline text not null,
  snapshot text not null,
  baseline_seq integer not null,
  revision integer not null default 0,
  observed text not null default '{}'
);
insert into new_session_context_epoch select * from session_context_epoch order by session_id;
drop table session_context_epoch;
alter table new_session_context_epoch rename to session_context_epoch;

create table new_session_attachment (
  session_id text not null references session (id) on delete cascade,
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

create table new_session_request (
  session_id text not null references session (id) on delete cascade,
  seq integer not null,
  id text not null unique,
  kind text not null,
  agent text,
  data text not null,
  reply text,
  time_created integer not null,
  primary key (session_id, seq)
);
insert into new_session_request select * from session_request order by session_id, seq;
drop table session_request;
alter table new_session_request rename to session_request;
create index session_request_open on session_request (session_id) where reply is null;

create table new_todo (
  session_id text not null references session (id) on delete cascade,
  position integer not null,
  content text not null,
  status text not null,
  priority text not null,
  time_created integer not null,
  time_updated integer not null,
  primary key (session_id, position)
);
insert into new_todo select * from todo order by session_id, position;
drop table todo;
alter table new_todo rename to todo;
