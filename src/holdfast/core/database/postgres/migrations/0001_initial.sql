-- The schema that SQLite's migrations lead to, in PostgreSQL's words: the same tables and columns, in the same order.
--
-- Texts compare by bytes, as in SQLite. Flags are 0 and 1. There are no foreign keys: statements delete what SQLite's
-- cascades delete, and an insert for a Session that does not exist fails because its key is null.
-- A key of an index has at most 2,700 bytes: paths, resources and offers are indexed by their hashes.
-- Rows that change often leave room on their page, and are vacuumed before many dead ones have gathered. No index of a
-- message depends on what changes in it: such a change would be written to all of its indexes.

create table holdfast_schema (
  version bigint not null,
  primary key (version)
);

-- The newest flight of each writer: how a writer that lost its connection learns what became of a commit.
create table holdfast_writer (
  id text collate "C" not null,
  flight bigint not null,
  time_updated timestamptz not null default now(),
  primary key (id)
) with (fillfactor = 50, autovacuum_vacuum_scale_factor = 0.02);

-- Functions on JSON text. `json` keeps the order of keys and the spelling of numbers, `jsonb` does not.

-- A text as JSON. The mark of a character that PostgreSQL does not store becomes an escape, as it is in JSON.
create function holdfast_json_quote(content text) returns text
language plpgsql immutable strict parallel safe as $$
begin
  return replace(to_json(content)::text, U&'\F8F1' || '0000', '\uf8f10000');
end $$;

-- Sets, or with null removes, a member of an object by writing all members again.
create function holdfast_json_rewrite(doc text, name text, content text) returns text
language plpgsql immutable parallel safe as $$
declare
  result text := '';
  found boolean := false;
  member record;
begin
  for member in select key, value::text as value from json_each(doc::json) loop
    if member.key = name then
      found := true;
      if content is null then
        continue;
      end if;
      member.value := content;
    end if;
    result := concat(result, ',', to_json(member.key), ':', member.value);
  end loop;
  if content is not null and not found then
    result := concat(result, ',', to_json(name), ':', content);
  end if;
  return concat('{', substr(result, 2), '}');
end $$;

-- Sets a member of an object to a JSON text. A new one comes last; a null changes nothing. The old text is replaced in
-- its place, which takes a fifth of the time, unless that place is not certain.
create function holdfast_json_put(doc text, name text, content text) returns text
language plpgsql immutable parallel safe as $$
declare
  was text;
  place int;
begin
  if content is null then
    return doc;
  end if;
  if doc is null or doc = '{}' then
    return concat('{', to_json(name), ':', content, '}');
  end if;
  was := (doc::json -> name)::text;
  if was is null then
    return concat(left(doc, -1), ',', to_json(name), ':', content, '}');
  end if;
  was := concat(to_json(name), ':', was);
  place := strpos(doc, was);
  if place = 0 or strpos(substr(doc, place + 1), was) > 0 then
    return holdfast_json_rewrite(doc, name, content);
  end if;
  return concat(left(doc, place - 1), to_json(name), ':', content, substr(doc, place + length(was)));
end $$;

-- RFC 7396: members of the patch replace those of the object, objects are merged, a null removes.
create function holdfast_json_patch(doc text, patch text) returns text
language plpgsql immutable parallel safe as $$
declare
  result text := doc;
  member record;
begin
  if left(patch, 1) <> '{' then
    return patch;
  end if;
  if result is null or left(result, 1) <> '{' then
    if strpos(patch, 'null') = 0 then
      return patch;
    end if;
    result := '{}';
  end if;
  for member in select key, value::text as value from json_each(patch::json) loop
    if member.value = 'null' then
      result := holdfast_json_rewrite(result, member.key, null);
    elsif left(member.value, 1) = '{' then
      result := holdfast_json_put(
        result, member.key, holdfast_json_patch((result::json -> member.key)::text, member.value));
    else
      result := holdfast_json_put(result, member.key, member.value);
    end if;
  end loop;
  return result;
end $$;

