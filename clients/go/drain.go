package nagaya

import (
	"context"
	"os"
	"os/signal"
	"syscall"
	"time"
)

const (
	// How long the last reports may take when the worker ends.
	flushLimit = 2 * time.Second
	// After a second signal.
	hurryLimit = 500 * time.Millisecond
)

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
