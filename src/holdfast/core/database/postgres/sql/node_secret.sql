-- In the server's time: the clocks of nodes differ.

-- name: node_secret.all
select id, secret, (extract(epoch from clock_timestamp()) * 1000)::bigint - time_created as age from node_secret
order by time_created desc, id

-- name: node_secret.make
insert into node_secret (id, secret, time_created)
select :id, :secret, (extract(epoch from clock_timestamp()) * 1000)::bigint
where not exists (
  select 1 from node_secret where time_created > (extract(epoch from clock_timestamp()) * 1000)::bigint - :lifetime::bigint)

-- name: node_secret.forget
delete from node_secret where time_created <= (extract(epoch from clock_timestamp()) * 1000)::bigint - :accepted::bigint
