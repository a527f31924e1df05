// Package redisq runs task handlers in Go. One file, no modules but the standard library; copy it.
//
//	redisq.Run(16, func(ctx context.Context, task *redisq.Task) (any, error) {
//		var in struct{ User string }
//		if err := task.JSON(&in); err != nil {
//			return nil, err // a payload that is no JSON: dead letter
//		}
//		if in.User == "" {
//			return nil, redisq.Dead("no user") // never to be tried again
//		}
//		return map[string]string{"greeted": in.User}, nil // done; the value is the result
//	})
//
//	[queue mail]
//	handler = pipe ./mail             # one child serves 16 tasks at once, each in a goroutine
//	handler = exec ./mail             # the same program, one process per task
//
// How a task ends: nil = done, with the value as its result unless that is nil. Dead = dead letter
// at once; Snooze = not now, no attempt charged; Retry = failed, and says when to try again; any
// other error, and a panic, = failed attempt with the error's text.
//
// Cancelling (timeout, drain limit, lost lease): ctx is cancelled. What is not over within
// kill_grace is killed. stdout and stderr are logs; fd 3 is the way to the worker.
package redisq

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"runtime/debug"
	"strconv"
	"sync"
	"syscall"
	"time"
	"unicode/utf8"
)

// Handler runs one task.
type Handler func(ctx context.Context, task *Task) (result any, err error)

// Task is one task. ID is the same in all attempts: with Queue the idempotency key.
type Task struct {
	ID           string
	Queue        string
	Attempt      int // from 1
	MaxAttempts  int
	Deliveries   int // all hands it went through, this one included
	EnqueuedAtMs int64
	DeadlineMs   int64 // 0: there is no timeout
	Payload      []byte
	Fields       map[string][]byte
	// Saved is the last Checkpoint, of an earlier attempt too; nil without one.
	Saved json.RawMessage

	answers *answers
}

// JSON decodes the payload; what it returns for a payload that is none is Dead.
func (t *Task) JSON(into any) error {
	if err := json.Unmarshal(t.Payload, into); err != nil {
		return Dead("the payload: " + err.Error())
	}
	return nil
}

// Checkpoint keeps any JSON value (up to 64 KiB) with the task: the next attempt has it as Saved,
// also after a crash.
func (t *Task) Checkpoint(value any) error { return t.note("checkpoint", value) }

// Progress keeps any JSON value for `redisqctl show`: 40, "3 of 7", {...}.
func (t *Task) Progress(value any) error { return t.note("progress", value) }

func (t *Task) note(kind string, value any) error {
	text, err := json.Marshal(value)
	if err != nil {
		return err
	}
	if kind == "checkpoint" {
		t.Saved = text
	}
	return t.answers.say(word{Type: kind, ID: t.ID, Value: text})
}

type ending struct {
	kind  string
	text  string
	delay *int64
}

func (e *ending) Error() string { return e.text }

func ms(d time.Duration) *int64 {
	n := d.Milliseconds()
	return &n
}

// Dead says that the task can never work.
func Dead(text string) error { return &ending{kind: "dead", text: text} }

// Retry says that this attempt failed, and when to try again.
func Retry(text string, after time.Duration) error {
	return &ending{kind: "retry", text: text, delay: ms(after)}
}

// Snooze says not now: tried again later, no attempt charged.
func Snooze(d time.Duration) error { return &ending{kind: "snooze", text: "snoozed", delay: ms(d)} }

// word is a line on fd 3.
type word struct {
	Type    string          `json:"type"`
	ID      string          `json:"id,omitempty"`
	Slots   int             `json:"slots,omitempty"`
	Error   string          `json:"error,omitempty"`
	DelayMs *int64          `json:"delay_ms,omitempty"`
	Value   json.RawMessage `json:"value,omitempty"`
	Result  json.RawMessage `json:"result,omitempty"`
}