-- The end of a step, as it nearly always is: the message has only been begun, and the patch sets the time of the end,
-- reason, cost and tokens. Whatever is different goes the general way, which takes five times as long.
create type holdfast_step as (agent json, model json, "time" json, finish json, cost json, tokens json);

create function holdfast_json_end_step(doc text, patch text) returns text
language plpgsql immutable parallel safe as $$
declare
  had holdfast_step := json_populate_record(null::holdfast_step, doc::json);
  gets holdfast_step := json_populate_record(null::holdfast_step, patch::json);
begin
  if doc = concat('{"agent":', had.agent, ',"model":', had.model, ',"time":{"created":', had."time" ->> 'created', '}}')
    and patch = concat('{"time":{"completed":', gets."time" ->> 'completed',
      '},"finish":', gets.finish, ',"cost":', gets.cost, ',"tokens":', gets.tokens, '}')
    and strpos(patch, 'null') = 0
  then
    return concat(left(doc, -2), ',', substr(patch, length('{"time":{') + 1));
  end if;
  return holdfast_json_patch(doc, patch);
end $$;

-- A tool call in a message. Where its members are in their usual order, the new text is put together from them, which
-- takes a quarter of the time of setting one after the other.
create type holdfast_tool as (type json, id json, name json, state json, "time" json, provider json);

create function holdfast_json_tool_called(doc text, gets_provider text, gets_state text, at bigint) returns text
language plpgsql immutable parallel safe as $$
declare
  had holdfast_tool := json_populate_record(null::holdfast_tool, doc::json);
  start text := concat('{"type":', had.type, ',"id":', had.id, ',"name":', had.name, ',"state":');
begin
  if gets_provider is not null and gets_state is not null
    and doc = concat(start, had.state, ',"time":{"created":', had."time" ->> 'created', '}}')
  then
    return concat(start, gets_state, ',"time":{"created":', had."time" ->> 'created', ',"ran":', at,
      '},"provider":', gets_provider, '}');
  end if;
  return holdfast_json_put(
    holdfast_json_put(holdfast_json_put(doc, 'provider', gets_provider), 'state', gets_state),
    'time', holdfast_json_put(had."time"::text, 'ran', at::text));
end $$;

create function holdfast_json_tool_success(doc text, gets_state text, metadata text, executed boolean, at bigint) returns text
language plpgsql immutable parallel safe as $$
declare
  had holdfast_tool := json_populate_record(null::holdfast_tool, doc::json);
  start text := concat('{"type":', had.type, ',"id":', had.id, ',"name":', had.name, ',"state":');
  input text := coalesce((had.state -> 'input')::text, 'null');
begin
  if metadata is null and not executed and had.provider::text = '{"executed":false}'
    and strpos(had."time"::text, '"completed"') = 0 and left(had."time"::text, 11) = '{"created":'
    and left(gets_state, 10) = '{"status":' and strpos(gets_state, '"input"') = 0
    and doc = concat(start, had.state, ',"time":', had."time", ',"provider":', had.provider, '}')
  then
    return concat(
      start, left(gets_state, -1), ',"input":', input, '},"time":', left(had."time"::text, -1), ',"completed":', at,
      '},"provider":', had.provider, '}');
  end if;
  return holdfast_json_put(
    holdfast_json_put(
      holdfast_json_put(doc, 'provider', holdfast_json_put(
        holdfast_json_put(had.provider::text, 'resultMetadata', metadata), 'executed',
        case when executed or had.provider ->> 'executed' = 'true' then 'true' else 'false' end)),
      'state', holdfast_json_put(gets_state, 'input', input)),
    'time', holdfast_json_put(had."time"::text, 'completed', at::text));
end $$;

create table event_sequence (
  aggregate_id text collate "C" not null,
  seq bigint not null,
  owner_id text collate "C",
  primary key (aggregate_id)
) with (fillfactor = 90, autovacuum_vacuum_scale_factor = 0.02, autovacuum_analyze_scale_factor = 0.05);

