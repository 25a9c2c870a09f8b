-- Budgets: limits, what was used and is reserved, and the Sessions that wait. Money is in billionths of a dollar, time in
-- milliseconds.

-- name: budget.set
insert into session_budget (session_id, seq, money, tokens, turns, time)
values (:session_id, :seq, :money, :tokens, :turns, :time)
on conflict (session_id) do update set seq = excluded.seq, money = excluded.money, tokens = excluded.tokens,
  turns = excluded.turns, time = excluded.time

-- name: budget.remove
delete from session_budget where session_id = :session_id

-- name: budget.revise
update budget_revision set revision = revision + 1 where id = 0

-- name: budget.revision
select revision from budget_revision where id = 0

-- name: budget.open_total
insert into budget_total (budget_id) values (:session_id) on conflict do nothing

-- name: budget.open_shares
-- For the Session and everything below it.
insert into budget_share (session_id, budget_id)
with recursive tree (id) as (
  select :session_id union select session.id from tree join session on session.parent_id = tree.id)
select id, :session_id from tree where true on conflict do nothing

-- name: budget.count_all_in_total
update budget_total set money = budget_total.money + more.money, tokens = budget_total.tokens + more.tokens,
  turns = budget_total.turns + more.turns, time = budget_total.time + more.time
from (
  select coalesce(sum(spent.money - share.money), 0) as money, coalesce(sum(spent.tokens - share.tokens), 0) as tokens,
    coalesce(sum(spent.turns - share.turns), 0) as turns, coalesce(sum(spent.time - share.time), 0) as time
  from budget_share share join session_spent spent on spent.session_id = share.session_id
  where share.budget_id = :session_id) more
where budget_total.budget_id = :session_id

-- name: budget.count_all_shares
update budget_share set money = spent.money, tokens = spent.tokens, turns = spent.turns, time = spent.time
from session_spent spent where budget_share.budget_id = :session_id and spent.session_id = budget_share.session_id

-- name: budget.drop_total
delete from budget_total where budget_id = :session_id

-- name: budget.drop_shares
delete from budget_share where budget_id = :session_id

-- name: budget.leave_totals
-- A deleted Session reserves nothing; what it used stays counted.
update budget_total set reserved_money = budget_total.reserved_money - share.reserved_money,
  reserved_tokens = budget_total.reserved_tokens - share.reserved_tokens,
  reserved_turns = budget_total.reserved_turns - share.reserved_turns
from budget_share share where share.session_id = :session_id and share.budget_id = budget_total.budget_id

-- name: budget.leave_shares
delete from budget_share where session_id = :session_id

-- name: budget.leave_totals_above
-- Of everything below a Session, reservations in budgets that are not below it.
with recursive tree (id) as (
  select :session_id union select session.id from tree join session on session.parent_id = tree.id)
update budget_total set reserved_money = budget_total.reserved_money - more.money,
  reserved_tokens = budget_total.reserved_tokens - more.tokens, reserved_turns = budget_total.reserved_turns - more.turns
from (
  select share.budget_id, sum(share.reserved_money) as money, sum(share.reserved_tokens) as tokens,
    sum(share.reserved_turns) as turns
  from tree cross join budget_share share on share.session_id = tree.id
  where share.budget_id not in (select id from tree) group by share.budget_id) more
where budget_total.budget_id = more.budget_id

-- name: budget.leave_shares_above
delete from budget_share where (session_id, budget_id) in (
  with recursive tree (id) as (
    select :session_id union select session.id from tree join session on session.parent_id = tree.id)
  select share.session_id, share.budget_id from tree cross join budget_share share on share.session_id = tree.id
  where share.budget_id not in (select id from tree))

-- name: budget.join
-- A share in each budget of the Session and its ancestors.
insert into budget_share (session_id, budget_id)
with recursive chain (id) as (
  select :session_id
  union select session.parent_id from chain join session on session.id = chain.id where session.parent_id is not null)
select :session_id, budget.session_id from chain join session_budget budget on budget.session_id = chain.id
where true on conflict do nothing

-- name: budget.count_in_totals
update budget_total set money = budget_total.money + spent.money - share.money,
  tokens = budget_total.tokens + spent.tokens - share.tokens,
  turns = budget_total.turns + spent.turns - share.turns,
  time = budget_total.time + spent.time - share.time
from budget_share share join session_spent spent on spent.session_id = share.session_id
where share.session_id = :session_id and share.budget_id = budget_total.budget_id

-- name: budget.count_shares
update budget_share set money = spent.money, tokens = spent.tokens, turns = spent.turns, time = spent.time
from session_spent spent where budget_share.session_id = :session_id and spent.session_id = :session_id

-- name: budget.reserve_in_totals
update budget_total set reserved_money = budget_total.reserved_money + :money - share.reserved_money,
  reserved_tokens = budget_total.reserved_tokens + :tokens - share.reserved_tokens,
  reserved_turns = budget_total.reserved_turns + 1 - share.reserved_turns
from budget_share share where share.session_id = :session_id and share.budget_id = budget_total.budget_id

-- name: budget.reserve_shares
update budget_share set reserved_money = :money, reserved_tokens = :tokens, reserved_turns = 1
where session_id = :session_id

