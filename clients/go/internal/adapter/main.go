// Command adapter is the adapter of the conformance suite; see clients/conformance/README.md for its protocol.
package main

import (
	"bufio"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"sync"
	"time"

	nagaya "nagaya.dev/go"
)

type fields map[string]any

type adapter struct {
	out sync.Mutex

	mutex   sync.Mutex
	client  *nagaya.Client
	worker  *nagaya.Worker
	gates   map[string]chan struct{}
	streams map[string]*stream
}

type stream struct {
	cancel context.CancelFunc
	ended  chan struct{}
}

type job struct {
	Queue         string          `json:"queue"`
	Kind          string          `json:"kind"`
	Payload       json.RawMessage `json:"payload"`
	PayloadJSON   *string         `json:"payload_json"`
	PayloadBase64 *string         `json:"payload_base64"`
	ContentType   string          `json:"content_type"`
	Key           string          `json:"key"`
	Delay         float64         `json:"delay"`
	RunAt         *time.Time      `json:"run_at"`
	After         []string        `json:"after"`
	Priority      *int            `json:"priority"`
	MaxRetries    *int            `json:"max_retries"`
	Timeout       float64         `json:"timeout"`
	Backoff       *nagaya.Backoff `json:"backoff"`
	Traceparent   string          `json:"traceparent"`
}

type command struct {
	ID           int               `json:"id"`
	Do           string            `json:"do"`
	URL          string            `json:"url"`
	Token        string            `json:"token"`
	Timeout      *float64          `json:"timeout"`
	Job          json.RawMessage   `json:"job"`
	Jobs         []job             `json:"jobs"`
	Queues       []string          `json:"queues"`
	Concurrency  int               `json:"concurrency"`
	Drain        float64           `json:"drain"`
	Grace        float64           `json:"grace"`
	MaxRuntime   float64           `json:"max_runtime"`
	Poll         float64           `json:"poll"`
	Name         string            `json:"name"`
	Signals      bool              `json:"signals"`
	Limit        *float64          `json:"limit"`
	Gate         string            `json:"gate"`
	Stream       string            `json:"stream"`
	Subscription string            `json:"subscription"`
	Queue        string            `json:"queue"`
	Kinds        []string          `json:"kinds"`
	After        string            `json:"after"`
	Headers      map[string]string `json:"headers"`
	BodyBase64   string            `json:"body_base64"`
	Secrets      []string          `json:"secrets"`
	Now          int64             `json:"now"`
	Count        int               `json:"count"`
}

func main() {
	a := &adapter{gates: map[string]chan struct{}{}, streams: map[string]*stream{}}
	a.write(fields{"event": "hello", "client": "go", "version": nagaya.Version, "modes": []string{"goroutine"}, "features": []string{"ids"}})
	lines := bufio.NewReader(os.Stdin)
	for {
		line, err := lines.ReadBytes('\n')
		if err != nil {
			os.Exit(0)
		}
		var asked command
		if err := json.Unmarshal(line, &asked); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		if asked.Do == "client" {
			a.answer(asked)
			continue
		}
		go a.answer(asked)
	}
}

func (a *adapter) write(line fields) {
	text, err := json.Marshal(line)
	if err != nil {
		panic(err)
	}
	a.out.Lock()
	defer a.out.Unlock()
	_, _ = os.Stdout.Write(append(text, '\n'))
}

func (a *adapter) answer(asked command) {
	ok, err := a.obey(context.Background(), asked)
	if err != nil {
		a.write(fields{"id": asked.ID, "error": errorOf(err)})
		return
	}
	a.write(fields{"id": asked.ID, "ok": ok})
}