create table event (
  position xid8 not null default pg_current_xact_id(),
  id text collate "C" not null unique,
  aggregate_id text collate "C" not null,
  seq bigint not null,
  type text collate "C" not null,
  data text collate "C" not null,
  metadata text collate "C",
  primary key (aggregate_id, seq)
) with (autovacuum_analyze_scale_factor = 0.05, autovacuum_vacuum_insert_scale_factor = 0.1);
create index event_position on event (position);

create table project (
  id text collate "C" not null,
  worktree text collate "C" not null,
  vcs text collate "C",
  time_created bigint not null,
  primary key (id)
);
create index project_worktree on project (hashtextextended(worktree, 0));

create table session (
  id text collate "C" not null,
  project_id text collate "C" not null,
  workspace_id text collate "C",
  parent_id text collate "C",
  slug text collate "C" not null,
  directory text collate "C" not null,
  path text collate "C",
  title text collate "C" not null,
  version text collate "C" not null,
  share_url text collate "C",
  summary_additions bigint,
  summary_deletions bigint,
  summary_files bigint,
  summary_diffs text collate "C",
  metadata text collate "C",
  cost double precision not null default 0,
  tokens_input bigint not null default 0,
  tokens_output bigint not null default 0,
  tokens_reasoning bigint not null default 0,
  tokens_cache_read bigint not null default 0,
  tokens_cache_write bigint not null default 0,
  revert text collate "C",
  permission text collate "C",
  agent text collate "C",
  model text collate "C",
  time_created bigint not null,
  time_updated bigint not null,
  time_compacting bigint,
  time_archived bigint,
  newest_assistant bigint,
  fork text collate "C",
  instructions_seq bigint,
  turns bigint not null default 0,
  primary key (id)
) with (fillfactor = 90, autovacuum_vacuum_scale_factor = 0.02, autovacuum_analyze_scale_factor = 0.05);
create index session_created on session (time_created desc, id);
create index session_parent on session (parent_id, time_created desc, id) where parent_id is not null;
create index session_project on session (project_id, time_created desc, id);
create index session_workspace on session (workspace_id, time_created desc, id) where workspace_id is not null;
create index session_directory on session (hashtextextended(directory, 0), time_created desc, id);

create table session_lineage (
  session_id text collate "C" not null,
  after_seq bigint not null,
  through_seq bigint not null,
  source_id text collate "C" not null,
  primary key (session_id, after_seq)
);
create index session_lineage_source on session_lineage (source_id, through_seq) where source_id <> session_id;

create table session_message (
  session_id text collate "C" not null,
  seq bigint not null,
  id text collate "C" not null unique,
  type text collate "C" not null,
  time_created bigint not null,
  time_updated bigint not null,
  data text collate "C" not null,
  primary key (session_id, seq)
) with (fillfactor = 90, autovacuum_vacuum_scale_factor = 0.02, autovacuum_analyze_scale_factor = 0.05);
create index session_message_checkpoint on session_message (session_id, seq) where type = 'compaction';
create index session_message_shell on session_message (session_id, seq) where type = 'shell';
create index session_message_system on session_message (session_id, seq) where type = 'system';

create table session_message_part (
  session_id text collate "C" not null,
  message_seq bigint not null,
  idx bigint not null,
  kind text collate "C" not null,
  key text collate "C" not null,
  status text collate "C",
  data text collate "C" not null,
  primary key (session_id, message_seq, idx)
) with (fillfactor = 90, autovacuum_vacuum_scale_factor = 0.02, autovacuum_analyze_scale_factor = 0.05);
create index session_message_part_unsettled on session_message_part (session_id, message_seq)
where status in ('pending', 'running');

create table session_input (
  session_id text collate "C" not null,
  admitted_seq bigint not null,
  id text collate "C" not null unique,
  prompt text collate "C" not null,
  delivery text collate "C" not null,
  promoted_seq bigint,
  withdrawn_seq bigint,
  time_created bigint not null,
  kind text collate "C" not null default 'user',
  no_reply bigint not null default 0,
  sent_delivery text collate "C",
  ended_seq bigint,
  primary key (session_id, admitted_seq)
) with (fillfactor = 90, autovacuum_vacuum_scale_factor = 0.02, autovacuum_analyze_scale_factor = 0.05);
create index session_input_asking on session_input (session_id, promoted_seq)
where kind = 'user' and no_reply = 0 and promoted_seq is not null;
create index session_input_open on session_input (session_id) where promoted_seq is not null and ended_seq is null;
create index session_input_pending on session_input (session_id, delivery, admitted_seq)
where promoted_seq is null and withdrawn_seq is null;
create unique index session_input_promoted on session_input (session_id, promoted_seq);

