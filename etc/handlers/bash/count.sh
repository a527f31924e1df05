#!/bin/bash
# An example: counts to the payload, a step every 100 ms, and goes on where it was if it is killed.
#
#   redisq-supervisor -e -q count -- bash etc/handlers/bash/count.sh
#   redisqctl push count 50
. "$(dirname "$0")/redisq.sh"

to=$(cat)
[[ $to =~ ^[0-9]+$ ]] || redisq_dead "say a number, not: $to"
for ((n = ${REDISQ_CHECKPOINT:-0}; n < to; n++)); do
	sleep 0.1
	redisq_checkpoint $((n + 1))
	redisq_progress "$(redisq_text "$((n + 1)) of $to")"
done
echo "counted to $to in attempt $REDISQ_ATTEMPT"
redisq_done "{\"counted\": $to}"
