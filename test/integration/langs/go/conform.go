// Does what test_languages.py asks for, in Go. The test puts the package redisq beside it.
package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"time"
	"unicode/utf8"

	"conform/redisq"
)

func conform(ctx context.Context, t *redisq.Task) (any, error) {
	if !utf8.Valid(t.Payload) {
		return map[string]int{"bytes": len(t.Payload), "last": int(t.Payload[len(t.Payload)-1])}, nil
	}
	var want struct{ Do, Text string }
	if err := t.JSON(&want); err != nil {
		return nil, err
	}
	switch want.Do {
	case "echo":
		var saved any
		if t.Saved != nil {
			if err := json.Unmarshal(t.Saved, &saved); err != nil {
				return nil, err
			}
		}
		return map[string]any{"id": t.ID, "queue": t.Queue, "attempt": t.Attempt, "saved": saved,
			"field": string(t.Fields["colour"]), "text": want.Text}, nil
	case "nothing":
		return nil, nil
	case "fail":
		return nil, errors.New("it failed")
	case "dead":
		return nil, redisq.Dead("no such user")
	case "retry":
		return nil, redisq.Retry("busy", 5*time.Second)
	case "snooze":
		return nil, redisq.Snooze(time.Minute)
	case "wait":
		<-ctx.Done()
		return nil, fmt.Errorf("cancelled: %w", ctx.Err())
	case "note":
		t.Checkpoint(map[string]int{"job": 7})
		t.Progress("half")
		return map[string]any{"saved": t.Saved}, nil
	case "print":
		fmt.Println(string(bytes.Repeat([]byte("x"), 99)))
		os.Stdout.Write(bytes.Repeat([]byte("{\"type\":\"dead\"}\n"), 10000))
	}
	return "printed", nil
}

func main() { redisq.Run(4, conform) }
