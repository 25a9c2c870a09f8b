-- Deleted Sessions, and removing what is left of them for good.

-- name: deleted.insert
insert into deleted_session (id, parent_id, source_id, time_updated) values (:id, :parent_id, :source_id, :time_updated)
on conflict (id) do nothing

-- name: deleted.get
select id, parent_id from deleted_session where id = :id

-- name: deleted.related
-- Deleted children and deleted forks of these Sessions.
select id from deleted_session where parent_id in (select value from json_each(:ids))
union
select id from deleted_session where source_id in (select value from json_each(:ids))

-- name: deleted.roots
-- Deleted Sessions whose parent is not there any more: their trees are gone.
select id, time_updated from deleted_session
where parent_id is null or not exists (select 1 from session where session.id = deleted_session.parent_id)
order by time_updated, id

-- name: purge.forks
-- Sessions that show messages of these, and are none of them.
select distinct session_id from session_lineage
where source_id in (select value from json_each(:ids)) and source_id <> session_id
  and session_id not in (select value from json_each(:ids))
order by session_id

-- name: purge.shown
-- A Session that shows messages of this one.
select 1 from session_lineage where source_id = :id and source_id <> session_id limit 1

-- name: purge.order
-- Which of these Sessions is deleted before which: a fork before its source, a child before its parent.
select session_id as earlier, source_id as later from session_lineage
where source_id in (select value from json_each(:ids)) and source_id <> session_id
union
select id, parent_id from session where parent_id in (select value from json_each(:ids))

-- name: purge.heads
select id, seq from session join event_sequence on aggregate_id = id where id in (select value from json_each(:ids))

-- name: purge.changed
-- A Session to which something was written since its head was this one.
select 1 from json_each(:heads) head left join event_sequence now on now.aggregate_id = head.key
where now.seq is not head.value limit 1

-- name: purge.mark
update deleted_session set purging = 1 where id = :id

-- name: purge.unfinished
select id from deleted_session where purging = 1 order by id

-- name: purge.remove_events
delete from event where aggregate_id = :id and seq <= :through

-- name: purge.remove_control
delete from session_control where session_id = :id

-- name: purge.remove_lease
delete from session_lease where session_id = :id

-- name: purge.remove_links
delete from approval_link where session_id = :id

-- name: purge.remove_epoch
delete from session_context_epoch where session_id = :id

-- name: purge.remove_context_changes
delete from session_context_change where session_id = :id

-- name: purge.remove_attempt
delete from session_attempt where session_id = :id

-- name: purge.remove_imports
delete from session_import where session_id = :id

-- name: purge.remove_blocked
delete from session_blocked where session_id = :id

-- name: purge.remove_partial
delete from session_partial where session_id = :id

-- name: purge.remove_wakes
delete from session_wake where session_id = :id

-- name: purge.remove_work
delete from session_work where session_id = :id

-- name: purge.remove_pause
delete from session_pause where session_id = :id or budget_id = :id

-- name: purge.remove_total
delete from budget_total where budget_id = :id

-- name: purge.remove_share
delete from budget_share where session_id = :id or budget_id = :id

-- name: purge.remove_tasks
delete from session_task where session_id = :id or child_id = :id

-- name: purge.remove_lineage
delete from session_lineage where session_id = :id

-- name: purge.remove_audit
-- That somebody purged it stays in the audit trail, without its id.
delete from audit_entry where session_id = :id

-- name: purge.remove_mark
delete from deleted_session where id = :id

-- name: purge.left
-- The tables that still have a row of this Session.
select 'event_sequence' as place where exists (select 1 from event_sequence where aggregate_id = :id)
union all select 'event' where exists (select 1 from event where aggregate_id = :id)
union all select 'session' where exists (select 1 from session where id = :id)
union all select 'session' where exists (select 1 from session where parent_id = :id)
union all select 'session_lineage' where exists (select 1 from session_lineage where session_id = :id)
union all select 'session_lineage' where exists (
  select 1 from session_lineage where source_id = :id and source_id <> session_id)
union all select 'session_message' where exists (select 1 from session_message where session_id = :id)
union all select 'session_message_part' where exists (select 1 from session_message_part where session_id = :id)
union all select 'session_input' where exists (select 1 from session_input where session_id = :id)
union all select 'session_attachment' where exists (select 1 from session_attachment where session_id = :id)
union all select 'todo' where exists (select 1 from todo where session_id = :id)
union all select 'session_instruction' where exists (select 1 from session_instruction where session_id = :id)
union all select 'session_instruction_entry' where exists (
  select 1 from session_instruction_entry where session_id = :id)
union all select 'session_turn' where exists (select 1 from session_turn where session_id = :id)
union all select 'session_activity' where exists (select 1 from session_activity where session_id = :id)
union all select 'session_request' where exists (select 1 from session_request where session_id = :id)
union all select 'session_task' where exists (select 1 from session_task where session_id = :id)
union all select 'session_task' where exists (select 1 from session_task where child_id = :id)
union all select 'session_budget' where exists (select 1 from session_budget where session_id = :id)
union all select 'session_context_epoch' where exists (select 1 from session_context_epoch where session_id = :id)
union all select 'session_context_change' where exists (select 1 from session_context_change where session_id = :id)
union all select 'session_attempt' where exists (select 1 from session_attempt where session_id = :id)
union all select 'session_import' where exists (select 1 from session_import where session_id = :id)
union all select 'session_blocked' where exists (select 1 from session_blocked where session_id = :id)
union all select 'session_partial' where exists (select 1 from session_partial where session_id = :id)
union all select 'session_wake' where exists (select 1 from session_wake where session_id = :id)
union all select 'session_work' where exists (select 1 from session_work where session_id = :id)
union all select 'session_pause' where exists (select 1 from session_pause where session_id = :id)
union all select 'session_pause' where exists (select 1 from session_pause where budget_id = :id)
union all select 'budget_total' where exists (select 1 from budget_total where budget_id = :id)
union all select 'budget_share' where exists (select 1 from budget_share where session_id = :id)
union all select 'budget_share' where exists (select 1 from budget_share where budget_id = :id)
union all select 'session_lease' where exists (select 1 from session_lease where session_id = :id)
union all select 'audit_entry' where exists (select 1 from audit_entry where session_id = :id)
union all select 'deleted_session' where exists (select 1 from deleted_session where id = :id)
