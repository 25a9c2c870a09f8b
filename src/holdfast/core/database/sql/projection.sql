-- Whole projections of one Session: what a rebuild clears and what a verifier compares, row for row.

-- name: projection.clear_parts
delete from session_message_part where session_id = :id

-- name: projection.clear_messages
delete from session_message where session_id = :id

-- name: projection.clear_inbox
delete from session_input where session_id = :id

-- name: projection.clear_todos
delete from todo where session_id = :id

-- name: projection.clear_attachments
delete from session_attachment where session_id = :id

-- name: projection.clear_instructions
delete from session_instruction where session_id = :id

-- name: projection.clear_instruction_entries
delete from session_instruction_entry where session_id = :id

-- name: projection.clear_tasks
delete from session_task where session_id = :id

-- name: projection.clear_budget
delete from session_budget where session_id = :id

-- name: projection.clear_turn
delete from session_turn where session_id = :id

-- name: projection.clear_activity
delete from session_activity where session_id = :id

-- name: projection.clear_requests
delete from session_request where session_id = :id

-- name: projection.clear_session
delete from session where id = :id

-- name: projection.clear_lineage
delete from session_lineage where session_id = :id

-- name: projection.lineage
select * from session_lineage where session_id = :id order by after_seq

-- name: projection.session
select * from session where id = :id

-- name: projection.messages
select * from session_message where session_id = :id order by seq

-- name: projection.parts
select * from session_message_part where session_id = :id order by message_seq, idx

-- name: projection.inbox
select * from session_input where session_id = :id order by admitted_seq

-- name: projection.todos
select * from todo where session_id = :id order by position

-- name: projection.instructions
select * from session_instruction where session_id = :id order by seq, path

-- name: projection.instruction_entries
select * from session_instruction_entry where session_id = :id order by key

-- name: projection.tasks
select * from session_task where session_id = :id order by seq

-- name: projection.budget
select * from session_budget where session_id = :id

-- name: projection.turn
select * from session_turn where session_id = :id

-- name: projection.activity
select * from session_activity where session_id = :id

-- name: projection.requests
select * from session_request where session_id = :id order by seq

-- name: projection.attachments
select * from session_attachment where session_id = :id order by message_id, idx
