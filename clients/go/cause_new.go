//go:build go1.20

package nagaya

import "context"

func withCancel(parent context.Context) (context.Context, func(error)) {
	ctx, cancel := context.WithCancelCause(parent)
	return ctx, func(why error) { cancel(why) }
}
