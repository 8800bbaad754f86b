package nagaya

import (
	"context"
	"encoding/json"
	"errors"
	"sync"
	"time"
)

const (
	reportMax = 500
	// Calls at a time. Few, so that outcomes gather while one is under way.
	reportCalls = 2
)

// reports tells the server how attempts ended, many in one call, and repeats that until the server has taken it or the
// lease is over.
type reports struct {
	transport *transport
	leases    *leases
	reported  func(one *outcome, result, reason string)
	ctx       context.Context
	mutex     sync.Mutex
	waiting   []*outcome
	calls     int
	open      int
	// Closed when nothing is open.
	flushed chan struct{}
}

func newReports(ctx context.Context, t *transport, l *leases, reported func(*outcome, string, string)) *reports {
	return &reports{ctx: ctx, transport: t, leases: l, reported: reported}
}

func (r *reports) add(one *outcome) {
	// The handler of a lost attempt was told so; what it says afterwards does not count.
	if !r.leases.has(one.token) {
		return
	}
	r.mutex.Lock()
	r.open++
	r.waiting = append(r.waiting, one)
	r.mutex.Unlock()
	r.send()
}

// openCount returns how many outcomes the server has not taken.
func (r *reports) openCount() int {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	return r.open
}

// flush returns a channel that is closed when nothing waits to be reported.
func (r *reports) flush() <-chan struct{} {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	if r.flushed == nil {
		r.flushed = make(chan struct{})
	}
	flushed := r.flushed
	r.flushedIfEmpty()
	return flushed
}

// flushedIfEmpty is called with the mutex held.
func (r *reports) flushedIfEmpty() {
	if r.open == 0 && r.flushed != nil {
		close(r.flushed)
		r.flushed = nil
	}
}

func (r *reports) settled(count int) {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	r.open -= count
	r.flushedIfEmpty()
}

func (r *reports) send() {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	for r.calls < reportCalls && len(r.waiting) > 0 {
		r.calls++
		go func() {
			for batch := r.take(); len(batch) > 0; batch = r.take() {
				r.report(batch)
			}
			r.mutex.Lock()
			r.calls--
			again := len(r.waiting) > 0
			r.mutex.Unlock()
			if again {
				r.send()
			}
		}()
	}
}

// take takes outcomes of one kind that fit into one call. Those whose lease is over are dropped: that was told already.
func (r *reports) take() []*outcome {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	var batch, rest []*outcome
	size := 0
	for _, one := range r.waiting {
		if !r.leases.has(one.token) {
			r.open--
			continue
		}
		fits := len(batch) == 0 ||
			one.kind == batch[0].kind && len(batch) < reportMax && size+len(one.body) <= batchBytesMax
		if fits {
			batch, size = append(batch, one), size+len(one.body)
		} else {
			rest = append(rest, one)
		}
	}
	r.waiting = rest
	r.flushedIfEmpty()
	return batch
}

func (r *reports) report(batch []*outcome) {
	bodies := make([][]byte, len(batch))
	for index, one := range batch {
		bodies[index] = one.body
	}
	path := "/v1/jobs/batch/" + string(batch[0].kind)
	text, err := r.transport.once(r.ctx, call{method: "POST", path: path, body: joined(bodies), repeat: repeatNever})
	var answer struct {
		Jobs []struct {
			Error *problemDocument `json:"error"`
		} `json:"jobs"`
	}
	if err == nil {
		err = json.Unmarshal(text, &answer)
	}
	var problem *Problem
	switch {
	case err == nil:
		for index, one := range batch {
			var problem *Problem
			if index < len(answer.Jobs) && answer.Jobs[index].Error != nil {
				problem = answer.Jobs[index].Error.problem()
			}
			r.settle(one, problem)
		}
	case errors.As(err, &problem) && !problem.isTemporary():
		r.refused(batch, problem)
	default:
		r.later(batch, err)
	}
}

func (r *reports) settle(one *outcome, problem *Problem) {
	switch {
	case problem != nil && problem.isTemporary():
		r.later([]*outcome{one}, problem)
		return
	case problem != nil && problem.Name != "lease-lost" && one.kind == completes:
		// A result that is refused for its content would be refused from every attempt.
		report := failReport{Token: one.token, Error: "the server rejected the result: " + problem.Detail, Permanent: true}
		r.instead(one, fails, report)
		return
	}
	if problem != nil && problem.Name == "lease-lost" && one.kind == releases && one.failures > 0 {
		// The lease is over with a job that is given back. A repeated call says so: the first one had arrived.
		problem = nil
	}
	// If it is no longer held, its loss was told while the call was under way.
	if r.leases.remove(one.token) != nil {
		if problem == nil {
			r.reported(one, results[one.kind], "")
		} else {
			reason := problem.Reason
			if reason == "" {
				reason = problem.Name
			}
			r.reported(one, "lost", reason)
		}
	}
	r.settled(1)
}

var results = map[outcomeKind]string{completes: "succeeded", fails: "failed", releases: "released"}

// instead reports something else about an attempt.
func (r *reports) instead(one *outcome, kind outcomeKind, report any) {
	one.kind = kind
	one.body, _ = json.Marshal(report)
	r.mutex.Lock()
	r.waiting = append(r.waiting, one)
	r.mutex.Unlock()
}

// refused deals with a call that was refused as a whole: it is halved until what it was refused for is alone.
func (r *reports) refused(batch []*outcome, problem *Problem) {
	status := problem.Status
	switch {
	case batch[0].kind == releases && (status == 400 || status == 404 || status == 405):
		// A server without this call: give the jobs back as failures that are retried in time.
		for _, one := range batch {
			var release releaseReport
			_ = json.Unmarshal(one.body, &release)
			report := failReport{Token: one.token, Error: "given back by the worker", RetryAfterSeconds: &release.DelaySeconds}
			r.instead(one, fails, report)
		}
	case len(batch) > 1 && isUnfit(status):
		half := (len(batch) + 1) / 2
		r.report(batch[:half])
		r.report(batch[half:])
	default:
		for _, one := range batch {
			r.settle(one, problem)
		}
	}
}

// later tries again after a pause.
func (r *reports) later(batch []*outcome, err error) {
	failures := 0
	for _, one := range batch {
		one.failures++
		if one.failures > failures {
			failures = one.failures
		}
	}
	time.AfterFunc(defaultRetry.pause(failures, retryAfterOf(err)), func() {
		if r.ctx.Err() != nil {
			return
		}
		r.mutex.Lock()
		r.waiting = append(r.waiting, batch...)
		r.mutex.Unlock()
		r.send()
	})
}
