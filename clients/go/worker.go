package nagaya

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log"
	"os"
	"os/signal"
	"runtime"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

const (
	claimMax = 1000
	// How long a claim that is under way may still be answered when nothing more is wanted.
	lastClaim = 500 * time.Millisecond
	// How much later than asked for a claim may be answered before its connection counts as dead.
	lateAnswer = 10 * time.Second
	// Outcomes that may wait to be reported per place; beyond, nothing more is claimed.
	backlogPerPlace = 4
	backlogMin      = 1000
	// Jobs that have been under way for longer than this are named in claims, so that the server can tell at once that
	// one was cancelled. Most jobs are over before, and cost nothing.
	holdingAge = 500 * time.Millisecond
	holdingMax = 1000
	// Assumed if the server does not say how long a lease is.
	leaseUntold = 30 * time.Second
	// How long the last reports may take when the worker ends.
	flushLimit = 2 * time.Second
	// After a second signal.
	hurryLimit = 500 * time.Millisecond
)

// WorkerConfig configures a worker. Zero values are defaults.
type WorkerConfig struct {
	// Queues are asked in order: a later one for what the earlier ones could not give. "default" when left out.
	Queues []string
	// Concurrency is the number of handlers at a time; 10 by default. As many jobs as there are free places are
	// claimed in one call.
	Concurrency int
	// Drain is how long running handlers may take after the worker was told to stop; 25 seconds by default.
	Drain time.Duration
	// Grace is how long a handler may take to end after its context did; 3 seconds by default.
	Grace time.Duration
	// MaxRuntime is how long a handler may run at most; for ever by default.
	MaxRuntime time.Duration
	// Poll is how long a claim waits at the server; 20 seconds by default.
	Poll time.Duration
	// Name is shown on attempts; host and process by default.
	Name string
	// Tenant is only for tokens that speak for several tenants.
	Tenant string
	// Observe is told of everything that happens, for metrics. It is called from many goroutines and must not block.
	Observe func(WorkerEvent)
	// Logf gets warnings; log.Printf by default.
	Logf func(format string, args ...any)
}

// WorkerEvent is something that happened in a worker.
type WorkerEvent struct {
	// Type is "claimed", "started", "stopped", "ended", "reported", "extended" or "unknown-kind".
	Type    string
	Job     string
	Attempt int
	// Outcome of a reported attempt: "succeeded", "failed", "released" or "lost".
	Outcome string
	// Reason of a lost attempt, or why a handler was stopped: "cancelled", "lease-lost", "shutdown", "timeout", or
	// the server's word.
	Reason string
	// Count of claimed jobs or extended leases.
	Count int
	// Took is how long a handler ran.
	Took time.Duration
}

// Stats counts attempts.
type Stats struct {
	Running, Claimed, Succeeded, Failed, Released int
	// Lost attempts lost their lease, or the server did not take their outcome.
	Lost int
}

// Worker claims jobs, runs handlers for them, and reports how they ended.
//
// A goroutine extends the leases, so a handler may take as long as it likes. Its context ends when it must stop; [Cause]
// says why. Except for [ErrShutdown], nothing is reported any more then.
type Worker struct {
	client      *Client
	config      WorkerConfig
	handlers    map[string]run
	maxRuntimes map[string]time.Duration
	middleware  []Middleware
	leases      *leases
	reports     *reports
	hurry       chan struct{}
	hurryOnce   sync.Once
	ended       chan struct{}
	// Told when a place becomes free, an outcome is taken, or a handler ends.
	changed   chan struct{}
	tellsLost atomic.Bool

	mutex   sync.Mutex
	stop    context.CancelFunc
	free    int
	held    map[string]*running
	stats   Stats
	started bool
}

type running struct {
	attempt    *Attempt
	stopper    *stopper
	hasOutcome bool
}

// NewWorker makes a worker. Add handlers, then [Worker.Run] it.
func NewWorker(client *Client, config WorkerConfig) *Worker {
	if len(config.Queues) == 0 {
		config.Queues = []string{"default"}
	}
	if config.Concurrency <= 0 {
		config.Concurrency = 10
	}
	for _, setting := range []struct {
		value *time.Duration
		usual time.Duration
	}{{&config.Drain, 25 * time.Second}, {&config.Grace, 3 * time.Second}, {&config.Poll, 20 * time.Second}} {
		if *setting.value == 0 {
			*setting.value = setting.usual
		}
	}
	if config.Name == "" {
		host, _ := os.Hostname()
		config.Name = fmt.Sprintf("%s-%d", host, os.Getpid())
	}
	if config.Logf == nil {
		config.Logf = log.Printf
	}
	return &Worker{
		client:      client,
		config:      config,
		handlers:    map[string]run{},
		maxRuntimes: map[string]time.Duration{},
		hurry:       make(chan struct{}),
		ended:       make(chan struct{}),
		changed:     make(chan struct{}, 1),
		free:        config.Concurrency,
		held:        map[string]*running{},
	}
}

