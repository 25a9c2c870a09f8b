-- name: session.exists
select 1 from session where id = :id

-- name: session.with_ancestors
-- A Session, its parent, and so on up to the root, each with the agent that gave the Session below it its newest task.
with recursive line (depth, id, parent_id, agent, directory, workspace_id, child_id) as (
  select 0, id, parent_id, agent, directory, workspace_id, null from session where id = :id
  union all
  select line.depth + 1, parent.id, parent.parent_id, parent.agent, parent.directory, parent.workspace_id, line.id
  from line join session parent on parent.id = line.parent_id where line.depth < :most)
select id, parent_id, agent, directory, workspace_id, (
  select task.caller from session_task task
  where task.child_id = line.child_id and task.session_id = line.id order by task.seq desc limit 1) as caller
from line order by depth

-- name: session.insert
insert into session (
  id, project_id, workspace_id, parent_id, slug, directory, path, title, version, share_url,
  summary_additions, summary_deletions, summary_files, summary_diffs, metadata, cost,
  tokens_input, tokens_output, tokens_reasoning, tokens_cache_read, tokens_cache_write,
  revert, permission, agent, model, time_created, time_updated, time_compacting, time_archived, time_pinned, fork
) values (
  :id, :project_id, :workspace_id, :parent_id, :slug, :directory, :path, :title, :version, :share_url,
  :summary_additions, :summary_deletions, :summary_files, :summary_diffs, :metadata, :cost,
  :tokens_input, :tokens_output, :tokens_reasoning, :tokens_cache_read, :tokens_cache_write,
  :revert, :permission, :agent, :model, :time_created, :time_updated, :time_compacting, :time_archived, :time_pinned,
  :fork
)

-- name: session.overwrite
update session set
  project_id = :project_id, workspace_id = :workspace_id, parent_id = :parent_id, slug = :slug,
  directory = :directory, path = :path, title = :title, version = :version, share_url = :share_url,
  summary_additions = :summary_additions, summary_deletions = :summary_deletions,
  summary_files = :summary_files, summary_diffs = :summary_diffs, metadata = :metadata, cost = :cost,
  tokens_input = :tokens_input, tokens_output = :tokens_output, tokens_reasoning = :tokens_reasoning,
  tokens_cache_read = :tokens_cache_read, tokens_cache_write = :tokens_cache_write,
  revert = :revert, permission = :permission, agent = :agent, model = :model,
  time_created = :time_created, time_updated = :time_updated,
  time_compacting = :time_compacting, time_archived = :time_archived,
  time_pinned = :time_pinned, fork = :fork
where id = :id

-- name: session.set_agent
update session set agent = :agent, time_updated = :timestamp where id = :id

-- name: session.set_model
update session set model = :model, time_updated = :timestamp where id = :id

-- name: session.instructions_changed
update session set instructions_seq = :seq, time_updated = :timestamp where id = :id

-- name: session.move
update session set directory = :directory, workspace_id = :workspace_id, path = :path, time_updated = :timestamp
where id = :id

-- name: session.set_revert
update session set revert = :revert, time_updated = :timestamp where id = :id

-- name: session.set_compacting
update session set time_compacting = :since where id = :id

-- name: session.add_usage
-- Of a request that the runtime itself made.
update session set
  turns = turns + 1,
  cost = cost + :cost,
  tokens_input = tokens_input + :input,
  tokens_output = tokens_output + :output,
  tokens_reasoning = tokens_reasoning + :reasoning,
  tokens_cache_read = tokens_cache_read + :cache_read,
  tokens_cache_write = tokens_cache_write + :cache_write,
  time_updated = :timestamp
where id = :id

-- name: session.add_step_usage
update session set
  turns = turns + exists (select 1 from session_turn where session_id = :id and attempt > 0),
  cost = cost + :cost,
  tokens_input = tokens_input + :input,
  tokens_output = tokens_output + :output,
  tokens_reasoning = tokens_reasoning + :reasoning,
  tokens_cache_read = tokens_cache_read + :cache_read,
  tokens_cache_write = tokens_cache_write + :cache_write,
  time_updated = :timestamp
where id = :id and exists (select 1 from session_message where id = :message_id and session_id = :id)

-- name: session.count_turn
-- Of the open turn, if there is one for which a request was sent.
update session set turns = turns + 1
where id = :session_id and exists (select 1 from session_turn where session_id = :session_id and attempt > 0)

-- name: session.clear_epoch
delete from session_context_epoch where session_id = :id

-- name: session.clear_epoch_after
delete from session_context_epoch
where session_id = :session_id and (
  baseline_seq > coalesce(:after, (select seq from session_message where id = :message_id and session_id = :session_id)) or exists (
    select 1 from session_lineage segment
    cross join session_message later
    where segment.session_id = :session_id and later.session_id = segment.source_id and later.seq <= segment.through_seq
      and later.seq > max(segment.after_seq, coalesce(:after, (select seq from session_message where id = :message_id and session_id = :session_id)))
      and later.type in ('system', 'compaction')))

-- name: session.get
select id, parent_id, project_id, agent, model, cost, tokens_input, tokens_output, tokens_reasoning,
  tokens_cache_read, tokens_cache_write, time_created, time_updated, time_archived, time_pinned, title,
  directory, workspace_id, path, revert, fork
from session where id = :id

-- name: session.place
select directory, workspace_id from session where id = :id

