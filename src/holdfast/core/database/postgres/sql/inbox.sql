-- name: inbox.insert
insert into session_input (
  session_id, admitted_seq, id, kind, prompt, delivery, promoted_seq, time_created, no_reply)
values (
  (select session.id from session where session.id = :session_id), :seq, :id, :kind, :prompt, :delivery, null, :timestamp,
  :no_reply)

-- name: inbox.adopt
insert into session_input (
  session_id, admitted_seq, id, kind, prompt, delivery, promoted_seq, time_created, no_reply)
select (select session.id from session where session.id = :session_id), :seq, :id, :kind, :prompt, :delivery, :seq,
  :timestamp, :no_reply
where not exists (select 1 from session_input where id = :id)

-- name: inbox.options
select (prompt::json -> 'options')::text from session_input
where session_id = :session_id and kind = 'user' and no_reply = 0 and promoted_seq is not null
order by promoted_seq desc limit 1

-- name: inbox.shared_options
select newest.options from session_lineage segment
cross join lateral (
  select (m.data::json -> 'options')::text as options from session_message m
  where m.session_id = segment.source_id and m.seq > segment.after_seq and m.seq <= segment.through_seq
    and m.type = 'user' and m.data::json #>> '{options,noReply}' is null
  order by m.seq desc limit 1) newest
where segment.session_id = :session_id and segment.source_id <> :session_id
order by segment.after_seq desc limit 1

-- name: inbox.reopen
update session_input set ended_seq = null where session_id = :session_id and ended_seq = :seq::bigint - 1
