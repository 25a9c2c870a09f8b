-- What requests to models used.

-- name: usage.sums
-- Of a period, by what is asked for. What is not grouped by is null, and so is a model that was not recorded. Projects and
-- Sessions are those of the root of each tree.
with recursive used as materialized (
  select case when :by_day then date((json_extract(ended.data, '$.timestamp') + :offset) / 1000, 'unixepoch') end as day,
    case when :by_model then coalesce(
      json_extract(ended.data, '$.model.providerID'), json_extract(step.data, '$.model.providerID')) end as provider_id,
    case when :by_model then coalesce(
      json_extract(ended.data, '$.model.id'), json_extract(step.data, '$.model.id')) end as model_id,
    ended.aggregate_id as session_id, count(*) as requests,
    sum(json_extract(ended.data, '$.tokens.input')) as input,
    sum(json_extract(ended.data, '$.tokens.output')) as output,
    sum(json_extract(ended.data, '$.tokens.reasoning')) as reasoning,
    sum(json_extract(ended.data, '$.tokens.cache.read')) as cache_read,
    sum(json_extract(ended.data, '$.tokens.cache.write')) as cache_write,
    total(json_extract(ended.data, '$.cost')) as cost,
    total(json_extract(ended.data, '$.saved')) as saved,
    sum(json_extract(ended.data, '$.saved') is null and json_extract(ended.data, '$.tokens.cache.read')
      + json_extract(ended.data, '$.tokens.cache.write') > 0) as unpriced
  from event ended indexed by event_usage
  left join session_message step on :by_model and step.id = json_extract(ended.data, '$.assistantMessageID')
  where ended.type in (
      'session.next.step.ended.2', 'session.next.step.failed.2', 'session.next.usage.recorded.1')
    and json_extract(ended.data, '$.timestamp') >= :since and json_extract(ended.data, '$.timestamp') < :until
    and json_type(ended.data, '$.tokens') = 'object'
  group by 1, 2, 3, 4),
line (id, above_id) as (
  select distinct session_id, session_id from used
  union
  select line.id, session.parent_id from line cross join session on session.id = line.above_id
  where session.parent_id is not null),
root (id, root_id) as (
  select line.id, session.id from line cross join session on session.id = line.above_id
  left join session parent on parent.id = session.parent_id where parent.id is null)
select used.day, used.provider_id, used.model_id,
  case when :by_project then top.project_id end as project_id,
  case when :by_project then max(project.worktree) end as worktree,
  case when :by_session then top.id end as session_id, case when :by_session then max(top.title) end as title,
  sum(used.requests) as requests, sum(used.input) as input, sum(used.output) as output, sum(used.reasoning) as reasoning,
  sum(used.cache_read) as cache_read, sum(used.cache_write) as cache_write, total(used.cost) as cost,
  total(used.saved) as saved, sum(used.unpriced) as unpriced
from used cross join root on root.id = used.session_id cross join session top on top.id = root.root_id
left join project on project.id = top.project_id
where (:directory is null or top.directory = :directory) and (:project is null or top.project_id = :project)
  and (:session_id is null or exists (
    select 1 from line where line.id = used.session_id and line.above_id = :session_id))
group by 1, 2, 3, 4, 6 order by 1, 4, 6, 2, 3 limit :limit
