-- Who may use the page. Cookies, keys, codes and the tokens of links are random and stored as hashes.

-- Has one row, once somebody signs in: what tells the cookies of this database from those of others on the same host.
create table page_instance (
  number integer primary key not null,
  id text not null
);

-- `credential` tells with which password of the server it was made.
create table page_sign_in (
  id text primary key not null,
  cookie text not null unique,
  key text not null,
  credential text not null,
  agent text not null,
  time_created integer not null,
  time_seen integer not null
) without rowid;

-- A code signs in once.
create table page_code (
  code text primary key not null,
  time_expires integer not null
) without rowid;

-- A link answers one permission request once.
create table approval_link (
  token text primary key not null,
  session_id text not null,
  request_id text not null,
  time_expires integer not null
) without rowid;
create index approval_link_request on approval_link (request_id, time_expires);
create index approval_link_expires on approval_link (time_expires);