func errorOf(err error) fields {
	var problem *nagaya.Problem
	var connection *nagaya.ConnectionError
	switch {
	case errors.As(err, &problem):
		return fields{"name": problem.Name, "status": problem.Status, "message": err.Error()}
	case errors.As(err, &connection) && connection.IsTimeout:
		return fields{"name": "timeout", "message": err.Error()}
	case errors.As(err, &connection):
		return fields{"name": "unreachable", "message": err.Error()}
	case errors.Is(err, errUnsupported):
		return fields{"name": "unsupported", "message": err.Error()}
	}
	return fields{"name": "other", "message": err.Error()}
}

var errUnsupported = errors.New("unsupported")

func seconds(value float64) time.Duration { return time.Duration(value * float64(time.Second)) }

func (j job) newJob() nagaya.NewJob {
	made := nagaya.NewJob{Queue: j.Queue, Kind: j.Kind, Payload: j.Payload}
	if j.Payload == nil {
		made.Payload = nil
	}
	if j.PayloadJSON != nil {
		made.Payload = json.RawMessage(*j.PayloadJSON)
	}
	if j.PayloadBase64 != nil {
		data, _ := base64.StdEncoding.DecodeString(*j.PayloadBase64)
		made.Payload = nagaya.Binary{Bytes: data, ContentType: j.ContentType}
	}
	var options []nagaya.Option
	add := func(is bool, option func() nagaya.Option) {
		if is {
			options = append(options, option())
		}
	}
	add(j.Key != "", func() nagaya.Option { return nagaya.Key(j.Key) })
	add(j.Delay > 0, func() nagaya.Option { return nagaya.Delay(seconds(j.Delay)) })
	add(j.RunAt != nil, func() nagaya.Option { return nagaya.RunAt(*j.RunAt) })
	add(j.After != nil, func() nagaya.Option { return nagaya.After(j.After...) })
	add(j.Priority != nil, func() nagaya.Option { return nagaya.Priority(*j.Priority) })
	add(j.MaxRetries != nil, func() nagaya.Option { return nagaya.MaxRetries(*j.MaxRetries) })
	add(j.Timeout > 0, func() nagaya.Option { return nagaya.Timeout(seconds(j.Timeout)) })
	add(j.Backoff != nil, func() nagaya.Option { return nagaya.WithBackoff(*j.Backoff) })
	add(j.Traceparent != "", func() nagaya.Option { return nagaya.Traceparent(j.Traceparent) })
	return made.With(options...)
}

func registered(made *nagaya.Job) fields {
	if made.FoundBy == "" {
		return fields{"id": made.ID, "found_by": nil}
	}
	return fields{"id": made.ID, "found_by": made.FoundBy}
}

func (a *adapter) obey(ctx context.Context, asked command) (fields, error) {
	switch asked.Do {
	case "client":
		timeout := 10 * time.Second
		if asked.Timeout != nil {
			timeout = seconds(*asked.Timeout)
		}
		client, err := nagaya.New(asked.URL, nagaya.WithToken(asked.Token), nagaya.WithTimeout(timeout))
		a.client = client
		return fields{}, err
	case "enqueue":
		var wanted job
		if err := json.Unmarshal(asked.Job, &wanted); err != nil {
			return nil, err
		}
		made, err := a.client.EnqueueJob(ctx, wanted.newJob())
		if err != nil {
			return nil, err
		}
		return registered(made), nil
	case "enqueue_many":
		return a.enqueueMany(ctx, asked.Jobs)
	case "cancel":
		return fields{}, a.client.Cancel(ctx, id(asked), "")
	case "retry":
		return fields{}, a.client.Retry(ctx, id(asked))
	case "wait":
		return a.wait(ctx, id(asked), seconds(*asked.Timeout))
	case "work":
		a.work(ctx, asked)
		return fields{}, nil
	case "stop":
		begin, limit := time.Now(), 25*time.Second
		if asked.Limit != nil {
			limit = seconds(*asked.Limit)
		}
		a.worker.Stop(limit)
		return fields{"seconds": time.Since(begin).Seconds()}, nil
	case "release":
		a.open(asked.Gate)
		return fields{}, nil
	case "events":
		a.follow(asked)
		return fields{}, nil
	case "end_events":
		a.mutex.Lock()
		found := a.streams[asked.Stream]
		a.mutex.Unlock()
		found.cancel()
		<-found.ended
		return fields{}, nil
	case "verify_webhook":
		return a.verify(asked)
	case "ids":
		ids, all := nagaya.NewIDs(a.client, 100), []string{}
		for len(all) < asked.Count {
			next, err := ids.Next(ctx)
			if err != nil {
				return nil, err
			}
			all = append(all, fmt.Sprint(next))
		}
		return fields{"ids": all}, nil
	}
	return nil, errUnsupported
}

