-- An input is a prompt of the user, or synthetic: text that a program adds to the conversation.
alter table session_input add column kind text not null default 'user';
