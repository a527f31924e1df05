# redisq: what a task handler in a shell script may say. One file, no dependencies, any POSIX shell:
#
#   . /path/to/redisq.sh
#   payload=$(cat)
#   redisq_progress '"fetching"'
#   curl -fsS "$payload" -o /tmp/file || redisq_retry "cannot fetch $payload" 60000
#   redisq_done
#
#   [queue fetch]
#   handler = exec sh fetch.sh
#
# One process per task: the payload is on stdin; REDISQ_ID, REDISQ_ATTEMPT, REDISQ_CHECKPOINT (what
# an earlier attempt left) and the rest are in the environment; exit 0 = done, any other = failed.
# stdout and stderr are logs. At a timeout or drain limit the whole group gets SIGTERM: trap it to
# tidy up. Values marked JSON are passed on as they are: 40, '"text"', '{"a": 1}'.

# redisq_text TEXT: as a JSON string; control bytes become blanks, what is no UTF-8 is left out.
redisq_text() {
	printf '"%s"' "$(printf '%s' "$1" | iconv -c -f UTF-8 -t UTF-8 |
		LC_ALL=C tr '\001-\037' ' ' | LC_ALL=C sed 's/[\\"]/\\&/g')"
}

redisq_say() {
	printf '%s\n' "$1" >&"${REDISQ_ANSWER_FD:-3}"
}

# redisq_progress JSON: for `redisqctl show`.
redisq_progress() {
	redisq_say "{\"type\":\"progress\",\"value\":$1}"
}

# redisq_checkpoint JSON: kept with the task (up to 64 KiB); the next attempt finds it in
# $REDISQ_CHECKPOINT, also after a crash; a string without its quotes.
redisq_checkpoint() {
	redisq_say "{\"type\":\"checkpoint\",\"value\":$1}"
}

# These four end the script.

# redisq_done [JSON]: the task is done; the value is its result.
redisq_done() {
	redisq_say "{\"type\":\"done\"${1:+,\"result\":$1}}"
	exit 0
}

# redisq_retry TEXT [MS]: this attempt failed; try again, after MS milliseconds if given.
redisq_retry() {
	redisq_say "{\"type\":\"retry\",\"error\":$(redisq_text "$1")${2:+,\"delay_ms\":$2}}"
	exit 0
}

# redisq_snooze [MS]: not now; no attempt is charged.
redisq_snooze() {
	redisq_say "{\"type\":\"snooze\"${1:+,\"delay_ms\":$1}}"
	exit 0
}

# redisq_dead TEXT: it can never work; a dead letter at once.
redisq_dead() {
	redisq_say "{\"type\":\"dead\",\"error\":$(redisq_text "$1")}"
	exit 0
}
