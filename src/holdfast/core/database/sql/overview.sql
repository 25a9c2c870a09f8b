-- All Sessions with what each does, and what waits for people. None of these reads Sessions that it does not tell of.

-- name: overview.open
-- Sessions that have begun with something, have input that waits, ask something, or are executed; newest change first.
with open (id) as (
  select session_id from session_activity
  union select session_id from session_input indexed by session_input_waiting
    where promoted_seq is null and withdrawn_seq is null
  union select session_id from session_request indexed by session_request_open where reply is null
  union select value from json_each(:running))
select session.id, session.parent_id, session.project_id, session.agent, session.model, session.cost, session.tokens_input,
  session.tokens_output, session.tokens_reasoning, session.tokens_cache_read, session.tokens_cache_write,
  session.time_created, session.time_updated, session.time_archived, session.time_pinned, session.title, session.directory,
  session.workspace_id, session.path, session.revert, session.fork
from open cross join session on session.id = open.id
where (:directory is null or session.directory = :directory)
  and (:search is null or session.title glob '*' || :search || '*' or session.directory glob '*' || :search || '*')
  and (:archived is null or :archived = (session.time_archived is not null))
order by session.time_updated desc, session.id limit :limit

-- name: overview.roots_desc
-- Sessions without a parent, newest change first; within one millisecond by id.
select session.id, session.parent_id, session.project_id, session.agent, session.model, session.cost, session.tokens_input,
  session.tokens_output, session.tokens_reasoning, session.tokens_cache_read, session.tokens_cache_write,
  session.time_created, session.time_updated, session.time_archived, session.time_pinned, session.title, session.directory,
  session.workspace_id, session.path, session.revert, session.fork
from session indexed by session_changed
where parent_id is null and time_updated <= :anchor_time and (time_updated < :anchor_time or id > :anchor_id)
  and (:directory is null or directory = :directory)
  and (:search is null or title glob '*' || :search || '*' or directory glob '*' || :search || '*')
  and :archived = (time_archived is not null)
order by time_updated desc, id limit :limit

-- name: overview.roots_asc
-- The same from the other end.
select session.id, session.parent_id, session.project_id, session.agent, session.model, session.cost, session.tokens_input,
  session.tokens_output, session.tokens_reasoning, session.tokens_cache_read, session.tokens_cache_write,
  session.time_created, session.time_updated, session.time_archived, session.time_pinned, session.title, session.directory,
  session.workspace_id, session.path, session.revert, session.fork
from session indexed by session_changed
where parent_id is null and time_updated >= :anchor_time and (time_updated > :anchor_time or id < :anchor_id)
  and (:directory is null or directory = :directory)
  and (:search is null or title glob '*' || :search || '*' or directory glob '*' || :search || '*')
  and :archived = (time_archived is not null)
order by time_updated, id desc limit :limit

-- name: overview.chosen
-- Sessions by their ids, newest change first.
select session.id, session.parent_id, session.project_id, session.agent, session.model, session.cost, session.tokens_input,
  session.tokens_output, session.tokens_reasoning, session.tokens_cache_read, session.tokens_cache_write,
  session.time_created, session.time_updated, session.time_archived, session.time_pinned, session.title, session.directory,
  session.workspace_id, session.path, session.revert, session.fork
from session where session.id in (select value from json_each(:ids)) order by session.time_updated desc, session.id

-- name: overview.by_prefix
-- Sessions whose id is in a range, which is that of a prefix.
select session.id, session.parent_id, session.project_id, session.agent, session.model, session.cost, session.tokens_input,
  session.tokens_output, session.tokens_reasoning, session.tokens_cache_read, session.tokens_cache_write,
  session.time_created, session.time_updated, session.time_archived, session.time_pinned, session.title, session.directory,
  session.workspace_id, session.path, session.revert, session.fork
from session where session.id >= :low and session.id < :high order by session.id limit :limit

-- name: overview.by_title
-- Sessions without a parent by a part of their title, whatever its case. Lower tiers fit better: the whole title in this
-- directory, the whole title elsewhere, a part of it here, a part of it elsewhere.
select session.id, session.parent_id, session.project_id, session.agent, session.model, session.cost, session.tokens_input,
  session.tokens_output, session.tokens_reasoning, session.tokens_cache_read, session.tokens_cache_write,
  session.time_created, session.time_updated, session.time_archived, session.time_pinned, session.title, session.directory,
  session.workspace_id, session.path, session.revert, session.fork,
  (not title glob :search) * 2 + (directory is not :directory) as tier
from session indexed by session_changed
where parent_id is null and title glob '*' || :search || '*'
order by tier, time_updated desc, id limit :limit

-- name: overview.details
-- The beginning of the newest text, and the newest step whose usage is known; both from the last :events events before
-- the newest answer.
select session.id, (
    select substr(json_extract(part.data, '$.text'), 1, :characters) from session_message_part part
    where part.session_id = session.id and part.message_seq between newest_assistant - :events and newest_assistant
      and part.kind = 'text' and json_extract(part.data, '$.text') <> ''
    order by part.message_seq desc, part.idx desc limit 1) as text, (
    select json_object('model', step.data -> '$.model', 'tokens', step.data -> '$.tokens') from session_message step
    where step.session_id = session.id and step.seq between newest_assistant - :events and newest_assistant
      and step.type = 'assistant' and json_type(step.data, '$.tokens') = 'object'
    order by step.seq desc limit 1) as step
from session where session.id in (select value from json_each(:ids))

-- name: overview.requests
-- Everything that Sessions ask people; oldest first.
select session_id, id, kind, agent, data, time_created as since from session_request indexed by session_request_open
where reply is null order by time_created, seq, id limit :limit

-- name: overview.askers
-- How many open requests each Session has.
select session_id, count(*) as requests from session_request where reply is null group by session_id

-- name: overview.drains
-- Leases that are held, and since when there is something to do.
select lease.session_id, lease.owner_id, session.title, activity.time_started as since
from session_lease lease indexed by session_lease_owner cross join session on session.id = lease.session_id
left join session_activity activity on activity.session_id = lease.session_id
where lease.owner_id is not null order by lease.session_id limit :limit

-- name: overview.newest_change
-- When a Session was changed last, by the clock of the process that did it.
select max(time_updated) as time from session where parent_id is null
