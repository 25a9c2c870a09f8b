-- All Sessions with what each does, and what waits for people.

-- name: overview.open
with open (id) as (
  select session_id from session_activity
  union select session_id from session_input where promoted_seq is null and withdrawn_seq is null
  union select session_id from session_request where reply is null
  union select json_array_elements_text(:running::json) collate "C")
select session.id, session.parent_id, session.project_id, session.agent, session.model, session.cost, session.tokens_input,
  session.tokens_output, session.tokens_reasoning, session.tokens_cache_read, session.tokens_cache_write,
  session.time_created, session.time_updated, session.time_archived, session.time_pinned, session.title, session.directory,
  session.workspace_id, session.path, session.revert, session.fork
from open cross join lateral (select * from session where session.id = open.id offset 0) session
where (:directory::text is null or texteq(session.directory, :directory))
  and (:search::text is null or session.title ~ replace(:search, '^', '\^') or session.directory ~ replace(:search, '^', '\^'))
  and (:archived::bigint is null or :archived::bigint = (session.time_archived is not null)::int)
order by session.time_updated desc, session.id limit :limit

-- name: overview.roots_desc
select session.id, session.parent_id, session.project_id, session.agent, session.model, session.cost, session.tokens_input,
  session.tokens_output, session.tokens_reasoning, session.tokens_cache_read, session.tokens_cache_write,
  session.time_created, session.time_updated, session.time_archived, session.time_pinned, session.title, session.directory,
  session.workspace_id, session.path, session.revert, session.fork
from session
where parent_id is null and time_updated <= :anchor_time and (time_updated < :anchor_time or id > :anchor_id)
  and (:directory::text is null or (
    hashtextextended(directory, 0) = hashtextextended(:directory, 0) and texteq(directory, :directory)))
  and (:search::text is null or title ~ replace(:search, '^', '\^') or directory ~ replace(:search, '^', '\^'))
  and :archived::bigint = (time_archived is not null)::int
order by time_updated desc, id limit :limit

-- name: overview.roots_asc
select session.id, session.parent_id, session.project_id, session.agent, session.model, session.cost, session.tokens_input,
  session.tokens_output, session.tokens_reasoning, session.tokens_cache_read, session.tokens_cache_write,
  session.time_created, session.time_updated, session.time_archived, session.time_pinned, session.title, session.directory,
  session.workspace_id, session.path, session.revert, session.fork
from session
where parent_id is null and time_updated >= :anchor_time and (time_updated > :anchor_time or id < :anchor_id)
  and (:directory::text is null or (
    hashtextextended(directory, 0) = hashtextextended(:directory, 0) and texteq(directory, :directory)))
  and (:search::text is null or title ~ replace(:search, '^', '\^') or directory ~ replace(:search, '^', '\^'))
  and :archived::bigint = (time_archived is not null)::int
order by time_updated, id desc limit :limit

-- name: overview.chosen
select session.id, session.parent_id, session.project_id, session.agent, session.model, session.cost, session.tokens_input,
  session.tokens_output, session.tokens_reasoning, session.tokens_cache_read, session.tokens_cache_write,
  session.time_created, session.time_updated, session.time_archived, session.time_pinned, session.title, session.directory,
  session.workspace_id, session.path, session.revert, session.fork
from session where session.id = any (array(select json_array_elements_text(:ids::json)))
order by session.time_updated desc, session.id

-- name: overview.by_title
select session.id, session.parent_id, session.project_id, session.agent, session.model, session.cost, session.tokens_input,
  session.tokens_output, session.tokens_reasoning, session.tokens_cache_read, session.tokens_cache_write,
  session.time_created, session.time_updated, session.time_archived, session.time_pinned, session.title, session.directory,
  session.workspace_id, session.path, session.revert, session.fork,
  (title !~ ('^' || replace(:search, '^', '\^') || '$'))::int * 2 + (:directory::text is distinct from directory)::int as tier
from session
where parent_id is null and title ~ replace(:search, '^', '\^')
order by tier, time_updated desc, id limit :limit

-- name: overview.details
select session.id, (
    select left(part.data::json ->> 'text', :characters::int) from session_message_part part
    where part.session_id = session.id and part.message_seq between newest_assistant - :events::bigint and newest_assistant
      and part.kind = 'text' and part.data::json ->> 'text' <> ''
    order by part.message_seq desc, part.idx desc limit 1) as text, (
    select json_build_object('model', step.data::json -> 'model', 'tokens', step.data::json -> 'tokens')::text
    from session_message step
    where step.session_id = session.id and step.seq between newest_assistant - :events::bigint and newest_assistant
      and step.type = 'assistant' and json_typeof(step.data::json -> 'tokens') = 'object'
    order by step.seq desc limit 1) as step
from session where session.id = any (array(select json_array_elements_text(:ids::json))) order by session.id

-- name: overview.requests
select session_id, id, kind, agent, data, time_created as since from session_request
where reply is null order by time_created, seq, id limit :limit

-- name: overview.drains
select lease.session_id, lease.owner_id, session.title, (
  select time_started from session_activity where session_id = lease.session_id) as since
from session_lease lease
cross join lateral (select title from session where id = lease.session_id offset 0) session
where lease.owner_id is not null order by lease.session_id limit :limit
