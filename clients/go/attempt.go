package nagaya

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"time"
)

// claimedJob is a job that belongs to a worker until its lease ends.
type claimedJob struct {
	ID             string          `json:"id"`
	Token          string          `json:"token"`
	Queue          string          `json:"queue"`
	Tenant         string          `json:"tenant"`
	Kind           string          `json:"kind"`
	Attempt        int             `json:"attempt"`
	MaxRetries     int             `json:"max_retries"`
	Tags           []string        `json:"tags"`
	CreatedAt      time.Time       `json:"created_at"`
	TimeoutSeconds float64         `json:"timeout_seconds"`
	Payload        json.RawMessage `json:"payload"`
	PayloadBase64  string          `json:"payload_base64"`
	ContentType    string          `json:"content_type"`
	Traceparent    string          `json:"traceparent"`
	Tracestate     string          `json:"tracestate"`
}

// Attempt is one attempt at a job, as its handler sees it.
type Attempt struct {
	client *Client
	job    claimedJob
}

type attemptKey struct{}

// AttemptFrom returns the attempt whose handler got this context, or nil: for logs.
func AttemptFrom(ctx context.Context) *Attempt {
	attempt, _ := ctx.Value(attemptKey{}).(*Attempt)
	return attempt
}

// ID is the job's.
func (a *Attempt) ID() string { return a.job.ID }

// Number is counted from 1.
func (a *Attempt) Number() int { return a.job.Attempt }

// Queue is the job's.
func (a *Attempt) Queue() string { return a.job.Queue }

// Kind is the job's, or empty.
func (a *Attempt) Kind() string { return a.job.Kind }

// Tenant is the job's.
func (a *Attempt) Tenant() string { return a.job.Tenant }

// MaxRetries is the number of attempts after the first one.
func (a *Attempt) MaxRetries() int { return a.job.MaxRetries }

// Tags are the job's.
func (a *Attempt) Tags() []string { return a.job.Tags }

// CreatedAt is when the job was registered.
func (a *Attempt) CreatedAt() time.Time { return a.job.CreatedAt }

// Token is the credential of this attempt.
func (a *Attempt) Token() string { return a.job.Token }

// Traceparent is the W3C trace context of this attempt, or empty. What the handler enqueues gets it by itself.
func (a *Attempt) Traceparent() string { return a.job.Traceparent }

// LogFields returns what a line of a log should have, for slog.With and the like.
func (a *Attempt) LogFields() []any {
	return []any{"job", a.job.ID, "attempt", a.job.Attempt, "queue", a.job.Queue, "kind", a.job.Kind}
}

// Payload returns the payload as it was registered, byte for byte: JSON, or bytes of another content type.
func (a *Attempt) Payload() (data []byte, contentType string, err error) {
	if a.job.PayloadBase64 != "" {
		data, err = base64.StdEncoding.DecodeString(a.job.PayloadBase64)
		return data, a.job.ContentType, err
	}
	contentType = a.job.ContentType
	if contentType == "" {
		contentType = "application/json"
	}
	if a.job.Payload == nil {
		return []byte("null"), contentType, nil
	}
	return a.job.Payload, contentType, nil
}

// Progress reports how far the work has come, from 0 to 1, with a short message.
func (a *Attempt) Progress(ctx context.Context, done float64, message string) error {
	body := map[string]any{"token": a.job.Token, "progress": clamp(done)}
	if message != "" {
		body["message"] = message
	}
	return a.client.post(ctx, jobPath(a.job.ID, "/progress"), body, nil, repeatSafe)
}

func clamp(done float64) float64 {
	switch {
	case done > 1:
		return 1
	case done > 0:
		return done
	default:
		return 0
	}
}

// Log appends lines to the job's log.
func (a *Attempt) Log(ctx context.Context, lines ...string) error {
	body := map[string]any{"token": a.job.Token, "lines": lines}
	return a.client.post(ctx, jobPath(a.job.ID, "/log"), body, nil, repeatIfNotDone)
}

// Validator is implemented by Args that can say what is wrong with them. A job whose payload is not valid fails for
// good.
type Validator interface {
	Validate() error
}

// decode reads a payload into a handler's arguments.
func decode[A any](a *Attempt) (A, error) {
	var args A
	data, contentType, err := a.Payload()
	if err != nil {
		return args, err
	}
	if binary, ok := any(&args).(*Binary); ok {
		binary.Bytes, binary.ContentType = data, contentType
		return args, nil
	}
	if a.job.PayloadBase64 != "" {
		return args, fmt.Errorf("the payload is %s, not JSON", contentType)
	}
	if err := json.Unmarshal(data, &args); err != nil {
		var wrong *json.UnmarshalTypeError
		if errors.As(err, &wrong) && wrong.Field != "" {
			return args, fmt.Errorf("%s: %w", wrong.Field, err)
		}
		return args, err
	}
	for _, candidate := range []any{args, &args} {
		if validator, ok := candidate.(Validator); ok {
			return args, validator.Validate()
		}
	}
	return args, nil
}
