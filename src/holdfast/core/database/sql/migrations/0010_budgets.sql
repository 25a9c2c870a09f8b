-- Limits of a Session and everything below it. Money is in billionths of a dollar, so that sums are exact; time is in
-- milliseconds.
create table session_budget (
  session_id text primary key not null references session (id) on delete cascade,
  seq integer not null,
  money integer,
  tokens integer,
  turns integer,
  time integer
) without rowid;

-- How many requests a Session has sent, the open one left out.
alter table session add column turns integer not null default 0;
update session set turns = (
  select count(*) from event
  where aggregate_id = session.id and type in ('session.next.turn.dispatched.1', 'session.next.usage.recorded.1'))
  - (select count(*) from session_turn where session_id = session.id);

-- How many milliseconds a Session has worked. Operational: a rebuild leaves it as it is.
create table session_work (
  session_id text primary key not null,
  time integer not null default 0
) without rowid;

-- What one Session has used by itself, in the units of a budget.
create view session_spent as
select session.id as session_id, cast(round(session.cost * 1e9) as integer) as money,
  session.tokens_input + session.tokens_output + session.tokens_reasoning + session.tokens_cache_read
    + session.tokens_cache_write as tokens,
  session.turns, coalesce(work.time, 0) as time
from session left join session_work work on work.session_id = session.id;

-- What was counted and is reserved for a budget, in all. Operational.
create table budget_total (
  budget_id text primary key not null,
  money integer not null default 0,
  tokens integer not null default 0,
  turns integer not null default 0,
  time integer not null default 0,
  reserved_money integer not null default 0,
  reserved_tokens integer not null default 0,
  reserved_turns integer not null default 0
) without rowid;

-- What of one Session is part of that. What the Session has used and is not here yet is counted next time, once.
create table budget_share (
  session_id text not null,
  budget_id text not null,
  money integer not null default 0,
  tokens integer not null default 0,
  turns integer not null default 0,
  time integer not null default 0,
  reserved_money integer not null default 0,
  reserved_tokens integer not null default 0,
  reserved_turns integer not null default 0,
  primary key (session_id, budget_id)
) without rowid;
create index budget_share_budget on budget_share (budget_id);

-- Sessions whose next request a budget refused. Operational.
create table session_pause (
  session_id text primary key not null,
  budget_id text not null,
  since integer not null
) without rowid;
create index session_pause_budget on session_pause (budget_id);

-- Grows with each change of a budget, so that a process can ask whether any was made.
create table budget_revision (id integer primary key check (id = 0), revision integer not null);
insert into budget_revision (id, revision) values (0, 0);

-- What the complete answer of an open turn used, as JSON.
alter table session_turn add column used text;
