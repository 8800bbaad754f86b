package nagaya

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/tls"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"time"
)

const (
	// Longest wait per call; proxies cut longer ones.
	waitMax      = 30 * time.Second
	batchJobsMax = 1000
	// What the server takes in one call.
	waitIDsMax = 256
	// Half of what the server takes in one request by default.
	batchBytesMax = 4 << 20
)

// Client speaks to one server over connections that it keeps. It may be used by many goroutines.
//
// Calls that fail for the moment are repeated where that is safe: reads; registrations, which get an idempotency key if
// they have none; cancellations and settings. Others are repeated only if the server certainly did nothing.
type Client struct {
	transport *transport
}

// ClientOption configures a client.
type ClientOption func(*transport)

// WithToken sets the token; that of NAGAYA_TOKEN is used when left out.
func WithToken(token string) ClientOption { return func(t *transport) { t.token = token } }

// WithTimeout sets how long an answer may take beyond what the server was asked to wait; 30 seconds by default.
func WithTimeout(d time.Duration) ClientOption { return func(t *transport) { t.timeout = d } }

// WithRetry sets how often calls are repeated.
func WithRetry(policy RetryPolicy) ClientOption { return func(t *transport) { t.retry = policy } }

// WithTLS sets the configuration of TLS, for a certificate authority of one's own.
func WithTLS(config *tls.Config) ClientOption {
	return func(t *transport) { t.http.Transport.(*http.Transport).TLSClientConfig = config }
}

// New makes a client. An empty address means NAGAYA_URL, or else http://127.0.0.1:7400.
func New(address string, options ...ClientOption) (*Client, error) {
	if address == "" {
		address = os.Getenv("NAGAYA_URL")
	}
	if address == "" {
		address = "http://127.0.0.1:7400"
	}
	t, err := newTransport(address)
	if err != nil {
		return nil, err
	}
	t.token = os.Getenv("NAGAYA_TOKEN")
	for _, option := range options {
		option(t)
	}
	return &Client{t}, nil
}

// URL returns the address of the server.
func (c *Client) URL() string { return c.transport.base }

// Close closes idle connections.
func (c *Client) Close() { c.transport.http.CloseIdleConnections() }

type registered struct {
	ID      string           `json:"id"`
	State   string           `json:"state"`
	FoundBy string           `json:"found_by"`
	Error   *problemDocument `json:"error"`
}

func (c *Client) job(made registered) *Job {
	return &Job{client: c, ID: made.ID, State: made.State, FoundBy: made.FoundBy}
}

// Job refers to a job by its id, without a call.
func (c *Client) Job(id string) *Job { return &Job{client: c, ID: id} }

// Enqueue registers a job. When it returns, the server has it on disk.
func (c *Client) Enqueue(ctx context.Context, args Args, options ...Option) (*Job, error) {
	return c.EnqueueJob(ctx, JobOf(args, options...))
}

// EnqueueJob registers a job that was written as a [NewJob], with or without a kind.
func (c *Client) EnqueueJob(ctx context.Context, job NewJob) (*Job, error) {
	body, err := job.write(ctx, newKey())
	if err != nil {
		return nil, err
	}
	var made registered
	if err := c.transport.json(ctx, call{method: "POST", path: "/v1/jobs", body: body}, &made); err != nil {
		return nil, err
	}
	return c.job(made), nil
}

// Item is one job's outcome of a batch: either the job, or why not.
type Item struct {
	Job *Job
	Err error
}

// EnqueueMany registers many jobs. Each succeeds or fails by itself; the outcomes are in the same order.
func (c *Client) EnqueueMany(ctx context.Context, jobs []NewJob) ([]Item, error) {
	items := make([]Item, 0, len(jobs))
	var batch [][]byte
	size := 0
	flush := func() error {
		done, err := c.enqueueBatch(ctx, batch)
		items, batch, size = append(items, done...), nil, 0
		return err
	}
	for _, job := range jobs {
		body, err := job.write(ctx, newKey())
		if err != nil {
			return items, err
		}
		if len(batch) == batchJobsMax || len(batch) > 0 && size+len(body) > batchBytesMax {
			if err := flush(); err != nil {
				return items, err
			}
		}
		batch, size = append(batch, body), size+len(body)
	}
	if len(batch) == 0 {
		return items, nil
	}
	return items, flush()
}