create table session_attachment (
  session_id text collate "C" not null,
  message_id text collate "C" not null,
  idx bigint not null,
  mime text collate "C" not null,
  kind text collate "C" not null,
  content text collate "C" not null,
  primary key (session_id, message_id, idx)
);

create table todo (
  session_id text collate "C" not null,
  position bigint not null,
  content text collate "C" not null,
  status text collate "C" not null,
  priority text collate "C" not null,
  time_created bigint not null,
  time_updated bigint not null,
  seq bigint not null default -1,
  primary key (session_id, position)
);

create table session_instruction (
  session_id text collate "C" not null,
  directory text collate "C" not null,
  workspace_id text collate "C" not null,
  path text collate "C" not null,
  seq bigint not null
);
create unique index session_instruction_place on session_instruction (
  session_id, workspace_id, hashtextextended(directory, 0), hashtextextended(path, 0), hashtextextended(path, 1));

create table session_instruction_entry (
  session_id text collate "C" not null,
  key text collate "C" not null,
  value text collate "C" not null,
  seq bigint not null,
  primary key (session_id, key)
);

create table session_turn (
  session_id text collate "C" not null,
  seq bigint not null,
  agent text collate "C" not null,
  model text collate "C" not null,
  attempt bigint not null,
  message_id text collate "C",
  time_dispatched bigint not null,
  used text collate "C",
  primary key (session_id)
) with (fillfactor = 90, autovacuum_vacuum_scale_factor = 0.02, autovacuum_analyze_scale_factor = 0.05);

create table session_activity (
  session_id text collate "C" not null,
  seq bigint not null,
  time_started bigint not null,
  suspended bigint not null default 0,
  primary key (session_id)
) with (fillfactor = 90, autovacuum_vacuum_scale_factor = 0.02, autovacuum_analyze_scale_factor = 0.05);

create table session_request (
  session_id text collate "C" not null,
  seq bigint not null,
  id text collate "C" not null unique,
  kind text collate "C" not null,
  agent text collate "C",
  data text collate "C" not null,
  reply text collate "C",
  time_created bigint not null,
  resumable bigint not null default 0,
  taken bigint not null default 0,
  owner text collate "C",
  primary key (session_id, seq)
);
create index session_request_open on session_request (session_id) where reply is null;
create index session_request_forms on session_request (session_id) where reply is null and kind = 'form';
create index session_request_owned on session_request (owner) where reply is null and resumable = 0 and owner is not null;

create table session_task (
  session_id text collate "C" not null,
  seq bigint not null,
  message_id text collate "C" not null,
  call_id text collate "C" not null,
  child_id text collate "C" not null,
  root_id text collate "C" not null,
  prompt_id text collate "C" not null unique,
  result_id text collate "C" not null unique,
  caller text collate "C" not null,
  agent text collate "C" not null,
  description text collate "C" not null,
  background bigint not null,
  delivered bigint not null default 0,
  time_started bigint not null,
  primary key (session_id, seq)
);
create index session_task_call on session_task (session_id, message_id);
create index session_task_child on session_task (child_id);
create index session_task_of_tree on session_task (root_id) where background = 1 and delivered = 0;
create index session_task_unfinished on session_task (session_id) where background = 1 and delivered = 0;
create index session_task_undelivered on session_task (child_id) where background = 1 and delivered = 0;

create table session_budget (
  session_id text collate "C" not null,
  seq bigint not null,
  money bigint,
  tokens bigint,
  turns bigint,
  time bigint,
  primary key (session_id)
);