-- name: session.at_boundary
-- A Session, of which deliveries something waits, and the last sequence of its log, in one read.
select id, parent_id, project_id, agent, model, cost, tokens_input, tokens_output, tokens_reasoning,
  tokens_cache_read, tokens_cache_write, time_created, time_updated, time_archived, time_pinned, title,
  directory, workspace_id, path, revert, fork,
  exists (select 1 from session_input where session_id = :id and promoted_seq is null
    and withdrawn_seq is null and delivery = 'steer') as steer,
  exists (select 1 from session_input where session_id = :id and promoted_seq is null
    and withdrawn_seq is null and delivery = 'queue') as queue,
  exists (select 1 from session_input where session_id = :id and promoted_seq is null
    and withdrawn_seq is null and delivery = 'steer' and no_reply = 0) as steer_asks,
  instructions_seq,
  coalesce((select seq from event_sequence where aggregate_id = :id), -1) as head
from session where id = :id

-- name: session.record
select id, slug, project_id, workspace_id, directory, path, parent_id, share_url, summary_additions,
  summary_deletions, summary_files, summary_diffs, metadata, cost, tokens_input, tokens_output, tokens_reasoning,
  tokens_cache_read, tokens_cache_write, title, agent, model, version, time_created, time_updated, time_compacting,
  time_archived, time_pinned, permission, revert, fork
from session where id = :id

-- name: session.list_desc
-- Our session ids sort newest first, so within one millisecond the smaller id is the newer session. A child is archived
-- with any Session above it.
select id, parent_id, project_id, agent, model, cost, tokens_input, tokens_output, tokens_reasoning,
  tokens_cache_read, tokens_cache_write, time_created, time_updated, time_archived, time_pinned, title,
  directory, workspace_id, path, revert, fork,
  (select count(*) from session child where child.parent_id = session.id) as children
from session
where (:roots = 0 or parent_id is null) and (:directory is null or directory = :directory)
  and (:project is null or project_id = :project)
  and (:subpath is null or path = :subpath or path like :subpath_below escape '\')
  and (:workspace is null or workspace_id = :workspace)
  and (:search is null or title like :search escape '\')
  and (:archived is null or :archived = (time_archived is not null or exists (
    with recursive line (parent_id, time_archived, distance) as (
      select session.parent_id, null, 0
      union all
      select above.parent_id, above.time_archived, line.distance + 1
      from line join session above on above.id = line.parent_id where line.distance < 100)
    select 1 from line where line.time_archived is not null)))
  and time_created <= :anchor_time and (time_created < :anchor_time or id > :anchor_id)
order by time_created desc, id asc limit :limit

-- name: session.list_asc
select id, parent_id, project_id, agent, model, cost, tokens_input, tokens_output, tokens_reasoning,
  tokens_cache_read, tokens_cache_write, time_created, time_updated, time_archived, time_pinned, title,
  directory, workspace_id, path, revert, fork,
  (select count(*) from session child where child.parent_id = session.id) as children
from session
where (:roots = 0 or parent_id is null) and (:directory is null or directory = :directory)
  and (:project is null or project_id = :project)
  and (:subpath is null or path = :subpath or path like :subpath_below escape '\')
  and (:workspace is null or workspace_id = :workspace)
  and (:search is null or title like :search escape '\')
  and (:archived is null or :archived = (time_archived is not null or exists (
    with recursive line (parent_id, time_archived, distance) as (
      select session.parent_id, null, 0
      union all
      select above.parent_id, above.time_archived, line.distance + 1
      from line join session above on above.id = line.parent_id where line.distance < 100)
    select 1 from line where line.time_archived is not null)))
  and time_created >= :anchor_time and (time_created > :anchor_time or id < :anchor_id)
order by time_created asc, id desc limit :limit

-- name: session.children_desc
select id, parent_id, project_id, agent, model, cost, tokens_input, tokens_output, tokens_reasoning,
  tokens_cache_read, tokens_cache_write, time_created, time_updated, time_archived, time_pinned, title,
  directory, workspace_id, path, revert, fork,
  (select count(*) from session child where child.parent_id = session.id) as children
from session indexed by session_parent
where parent_id = :parent and (:directory is null or directory = :directory)
  and (:project is null or project_id = :project)
  and (:subpath is null or path = :subpath or path like :subpath_below escape '\')
  and (:workspace is null or workspace_id = :workspace)
  and (:search is null or title like :search escape '\')
  and (:archived is null or :archived = (time_archived is not null or exists (
    with recursive line (parent_id, time_archived, distance) as (
      select session.parent_id, null, 0
      union all
      select above.parent_id, above.time_archived, line.distance + 1
      from line join session above on above.id = line.parent_id where line.distance < 100)
    select 1 from line where line.time_archived is not null)))
  and time_created <= :anchor_time and (time_created < :anchor_time or id > :anchor_id)
order by time_created desc, id asc limit :limit

-- name: session.children_asc
select id, parent_id, project_id, agent, model, cost, tokens_input, tokens_output, tokens_reasoning,
  tokens_cache_read, tokens_cache_write, time_created, time_updated, time_archived, time_pinned, title,
  directory, workspace_id, path, revert, fork,
  (select count(*) from session child where child.parent_id = session.id) as children
from session indexed by session_parent
where parent_id = :parent and (:directory is null or directory = :directory)
  and (:project is null or project_id = :project)
  and (:subpath is null or path = :subpath or path like :subpath_below escape '\')
  and (:workspace is null or workspace_id = :workspace)
  and (:search is null or title like :search escape '\')
  and (:archived is null or :archived = (time_archived is not null or exists (
    with recursive line (parent_id, time_archived, distance) as (
      select session.parent_id, null, 0
      union all
      select above.parent_id, above.time_archived, line.distance + 1
      from line join session above on above.id = line.parent_id where line.distance < 100)
    select 1 from line where line.time_archived is not null)))
  and time_created >= :anchor_time and (time_created > :anchor_time or id < :anchor_id)
order by time_created asc, id desc limit :limit

-- name: session.number
select count(*) from session
