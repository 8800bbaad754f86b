//go:build go1.23

package nagaya

import (
	"context"
	"iter"
)

// All returns the events as a sequence for range, until the context ends or an error that does not pass.
func (e *Events) All(ctx context.Context) iter.Seq2[*Event, error] {
	return func(yield func(*Event, error) bool) {
		defer e.Close()
		for {
			event, err := e.Next(ctx)
			if !yield(event, err) || err != nil {
				return
			}
		}
	}
}