func (w *Worker) add(kind string, handler run) {
	w.mutex.Lock()
	defer w.mutex.Unlock()
	if _, exists := w.handlers[kind]; exists || w.started {
		panic(fmt.Sprintf("nagaya: the handler for %q is added twice, or to a worker that runs", kind))
	}
	w.handlers[kind] = handler
}

// Use wraps all handlers; the first one added is the outermost.
func (w *Worker) Use(middleware Middleware) { w.middleware = append(w.middleware, middleware) }

// Stats returns what was counted so far.
func (w *Worker) Stats() Stats {
	w.mutex.Lock()
	defer w.mutex.Unlock()
	return w.stats
}

// RunWithSignals runs until SIGTERM or SIGINT, which drains, as the end of the context does. A second signal gives jobs
// back at once.
func (w *Worker) RunWithSignals(ctx context.Context) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	defer signal.Stop(signals)
	go func() {
		for count := 0; ; count++ {
			select {
			case <-w.ended:
				return
			case <-signals:
			}
			if count == 0 {
				stop()
			} else {
				w.StopNow()
			}
		}
	}()
	return w.Run(ctx)
}

// StopNow ends the contexts of running handlers, gives their jobs back, and lets Run return within two seconds.
func (w *Worker) StopNow() {
	w.hurryOnce.Do(func() { close(w.hurry) })
	w.stopClaiming()
}

// Stop drains for at most so long, and returns when Run is about to.
func (w *Worker) Stop(drain time.Duration) {
	w.mutex.Lock()
	w.config.Drain = drain
	started := w.started
	w.mutex.Unlock()
	w.stopClaiming()
	if started {
		<-w.ended
	}
}

func (w *Worker) stopClaiming() {
	w.mutex.Lock()
	stop := w.stop
	w.mutex.Unlock()
	if stop != nil {
		stop()
	}
}

// Run claims and works until the context ends, then drains: nothing more is claimed, and running handlers may finish.
// Those that do not within the drain time are told to stop, and their jobs are given back. It returns an error if the
// server refuses this worker.
func (w *Worker) Run(ctx context.Context) error {
	claiming, stop := context.WithCancel(ctx)
	defer stop()
	w.mutex.Lock()
	if w.started {
		w.mutex.Unlock()
		return errors.New("nagaya: a worker runs once")
	}
	w.started, w.stop = true, stop
	w.mutex.Unlock()
	defer close(w.ended)
	keeping, end := context.WithCancel(context.Background())
	defer end()
	w.leases = newLeases(w.client.transport, w.observe)
	w.reports = newReports(keeping, w.client.transport, w.leases, w.reported)
	go w.leases.run(keeping)
	go w.lookAtServer(keeping)
	err := w.claimUntil(claiming, detached{ctx})
	w.drain()
	return err
}

// detached has the values of a context and not its end: handlers outlive the context of Run by the drain time.
type detached struct{ context.Context }

func (detached) Deadline() (time.Time, bool) { return time.Time{}, false }
func (detached) Done() <-chan struct{}       { return nil }
func (detached) Err() error                  { return nil }

func (w *Worker) claimUntil(ctx context.Context, base context.Context) error {
	last, cancel := context.WithCancel(context.Background())
	defer cancel()
	go func() {
		select {
		case <-ctx.Done():
			time.AfterFunc(lastClaim, cancel)
		case <-last.Done():
		}
	}()
	for failures := 0; ; {
		places := w.freePlaces(ctx)
		if places == 0 {
			return nil
		}
		err := w.claim(ctx, last, base, places)
		switch {
		case err == nil:
			failures = 0
			continue
		case ctx.Err() != nil:
			return nil
		case !IsTemporary(err):
			return err
		}
		failures++
		w.config.Logf("nagaya: claim failed, trying again: %v", err)
		if sleep(ctx, defaultRetry.pause(failures, retryAfterOf(err))) != nil {
			return nil
		}
	}
}

