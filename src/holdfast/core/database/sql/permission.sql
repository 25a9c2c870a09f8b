-- What a person approved for good, and how a request finds its Location.

-- name: permission.save
insert into permission (id, project_id, action, resource, time_created, time_updated)
values (:id, :project_id, :action, :resource, :timestamp, :timestamp)
on conflict (project_id, action, resource) do nothing

-- name: permission.of_project
select id, project_id, action, resource from permission where project_id = :project_id order by time_created, id

-- name: permission.remove
delete from permission where id = :id

-- name: request.at_location
-- A request, and whether its Session is at this Location now.
select request.session_id, request.agent, request.data, request.reply,
  session.directory = :directory and session.workspace_id is :workspace_id
from session_request request join session on session.id = request.session_id
where request.id = :id and request.kind = :kind

-- name: request.session_at_location
select 1 from session where id = :session_id and directory = :directory and workspace_id is :workspace_id

-- name: request.surplus
-- Finds something once as many requests of this kind wait as may.
select 1 from session_request
where session_id = :session_id and kind = :kind and reply is null limit 1 offset :most - 1
