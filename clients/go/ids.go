package nagaya

import (
	"context"
	"fmt"
	"sync"
	"time"
)

// IDs hands out unique ids, fetched ahead in batches. It may be used by many goroutines.
type IDs struct {
	client *Client
	batch  int
	maxAge time.Duration
	// Held during a fetch: everybody else waits for the same one.
	mutex     sync.Mutex
	ready     []uint64
	fetchedAt time.Time
}

// NewIDs fetches so many ids at once, from 1 to 1000. None is given out that is older than a second: ids carry the time
// at which they were minted, so this is how far their order may be off between processes.
func NewIDs(client *Client, batch int) *IDs {
	return &IDs{client: client, batch: batch, maxAge: time.Second}
}

// Next returns an id.
func (i *IDs) Next(ctx context.Context) (uint64, error) {
	i.mutex.Lock()
	defer i.mutex.Unlock()
	if len(i.ready) == 0 || time.Since(i.fetchedAt) > i.maxAge {
		var answer struct {
			Numbers []uint64 `json:"numbers"`
		}
		at := time.Now()
		if err := i.client.Do(ctx, "GET", fmt.Sprintf("/v1/ids?n=%d", i.batch), nil, &answer); err != nil {
			return 0, err
		}
		i.ready, i.fetchedAt = answer.Numbers, at
		if len(i.ready) == 0 {
			return 0, fmt.Errorf("the server gave no ids")
		}
	}
	next := i.ready[0]
	i.ready = i.ready[1:]
	return next, nil
}