// line is a line on stdin.
type line struct {
	Type         string            `json:"type"`
	ID           string            `json:"id"`
	Reason       string            `json:"reason"`
	Queue        string            `json:"queue"`
	Attempt      int               `json:"attempt"`
	MaxAttempts  int               `json:"max_attempts"`
	Deliveries   int               `json:"deliveries"`
	EnqueuedAtMs int64             `json:"enqueued_at_ms"`
	DeadlineMs   int64             `json:"deadline_ms"`
	Payload      string            `json:"payload"`
	PayloadB64   []byte            `json:"payload_b64"`
	Fields       map[string]string `json:"fields"`
	FieldsB64    map[string][]byte `json:"fields_b64"`
	Checkpoint   json.RawMessage   `json:"checkpoint"`
}

func (l *line) task(a *answers) *Task {
	t := &Task{ID: l.ID, Queue: l.Queue, Attempt: l.Attempt, MaxAttempts: l.MaxAttempts,
		Deliveries: l.Deliveries, EnqueuedAtMs: l.EnqueuedAtMs, DeadlineMs: l.DeadlineMs,
		Payload: l.PayloadB64, Fields: l.FieldsB64, answers: a}
	if t.Payload == nil {
		t.Payload = []byte(l.Payload)
	}
	if t.Fields == nil {
		t.Fields = make(map[string][]byte, len(l.Fields))
	}
	for name, value := range l.Fields {
		t.Fields[name] = []byte(value)
	}
	if string(l.Checkpoint) != "null" {
		t.Saved = l.Checkpoint
	}
	return t
}

// readFields reads what stands in REDISQ_FIELDS: those that are not UTF-8 are an object within.
func (l *line) readFields(text []byte) error {
	var all map[string]json.RawMessage
	if err := json.Unmarshal(text, &all); err != nil {
		return err
	}
	if b64 := all["fields_b64"]; b64 != nil {
		if err := json.Unmarshal(b64, &l.FieldsB64); err != nil {
			return err
		}
		delete(all, "fields_b64")
	}
	l.Fields = make(map[string]string, len(all))
	for name, value := range all {
		var s string
		if err := json.Unmarshal(value, &s); err != nil {
			return err
		}
		l.Fields[name] = s
	}
	return nil
}

// answers is fd 3; a line is one write.
type answers struct {
	mu      sync.Mutex
	file    *os.File
	withIDs bool
}

func openAnswers(fd int, withIDs bool) *answers {
	syscall.CloseOnExec(fd)
	f := os.NewFile(uintptr(fd), "answers")
	if _, err := f.Stat(); err != nil {
		fmt.Fprintf(os.Stderr, "redisq: fd %d is closed. Handlers are started by redisq-worker; "+
			"sudo and the like close it: start the program itself\n", fd)
		os.Exit(1)
	}
	return &answers{file: f, withIDs: withIDs}
}

func (a *answers) say(w word) error {
	if !a.withIDs {
		w.ID = ""
	}
	text, err := json.Marshal(w)
	if err != nil {
		return err
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	_, err = a.file.Write(append(text, '\n'))
	return err
}

// outcome runs the handler and finds the last word on the task.
func outcome(ctx context.Context, h Handler, t *Task) (w word) {
	defer func() {
		if p := recover(); p != nil {
			fmt.Fprintf(os.Stderr, "panic: %v\n%s", p, debug.Stack())
			w = word{Type: "retry", ID: t.ID, Error: fmt.Sprintf("panic: %v", p)}
		}
	}()
	result, err := h(ctx, t)
	if err == nil && result != nil {
		var text []byte
		if text, err = json.Marshal(result); err == nil {
			return word{Type: "done", ID: t.ID, Result: text}
		}
	}
	var e *ending
	switch {
	case err == nil:
		return word{Type: "done", ID: t.ID}
	case errors.As(err, &e) && e.kind == "snooze":
		return word{Type: "snooze", ID: t.ID, DelayMs: e.delay}
	case errors.As(err, &e):
		return word{Type: e.kind, ID: t.ID, Error: err.Error(), DelayMs: e.delay}
	}
	return word{Type: "retry", ID: t.ID, Error: err.Error()}
}

// child is a long-lived child: JSON lines on stdin, a goroutine per task.
type child struct {
	handler Handler
	answers *answers

	mu       sync.Mutex
	running  map[string]context.CancelFunc
	draining bool
	over     chan struct{} // closed: told to leave, and nothing runs any more
}

func (c *child) start(l line) {
	ctx, cancel := context.WithCancel(context.Background())
	c.mu.Lock()
	c.running[l.ID] = cancel
	c.mu.Unlock()
	go func() {
		c.answers.say(outcome(ctx, c.handler, l.task(c.answers)))
		cancel()
		c.mu.Lock()
		defer c.mu.Unlock()
		delete(c.running, l.ID)
		c.leave()
	}()
}

// leave looks whether it is over; the lock is held.
func (c *child) leave() {
	if c.draining && len(c.running) == 0 {
		close(c.over)
	}
}

func (c *child) drain() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.draining {
		c.draining = true
		c.leave()
	}
}

