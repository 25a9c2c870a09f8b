-- Sessions whose model owes an answer: from the promotion of an input to the end of the last step that it leads to.
create table session_activity (
  session_id text primary key not null references session (id) on delete cascade,
  seq integer not null,
  time_started integer not null,
  suspended integer not null default 0
);

insert into session_activity (session_id, seq, time_started)
select turn.session_id, coalesce(max(input.promoted_seq), turn.seq), coalesce(max(input.time_created), turn.time_dispatched)
from session_turn turn left join session_input input on input.session_id = turn.session_id
group by turn.session_id;

-- Whether the call that asked has started nothing yet, so that it can be executed after a restart, and whether a process
-- has begun to act on the answer.
alter table session_request add column resumable integer not null default 0;
alter table session_request add column taken integer not null default 0;

-- Why the pending input of a Session cannot start. Operational: the next promotion, or another try, removes it.
create table session_blocked (
  session_id text primary key not null,
  since integer not null,
  name text not null,
  message text not null
);

-- How often a process has gone on with what another one left, since the last progress. Operational.
create table session_attempt (
  session_id text primary key not null,
  count integer not null
);
