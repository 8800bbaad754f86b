package nagaya

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"time"
)

// Args is a kind of job: its payload, and the name that jobs and handlers meet by. Renaming it strands the jobs that
// wait under the old name.
type Args interface {
	Kind() string
}

// Defaults is implemented by Args that are always enqueued in some way; options of a call go first.
type Defaults interface {
	EnqueueDefaults() []Option
}

// Binary is a payload or a result that is not JSON.
type Binary struct {
	Bytes       []byte
	ContentType string
}

// Webhook is where events of a job are sent.
type Webhook struct {
	URL     string            `json:"url"`
	Headers map[string]string `json:"headers,omitempty"`
	Events  []string          `json:"events,omitempty"`
	Format  string            `json:"format,omitempty"`
}

// Backoff is how long a job waits between attempts.
type Backoff struct {
	// Kind is "exponential", "fixed" or "none".
	Kind         string  `json:"kind"`
	FirstSeconds float64 `json:"first_seconds,omitempty"`
	MaxSeconds   float64 `json:"max_seconds,omitempty"`
	DelaySeconds float64 `json:"delay_seconds,omitempty"`
}

// NewJob is a job to be registered. What is left out comes from the queue's settings.
type NewJob struct {
	// Queue is "default" when left out.
	Queue string
	Kind  string
	// Payload is written as JSON. A json.RawMessage is passed on byte for byte, a Binary as bytes.
	Payload any
	fields  jobFields
}

type jobFields struct {
	Queue                    string       `json:"queue"`
	Kind                     string       `json:"kind,omitempty"`
	IdempotencyKey           string       `json:"idempotency_key,omitempty"`
	IdempotencyWindowSeconds float64      `json:"idempotency_window_seconds,omitempty"`
	UniqueKey                string       `json:"unique_key,omitempty"`
	RunAt                    string       `json:"run_at,omitempty"`
	DependsOn                []string     `json:"depends_on,omitempty"`
	Priority                 *int         `json:"priority,omitempty"`
	MaxRetries               *int         `json:"max_retries,omitempty"`
	TimeoutSeconds           float64      `json:"timeout_seconds,omitempty"`
	Backoff                  *Backoff     `json:"backoff,omitempty"`
	RetentionSeconds         *float64     `json:"retention_seconds,omitempty"`
	Tags                     []string     `json:"tags,omitempty"`
	Webhook                  *Webhook     `json:"webhook,omitempty"`
	Concurrency              *concurrency `json:"concurrency,omitempty"`
	Tenant                   string       `json:"tenant,omitempty"`
	Traceparent              string       `json:"traceparent,omitempty"`
	Tracestate               string       `json:"tracestate,omitempty"`
}

type concurrency struct {
	Key   string `json:"key"`
	Limit int    `json:"limit"`
}

// Option says how a job is registered.
type Option func(*NewJob)

// Queue names the queue; "default" when left out.
func Queue(name string) Option { return func(j *NewJob) { j.Queue = name } }

// Key makes a second registration with the same key find the first job. Without one, a random key makes repeating a
// call safe.
func Key(key string) Option { return func(j *NewJob) { j.fields.IdempotencyKey = key } }

// KeyWindow says how long the key is remembered; a day by default.
func KeyWindow(d time.Duration) Option {
	return func(j *NewJob) { j.fields.IdempotencyWindowSeconds = d.Seconds() }
}

// UniqueKey makes another registration find this job while it has not ended.
func UniqueKey(key string) Option { return func(j *NewJob) { j.fields.UniqueKey = key } }

// Delay lets the job wait, by this machine's clock.
func Delay(d time.Duration) Option {
	return func(j *NewJob) { j.fields.RunAt = stamp(time.Now().Add(d)) }
}

// RunAt sets the earliest start.
func RunAt(at time.Time) Option { return func(j *NewJob) { j.fields.RunAt = stamp(at) } }

// After lets the job run after all of these succeeded.
func After(ids ...string) Option { return func(j *NewJob) { j.fields.DependsOn = ids } }

// Priority: higher goes first.
func Priority(priority int) Option { return func(j *NewJob) { j.fields.Priority = &priority } }

// MaxRetries is the number of attempts after the first one.
func MaxRetries(retries int) Option { return func(j *NewJob) { j.fields.MaxRetries = &retries } }

// Timeout is how long an attempt may go without a heartbeat.
func Timeout(d time.Duration) Option {
	return func(j *NewJob) { j.fields.TimeoutSeconds = d.Seconds() }
}

// WithBackoff says how long to wait between attempts.
func WithBackoff(backoff Backoff) Option { return func(j *NewJob) { j.fields.Backoff = &backoff } }

// Retention is how long the job is kept after its end.
func Retention(d time.Duration) Option {
	return func(j *NewJob) { seconds := d.Seconds(); j.fields.RetentionSeconds = &seconds }
}

// Tags are for people and filters.
func Tags(tags ...string) Option { return func(j *NewJob) { j.fields.Tags = tags } }

// WithWebhook has the job's end told to a URL.
func WithWebhook(webhook Webhook) Option { return func(j *NewJob) { j.fields.Webhook = &webhook } }

// Limit lets at most so many jobs of the queue with this key run at a time.
func Limit(key string, limit int) Option {
	return func(j *NewJob) { j.fields.Concurrency = &concurrency{key, limit} }
}

// Tenant is only for callers that speak for several tenants.
func Tenant(tenant string) Option { return func(j *NewJob) { j.fields.Tenant = tenant } }

// Traceparent is the W3C trace context; inside of a handler that of its job when left out.
func Traceparent(traceparent string) Option {
	return func(j *NewJob) { j.fields.Traceparent = traceparent }
}

