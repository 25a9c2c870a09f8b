-- The event log and its projections.
-- Rows are added, or one small row is replaced; nothing that grows is ever rewritten.

create table event_sequence (
  aggregate_id text primary key not null,
  seq integer not null,
  owner_id text
) without rowid;

-- `position` orders commits across aggregates, so that another process can ask what moved.
create table event (
  position integer primary key autoincrement,
  id text not null unique,
  aggregate_id text not null references event_sequence (aggregate_id) on delete cascade,
  seq integer not null,
  type text not null,
  data text not null,
  metadata text
);
create unique index event_aggregate_seq on event (aggregate_id, seq);


create table project (
  id text primary key not null,
  worktree text not null,
  vcs text,
  time_created integer not null
) without rowid;
create index project_worktree on project (worktree);

create table session (
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
) without rowid;
create index session_project on session (project_id);
create index session_workspace on session (workspace_id);
create index session_parent on session (parent_id);
create index session_created on session (time_created desc, id);

-- A message header; the content of an assistant message is in session_message_part.
create table session_message (
  session_id text not null references session (id) on delete cascade,
  seq integer not null,
  id text not null unique,
  type text not null,
  time_created integer not null,
  time_updated integer not null,
  data text not null,
  primary key (session_id, seq)
) without rowid;
-- Only kinds that somebody looks for and that are rare: an index over all would cost every message another page.
create index session_message_checkpoint on session_message (session_id, seq) where type = 'compaction';
create index session_message_shell on session_message (session_id, seq) where type = 'shell';

-- One content item. `key` is the id that the provider gave it; should it repeat, the older item's gets a mark.
create table session_message_part (
  session_id text not null,
  message_seq integer not null,
  idx integer not null,
  kind text not null,
  key text not null,
  status text,
  data text not null,
  primary key (session_id, message_seq, idx),
  foreign key (session_id, message_seq) references session_message (session_id, seq) on delete cascade
) without rowid;

create table session_input (
  session_id text not null references session (id) on delete cascade,
  admitted_seq integer not null,
  id text not null unique,
  prompt text not null,
  delivery text not null,
  promoted_seq integer,
  withdrawn_seq integer,
  time_created integer not null,
  primary key (session_id, admitted_seq)
) without rowid;
create index session_input_pending on session_input (session_id, promoted_seq, delivery, admitted_seq);
create unique index session_input_promoted on session_input (session_id, promoted_seq);

create table session_context_epoch (
  session_id text primary key not null references session (id) on delete cascade,
  baseline text not null,
  snapshot text not null,
  baseline_seq integer not null,
  revision integer not null default 0,
  observed text not null default '{}'
) without rowid;

-- Which sources a mid-conversation system message spoke for. Operational: only people read it.
create table session_context_change (
  session_id text not null references session (id) on delete cascade,
  seq integer not null,
  keys text not null,
  primary key (session_id, seq)
) without rowid;

-- What was behind the files of prompts.
create table session_attachment (
  session_id text not null references session (id) on delete cascade,
  message_id text not null,
  idx integer not null,
  mime text not null,
  kind text not null,
  content text not null,
  primary key (session_id, message_id, idx)
) without rowid;

-- Instruction files that successful reads discovered.
create table session_instruction (
  session_id text not null references session (id) on delete cascade,
  directory text not null,
  workspace_id text not null,
  path text not null,
  seq integer not null,
  primary key (session_id, directory, workspace_id, path)
) without rowid;

-- The dispatched turn that has no end yet: at most one per Session.
create table session_turn (
  session_id text primary key not null references session (id) on delete cascade,
  seq integer not null,
  agent text not null,
  model text not null,
  attempt integer not null,
  message_id text,
  time_dispatched integer not null
) without rowid;

-- Permission requests and questions, with their answers.
create table session_request (
  session_id text not null references session (id) on delete cascade,
  seq integer not null,
  id text not null unique,
  kind text not null,
  agent text,
  data text not null,
  reply text,
  time_created integer not null,
  primary key (session_id, seq)
) without rowid;
create index session_request_open on session_request (session_id) where reply is null;

-- What a person approved for good, per project.
create table permission (
  id text primary key not null,
  project_id text not null references project (id) on delete cascade,
  action text not null,
  resource text not null,
  time_created integer not null,
  time_updated integer not null,
  unique (project_id, action, resource)
) without rowid;

-- Pending inputs that asked for a wake. Without a row, an input waits until someone says so.
create table session_wake (
  input_id text primary key not null,
  session_id text not null
) without rowid;
create index session_wake_session on session_wake (session_id);

create table todo (
  session_id text not null references session (id) on delete cascade,
  position integer not null,
  content text not null,
  status text not null,
  priority text not null,
  time_created integer not null,
  time_updated integer not null,
  primary key (session_id, position)
) without rowid;

-- Execution ownership. An owner is a process that holds an operating-system lock named after its id;
-- a lease names the owner that may publish for a Session, and its token only grows.
create table owner (
  id text primary key not null,
  pid integer not null,
  beat integer not null
) without rowid;

create table session_lease (
  session_id text primary key not null,
  owner_id text,
  token integer not null
) without rowid;
create index session_lease_owner on session_lease (owner_id) where owner_id is not null;

-- What one process asks of the process that owns a Session's drain.
create table session_control (
  id text primary key not null,
  session_id text not null,
  owner_id text not null,
  kind text not null
) without rowid;
create index session_control_owner on session_control (owner_id);