func (c *child) cancel(id string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if cancel := c.running[id]; cancel != nil {
		cancel()
	}
}

func (c *child) read(from io.Reader) {
	defer c.drain() // its end: the worker is gone
	in := bufio.NewReaderSize(from, 1<<16)
	for {
		text, err := in.ReadBytes('\n')
		if err != nil {
			return
		}
		var l line
		if err := json.Unmarshal(text, &l); err != nil {
			fmt.Fprintln(os.Stderr, "redisq: not JSON on stdin:", err)
			continue
		}
		switch l.Type {
		case "task":
			c.start(l)
		case "cancel":
			c.cancel(l.ID)
		case "drain":
			c.drain()
		}
	}
}

func serve(slots int, h Handler) error {
	c := &child{handler: h, answers: openAnswers(3, true), running: map[string]context.CancelFunc{},
		over: make(chan struct{})}
	if err := c.answers.say(word{Type: "ready", Slots: slots}); err != nil {
		return err
	}
	go c.read(os.Stdin)
	<-c.over
	return nil
}

// runOne is for a process started per task: the task is in the environment and on stdin.
func runOne(h Handler) error {
	number := func(name string) int64 {
		n, _ := strconv.ParseInt(os.Getenv(name), 10, 64)
		return n
	}
	payload, err := io.ReadAll(os.Stdin)
	if err != nil {
		return err
	}
	fd := 3
	if n := number("REDISQ_ANSWER_FD"); n > 0 {
		fd = int(n)
	}
	l := line{ID: os.Getenv("REDISQ_ID"), Queue: os.Getenv("REDISQ_QUEUE"),
		Attempt: int(number("REDISQ_ATTEMPT")), MaxAttempts: int(number("REDISQ_MAX_ATTEMPTS")),
		Deliveries: int(number("REDISQ_DELIVERIES")), EnqueuedAtMs: number("REDISQ_ENQUEUED_AT_MS"),
		DeadlineMs: number("REDISQ_DEADLINE_MS"), PayloadB64: payload}
	if fields := os.Getenv("REDISQ_FIELDS"); fields != "" {
		if err := l.readFields([]byte(fields)); err != nil {
			return fmt.Errorf("REDISQ_FIELDS: %w", err)
		}
	}
	if saved, ok := os.LookupEnv("REDISQ_CHECKPOINT"); ok {
		l.Checkpoint = json.RawMessage(saved)
		if !json.Valid(l.Checkpoint) && utf8.ValidString(saved) { // a string comes without its quotes
			l.Checkpoint, _ = json.Marshal(saved)
		}
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	a := openAnswers(fd, false)
	return a.say(outcome(ctx, h, l.task(a)))
}

// Run serves tasks until there are no more; returns then. slots: how many at once in this process.
func Run(slots int, h Handler) {
	var err error
	if _, ok := os.LookupEnv("REDISQ_ID"); ok {
		err = runOne(h)
	} else {
		err = serve(slots, h)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "redisq:", err)
		os.Exit(1)
	}
}
