package nagaya

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"runtime/debug"
	"time"
)

const (
	// How long a job without a handler here is left to others: deployments meet new kinds early.
	unknownKindPause = 15 * time.Second
	errorBytesMax    = 16_000
	stackBytesMax    = 4_096
)

// Handler works on jobs of one kind.
type Handler[A Args, R any] interface {
	Work(ctx context.Context, attempt *Attempt, args A) (R, error)
}

// MaxRuntime is implemented by handlers whose attempts may take only so long.
type MaxRuntime interface {
	MaxRuntime() time.Duration
}

// Middleware wraps all handlers, for traces, logs and the like.
type Middleware func(ctx context.Context, attempt *Attempt, next func(context.Context) error) error

type run func(ctx context.Context, attempt *Attempt) (any, error)

// invalid is a payload that no attempt can work on.
type invalid struct{ err error }

func (i *invalid) Error() string { return "the payload is invalid: " + i.err.Error() }

// AddWorker adds the handler of a kind.
func AddWorker[A Args, R any](w *Worker, handler Handler[A, R]) {
	var args A
	w.add(args.Kind(), typed(handler.Work))
	if limited, ok := any(handler).(MaxRuntime); ok {
		w.maxRuntimes[args.Kind()] = limited.MaxRuntime()
	}
}

// Handle adds a function as the handler of a kind.
func Handle[A Args, R any](w *Worker, handle func(ctx context.Context, attempt *Attempt, args A) (R, error)) {
	var args A
	w.add(args.Kind(), typed(handle))
}

// HandleKind adds the handler of a kind by its name. Its arguments may be a json.RawMessage, a Binary, or anything that
// JSON can be read into. "*" is for jobs of kinds without a handler, and for those without a kind.
func HandleKind[A, R any](w *Worker, kind string, handle func(ctx context.Context, attempt *Attempt, args A) (R, error)) {
	w.add(kind, typed(handle))
}

func typed[A, R any](handle func(context.Context, *Attempt, A) (R, error)) run {
	return func(ctx context.Context, attempt *Attempt) (any, error) {
		args, err := decode[A](attempt)
		if err != nil {
			return nil, &invalid{err}
		}
		return handle(ctx, attempt, args)
	}
}

// outcome is how an attempt ended, as it will be reported.
type outcome struct {
	id, token string
	attempt   int
	kind      outcomeKind
	// One item of a batch of reports.
	body     []byte
	failures int
}

type outcomeKind string

const (
	completes outcomeKind = "complete"
	fails     outcomeKind = "fail"
	releases  outcomeKind = "release"
)

type failReport struct {
	Token             string   `json:"token"`
	Error             string   `json:"error"`
	Permanent         bool     `json:"permanent,omitempty"`
	RetryAfterSeconds *float64 `json:"retry_after_seconds,omitempty"`
}

type releaseReport struct {
	Token        string  `json:"token"`
	DelaySeconds float64 `json:"delay_seconds,omitempty"`
}

// handle runs a handler to its end and says how that is reported.
func (w *Worker) handle(ctx context.Context, attempt *Attempt) *outcome {
	handler, ok := w.handlers[attempt.job.Kind]
	if !ok {
		handler, ok = w.handlers["*"]
	}
	if !ok {
		after := time.Duration(float64(unknownKindPause) * (1 + random()))
		return attempt.failed(RetryAfter(fmt.Errorf("this worker has no handler for jobs of kind %q", attempt.job.Kind), after))
	}
	w.observe(WorkerEvent{Type: "started", Job: attempt.ID(), Attempt: attempt.Number()})
	result, err := w.protected(ctx, attempt, handler)
	if err != nil {
		if isShutdown(ctx) && (errors.Is(err, context.Canceled) || errors.Is(err, ErrShutdown)) {
			return attempt.released(0)
		}
		return attempt.failed(err)
	}
	head, err := encode(map[string]string{"token": attempt.job.Token})
	if err == nil {
		head, err = addBody(head, "result", result)
	}
	if err != nil {
		return attempt.failed(Permanent(fmt.Errorf("the result cannot be written: %w", err)))
	}
	return attempt.outcome(completes, head)
}

// protected runs a handler inside of the middleware. A panic is an error of this attempt and nothing else.
func (w *Worker) protected(ctx context.Context, attempt *Attempt, handler run) (result any, err error) {
	defer func() {
		if panicked := recover(); panicked != nil {
			result, err = nil, fmt.Errorf("panic: %v\n%s", panicked, cut(string(debug.Stack()), stackBytesMax))
		}
	}()
	next := func(ctx context.Context) error {
		var err error
		result, err = handler(ctx, attempt)
		return err
	}
	for index := len(w.middleware) - 1; index >= 0; index-- {
		inner, middleware := next, w.middleware[index]
		next = func(ctx context.Context) error { return middleware(ctx, attempt, inner) }
	}
	err = next(ctx)
	return result, err
}

func (a *Attempt) outcome(kind outcomeKind, body []byte) *outcome {
	return &outcome{id: a.job.ID, token: a.job.Token, attempt: a.job.Attempt, kind: kind, body: body}
}

func (a *Attempt) released(delay time.Duration) *outcome {
	body, _ := json.Marshal(releaseReport{Token: a.job.Token, DelaySeconds: delay.Seconds()})
	return a.outcome(releases, body)
}

func (a *Attempt) failed(err error) *outcome {
	report := failReport{Token: a.job.Token, Error: cut(fmt.Sprintf("%T: %s", rootOf(err), err), errorBytesMax)}
	var asked *verdict
	var unfit *invalid
	switch {
	case errors.As(err, &unfit):
		report.Permanent = true
	case errors.As(err, &asked) && asked.snooze:
		return a.released(*asked.after)
	case asked != nil:
		report.Permanent = asked.permanent
		if asked.after != nil {
			seconds := asked.after.Seconds()
			report.RetryAfterSeconds = &seconds
		}
	}
	body, _ := json.Marshal(report)
	return a.outcome(fails, body)
}

// rootOf returns the error that others were wrapped around, whose type says most.
func rootOf(err error) error {
	for {
		inner := errors.Unwrap(err)
		if inner == nil {
			return err
		}
		err = inner
	}
}