// enqueueBatch registers a batch. One that is refused as a whole because of some job is halved until that is alone.
func (c *Client) enqueueBatch(ctx context.Context, batch [][]byte) ([]Item, error) {
	var answer struct {
		Jobs []registered `json:"jobs"`
	}
	err := c.transport.json(ctx, call{method: "POST", path: "/v1/jobs/batch", body: joined(batch)}, &answer)
	var problem *Problem
	if errors.As(err, &problem) && isUnfit(problem.Status) {
		if len(batch) == 1 {
			return []Item{{Err: problem}}, nil
		}
		half := (len(batch) + 1) / 2
		first, err := c.enqueueBatch(ctx, batch[:half])
		if err != nil {
			return first, err
		}
		second, err := c.enqueueBatch(ctx, batch[half:])
		return append(first, second...), err
	}
	if err != nil {
		return nil, err
	}
	items := make([]Item, len(answer.Jobs))
	for index, one := range answer.Jobs {
		if one.Error != nil {
			items[index].Err = one.Error.problem()
		} else {
			items[index].Job = c.job(one)
		}
	}
	return items, nil
}

// isUnfit returns whether a batch was refused for what is in it.
func isUnfit(status int) bool { return status == 400 || status == 413 || status == 422 }

func joined(items [][]byte) []byte {
	body := append([]byte(`{"jobs":[`), bytes.Join(items, []byte(","))...)
	return append(body, `]}`...)
}

func newKey() string {
	var key [16]byte
	if _, err := rand.Read(key[:]); err != nil {
		panic(err)
	}
	return hex.EncodeToString(key[:])
}

func jobPath(id string, more string) string { return "/v1/jobs/" + url.PathEscape(id) + more }

// Read reads a job.
func (c *Client) Read(ctx context.Context, id string) (*JobView, error) {
	return c.read(ctx, call{method: "GET", path: jobPath(id, "")})
}

func (c *Client) read(ctx context.Context, read call) (*JobView, error) {
	body, err := c.transport.send(ctx, read)
	if err != nil {
		return nil, err
	}
	view := &JobView{Raw: body}
	return view, json.Unmarshal(body, view)
}

// Wait returns a job as soon as it has ended. When the context's deadline passes first, the error is [ErrNotEnded].
func (c *Client) Wait(ctx context.Context, id string) (*JobView, error) {
	for {
		view, err := c.WaitFor(ctx, id, waitMax)
		switch {
		case err == nil && view.HasEnded():
			return view, nil
		case errors.Is(ctx.Err(), context.DeadlineExceeded):
			return nil, ErrNotEnded
		case err != nil:
			return nil, err
		}
	}
}

// WaitFor returns a job as soon as it has ended, or as it is when the time is over.
func (c *Client) WaitFor(ctx context.Context, id string, limit time.Duration) (*JobView, error) {
	for until := time.Now().Add(limit); ; {
		wait := time.Until(until)
		if wait > waitMax {
			wait = waitMax
		} else if wait < 0 {
			wait = 0
		}
		path := jobPath(id, fmt.Sprintf("?wait=%dms", wait.Milliseconds()))
		view, err := c.read(ctx, call{method: "GET", path: path, wait: wait})
		if err != nil || view.HasEnded() || time.Until(until) <= 0 {
			return view, err
		}
	}
}

// WaitAll waits until all of these jobs have ended and returns them in the same order; nil for those that are not there.
// Many jobs share a call. When the context's deadline passes first, the error is [ErrNotEnded].
func (c *Client) WaitAll(ctx context.Context, ids []string) ([]*JobView, error) {
	for begin := 0; begin < len(ids); begin += waitIDsMax {
		end := begin + waitIDsMax
		if end > len(ids) {
			end = len(ids)
		}
		if hasCall, err := c.waitTogether(ctx, ids[begin:end]); err != nil {
			return nil, err
		} else if !hasCall {
			break
		}
	}
	views := make([]*JobView, len(ids))
	for index, id := range ids {
		view, err := c.Wait(ctx, id)
		var problem *Problem
		if errors.As(err, &problem) && problem.Status == http.StatusNotFound {
			continue
		}
		if err != nil {
			return nil, err
		}
		views[index] = view
	}
	return views, nil
}

