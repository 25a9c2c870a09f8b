-- Prompts that ask for no answer, and the delivery that was sent where it was changed later.
alter table session_input add column no_reply integer not null default 0;
alter table session_input add column sent_delivery text;

-- The newest prompt that asks for an answer decides about the turns after it.
create index session_input_asking on session_input (session_id, promoted_seq)
where kind = 'user' and no_reply = 0 and promoted_seq is not null;

-- Facts for the model of one Session, each a Context Source. A Session's row tells when they changed last.
create table session_instruction_entry (
  session_id text not null references session (id) on delete cascade,
  key text not null,
  value text not null,
  seq integer not null,
  primary key (session_id, key)
);
alter table session add column instructions_seq integer;
