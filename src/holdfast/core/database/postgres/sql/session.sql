-- Sessions. Lists are planned for their parameters: what a caller leaves out is no condition, and of the others an index is
-- chosen. A function (`texteq`) compares what the index has found by its hash: an operator would count twice in the estimate.
-- SQLite's `like` ignores the case of ASCII letters, as `ilike` does for columns that compare by bytes.

-- name: session.with_ancestors
with recursive line (depth, id, parent_id, agent, directory, workspace_id, child_id) as (
  select 0, id, parent_id, agent, directory, workspace_id, null::text collate "C" from session where id = :id
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
  :id, (select project.id from project where project.id = :project_id), :workspace_id, :parent_id, :slug, :directory, :path,
  :title, :version, :share_url,
  :summary_additions, :summary_deletions, :summary_files, :summary_diffs, :metadata, :cost,
  :tokens_input, :tokens_output, :tokens_reasoning, :tokens_cache_read, :tokens_cache_write,
  :revert, :permission, :agent, :model, :time_created, :time_updated, :time_compacting, :time_archived, :time_pinned,
  :fork
)

-- name: session.overwrite
update session set
  project_id = (select project.id from project where project.id = :project_id),
  workspace_id = :workspace_id, parent_id = :parent_id, slug = :slug,
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

-- name: session.add_step_usage
update session set
  turns = turns + exists (select 1 from session_turn where session_id = :id and attempt > 0)::int,
  cost = cost + :cost,
  tokens_input = tokens_input + :input,
  tokens_output = tokens_output + :output,
  tokens_reasoning = tokens_reasoning + :reasoning,
  tokens_cache_read = tokens_cache_read + :cache_read,
  tokens_cache_write = tokens_cache_write + :cache_write,
  time_updated = :timestamp
where id = :id and exists (select 1 from session_message where id = :message_id and session_id = :id)

-- name: session.clear_epoch_after
delete from session_context_epoch
where session_id = :session_id and (
  baseline_seq > coalesce(:after, (select seq from session_message where id = :message_id and session_id = :session_id))
  or exists (
    select 1 from session_lineage segment
    cross join session_message later
    where segment.session_id = :session_id and later.session_id = segment.source_id
      and later.seq > segment.after_seq and later.seq <= segment.through_seq
      and later.seq > coalesce(
        :after, (select seq from session_message where id = :message_id and session_id = :session_id))
      and later.type in ('system', 'compaction')))

-- name: session.list_desc
select id, parent_id, project_id, agent, model, cost, tokens_input, tokens_output, tokens_reasoning,
  tokens_cache_read, tokens_cache_write, time_created, time_updated, time_archived, time_pinned, title,
  directory, workspace_id, path, revert, fork,
  (select count(*) from session child where child.parent_id = session.id) as children
from session
where (:roots::bigint = 0 or parent_id is null) and (:directory::text is null or (
    hashtextextended(directory, 0) = hashtextextended(:directory, 0) and texteq(directory, :directory)))
  and (:project::text is null or project_id = :project)
  and (:subpath::text is null or path = :subpath or path ilike :subpath_below escape '\')
  and (:workspace::text is null or workspace_id = :workspace)
  and (:search::text is null or title ilike :search escape '\')
  and (:archived::bigint is null or :archived::bigint = (time_archived is not null or exists (
    with recursive line (parent_id, time_archived, distance) as (
      select session.parent_id, null::bigint, 0
      union all
      select above.parent_id, above.time_archived, line.distance + 1
      from line join session above on above.id = line.parent_id where line.distance < 100)
    select 1 from line where line.time_archived is not null))::int)
  and time_created <= :anchor_time::bigint and (time_created < :anchor_time or id > :anchor_id)
order by time_created desc, id asc limit :limit

-- name: session.list_asc
select id, parent_id, project_id, agent, model, cost, tokens_input, tokens_output, tokens_reasoning,
  tokens_cache_read, tokens_cache_write, time_created, time_updated, time_archived, time_pinned, title,
  directory, workspace_id, path, revert, fork,
  (select count(*) from session child where child.parent_id = session.id) as children
from session
where (:roots::bigint = 0 or parent_id is null) and (:directory::text is null or (
    hashtextextended(directory, 0) = hashtextextended(:directory, 0) and texteq(directory, :directory)))
  and (:project::text is null or project_id = :project)
  and (:subpath::text is null or path = :subpath or path ilike :subpath_below escape '\')
  and (:workspace::text is null or workspace_id = :workspace)
  and (:search::text is null or title ilike :search escape '\')
  and (:archived::bigint is null or :archived::bigint = (time_archived is not null or exists (
    with recursive line (parent_id, time_archived, distance) as (
      select session.parent_id, null::bigint, 0
      union all
      select above.parent_id, above.time_archived, line.distance + 1
      from line join session above on above.id = line.parent_id where line.distance < 100)
    select 1 from line where line.time_archived is not null))::int)
  and time_created >= :anchor_time::bigint and (time_created > :anchor_time or id < :anchor_id)
order by time_created asc, id desc limit :limit

-- name: session.children_desc
select id, parent_id, project_id, agent, model, cost, tokens_input, tokens_output, tokens_reasoning,
  tokens_cache_read, tokens_cache_write, time_created, time_updated, time_archived, time_pinned, title,
  directory, workspace_id, path, revert, fork,
  (select count(*) from session child where child.parent_id = session.id) as children
from session
where parent_id = :parent and (:directory::text is null or (
    hashtextextended(directory, 0) = hashtextextended(:directory, 0) and texteq(directory, :directory)))
  and (:project::text is null or project_id = :project)
  and (:subpath::text is null or path = :subpath or path ilike :subpath_below escape '\')
  and (:workspace::text is null or workspace_id = :workspace)
  and (:search::text is null or title ilike :search escape '\')
  and (:archived::bigint is null or :archived::bigint = (time_archived is not null or exists (
    with recursive line (parent_id, time_archived, distance) as (
      select session.parent_id, null::bigint, 0
      union all
      select above.parent_id, above.time_archived, line.distance + 1
      from line join session above on above.id = line.parent_id where line.distance < 100)
    select 1 from line where line.time_archived is not null))::int)
  and time_created <= :anchor_time::bigint and (time_created < :anchor_time or id > :anchor_id)
order by time_created desc, id asc limit :limit

-- name: session.children_asc
select id, parent_id, project_id, agent, model, cost, tokens_input, tokens_output, tokens_reasoning,
  tokens_cache_read, tokens_cache_write, time_created, time_updated, time_archived, time_pinned, title,
  directory, workspace_id, path, revert, fork,
  (select count(*) from session child where child.parent_id = session.id) as children
from session
where parent_id = :parent and (:directory::text is null or (
    hashtextextended(directory, 0) = hashtextextended(:directory, 0) and texteq(directory, :directory)))
  and (:project::text is null or project_id = :project)
  and (:subpath::text is null or path = :subpath or path ilike :subpath_below escape '\')
  and (:workspace::text is null or workspace_id = :workspace)
  and (:search::text is null or title ilike :search escape '\')
  and (:archived::bigint is null or :archived::bigint = (time_archived is not null or exists (
    with recursive line (parent_id, time_archived, distance) as (
      select session.parent_id, null::bigint, 0
      union all
      select above.parent_id, above.time_archived, line.distance + 1
      from line join session above on above.id = line.parent_id where line.distance < 100)
    select 1 from line where line.time_archived is not null))::int)
  and time_created >= :anchor_time::bigint and (time_created > :anchor_time or id < :anchor_id)
order by time_created asc, id desc limit :limit
