-- name: permission.save
insert into permission (id, project_id, root, owner, action, resource, time_created, time_updated)
values (
  :id, (select project.id from project where project.id = :project_id), :root, :owner, :action, :resource, :timestamp,
  :timestamp)
on conflict do nothing

-- name: permission.of_directory
select id, project_id, action, resource, owner from permission
where hashtextextended(root, 0) = hashtextextended(:root, 0) and root = :root and (owner = :owner or owner is null)
order by time_created, id

-- name: permission.bind
-- Of several for the same resource, the one with the owner to come, or the largest id, gives way or stays.
with replaced as (
  delete from permission old using permission unbound
  where hashtextextended(unbound.root, 0) = hashtextextended(:root, 0) and unbound.root = :root and unbound.owner is null
    and old.root = unbound.root and old.action = unbound.action and old.resource = unbound.resource
    and hashtextextended(old.root, 0) = hashtextextended(:root, 0)
    and (old.owner = :owner or (old.owner is null and old.id < unbound.id))
  returning old.id)
update permission set owner = :owner
where hashtextextended(root, 0) = hashtextextended(:root, 0) and root = :root and owner is null
  and id <> all (array(select id from replaced))

-- name: request.at_location
select request.session_id, request.agent, request.data, request.reply,
  session.directory = :directory and session.workspace_id is not distinct from :workspace_id as here
from session_request request join session on session.id = request.session_id
where request.id = :id and request.kind = :kind

-- name: request.session_at_location
select 1 from session
where id = :session_id and directory = :directory and workspace_id is not distinct from :workspace_id