func id(asked command) string {
	var id string
	_ = json.Unmarshal(asked.Job, &id)
	return id
}

func (a *adapter) enqueueMany(ctx context.Context, jobs []job) (fields, error) {
	wanted := make([]nagaya.NewJob, len(jobs))
	for index, one := range jobs {
		wanted[index] = one.newJob()
	}
	items, err := a.client.EnqueueMany(ctx, wanted)
	answer := make([]fields, len(items))
	for index, item := range items {
		if item.Err != nil {
			answer[index] = fields{"problem": errorOf(item.Err)}
		} else {
			answer[index] = registered(item.Job)
		}
	}
	return fields{"items": answer}, err
}

func (a *adapter) wait(ctx context.Context, id string, limit time.Duration) (fields, error) {
	view, err := a.client.WaitFor(ctx, id, limit)
	var problem *nagaya.Problem
	switch {
	case errors.As(err, &problem) && problem.Status == http.StatusNotFound:
		return fields{"outcome": "gone"}, nil
	case err != nil:
		return nil, err
	case view.State == "succeeded":
		return fields{"outcome": "succeeded", "result": view.Result}, nil
	case view.HasEnded():
		return fields{"outcome": view.State, "error": view.Error}, nil
	}
	return fields{"outcome": "timeout"}, nil
}

func (a *adapter) gate(name string) chan struct{} {
	a.mutex.Lock()
	defer a.mutex.Unlock()
	if a.gates[name] == nil {
		a.gates[name] = make(chan struct{})
	}
	return a.gates[name]
}

func (a *adapter) open(name string) {
	gate := a.gate(name)
	select {
	case <-gate:
	default:
		close(gate)
	}
}

func (a *adapter) follow(asked command) {
	ctx, cancel := context.WithCancel(context.Background())
	one := &stream{cancel: cancel, ended: make(chan struct{})}
	a.mutex.Lock()
	a.streams[asked.Stream] = one
	a.mutex.Unlock()
	filter := nagaya.EventFilter{Subscription: asked.Subscription, Queue: asked.Queue, Kinds: asked.Kinds, After: asked.After}
	events := a.client.Events(filter)
	go func() {
		defer close(one.ended)
		defer events.Close()
		for {
			event, err := events.Next(ctx)
			if err != nil {
				fmt.Fprintln(os.Stderr, err)
				return
			}
			if event.Kind == "gap" {
				a.write(fields{"event": "gap", "stream": asked.Stream})
				continue
			}
			a.write(fields{"event": "event", "stream": asked.Stream, "event_id": event.ID, "kind": event.Kind, "job": event.Job})
			if asked.Subscription != "" {
				if err := event.Ack(ctx); err != nil {
					fmt.Fprintln(os.Stderr, err)
				}
			}
		}
	}()
}

func (a *adapter) verify(asked command) (fields, error) {
	body, err := base64.StdEncoding.DecodeString(asked.BodyBase64)
	if err != nil {
		return nil, err
	}
	header := http.Header{}
	for name, value := range asked.Headers {
		header.Set(name, value)
	}
	_, err = nagaya.VerifyWebhookAt(time.Unix(asked.Now, 0), header, body, asked.Secrets...)
	return fields{"verified": err == nil}, nil
}
