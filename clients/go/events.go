package nagaya

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"
)

const (
	// The server shows every 15 seconds that it is there; three of those missed mean that the connection is dead.
	silenceMax = 45 * time.Second
	lineMax    = 64 << 20
)

// Event is one of the log.
type Event struct {
	// ID is its position in the log: ids only grow.
	ID                string          `json:"id"`
	Kind              string          `json:"kind"`
	Job               string          `json:"job"`
	Queue             string          `json:"queue"`
	Tenant            string          `json:"tenant"`
	JobKind           string          `json:"job_kind"`
	Attempt           int             `json:"attempt"`
	At                time.Time       `json:"at"`
	Result            json.RawMessage `json:"result"`
	ResultBase64      string          `json:"result_base64"`
	ResultContentType string          `json:"result_content_type"`
	Error             string          `json:"error"`
	// Gap is set on an event of the kind "gap": events up to this one are gone, read the jobs themselves.
	Gap string `json:"up_to"`

	stream *Events
}

// Ack tells the server that everything up to this event was dealt with. Only with a subscription.
func (e *Event) Ack(ctx context.Context) error {
	if e.stream == nil || e.stream.filter.Subscription == "" {
		return errors.New("only events of a subscription can be acknowledged")
	}
	path := "/v1/subscriptions/" + url.PathEscape(e.stream.filter.Subscription) + "/ack"
	return e.stream.client.post(ctx, path, map[string]string{"cursor": e.ID}, nil, repeatSafe)
}

// EventFilter selects events.
type EventFilter struct {
	// Subscription is a name whose position the server keeps: a reader that comes back gets everything since the last Ack.
	// It is created if there is none.
	Subscription string   `json:"-"`
	Queue        string   `json:"queue,omitempty"`
	Kinds        []string `json:"kinds,omitempty"`
	// After is the event to begin after; "0" is the beginning of the log. With the next event when left out.
	After string `json:"after,omitempty"`
}

// Events follows the log of events across lost connections. An event that was seen is dropped. Not for several
// goroutines at once.
type Events struct {
	client *Client
	filter EventFilter
	last   string
	body   io.ReadCloser
	lines  *bufio.Reader
	cancel context.CancelFunc
	silent *time.Timer
	// Failures since the last event.
	failures     int
	isSubscribed bool
}

// Events begins to follow the log; the first call of [Events.Next] connects.
func (c *Client) Events(filter EventFilter) *Events {
	events := &Events{client: c, filter: filter}
	if filter.Subscription == "" {
		events.last = filter.After
	}
	return events
}

// Next waits for the next event. Connections that break are opened again, from the last event that was seen.
func (e *Events) Next(ctx context.Context) (*Event, error) {
	for {
		event, err := e.next(ctx)
		if err == nil && event != nil {
			e.failures = 0
			return event, nil
		}
		if err == nil {
			continue
		}
		e.Close()
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		if !IsTemporary(err) {
			return nil, err
		}
		e.failures++
		if err := sleep(ctx, defaultRetry.pause(e.failures, retryAfterOf(err))); err != nil {
			return nil, err
		}
	}
}

// Close closes the connection.
func (e *Events) Close() {
	if e.body == nil {
		return
	}
	e.silent.Stop()
	e.cancel()
	e.body.Close()
	e.body = nil
}

