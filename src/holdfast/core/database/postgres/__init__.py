"""The store on a PostgreSQL server: the same commit units and named statements, on libpq in pipeline mode.

Imported only when an address is given. May import: the database package, psycopg."""