// freePlaces waits until there is a free place and takes all that are free then; 0 when nothing more is to be claimed.
func (w *Worker) freePlaces(ctx context.Context) int {
	backlogMax := w.config.Concurrency * backlogPerPlace
	if backlogMax < backlogMin {
		backlogMax = backlogMin
	}
	for {
		if ctx.Err() != nil {
			return 0
		}
		// Handlers that are about to end leave their places, too, so that one claim serves them all.
		runtime.Gosched()
		hasRoom := w.reports.openCount() < backlogMax
		w.mutex.Lock()
		places := w.free
		if places > claimMax {
			places = claimMax
		}
		if places > 0 && hasRoom {
			w.free -= places
			w.mutex.Unlock()
			return places
		}
		w.mutex.Unlock()
		select {
		case <-ctx.Done():
		case <-w.changed:
		}
	}
}

func (w *Worker) claim(ctx, last, base context.Context, places int) error {
	claimed := 0
	defer func() { w.leave(places - claimed) }()
	body, err := json.Marshal(struct {
		Queues      []string `json:"queues"`
		Worker      string   `json:"worker"`
		Max         int      `json:"max"`
		WaitSeconds float64  `json:"wait_seconds"`
		Tenant      string   `json:"tenant,omitempty"`
		Holding     []string `json:"holding,omitempty"`
	}{w.config.Queues, w.config.Name, places, w.config.Poll.Seconds(), w.config.Tenant, w.holding()})
	if err != nil {
		return err
	}
	timeout := w.client.transport.timeout
	if timeout > lateAnswer {
		timeout = lateAnswer
	}
	asked := call{method: "POST", path: "/v1/claim", body: body, wait: w.config.Poll, timeout: timeout, repeat: repeatNever}
	text, err := w.client.transport.once(last, asked)
	if err != nil {
		return err
	}
	at := time.Now()
	var answer struct {
		Jobs []claimedJob `json:"jobs"`
		Lost []struct {
			Token  string `json:"token"`
			Reason string `json:"reason"`
		} `json:"lost"`
	}
	if err := json.Unmarshal(text, &answer); err != nil {
		return &ConnectionError{WasSent: true, Err: err}
	}
	for _, lost := range answer.Lost {
		w.leases.lose(lost.Token, reasonOf(&Problem{Reason: lost.Reason}))
	}
	claimed = len(answer.Jobs)
	if claimed == 0 {
		return nil
	}
	w.count(func(stats *Stats) { stats.Claimed += claimed })
	w.observe(WorkerEvent{Type: "claimed", Count: claimed})
	for _, job := range answer.Jobs {
		w.start(base, job, at, ctx.Err() != nil)
	}
	return nil
}

// holding returns the tokens of jobs under way that a claim names.
func (w *Worker) holding() []string {
	if !w.tellsLost.Load() {
		return nil
	}
	return w.leases.heldBefore(time.Now().Add(-holdingAge), holdingMax)
}

// lookAtServer finds out whether the server tells in the answer to a claim which jobs are lost. Servers that cannot tell
// their version cannot do that.
func (w *Worker) lookAtServer(ctx context.Context) {
	_, err := w.client.transport.send(ctx, call{method: "GET", path: "/v1/version"})
	w.tellsLost.Store(err == nil)
}

// leave frees places.
func (w *Worker) leave(places int) {
	if places == 0 {
		return
	}
	w.mutex.Lock()
	w.free += places
	w.mutex.Unlock()
	w.tell()
}

func (w *Worker) tell() {
	select {
	case w.changed <- struct{}{}:
	default:
	}
}

// start runs a claimed job, or gives it back if the worker is stopping.
func (w *Worker) start(base context.Context, job claimedJob, at time.Time, giveBack bool) {
	attempt := &Attempt{client: w.client, job: job}
	ctx, stopper := withStopper(context.WithValue(base, attemptKey{}, attempt))
	one := &running{attempt: attempt, stopper: stopper}
	length := time.Duration(job.TimeoutSeconds * float64(time.Second))
	if length <= 0 {
		length = leaseUntold
	}
	held := &lease{id: job.ID, token: job.Token, attempt: job.Attempt, length: length, lost: func(reason error) { w.lost(one, reason) }}
	longest := w.config.MaxRuntime
	if own, ok := w.maxRuntimes[job.Kind]; ok {
		longest = own
	}
	if longest > 0 {
		held.letGoAt = at.Add(longest)
	}
	w.mutex.Lock()
	w.held[job.Token] = one
	w.stats.Running++
	w.mutex.Unlock()
	w.leases.add(held, at)
	if giveBack {
		w.end(one, attempt.released(0))
		w.leave(1)
		return
	}
	go func() {
		begin := time.Now()
		outcome := w.handle(ctx, attempt)
		w.observe(WorkerEvent{Type: "ended", Job: job.ID, Attempt: job.Attempt, Took: time.Since(begin)})
		w.end(one, outcome)
		w.leave(1)
		// Frees what the context holds on to; a handler that is over does not see it.
		stopper.cancel()
	}()
}

