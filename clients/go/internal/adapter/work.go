package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"time"

	nagaya "nagaya.dev/go"
)

type typed struct {
	Name  *string `json:"name"`
	Count *int    `json:"count"`
}

func (typed) Kind() string { return "typed" }

func (t typed) Validate() error {
	switch {
	case t.Name == nil:
		return errors.New("name: a string is needed")
	case t.Count == nil:
		return errors.New("count: a whole number is needed")
	}
	return nil
}

type step struct {
	Do       string          `json:"do"`
	Seconds  float64         `json:"seconds"`
	Gate     string          `json:"gate"`
	Progress float64         `json:"progress"`
	Message  string          `json:"message"`
	Lines    []string        `json:"lines"`
	Job      job             `json:"job"`
	Value    json.RawMessage `json:"value"`
	Until    *int            `json:"until"`
}

type script struct {
	Steps []step `json:"steps"`
}

func (script) Kind() string { return "script" }

func (a *adapter) work(ctx context.Context, asked command) {
	worker := nagaya.NewWorker(a.client, nagaya.WorkerConfig{
		Queues:      asked.Queues,
		Concurrency: asked.Concurrency,
		Drain:       seconds(asked.Drain),
		Grace:       seconds(asked.Grace),
		MaxRuntime:  seconds(asked.MaxRuntime),
		Poll:        seconds(asked.Poll),
		Name:        asked.Name,
		Observe:     a.observed,
	})
	worker.Use(func(ctx context.Context, attempt *nagaya.Attempt, next func(context.Context) error) error {
		logged := nagaya.AttemptFrom(ctx)
		started := fields{
			"event": "started", "job": attempt.ID(), "attempt": attempt.Number(), "queue": attempt.Queue(),
			"kind": attempt.Kind(), "pid": os.Getpid(), "traceparent": nil,
			"log": fields{"job": logged.ID(), "attempt": logged.Number()},
		}
		if attempt.Traceparent() != "" {
			started["traceparent"] = attempt.Traceparent()
		}
		a.write(started)
		return next(ctx)
	})
	nagaya.HandleKind(worker, "echo", func(_ context.Context, attempt *nagaya.Attempt, payload nagaya.Binary) (any, error) {
		if payload.ContentType == "application/json" {
			return json.RawMessage(payload.Bytes), nil
		}
		return payload, nil
	})
	nagaya.Handle(worker, func(_ context.Context, _ *nagaya.Attempt, args typed) (typed, error) { return args, nil })
	nagaya.Handle(worker, a.script)
	a.worker = worker
	begun := make(chan struct{})
	go func() {
		close(begun)
		run := worker.Run
		if asked.Signals {
			run = worker.RunWithSignals
		}
		err := run(ctx)
		if err != nil {
			a.write(fields{"event": "worker_ended", "error": errorOf(err)})
		} else {
			a.write(fields{"event": "worker_ended", "error": nil})
		}
		if asked.Signals && err != nil {
			os.Exit(1)
		} else if asked.Signals {
			os.Exit(0)
		}
	}()
	<-begun
}

func (a *adapter) observed(event nagaya.WorkerEvent) {
	line := fields{"event": event.Type, "job": event.Job, "attempt": event.Attempt}
	switch event.Type {
	case "stopped":
		line["reason"] = event.Reason
	case "ended":
	case "reported":
		if event.Outcome == "released" {
			return
		}
		line["outcome"], line["reason"] = event.Outcome, event.Reason
	default:
		return
	}
	a.write(line)
}

func (a *adapter) script(ctx context.Context, attempt *nagaya.Attempt, args script) (json.RawMessage, error) {
	for _, one := range args.Steps {
		if one.Until != nil && attempt.Number() > *one.Until {
			continue
		}
		if one.Do == "return" {
			return one.Value, nil
		}
		if err := a.step(ctx, attempt, one); err != nil {
			return nil, err
		}
	}
	return json.RawMessage("null"), nil
}

func (a *adapter) step(ctx context.Context, attempt *nagaya.Attempt, one step) error {
	switch one.Do {
	case "sleep":
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(seconds(one.Seconds)):
		}
	case "block":
		for end := time.Now().Add(seconds(one.Seconds)); time.Now().Before(end); {
		}
	case "gate":
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-a.gate(one.Gate):
		}
	case "stubborn":
		time.Sleep(seconds(one.Seconds))
	case "progress":
		return attempt.Progress(ctx, one.Progress, one.Message)
	case "log":
		return attempt.Log(ctx, one.Lines...)
	case "enqueue":
		_, err := a.client.EnqueueJob(ctx, one.Job.newJob())
		return err
	case "fail":
		return errors.New(one.Message)
	case "retry_after":
		return nagaya.RetryAfter(errors.New(one.Message), seconds(one.Seconds))
	case "permanent":
		return nagaya.Permanent(errors.New(one.Message))
	default:
		return nagaya.Permanent(fmt.Errorf("unknown step %q", one.Do))
	}
	return nil
}
