-- name: inbox.insert
insert into session_input (
  session_id, admitted_seq, id, kind, prompt, delivery, promoted_seq, time_created, no_reply)
values (:session_id, :seq, :id, :kind, :prompt, :delivery, null, :timestamp, :no_reply)

-- name: inbox.exists
select 1 from session_input where id = :id

-- name: inbox.claim
-- The id of a message that is no input. Where several nodes write, whoever admits an input with this id waits at the
-- unique key until the message is committed, and then finds it. `inbox.unclaim` follows in the same commit.
insert into session_input (
  session_id, admitted_seq, id, kind, prompt, delivery, promoted_seq, time_created, no_reply)
select :session_id, :seq, :id, 'claim', '', 'steer', null, :timestamp, 0
where exists (select 1 from session where id = :session_id)

-- name: inbox.unclaim
delete from session_input where id = :id and session_id = :session_id

-- name: inbox.adopt
-- A promotion without an admission (an older log): the row is born promoted.
insert into session_input (
  session_id, admitted_seq, id, kind, prompt, delivery, promoted_seq, time_created, no_reply)
select :session_id, :seq, :id, :kind, :prompt, :delivery, :seq, :timestamp, :no_reply
where not exists (select 1 from session_input where id = :id)

-- name: inbox.promote
update session_input set promoted_seq = :seq
where id = :id and session_id = :session_id and kind = :kind and prompt = :prompt and delivery = :delivery
  and time_created = :timestamp and withdrawn_seq is null and (promoted_seq is null or promoted_seq = :seq)

-- name: inbox.get
select session_id, id, kind, prompt, delivery, admitted_seq, promoted_seq, time_created
from session_input where id = :id

-- name: inbox.pending
-- Everything not yet promoted, oldest first.
select session_id, id, kind, prompt, delivery, admitted_seq, promoted_seq, time_created
from session_input where session_id = :session_id and promoted_seq is null and withdrawn_seq is null order by admitted_seq

-- name: inbox.prompt_since
-- Whether a pending steer of a user that asks for an answer was admitted after this sequence.
select 1 from session_input
where session_id = :session_id and promoted_seq is null and withdrawn_seq is null and delivery = 'steer'
  and kind = 'user' and no_reply = 0 and admitted_seq > :after limit 1

-- name: inbox.next
select session_id, id, kind, prompt, delivery, admitted_seq, promoted_seq, time_created
from session_input
where session_id = :session_id and promoted_seq is null and withdrawn_seq is null and delivery = :delivery
order by admitted_seq limit :limit

-- name: inbox.waiting
-- Whether anything of each delivery waits.
select delivery, count(*) from session_input
where session_id = :session_id and promoted_seq is null and withdrawn_seq is null group by delivery

-- name: inbox.delete_after
-- A committed revert forgets what was admitted or promoted after its boundary.
delete from session_input
where session_id = :session_id and (
  admitted_seq > coalesce(:after, (select seq from session_message where id = :message_id and session_id = :session_id))
  or promoted_seq > coalesce(:after, (select seq from session_message where id = :message_id and session_id = :session_id)))

-- name: inbox.end
-- Nothing is owed any more: the activity of all promoted inputs has ended.
update session_input set ended_seq = :seq
where session_id = :session_id and promoted_seq is not null and ended_seq is null
  and not exists (select 1 from session_activity where session_id = :session_id)

-- name: inbox.reopen
-- The event before this one ended an activity that goes on.
update session_input set ended_seq = null where session_id = :session_id and ended_seq = :seq - 1

-- name: inbox.withdraw
update session_input set withdrawn_seq = :seq
where id = :id and session_id = :session_id and promoted_seq is null and withdrawn_seq is null

-- name: inbox.set_delivery
-- What the caller sent is kept: a retry is compared with it.
update session_input set sent_delivery = coalesce(sent_delivery, delivery), delivery = :delivery
where id = :id and session_id = :session_id and promoted_seq is null and withdrawn_seq is null and delivery <> :delivery

-- name: inbox.sent_delivery
select coalesce(sent_delivery, delivery) from session_input where id = :id

-- name: inbox.options
-- Of the newest prompt in the conversation that asks for an answer. A synthetic input leaves the options as they are.
select prompt -> '$.options' from session_input indexed by session_input_asking
where session_id = :session_id and kind = 'user' and no_reply = 0 and promoted_seq is not null
order by promoted_seq desc limit 1

-- name: inbox.shared_options
-- The same of the newest prompt that a fork shares.
select m.data -> '$.options' from session_lineage segment
cross join session_message m
where segment.session_id = :session_id and segment.source_id <> :session_id and m.session_id = segment.source_id
  and m.seq > segment.after_seq and m.seq <= segment.through_seq
  and m.type = 'user' and json_extract(m.data, '$.options.noReply') is null
order by segment.after_seq desc, m.seq desc limit 1

-- name: inbox.is_withdrawn
select 1 from session_input where id = :id and withdrawn_seq is not null

-- name: inbox.is_pending
select 1 from session_input
where id = :id and session_id = :session_id and promoted_seq is null and withdrawn_seq is null

-- name: inbox.overfull
select 1 from session_input
where session_id = :session_id and promoted_seq is null and withdrawn_seq is null
limit 1 offset :limit - 1

-- name: inbox.want_wake
insert into session_wake (input_id, session_id) values (:id, :session_id) on conflict do nothing

-- name: inbox.woken
delete from session_wake where input_id = :id

-- name: inbox.forget_wakes
-- An interrupt keeps pending input back until someone wakes it.
delete from session_wake where session_id = :session_id

-- name: inbox.wakes
-- Pending input of a Session whose wake was asked for.
select waking.input_id from session_wake waking
join session_input input on input.id = waking.input_id
where waking.session_id = :session_id and input.promoted_seq is null and input.withdrawn_seq is null

-- name: inbox.lost_wakes
-- Sessions with pending input whose wake was asked for.
select distinct waking.session_id from session_wake waking
join session_input input on input.id = waking.input_id
where input.promoted_seq is null and input.withdrawn_seq is null
order by waking.session_id limit :limit
