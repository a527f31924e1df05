// An example: counts to {"to": N}, a step every 100 ms, and goes on where it was if it is killed.
//
//	go build -C etc/handlers/go -o count .        (Go before 1.20: cd there first)
//	redisq-supervisor -e -q count -k pipe -- etc/handlers/go/count
//	redisqctl push count '{"to": 50}'
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"redisq.example/redisq"
)

func count(ctx context.Context, task *redisq.Task) (any, error) {
	var in struct{ To *int }
	if err := task.JSON(&in); err != nil {
		return nil, err
	}
	if in.To == nil {
		return nil, redisq.Dead(`say {"to": N}`)
	}
	n := 0
	if task.Saved != nil {
		if err := json.Unmarshal(task.Saved, &n); err != nil {
			return nil, err
		}
	}
	for ; n < *in.To; n++ {
		select {
		case <-time.After(100 * time.Millisecond):
		case <-ctx.Done():
			return nil, ctx.Err()
		}
		task.Checkpoint(n + 1)
		task.Progress(fmt.Sprintf("%d of %d", n+1, *in.To))
	}
	fmt.Printf("counted to %d in attempt %d\n", *in.To, task.Attempt)
	return map[string]int{"counted": *in.To}, nil
}

func main() { redisq.Run(16, count) }
