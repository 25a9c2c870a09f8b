#!/bin/sh
# Run once by the image of PostgreSQL, when its data directory is new.
set -e
psql --username "${POSTGRES_USER:-postgres}" --set ON_ERROR_STOP=1 --set password="$(cat "$HOLDFAST_PASSWORD_FILE")" \
  --file /holdfast/role.sql
