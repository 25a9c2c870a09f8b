-- name: node_secret.all
-- `age` in milliseconds.
select id, secret, :now - time_created as age from node_secret order by time_created desc, id

-- name: node_secret.make
-- Unless there is one younger than :lifetime.
insert into node_secret (id, secret, time_created) select :id, :secret, :now
where not exists (select 1 from node_secret where time_created > :now - :lifetime)

-- name: node_secret.forget
delete from node_secret where time_created <= :now - :accepted
