#!/bin/bash
# Writes 1 if the program greets as it should, and otherwise 0. Harbor runs it in the directory of the task.
reward="${REWARD_FILE:-/logs/verifier/reward.txt}"
mkdir -p "$(dirname "$reward")"
if [ "$(python3 greet.py Ada 2>&1)" = "Hello, Ada!" ] && [ "$(python3 greet.py Grace 2>&1)" = "Hello, Grace!" ]; then
  echo 1 > "$reward"
else
  echo 0 > "$reward"
fi
