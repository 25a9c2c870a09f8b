-- The role and the database of Holdfast: psql --set password=… --file role.sql, as a superuser.
-- The role owns one database. It is no superuser, creates no roles or databases, and needs no extension.
create role holdfast login nosuperuser nocreatedb nocreaterole noreplication password :'password';
create database holdfast owner holdfast;
revoke all on database holdfast from public;

-- How soon the server notices that the machine of a node has vanished: after about five seconds instead of two hours. Until
-- then the node's lock is kept, and its Sessions are taken over after the 30 s of a stopped node.
alter role holdfast set tcp_keepalives_idle = 2;
alter role holdfast set tcp_keepalives_interval = 1;
alter role holdfast set tcp_keepalives_count = 3;
alter role holdfast set tcp_user_timeout = 5000;
