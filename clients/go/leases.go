package nagaya

import (
	"context"
	"encoding/json"
	"errors"
	"sync"
	"time"
)

const (
	extensionsPerLease = 3
	marginMax          = time.Second
	// After an extension that failed for the moment.
	failedPause = 250 * time.Millisecond
	// How many are extended by calls of their own at a time, at servers without a call for many.
	singleCallsMax = 32
	extendMax      = 1000
	shortestCall   = 50 * time.Millisecond
)

// lease is one that this worker holds. It counts as over a little before the server thinks so, because the answer
// that granted it took its time.
type lease struct {
	id, token       string
	attempt         int
	length          time.Duration
	since           time.Time
	until, extendAt time.Time
	// When the handler has run for too long; zero if it never has.
	letGoAt         time.Time
	isBeingExtended bool
	// Ends the handler's context.
	lost func(reason error)
}

func (l *lease) renew(at time.Time) {
	margin := l.length / 10
	if margin > marginMax {
		margin = marginMax
	}
	l.until, l.extendAt = at.Add(l.length-margin), at.Add(l.length/extensionsPerLease)
}

// leases extends each lease at a third of its length until its attempt is reported. An attempt whose extension is
// refused, or does not succeed before the lease's end, is lost: its handler is told, and nothing more is said about it.
type leases struct {
	transport *transport
	observe   func(WorkerEvent)
	wake      chan struct{}
	mutex     sync.Mutex
	held      map[string]*lease
	// When the loop looks next.
	next    time.Time
	noBatch bool
}

func newLeases(t *transport, observe func(WorkerEvent)) *leases {
	return &leases{transport: t, observe: observe, wake: make(chan struct{}, 1), held: map[string]*lease{}}
}

func (l *leases) add(one *lease, at time.Time) {
	one.renew(at)
	one.since = at
	l.mutex.Lock()
	defer l.mutex.Unlock()
	l.held[one.token] = one
	l.lookAt(one.extendAt)
	if !one.letGoAt.IsZero() {
		l.lookAt(one.letGoAt)
	}
}

func (l *leases) has(token string) bool {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	return l.held[token] != nil
}

// remove forgets a lease and returns it; nil if it was not held.
func (l *leases) remove(token string) *lease {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	one := l.held[token]
	delete(l.held, token)
	return one
}

func (l *leases) lose(token string, reason error) {
	if one := l.remove(token); one != nil {
		one.lost(reason)
	}
}

// heldBefore returns the tokens of some leases that were granted before a time.
func (l *leases) heldBefore(at time.Time, most int) []string {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	var tokens []string
	for token, one := range l.held {
		if len(tokens) < most && one.since.Before(at) {
			tokens = append(tokens, token)
		}
	}
	return tokens
}

// lookAt lets the loop look at this time, or earlier. The mutex is held.
func (l *leases) lookAt(at time.Time) {
	if !l.next.IsZero() && !at.Before(l.next) {
		return
	}
	l.next = at
	select {
	case l.wake <- struct{}{}:
	default:
	}
}

// run keeps the leases until the context ends.
func (l *leases) run(ctx context.Context) {
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-l.wake:
		case <-timer.C:
			l.look(ctx)
		}
		l.mutex.Lock()
		next := l.next
		l.mutex.Unlock()
		pause := time.Hour
		if !next.IsZero() {
			pause = time.Until(next)
		}
		if !timer.Stop() {
			select {
			case <-timer.C:
			default:
			}
		}
		timer.Reset(pause)
	}
}