// JobOf makes a job for [Client.EnqueueMany] and [Client.SetSchedule].
func JobOf(args Args, options ...Option) NewJob {
	job := NewJob{Kind: args.Kind(), Payload: args}
	if defaults, ok := args.(Defaults); ok {
		job = job.With(defaults.EnqueueDefaults()...)
	}
	return job.With(options...)
}

// With returns the job with more options.
func (j NewJob) With(options ...Option) NewJob {
	for _, option := range options {
		option(&j)
	}
	return j
}

// write writes the job as the API takes it. The key is used if it has none of its own.
func (j NewJob) write(ctx context.Context, key string) ([]byte, error) {
	fields := j.fields
	fields.Queue, fields.Kind = j.Queue, j.Kind
	if fields.Queue == "" {
		fields.Queue = "default"
	}
	if fields.IdempotencyKey == "" {
		fields.IdempotencyKey = key
	}
	if attempt := AttemptFrom(ctx); attempt != nil && fields.Traceparent == "" {
		fields.Traceparent, fields.Tracestate = attempt.job.Traceparent, attempt.job.Tracestate
	}
	head, err := encode(fields)
	if err != nil {
		return nil, err
	}
	return addBody(head, "payload", j.Payload)
}

// addBody adds a payload or a result to an object: as JSON, or in base64 with its media type.
func addBody(object []byte, name string, value any) ([]byte, error) {
	out := append([]byte{}, object[:len(object)-1]...)
	if binary, ok := value.(Binary); ok {
		kind := binary.ContentType
		if kind == "" {
			kind = "application/octet-stream"
		}
		quoted, err := encode(kind)
		if err != nil {
			return nil, err
		}
		out = append(out, `,"`+name+`_base64":"`...)
		out = append(out, base64.StdEncoding.EncodeToString(binary.Bytes)...)
		out = append(out, `","content_type":`...)
		return append(append(out, quoted...), '}'), nil
	}
	text, err := encode(value)
	if err != nil {
		return nil, err
	}
	out = append(out, `,"`+name+`":`...)
	return append(append(out, text...), '}'), nil
}

func stamp(at time.Time) string { return at.UTC().Format("2006-01-02T15:04:05.000Z") }

// Job is a registered job.
type Job struct {
	client *Client
	ID     string
	// State is the one at its registration.
	State string
	// FoundBy is the key by which an earlier registration was found, or empty.
	FoundBy string
}

// JobView is everything about a job, in the API's own names.
type JobView struct {
	ID                 string          `json:"id"`
	Queue              string          `json:"queue"`
	Tenant             string          `json:"tenant"`
	Kind               string          `json:"kind"`
	State              string          `json:"state"`
	Priority           int             `json:"priority"`
	Attempts           int             `json:"attempts"`
	MaxRetries         int             `json:"max_retries"`
	Tags               []string        `json:"tags"`
	CreatedAt          time.Time       `json:"created_at"`
	RunAt              *time.Time      `json:"run_at"`
	EndedAt            *time.Time      `json:"ended_at"`
	Error              string          `json:"error"`
	Payload            json.RawMessage `json:"payload"`
	PayloadBase64      string          `json:"payload_base64"`
	PayloadContentType string          `json:"payload_content_type"`
	Result             json.RawMessage `json:"result"`
	ResultBase64       string          `json:"result_base64"`
	ResultContentType  string          `json:"result_content_type"`
	DependsOn          []string        `json:"depends_on"`
	Pending            []string        `json:"pending_dependencies"`
	Traceparent        string          `json:"traceparent"`
	Progress           *struct {
		Progress *float64        `json:"progress"`
		Message  string          `json:"message"`
		Data     json.RawMessage `json:"data"`
	} `json:"progress"`
	History []struct {
		Number    int        `json:"number"`
		Worker    string     `json:"worker"`
		StartedAt time.Time  `json:"started_at"`
		EndedAt   *time.Time `json:"ended_at"`
		End       string     `json:"end"`
		Error     string     `json:"error"`
	} `json:"history"`
	// Raw is the whole document.
	Raw json.RawMessage `json:"-"`
}

// HasEnded returns whether the job has ended and will stay so unless it is retried.
func (v *JobView) HasEnded() bool {
	return v.State == "succeeded" || v.State == "failed" || v.State == "cancelled"
}

// Read reads the job.
func (j *Job) Read(ctx context.Context) (*JobView, error) { return j.client.Read(ctx, j.ID) }

// Cancel cancels the job unless it has ended; a running handler's context ends.
func (j *Job) Cancel(ctx context.Context, reason string) error {
	return j.client.Cancel(ctx, j.ID, reason)
}

// Retry starts the job again after it failed or was cancelled.
func (j *Job) Retry(ctx context.Context) error { return j.client.Retry(ctx, j.ID) }

// Wait waits until the job has ended, or the context.
func (j *Job) Wait(ctx context.Context) (*JobView, error) { return j.client.Wait(ctx, j.ID) }

// Wait waits for a job's result and decodes it. The error is a [JobError] if the job failed or was cancelled, and
// [ErrNotEnded] if the context's deadline passed first.
func Wait[R any](ctx context.Context, job *Job) (R, error) {
	var result R
	view, err := job.Wait(ctx)
	if err != nil {
		return result, err
	}
	if view.State != "succeeded" {
		return result, &JobError{ID: view.ID, State: view.State, Message: view.Error, Attempts: view.Attempts}
	}
	if binary, ok := any(&result).(*Binary); ok {
		binary.ContentType = view.ResultContentType
		binary.Bytes, err = base64.StdEncoding.DecodeString(view.ResultBase64)
		return result, err
	}
	if len(view.Result) == 0 {
		return result, nil
	}
	return result, json.Unmarshal(view.Result, &result)
}
