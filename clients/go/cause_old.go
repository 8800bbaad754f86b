//go:build !go1.20

package nagaya

import "context"

func withCancel(parent context.Context) (context.Context, func(error)) {
	ctx, cancel := context.WithCancel(parent)
	return ctx, func(error) { cancel() }
}