// waitTogether waits for several jobs with one call at a time. It returns whether the server has such a call.
func (c *Client) waitTogether(ctx context.Context, ids []string) (bool, error) {
	body, err := encode(map[string]any{"ids": ids, "wait_seconds": waitMax.Seconds()})
	if err != nil {
		return false, err
	}
	for {
		var answer struct {
			Done bool `json:"done"`
		}
		err := c.transport.json(ctx, call{method: "POST", path: "/v1/jobs/wait", body: body, wait: waitMax}, &answer)
		var problem *Problem
		switch {
		case errors.As(err, &problem) && (problem.Status == http.StatusNotFound || problem.Status == http.StatusMethodNotAllowed):
			return false, nil
		case errors.Is(ctx.Err(), context.DeadlineExceeded):
			return true, ErrNotEnded
		case err != nil:
			return true, err
		case answer.Done:
			return true, nil
		}
	}
}

// Cancel cancels a job that has not ended.
func (c *Client) Cancel(ctx context.Context, id, reason string) error {
	body := map[string]string{}
	if reason != "" {
		body["reason"] = reason
	}
	return c.post(ctx, jobPath(id, "/cancel"), body, nil, repeatSafe)
}

// Retry starts a failed or cancelled job again.
func (c *Client) Retry(ctx context.Context, id string) error {
	return c.post(ctx, jobPath(id, "/retry"), struct{}{}, nil, repeatIfNotDone)
}

func (c *Client) post(ctx context.Context, path string, body, answer any, repeat repeat) error {
	text, err := encode(body)
	if err != nil {
		return err
	}
	return c.transport.json(ctx, call{method: "POST", path: path, body: text, repeat: repeat}, answer)
}

// Do sends any other call of the API (see the server's /openapi.json) and decodes the answer. GET and PUT are repeated
// when their outcome is unknown, others only if the server certainly did nothing.
func (c *Client) Do(ctx context.Context, method, path string, body, answer any) error {
	sent := call{method: method, path: path, repeat: repeatIfNotDone}
	if method == "GET" || method == "PUT" {
		sent.repeat = repeatSafe
	}
	if body != nil {
		text, err := encode(body)
		if err != nil {
			return err
		}
		sent.body = text
	}
	return c.transport.json(ctx, sent, answer)
}

// Schedule is a recurring job.
type Schedule struct {
	// Cron has five fields, or six with seconds first, or is a nickname like @daily.
	Cron string
	Job  NewJob
	// TimeZone is a name of the IANA database; UTC when left out.
	TimeZone string
	// Missed is "skip", "once" or "all".
	Missed string
	Paused bool
}

// SetSchedule creates a schedule, or replaces the one of that name.
func (c *Client) SetSchedule(ctx context.Context, name string, schedule Schedule) error {
	job, err := schedule.Job.write(ctx, "")
	if err != nil {
		return err
	}
	body := struct {
		Cron     string          `json:"cron"`
		Job      json.RawMessage `json:"job"`
		TimeZone string          `json:"time_zone,omitempty"`
		Missed   string          `json:"missed,omitempty"`
		Paused   bool            `json:"paused,omitempty"`
	}{schedule.Cron, job, schedule.TimeZone, schedule.Missed, schedule.Paused}
	return c.Do(ctx, "PUT", "/v1/schedules/"+url.PathEscape(name), body, nil)
}

// RemoveSchedule removes a schedule.
func (c *Client) RemoveSchedule(ctx context.Context, name string) error {
	return c.Do(ctx, "DELETE", "/v1/schedules/"+url.PathEscape(name), nil, nil)
}

// RunSchedule registers a job of a schedule now.
func (c *Client) RunSchedule(ctx context.Context, name string) (*Job, error) {
	var made registered
	path := "/v1/schedules/" + url.PathEscape(name) + "/run"
	if err := c.post(ctx, path, struct{}{}, &made, repeatIfNotDone); err != nil {
		return nil, err
	}
	return c.job(made), nil
}

// Pause starts no further job of the queue until it is resumed.
func (c *Client) Pause(ctx context.Context, queue string) error {
	return c.post(ctx, "/v1/queues/"+url.PathEscape(queue)+"/pause", struct{}{}, nil, repeatSafe)
}

// Resume starts jobs of the queue again.
func (c *Client) Resume(ctx context.Context, queue string) error {
	return c.post(ctx, "/v1/queues/"+url.PathEscape(queue)+"/resume", struct{}{}, nil, repeatSafe)
}
