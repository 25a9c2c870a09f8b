-- The role and the database of Holdfast: psql --set password=… --file role.sql, as a superuser.
-- The role owns one database. It is no superuser, creates no roles or databases, and needs no extension.
create role holdfast login nosuperuser nocreatedb nocreaterole noreplication password :'password';
create database holdfast owner holdfast;
revoke all on database holdfast from public;