// look ends what is over, extends what is due, and sets the time of the next look.
func (l *leases) look(ctx context.Context) {
	now := time.Now()
	var due []*lease
	var over []func()
	l.mutex.Lock()
	l.next = time.Time{}
	for token, one := range l.held {
		switch {
		case !one.letGoAt.IsZero() && !now.Before(one.letGoAt):
			lost := one.lost
			over = append(over, func() { lost(ErrTimeout) })
			delete(l.held, token)
			continue
		case !now.Before(one.until):
			lost := one.lost
			over = append(over, func() { lost(ErrLeaseLost) })
			delete(l.held, token)
			continue
		case one.isBeingExtended:
		// Those that will be due soon go along.
		case !now.Before(one.extendAt.Add(-one.length / 20)):
			one.isBeingExtended = true
			due = append(due, one)
		default:
			l.lookAt(one.extendAt)
		}
		l.lookAt(one.until)
		if !one.letGoAt.IsZero() {
			l.lookAt(one.letGoAt)
		}
	}
	noBatch := l.noBatch
	l.mutex.Unlock()
	for _, end := range over {
		end()
	}
	if len(due) == 0 {
		return
	}
	l.observe(WorkerEvent{Type: "extended", Count: len(due)})
	if noBatch {
		go l.extendSingly(ctx, due)
		return
	}
	for len(due) > 0 {
		count := len(due)
		if count > extendMax {
			count = extendMax
		}
		go l.extendTogether(ctx, due[:count])
		due = due[count:]
	}
}

func (l *leases) extendTogether(ctx context.Context, due []*lease) {
	sent := time.Now()
	type extension struct {
		Token string `json:"token"`
	}
	jobs := make([]extension, len(due))
	for index, one := range due {
		jobs[index].Token = one.token
	}
	body, _ := json.Marshal(map[string]any{"jobs": jobs})
	text, err := l.once(ctx, "/v1/jobs/batch/extend", body, due, sent)
	var problem *Problem
	if errors.As(err, &problem) && (problem.Status == 400 || problem.Status == 404 || problem.Status == 405) {
		l.mutex.Lock()
		l.noBatch = true
		l.mutex.Unlock()
		l.extendSingly(ctx, due)
		return
	}
	var answer struct {
		Jobs []struct {
			Error *problemDocument `json:"error"`
		} `json:"jobs"`
	}
	if err == nil {
		err = json.Unmarshal(text, &answer)
	}
	for index, one := range due {
		each := err
		if err == nil && index < len(answer.Jobs) && answer.Jobs[index].Error != nil {
			each = answer.Jobs[index].Error.problem()
		}
		l.settle(one, sent, each)
	}
}

func (l *leases) extendSingly(ctx context.Context, due []*lease) {
	places := make(chan struct{}, singleCallsMax)
	for _, one := range due {
		one := one
		places <- struct{}{}
		go func() {
			defer func() { <-places }()
			sent := time.Now()
			body, _ := json.Marshal(map[string]string{"token": one.token})
			_, err := l.once(ctx, jobPath(one.id, "/extend"), body, []*lease{one}, sent)
			l.settle(one, sent, err)
		}()
	}
}

func (l *leases) once(ctx context.Context, path string, body []byte, due []*lease, sent time.Time) ([]byte, error) {
	// A call that hangs must leave time for another one before the lease's end.
	limit := time.Hour
	l.mutex.Lock()
	for _, one := range due {
		for _, bound := range []time.Duration{one.length / extensionsPerLease, one.until.Sub(sent)} {
			if bound < limit {
				limit = bound
			}
		}
	}
	l.mutex.Unlock()
	if limit < shortestCall {
		limit = shortestCall
	}
	return l.transport.once(ctx, call{method: "POST", path: path, body: body, timeout: limit, repeat: repeatNever})
}

// settle takes the answer to an extension.
func (l *leases) settle(one *lease, sent time.Time, err error) {
	var problem *Problem
	if errors.As(err, &problem) && !problem.isTemporary() {
		l.lose(one.token, reasonOf(problem))
		return
	}
	l.mutex.Lock()
	defer l.mutex.Unlock()
	one.isBeingExtended = false
	if l.held[one.token] == nil {
		return
	}
	if err == nil {
		one.renew(sent)
	} else {
		one.extendAt = time.Now().Add(failedPause)
	}
	l.lookAt(one.extendAt)
}

func reasonOf(problem *Problem) error {
	if problem.Reason == "cancelled" {
		return ErrCancelled
	}
	return ErrLeaseLost
}