-- name: budget.release_in_totals
-- A reservation lasts as long as the turn or the compaction that it was made for.
update budget_total set reserved_money = budget_total.reserved_money - share.reserved_money,
  reserved_tokens = budget_total.reserved_tokens - share.reserved_tokens,
  reserved_turns = budget_total.reserved_turns - share.reserved_turns
from budget_share share
where share.session_id = :session_id and share.budget_id = budget_total.budget_id
  and not exists (select 1 from session_turn where session_id = :session_id)
  and not exists (select 1 from session where id = :session_id and time_compacting is not null)

-- name: budget.release_shares
update budget_share set reserved_money = 0, reserved_tokens = 0, reserved_turns = 0
where session_id = :session_id
  and not exists (select 1 from session_turn where session_id = :session_id)
  and not exists (select 1 from session where id = :session_id and time_compacting is not null)

-- name: budget.of_chain
-- The budgets of a Session and its ancestors, its own first.
with recursive chain (id, depth) as (
  select :session_id, 0
  union select session.parent_id, depth + 1 from chain join session on session.id = chain.id
  where session.parent_id is not null and depth < 1000)
select budget.session_id, budget.money as limit_money, budget.tokens as limit_tokens, budget.turns as limit_turns,
  budget.time as limit_time, total.money, total.tokens, total.turns, total.time, total.reserved_money,
  total.reserved_tokens, total.reserved_turns
from chain
join session_budget budget on budget.session_id = chain.id
join budget_total total on total.budget_id = budget.session_id
order by chain.depth

-- name: budget.refuses
-- A budget of the Session or an ancestor of which nothing is left.
with recursive chain (id) as (
  select :session_id
  union select session.parent_id from chain join session on session.id = chain.id where session.parent_id is not null)
select budget.session_id
from chain
join session_budget budget on budget.session_id = chain.id
join budget_total total on total.budget_id = budget.session_id
where total.money + total.reserved_money >= budget.money or total.tokens + total.reserved_tokens >= budget.tokens
  or total.turns + total.reserved_turns >= budget.turns or total.time >= budget.time
limit 1

-- name: budget.may_default
-- A root that has not sent anything and whose budget nobody has decided about.
select 1 from session
where id = :session_id and parent_id is null and turns = 0
  and not exists (
    select 1 from event where aggregate_id = :session_id and type in (
      'session.next.budget.set.1', 'session.next.turn.dispatched.1'))

-- name: pause.set
insert into session_pause (session_id, budget_id, since) values (:session_id, :budget_id, :since)
on conflict (session_id) do update set budget_id = excluded.budget_id

-- name: pause.clear
delete from session_pause where session_id = :session_id

-- name: pause.of
-- Only as long as something is owed or waits.
select budget_id, since from session_pause where session_id = :session_id and (
  exists (select 1 from session_activity where session_id = :session_id)
  or exists (
    select 1 from session_input
    where session_id = :session_id and promoted_seq is null and withdrawn_seq is null))

-- name: pause.of_budget
select session_id from session_pause where budget_id = :budget_id order by since, session_id

-- name: pause.with_room
-- Sessions that wait for a budget in which the given one has a share, and of which something is left.
select pause.session_id
from budget_share share
join session_pause pause on pause.budget_id = share.budget_id
left join session_budget budget on budget.session_id = share.budget_id
left join budget_total total on total.budget_id = share.budget_id
where share.session_id = :session_id and not coalesce(total.money + total.reserved_money >= budget.money, 0)
  and not coalesce(total.tokens + total.reserved_tokens >= budget.tokens, 0)
  and not coalesce(total.turns + total.reserved_turns >= budget.turns, 0)
  and not coalesce(total.time >= budget.time, 0)
order by pause.since, pause.session_id

-- name: work.add
insert into session_work (session_id, time) values (:session_id, :time)
on conflict (session_id) do update set time = time + excluded.time

-- name: work.forget
delete from session_work where session_id = :session_id

-- name: usage.own
select session.cost, session.tokens_input, session.tokens_output, session.tokens_reasoning, session.tokens_cache_read,
  session.tokens_cache_write, 1 as sessions,
  session.turns + exists (select 1 from session_turn where session_id = session.id and attempt > 0) as turns,
  coalesce(work.time, 0) as time
from session left join session_work work on work.session_id = session.id where session.id = :session_id

-- name: usage.tree
-- Of the Session and everything below it.
with recursive tree (id) as (
  select :session_id union select session.id from tree join session on session.parent_id = tree.id)
select total(session.cost) as cost, coalesce(sum(session.tokens_input), 0) as tokens_input,
  coalesce(sum(session.tokens_output), 0) as tokens_output, coalesce(sum(session.tokens_reasoning), 0) as tokens_reasoning,
  coalesce(sum(session.tokens_cache_read), 0) as tokens_cache_read,
  coalesce(sum(session.tokens_cache_write), 0) as tokens_cache_write, count(*) as sessions,
  coalesce(sum(session.turns + exists (
    select 1 from session_turn where session_id = session.id and attempt > 0)), 0) as turns,
  coalesce(sum(work.time), 0) as time
from tree join session on session.id = tree.id left join session_work work on work.session_id = session.id
