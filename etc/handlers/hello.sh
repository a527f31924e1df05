#!/bin/sh
# The smallest handler: the task is on stdin, what is printed is logged, exit 0 means done.
#   redisq-supervisor -e -q demo -- etc/handlers/hello.sh
payload=$(cat)
echo "hello $payload (attempt $REDISQ_ATTEMPT of $REDISQ_MAX_ATTEMPTS)"
