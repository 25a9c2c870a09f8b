-- Sign-ins of the page, codes that sign in, and approval links.

-- name: page_instance.get
select id from page_instance where number = 1

-- name: page_instance.make
insert into page_instance (number, id) values (1, :id) on conflict (number) do nothing

-- name: page_sign_in.insert
insert into page_sign_in (id, cookie, key, credential, agent, time_created, time_seen)
values (:id, :cookie, :key, :credential, :agent, :now, :now)

-- name: page_sign_in.trim
-- Those that nobody used since :since, and of a credential the longest unused beyond :most.
delete from page_sign_in where time_seen <= :since or (credential = :credential and id not in (
  select id from page_sign_in where credential = :credential order by time_seen desc, id desc limit :most))

-- name: page_sign_in.find
select id, key, credential, time_seen as seen from page_sign_in where cookie = :cookie and time_seen > :since

-- name: page_sign_in.list
-- Those that were made with the password, or with a token that is still good.
select s.id, s.time_created as created, s.time_seen as seen, s.agent, t.id as token_id, t.name as token
from page_sign_in s left join access_token t
  on s.credential = 'token:' || t.id and (t.time_expires is null or t.time_expires > :now)
where (s.credential = :credential or t.id is not null) and s.time_seen > :since order by s.time_created, s.id

-- name: page_sign_in.see
update page_sign_in set time_seen = :now where id = :id and time_seen < :now

-- name: page_sign_in.remove
delete from page_sign_in where id = :id

-- name: page_sign_in.remove_made_with
delete from page_sign_in where credential = :credential

-- name: page_code.insert
insert into page_code (code, time_expires) values (:code, :expires)

-- name: page_code.trim
-- Expired ones, and those that expire first beyond :most.
delete from page_code where time_expires <= :now
  or code not in (select code from page_code order by time_expires desc, code limit :most)

-- name: page_code.get
select 1 from page_code where code = :code and time_expires > :now

-- name: page_code.use
delete from page_code where code = :code and time_expires > :now

-- name: approval_link.insert
insert into approval_link (token, session_id, request_id, time_expires, token_id)
values (:token, :session_id, :request_id, :expires, :token_id)

-- name: approval_link.expire
delete from approval_link where time_expires <= :now

-- name: approval_link.trim
-- Those of a request that expire first, beyond :most.
delete from approval_link where request_id = :request_id and time_expires <= (
  select time_expires from approval_link where request_id = :request_id order by time_expires desc limit 1 offset :most)

-- name: approval_link.get
-- While its request is open, and while the access token is valid with which it was made.
select link.session_id, link.request_id, request.agent, request.time_created as since
from approval_link link join session_request request on request.id = link.request_id
where link.token = :token and link.time_expires > :now and request.reply is null
  and (link.token_id is null or exists (select 1 from access_token made_with
    where made_with.id = link.token_id and (made_with.time_expires is null or made_with.time_expires > :now)))

-- name: approval_link.use
delete from approval_link where token = :token and time_expires > :now
  and (token_id is null or exists (select 1 from access_token made_with
    where made_with.id = approval_link.token_id and (made_with.time_expires is null or made_with.time_expires > :now)))