// next reads one message; nil if it has nothing for the reader.
func (e *Events) next(ctx context.Context) (*Event, error) {
	if e.body == nil {
		if err := e.connect(ctx); err != nil {
			return nil, err
		}
	}
	// The stream outlives this call, so its own context ends with ours by hand.
	done := make(chan struct{})
	defer close(done)
	cancel := e.cancel
	go func() {
		select {
		case <-ctx.Done():
			cancel()
		case <-done:
		}
	}()
	message, err := readMessage(e.lines)
	if err != nil {
		return nil, &ConnectionError{WasSent: true, Err: err}
	}
	e.silent.Reset(silenceMax)
	// A gap may lead back: a log that was restored from a copy ends before what this reader has seen.
	isNew := e.last == "" || message.event == "gap" || isAfter(message.id, e.last)
	if message.id == "" || !isNew {
		return nil, nil
	}
	e.last = message.id
	if message.data == "" {
		return nil, nil
	}
	event := &Event{stream: e}
	if err := json.Unmarshal([]byte(message.data), event); err != nil {
		return nil, fmt.Errorf("an event could not be understood: %w", err)
	}
	event.ID, event.Kind = message.id, message.event
	return event, nil
}

func (e *Events) connect(ctx context.Context) error {
	if e.filter.Subscription != "" && !e.isSubscribed {
		if err := e.subscribe(ctx); err != nil {
			return err
		}
		e.isSubscribed = true
	}
	query := url.Values{}
	if e.filter.Subscription != "" {
		query.Set("subscription", e.filter.Subscription)
	} else {
		if e.filter.Queue != "" {
			query.Set("queue", e.filter.Queue)
		}
		if len(e.filter.Kinds) > 0 {
			query.Set("kind", strings.Join(e.filter.Kinds, ","))
		}
	}
	if e.last != "" {
		query.Set("after", e.last)
	}
	streaming, cancel := context.WithCancel(detached{ctx})
	opening := make(chan struct{})
	go func() {
		select {
		case <-ctx.Done():
			cancel()
		case <-opening:
		}
	}()
	asked := call{method: "GET", path: "/v1/events?" + query.Encode(), accept: "text/event-stream"}
	response, wasSent, err := e.client.transport.open(streaming, asked)
	close(opening)
	if err != nil {
		cancel()
		return e.client.transport.failed(ctx, err, wasSent)
	}
	if response.StatusCode != http.StatusOK {
		defer cancel()
		defer response.Body.Close()
		text, _ := io.ReadAll(io.LimitReader(response.Body, 1<<16))
		return readProblem(response.StatusCode, text, retryAfter(response.Header))
	}
	e.body, e.cancel = response.Body, cancel
	e.lines = bufio.NewReader(response.Body)
	e.silent = time.AfterFunc(silenceMax, cancel)
	return nil
}

func (e *Events) subscribe(ctx context.Context) error {
	filter := e.filter
	if filter.Queue == "" && len(filter.Kinds) == 0 && filter.After == "" {
		var all struct {
			Subscriptions []struct {
				Name string `json:"name"`
			} `json:"subscriptions"`
		}
		if err := e.client.Do(ctx, "GET", "/v1/subscriptions", nil, &all); err != nil {
			return err
		}
		for _, one := range all.Subscriptions {
			if one.Name == filter.Subscription {
				return nil
			}
		}
	}
	return e.client.Do(ctx, "PUT", "/v1/subscriptions/"+url.PathEscape(filter.Subscription), filter, nil)
}

// isAfter compares positions: whole numbers of up to 18 digits, as text.
func isAfter(one, other string) bool {
	if len(one) != len(other) {
		return len(one) > len(other)
	}
	return one > other
}

type message struct{ id, event, data string }

// readMessage reads a message of a stream of server-sent events.
func readMessage(lines *bufio.Reader) (message, error) {
	var found message
	size := 0
	for {
		line, err := lines.ReadString('\n')
		if err != nil {
			return found, err
		}
		if size += len(line); size > lineMax {
			return found, errors.New("an event is too large")
		}
		line = strings.TrimSuffix(line, "\n")
		if line == "" {
			return found, nil
		}
		name, value, _ := strings.Cut(line, ":")
		value = strings.TrimPrefix(value, " ")
		switch name {
		case "id":
			found.id = value
		case "event":
			found.event = value
		case "data":
			if found.data != "" {
				found.data += "\n"
			}
			found.data += value
		}
	}
}
