-- What a person approved for good, and how a request finds its Location.

-- name: permission.save
insert into permission (id, project_id, root, owner, action, resource, time_created, time_updated)
values (:id, :project_id, :root, :owner, :action, :resource, :timestamp, :timestamp)
on conflict (root, owner, action, resource) do nothing

-- name: permission.of_directory
-- With those whose owner is not known yet.
select id, project_id, action, resource, owner from permission
where root = :root and (owner = :owner or owner is null) order by time_created, id

-- name: permission.bind
-- The owner of a directory that had approvals before owners were recorded.
update or replace permission set owner = :owner where root = :root and owner is null

-- name: permission.of_project
select id, project_id, action, resource from permission where project_id = :project_id order by time_created, id

-- name: permission.remove
delete from permission where id = :id

-- name: request.at_location
-- A request, and whether its Session is at this Location now.
select request.session_id, request.agent, request.data, request.reply,
  session.directory = :directory and session.workspace_id is :workspace_id as here
from session_request request join session on session.id = request.session_id
where request.id = :id and request.kind = :kind

-- name: request.session_at_location
select 1 from session where id = :session_id and directory = :directory and workspace_id is :workspace_id

-- name: request.surplus
-- Finds something once as many requests of this kind wait as may.
select 1 from session_request
where session_id = :session_id and kind = :kind and reply is null limit 1 offset :most - 1
