-- name: usage.sums
with recursive used as materialized (
  select case when :by_day::boolean then to_char(
      to_timestamp(((ended.data::json ->> 'timestamp')::bigint + :offset::bigint) / 1000.0) at time zone 'UTC',
      'YYYY-MM-DD') end as day,
    case when :by_model::boolean then coalesce(
      ended.data::json #>> '{model,providerID}', step.data::json #>> '{model,providerID}') end as provider_id,
    case when :by_model::boolean then coalesce(
      ended.data::json #>> '{model,id}', step.data::json #>> '{model,id}') end as model_id,
    ended.aggregate_id as session_id, count(*) as requests,
    sum((ended.data::json #>> '{tokens,input}')::bigint)::bigint as input,
    sum((ended.data::json #>> '{tokens,output}')::bigint)::bigint as output,
    sum((ended.data::json #>> '{tokens,reasoning}')::bigint)::bigint as reasoning,
    sum((ended.data::json #>> '{tokens,cache,read}')::bigint)::bigint as cache_read,
    sum((ended.data::json #>> '{tokens,cache,write}')::bigint)::bigint as cache_write,
    coalesce(sum((ended.data::json ->> 'cost')::float8), 0) as cost,
    coalesce(sum((ended.data::json ->> 'saved')::float8), 0) as saved,
    count(*) filter (where ended.data::json ->> 'saved' is null
      and (ended.data::json #>> '{tokens,cache,read}')::bigint
        + (ended.data::json #>> '{tokens,cache,write}')::bigint > 0) as unpriced
  from event ended
  left join lateral (select data from session_message
    where :by_model::boolean and id = ended.data::json ->> 'assistantMessageID' offset 0) step on true
  where (case when ended.type in (
      'session.next.step.ended.2', 'session.next.step.failed.2', 'session.next.usage.recorded.1')
      then (ended.data::json ->> 'timestamp')::bigint end) >= :since::bigint
    and (case when ended.type in (
      'session.next.step.ended.2', 'session.next.step.failed.2', 'session.next.usage.recorded.1')
      then (ended.data::json ->> 'timestamp')::bigint end) < :until::bigint
    and json_typeof(ended.data::json -> 'tokens') = 'object'
  group by 1, 2, 3, 4),
line (id, above_id) as (
  select distinct session_id, session_id from used
  union
  select line.id, above.parent_id from line
  cross join lateral (select parent_id from session where id = line.above_id and parent_id is not null offset 0) above),
root (id, root_id) as (
  select line.id, top.id from line
  cross join lateral (select id, parent_id from session where id = line.above_id offset 0) top
  where not exists (select 1 from session parent where parent.id = top.parent_id))
select used.day, used.provider_id, used.model_id,
  case when :by_project::boolean then top.project_id end as project_id,
  case when :by_project::boolean then max(project.worktree) end as worktree,
  case when :by_session::boolean then top.id end as session_id,
  case when :by_session::boolean then max(top.title) end as title,
  sum(used.requests)::bigint as requests, sum(used.input)::bigint as input, sum(used.output)::bigint as output,
  sum(used.reasoning)::bigint as reasoning, sum(used.cache_read)::bigint as cache_read,
  sum(used.cache_write)::bigint as cache_write, sum(used.cost) as cost, sum(used.saved) as saved,
  sum(used.unpriced)::bigint as unpriced
from used join root on root.id = used.session_id
cross join lateral (
  select id, title, project_id, directory from session where id = root.root_id offset 0) top
left join lateral (select worktree from project where id = top.project_id offset 0) project on true
where (:directory::text is null or top.directory = :directory) and (:project::text is null or top.project_id = :project)
  and (:session_id::text is null or exists (
    select 1 from line where line.id = used.session_id and line.above_id = :session_id))
group by 1, 2, 3, 4, 6 order by 1, 4, 6, 2, 3 limit :limit