create table context_text (
  id text collate "C" not null,
  content text collate "C" not null,
  primary key (id)
);

create table session_context_epoch (
  session_id text collate "C" not null,
  baseline_id text collate "C" not null,
  snapshot_id text collate "C" not null,
  baseline_seq bigint not null,
  revision bigint not null default 0,
  observed text collate "C" not null default '{}',
  offer text collate "C" not null default '',
  primary key (session_id)
) with (fillfactor = 90, autovacuum_vacuum_scale_factor = 0.02, autovacuum_analyze_scale_factor = 0.05);
create index session_context_epoch_baseline on session_context_epoch (baseline_id);
create index session_context_epoch_offer on session_context_epoch (hashtextextended(offer, 0)) where offer <> '';
create index session_context_epoch_snapshot on session_context_epoch (snapshot_id);

create table session_context_change (
  session_id text collate "C" not null,
  seq bigint not null,
  keys text collate "C" not null,
  primary key (session_id, seq)
);

create table session_attempt (
  session_id text collate "C" not null,
  count bigint not null,
  seq bigint not null default -1,
  primary key (session_id)
) with (autovacuum_vacuum_scale_factor = 0.02, autovacuum_analyze_scale_factor = 0.05);

create table session_blocked (
  session_id text collate "C" not null,
  since bigint not null,
  name text collate "C" not null,
  message text collate "C" not null,
  primary key (session_id)
) with (autovacuum_vacuum_scale_factor = 0.02, autovacuum_analyze_scale_factor = 0.05);

create table session_wake (
  input_id text collate "C" not null,
  session_id text collate "C" not null,
  primary key (input_id)
) with (autovacuum_vacuum_scale_factor = 0.02, autovacuum_analyze_scale_factor = 0.05);
create index session_wake_session on session_wake (session_id);

create table session_lease (
  session_id text collate "C" not null,
  owner_id text collate "C",
  token bigint not null,
  primary key (session_id)
) with (fillfactor = 90, autovacuum_vacuum_scale_factor = 0.02, autovacuum_analyze_scale_factor = 0.05);
create index session_lease_owner on session_lease (owner_id) where owner_id is not null;

create table owner (
  id text collate "C" not null,
  pid bigint not null,
  beat bigint not null,
  number bigint,
  name text collate "C",
  address text collate "C",
  version text collate "C",
  started bigint,
  roots text collate "C",
  room bigint,
  primary key (id)
) with (fillfactor = 90, autovacuum_vacuum_scale_factor = 0.02, autovacuum_analyze_scale_factor = 0.05);

create table node_secret (
  id text collate "C" not null,
  secret text collate "C" not null,
  time_created bigint not null,
  primary key (id)
);

create table session_control (
  id text collate "C" not null,
  session_id text collate "C" not null,
  owner_id text collate "C" not null,
  kind text collate "C" not null,
  primary key (id)
) with (autovacuum_vacuum_scale_factor = 0.02, autovacuum_analyze_scale_factor = 0.05);
create index session_control_owner on session_control (owner_id);

create table permission (
  id text collate "C" not null,
  project_id text collate "C" not null,
  root text collate "C" not null,
  owner bigint,
  action text collate "C" not null,
  resource text collate "C" not null,
  time_created bigint not null,
  time_updated bigint not null,
  primary key (id)
);
create unique index permission_place on permission (
  hashtextextended(root, 0), owner, hashtextextended(action, 0), hashtextextended(resource, 0), hashtextextended(resource, 1));
create index permission_project on permission (project_id);

create table session_work (
  session_id text collate "C" not null,
  time bigint not null default 0,
  primary key (session_id)
) with (fillfactor = 90, autovacuum_vacuum_scale_factor = 0.02, autovacuum_analyze_scale_factor = 0.05);

create table session_pause (
  session_id text collate "C" not null,
  budget_id text collate "C" not null,
  since bigint not null,
  primary key (session_id)
) with (autovacuum_vacuum_scale_factor = 0.02, autovacuum_analyze_scale_factor = 0.05);
create index session_pause_budget on session_pause (budget_id);

