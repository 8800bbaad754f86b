package nagaya

import (
	"context"
	"sync"
)

// stopper ends a handler's context with a reason.
type stopper struct {
	mutex  sync.Mutex
	reason error
	cancel context.CancelFunc
}

type stopperKey struct{}

func withStopper(parent context.Context) (context.Context, *stopper) {
	s := &stopper{}
	ctx, cancel := withCancel(context.WithValue(parent, stopperKey{}, s))
	s.cancel = func() { cancel(s.why()) }
	return ctx, s
}

// stop ends the context; only the first reason counts. It returns whether this was the first.
func (s *stopper) stop(reason error) bool {
	s.mutex.Lock()
	isFirst := s.reason == nil
	if isFirst {
		s.reason = reason
	}
	s.mutex.Unlock()
	s.cancel()
	return isFirst
}

func (s *stopper) why() error {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	return s.reason
}

// Cause returns why a handler's context ended: [ErrCancelled], [ErrLeaseLost], [ErrShutdown] or [ErrTimeout]; nil
// while it may go on. From Go 1.20 on, context.Cause returns the same.
func Cause(ctx context.Context) error {
	if s, ok := ctx.Value(stopperKey{}).(*stopper); ok {
		return s.why()
	}
	return ctx.Err()
}

func isShutdown(ctx context.Context) bool { return Cause(ctx) == ErrShutdown }
