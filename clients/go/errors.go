package nagaya

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"
)

// Problem is an error that the server answered with: a problem document (RFC 9457).
type Problem struct {
	Status int
	// Name is for programs: "lease-lost", "queue-full", ...
	Name   string
	Detail string
	// Reason says why a lease was lost.
	Reason string
	// RetryAfter is when the server wants the call to be repeated.
	RetryAfter time.Duration
}

func (p *Problem) Error() string {
	return fmt.Sprintf("%d %s: %s", p.Status, p.Name, p.Detail)
}

func (p *Problem) isTemporary() bool {
	switch p.Status {
	case http.StatusRequestTimeout, http.StatusTooEarly, http.StatusTooManyRequests, http.StatusInternalServerError,
		http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		return true
	}
	return false
}

// ConnectionError means that the server could not be reached, that the connection broke, or that no answer came in
// time.
type ConnectionError struct {
	// WasSent says whether the request may have reached the server.
	WasSent bool
	// IsTimeout says whether the answer took too long.
	IsTimeout bool
	Err       error
}

func (e *ConnectionError) Error() string { return "no answer: " + e.Err.Error() }
func (e *ConnectionError) Unwrap() error { return e.Err }

// IsTemporary returns whether the same call may succeed a moment later.
func IsTemporary(err error) bool {
	var problem *Problem
	if errors.As(err, &problem) {
		return problem.isTemporary()
	}
	var connection *ConnectionError
	return errors.As(err, &connection)
}

// wasNotDone returns whether the server certainly did nothing.
func wasNotDone(err error) bool {
	var problem *Problem
	if errors.As(err, &problem) {
		return problem.Status < http.StatusInternalServerError
	}
	var connection *ConnectionError
	return errors.As(err, &connection) && !connection.WasSent
}

func retryAfterOf(err error) time.Duration {
	var problem *Problem
	if errors.As(err, &problem) {
		return problem.RetryAfter
	}
	return 0
}

type problemDocument struct {
	Type   string `json:"type"`
	Status int    `json:"status"`
	Detail string `json:"detail"`
	Reason string `json:"reason"`
}

func (d problemDocument) problem() *Problem {
	return &Problem{Status: d.Status, Name: d.Type[strings.LastIndexByte(d.Type, '/')+1:], Detail: d.Detail, Reason: d.Reason}
}

const detailMax = 200

func readProblem(status int, body []byte, retryAfter time.Duration) *Problem {
	var document problemDocument
	if json.Unmarshal(body, &document) != nil || document.Type == "" {
		document = problemDocument{Detail: cut(string(body), detailMax)}
	}
	problem := document.problem()
	problem.Status, problem.RetryAfter = status, retryAfter
	return problem
}

// cut shortens text to a number of bytes without breaking a character.
func cut(text string, most int) string {
	if len(text) <= most {
		return text
	}
	return strings.ToValidUTF8(text[:most], "")
}

// Why a handler's context ended; see [Cause].
var (
	// ErrCancelled means that the job was cancelled.
	ErrCancelled = errors.New("the job was cancelled")
	// ErrLeaseLost means that the lease is over: another worker may have the job by now.
	ErrLeaseLost = errors.New("the lease was lost")
	// ErrShutdown means that the worker is shutting down and its drain time is over.
	ErrShutdown = errors.New("the worker is shutting down")
	// ErrTimeout means that the handler ran for longer than it may.
	ErrTimeout = errors.New("the handler ran for too long")
)

// JobError means that a job ended without a result.
type JobError struct {
	ID string
	// State is "failed" or "cancelled".
	State    string
	Message  string
	Attempts int
}

func (e *JobError) Error() string { return fmt.Sprintf("job %s %s: %s", e.ID, e.State, e.Message) }

// ErrNotEnded means that a job had not ended when the time to wait for it was over.
var ErrNotEnded = errors.New("the job has not ended")

type verdict struct {
	err       error
	permanent bool
	snooze    bool
	after     *time.Duration
}

func (v *verdict) Error() string { return v.err.Error() }
func (v *verdict) Unwrap() error { return v.err }

// Permanent marks a handler's error: no other attempt can mend it.
func Permanent(err error) error { return &verdict{err: err, permanent: true} }

// RetryAfter marks a handler's error: the next attempt begins after this time, whatever the job's backoff says.
func RetryAfter(err error, after time.Duration) error { return &verdict{err: err, after: &after} }

// Snooze is a handler's way to say "not yet": the job waits for this time, and the attempt does not count where the
// server can do that.
func Snooze(after time.Duration) error {
	return &verdict{err: fmt.Errorf("snoozed for %s", after), snooze: true, after: &after}
}