create table budget_total (
  budget_id text collate "C" not null,
  money bigint not null default 0,
  tokens bigint not null default 0,
  turns bigint not null default 0,
  time bigint not null default 0,
  reserved_money bigint not null default 0,
  reserved_tokens bigint not null default 0,
  reserved_turns bigint not null default 0,
  primary key (budget_id)
) with (fillfactor = 90, autovacuum_vacuum_scale_factor = 0.02, autovacuum_analyze_scale_factor = 0.05);

create table budget_share (
  session_id text collate "C" not null,
  budget_id text collate "C" not null,
  money bigint not null default 0,
  tokens bigint not null default 0,
  turns bigint not null default 0,
  time bigint not null default 0,
  reserved_money bigint not null default 0,
  reserved_tokens bigint not null default 0,
  reserved_turns bigint not null default 0,
  primary key (session_id, budget_id)
) with (fillfactor = 90, autovacuum_vacuum_scale_factor = 0.02, autovacuum_analyze_scale_factor = 0.05);
create index budget_share_budget on budget_share (budget_id);

create table budget_revision (
  id bigint not null check (id = 0),
  revision bigint not null,
  primary key (id)
) with (fillfactor = 90, autovacuum_vacuum_scale_factor = 0.02, autovacuum_analyze_scale_factor = 0.05);

create table mcp_manifest (
  hash text collate "C" not null,
  data text collate "C" not null,
  time_used bigint not null,
  primary key (hash)
);
create index mcp_manifest_age on mcp_manifest (time_used);

create table mcp_server (
  key text collate "C" not null,
  hash text collate "C" not null,
  version text collate "C" not null,
  time_updated bigint not null,
  primary key (key)
);
create index mcp_server_hash on mcp_server (hash);
-- What a Session has used. SQLite rounds halves away from zero.
create view session_spent as
select session.id as session_id,
  trunc(session.cost * 1e9::double precision
    + case when session.cost < 0 then -0.5 else 0.5 end::double precision)::bigint as money,
  session.tokens_input + session.tokens_output + session.tokens_reasoning + session.tokens_cache_read
    + session.tokens_cache_write as tokens,
  session.turns, coalesce(work.time, 0) as time
from session left join session_work work on work.session_id = session.id;

insert into budget_revision (id, revision) values (0, 0);

-- Whether the server keeps the lock of an owner: 1 or 0, and null if it cannot tell, because it has just begun to accept
-- connections, for the first time or after a crash (which ends with a checkpoint): then everybody has yet to take a lock.
-- `pg_locks` shows the two halves of a lock's number.
create function holdfast_locked(owner_number bigint) returns smallint language sql stable as $$
  select case
    when owner_number is null then 0
    when owner_number in (
      select (classid::bigint << 32) | objid::bigint from pg_locks
      where locktype = 'advisory' and objsubid = 1 and granted
        and database = (select oid from pg_database where datname = current_database())) then 1
    when greatest(pg_postmaster_start_time(), (select checkpoint_time from pg_control_checkpoint()))
      < clock_timestamp() - make_interval(secs => coalesce(current_setting('holdfast.settling_seconds', true), '3')::int)
      then 0
  end
$$;

-- Texts that no epoch refers to any more. Forks share texts with their source: of two that let go of one at the same
-- time, the second waits for the first, and sees what it did.
create function holdfast_drop_unused_texts() returns trigger language plpgsql as $$
begin
  perform 1 from context_text where id in (old.baseline_id, old.snapshot_id) order by id for update;
  delete from context_text where id in (old.baseline_id, old.snapshot_id)
    and not exists (select 1 from session_context_epoch where baseline_id = context_text.id)
    and not exists (select 1 from session_context_epoch where snapshot_id = context_text.id);
  return null;
end $$;

create trigger context_text_unused_after_delete after delete on session_context_epoch
for each row execute function holdfast_drop_unused_texts();

create trigger context_text_unused_after_update after update on session_context_epoch
for each row when (old.baseline_id <> new.baseline_id or old.snapshot_id <> new.snapshot_id)
execute function holdfast_drop_unused_texts();
