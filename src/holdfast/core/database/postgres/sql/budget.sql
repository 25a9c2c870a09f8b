-- Budgets. The text that a recursion begins with compares by bytes, as the columns do. With `offset 0` each step of a
-- recursion uses the index, also if the plan was made while there were few Sessions.

-- name: budget.set
insert into session_budget (session_id, seq, money, tokens, turns, time)
values ((select id from session where id = :session_id), :seq, :money, :tokens, :turns, :time)
on conflict (session_id) do update set seq = excluded.seq, money = excluded.money, tokens = excluded.tokens,
  turns = excluded.turns, time = excluded.time

-- name: budget.revise
insert into budget_revision (id, revision) values (0, 1)
on conflict (id) do update set revision = budget_revision.revision + 1

-- name: budget.revision
select coalesce((select revision from budget_revision where id = 0), 0) as revision

-- name: budget.open_shares
insert into budget_share (session_id, budget_id)
with recursive tree (id) as (
  select :session_id::text collate "C"
  union select child.id from tree cross join lateral (select id from session where parent_id = tree.id offset 0) child)
select id, :session_id from tree on conflict do nothing

-- name: budget.leave_totals_above
with recursive tree (id) as (
  select :session_id::text collate "C"
  union select child.id from tree cross join lateral (select id from session where parent_id = tree.id offset 0) child)
update budget_total set reserved_money = budget_total.reserved_money - more.money,
  reserved_tokens = budget_total.reserved_tokens - more.tokens, reserved_turns = budget_total.reserved_turns - more.turns
from (
  select share.budget_id, sum(share.reserved_money) as money, sum(share.reserved_tokens) as tokens,
    sum(share.reserved_turns) as turns
  from tree cross join lateral (select * from budget_share where session_id = tree.id offset 0) share
  where share.budget_id not in (select id from tree) group by share.budget_id) more
where budget_total.budget_id = more.budget_id

-- name: budget.leave_shares_above
delete from budget_share where (session_id, budget_id) in (
  with recursive tree (id) as (
    select :session_id::text collate "C"
  union select child.id from tree cross join lateral (select id from session where parent_id = tree.id offset 0) child)
  select share.session_id, share.budget_id from tree
  cross join lateral (select * from budget_share where session_id = tree.id offset 0) share
  where share.budget_id not in (select id from tree))

-- name: budget.join
insert into budget_share (session_id, budget_id)
with recursive chain (id) as (
  select :session_id::text collate "C"
  union select above.parent_id from chain
  cross join lateral (select parent_id from session where id = chain.id and parent_id is not null offset 0) above)
select :session_id, budget.session_id from chain join session_budget budget on budget.session_id = chain.id
on conflict do nothing

-- name: budget.of_chain
with recursive chain (id, depth) as (
  select :session_id::text collate "C", 0
  union select above.parent_id, depth + 1 from chain
  cross join lateral (select parent_id from session where id = chain.id and parent_id is not null offset 0) above
  where depth < 1000)
select budget.session_id, budget.money as limit_money, budget.tokens as limit_tokens, budget.turns as limit_turns,
  budget.time as limit_time, total.money, total.tokens, total.turns, total.time, total.reserved_money,
  total.reserved_tokens, total.reserved_turns
from chain
join session_budget budget on budget.session_id = chain.id
join budget_total total on total.budget_id = budget.session_id
order by chain.depth

-- name: budget.refuses
with recursive chain (id) as (
  select :session_id::text collate "C"
  union select above.parent_id from chain
  cross join lateral (select parent_id from session where id = chain.id and parent_id is not null offset 0) above)
select budget.session_id
from chain
join session_budget budget on budget.session_id = chain.id
join budget_total total on total.budget_id = budget.session_id
where total.money + total.reserved_money >= budget.money or total.tokens + total.reserved_tokens >= budget.tokens
  or total.turns + total.reserved_turns >= budget.turns or total.time >= budget.time
limit 1

-- name: pause.with_room
select pause.session_id
from budget_share share
join session_pause pause on pause.budget_id = share.budget_id
left join session_budget budget on budget.session_id = share.budget_id
left join budget_total total on total.budget_id = share.budget_id
where share.session_id = :session_id and not coalesce(total.money + total.reserved_money >= budget.money, false)
  and not coalesce(total.tokens + total.reserved_tokens >= budget.tokens, false)
  and not coalesce(total.turns + total.reserved_turns >= budget.turns, false)
  and not coalesce(total.time >= budget.time, false)
order by pause.since, pause.session_id

-- name: work.add
insert into session_work (session_id, time) values (:session_id, :time)
on conflict (session_id) do update set time = session_work.time + excluded.time

-- name: usage.own
select session.cost, session.tokens_input, session.tokens_output, session.tokens_reasoning, session.tokens_cache_read,
  session.tokens_cache_write, 1 as sessions,
  session.turns + exists (select 1 from session_turn where session_id = session.id and attempt > 0)::int as turns,
  coalesce(work.time, 0) as time
from session left join session_work work on work.session_id = session.id where session.id = :session_id

-- name: usage.tree
-- The cost is added up in decimals: binary fractions would show an error that depends on the order.
with recursive tree (id) as (
  select :session_id::text collate "C"
  union select child.id from tree cross join lateral (select id from session where parent_id = tree.id offset 0) child)
select coalesce(sum(session.cost::text::numeric), 0)::double precision as cost,
  coalesce(sum(session.tokens_input), 0)::bigint as tokens_input,
  coalesce(sum(session.tokens_output), 0)::bigint as tokens_output,
  coalesce(sum(session.tokens_reasoning), 0)::bigint as tokens_reasoning,
  coalesce(sum(session.tokens_cache_read), 0)::bigint as tokens_cache_read,
  coalesce(sum(session.tokens_cache_write), 0)::bigint as tokens_cache_write, count(*) as sessions,
  coalesce(sum(session.turns + exists (
    select 1 from session_turn where session_id = session.id and attempt > 0)::int), 0)::bigint as turns,
  coalesce(sum(work.time), 0)::bigint as time
from tree cross join lateral (select * from session where id = tree.id offset 0) session
left join session_work work on work.session_id = session.id