// end takes the outcome of an attempt, unless it is lost or was given back.
func (w *Worker) end(one *running, outcome *outcome) {
	why := one.stopper.why()
	w.mutex.Lock()
	_, isHeld := w.held[one.attempt.job.Token]
	isFirst := !one.hasOutcome
	one.hasOutcome = true
	if isHeld {
		delete(w.held, one.attempt.job.Token)
		w.stats.Running--
	}
	w.mutex.Unlock()
	if isFirst && (why == nil || why == ErrShutdown) {
		w.reports.add(outcome)
	}
	w.tell()
}

var reasons = map[error]string{ErrCancelled: "cancelled", ErrLeaseLost: "lease-lost", ErrShutdown: "shutdown", ErrTimeout: "timeout"}

// lost ends the context of an attempt whose lease is over.
func (w *Worker) lost(one *running, reason error) {
	w.stopOne(one, reason)
	attempt := one.attempt
	w.reported(&outcome{id: attempt.job.ID, attempt: attempt.job.Attempt}, "lost", reasons[reason])
}

func (w *Worker) stopOne(one *running, reason error) {
	w.mutex.Lock()
	isOver := one.hasOutcome
	w.mutex.Unlock()
	if one.stopper.stop(reason) && !isOver {
		attempt := one.attempt
		w.observe(WorkerEvent{Type: "stopped", Job: attempt.ID(), Attempt: attempt.Number(), Reason: reasons[reason]})
	}
}

func (w *Worker) reported(one *outcome, result, reason string) {
	w.count(func(stats *Stats) {
		switch result {
		case "succeeded":
			stats.Succeeded++
		case "failed":
			stats.Failed++
		case "released":
			stats.Released++
		default:
			stats.Lost++
		}
	})
	w.observe(WorkerEvent{Type: "reported", Job: one.id, Attempt: one.attempt, Outcome: result, Reason: reason})
	w.tell()
}

func (w *Worker) count(change func(*Stats)) {
	w.mutex.Lock()
	defer w.mutex.Unlock()
	change(&w.stats)
}

func (w *Worker) observe(event WorkerEvent) {
	if w.config.Observe != nil {
		w.config.Observe(event)
	}
}

// drain lets running handlers finish, stops the rest, and waits for the last reports.
func (w *Worker) drain() {
	w.mutex.Lock()
	limit := w.config.Drain
	w.mutex.Unlock()
	if !w.untilIdle(limit, w.hurry) {
		for _, one := range w.heldNow() {
			w.stopOne(one, ErrShutdown)
		}
		grace, hurry := w.config.Grace, w.hurry
		if w.isHurried() {
			hurry = nil
			if grace > hurryLimit {
				grace = hurryLimit
			}
		}
		w.untilIdle(grace, hurry)
		for _, one := range w.heldNow() {
			w.end(one, one.attempt.released(0))
		}
	}
	limit = flushLimit
	if w.isHurried() {
		limit = hurryLimit
	}
	timer := time.NewTimer(limit)
	defer timer.Stop()
	select {
	case <-w.reports.flush():
	case <-timer.C:
	}
}

func (w *Worker) isHurried() bool {
	select {
	case <-w.hurry:
		return true
	default:
		return false
	}
}

func (w *Worker) heldNow() []*running {
	w.mutex.Lock()
	defer w.mutex.Unlock()
	all := make([]*running, 0, len(w.held))
	for _, one := range w.held {
		all = append(all, one)
	}
	return all
}

// untilIdle waits until no handler runs, and returns whether that came before the limit and the hurry.
func (w *Worker) untilIdle(limit time.Duration, hurry <-chan struct{}) bool {
	timer := time.NewTimer(limit)
	defer timer.Stop()
	for {
		if len(w.heldNow()) == 0 {
			return true
		}
		select {
		case <-w.changed:
		case <-hurry:
			return false
		case <-timer.C:
			return false
		}
	}
}
