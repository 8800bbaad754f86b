package nagaya_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	nagaya "nagaya.dev/go"
	"nagaya.dev/go/nagayatest"
)

const pushSecret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"

// house serves all tests of this file that do not restart it.
var house *nagayatest.House

func TestMain(m *testing.M) {
	var err error
	house, err = nagayatest.Launch("jobs.push_secret="+pushSecret, "jobs.result_max=4kb")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	code := m.Run()
	house.Stop()
	os.Exit(code)
}

type Sum struct {
	A int `json:"a"`
	B int `json:"b"`
}

func (Sum) Kind() string { return "sum" }
func (Sum) EnqueueDefaults() []nagaya.Option {
	return []nagaya.Option{nagaya.Queue("math"), nagaya.Tags("t")}
}

type summer struct{}

func (summer) Work(_ context.Context, _ *nagaya.Attempt, args Sum) (int, error) {
	return args.A + args.B, nil
}

type Any struct {
	N int `json:"n"`
}

func (Any) Kind() string { return "any" }

func limited(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), 60*time.Second)
	t.Cleanup(cancel)
	return ctx
}

// running runs a worker until the test ends.
func running(t *testing.T, client *nagaya.Client, config nagaya.WorkerConfig, add func(*nagaya.Worker)) *nagaya.Worker {
	t.Helper()
	worker := nagaya.NewWorker(client, config)
	add(worker)
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- worker.Run(ctx) }()
	t.Cleanup(func() {
		stop()
		if err := <-ended; err != nil {
			t.Errorf("the worker ended with %v", err)
		}
	})
	return worker
}

func enqueue(t *testing.T, client *nagaya.Client, args nagaya.Args, options ...nagaya.Option) *nagaya.Job {
	t.Helper()
	job, err := client.Enqueue(limited(t), args, options...)
	if err != nil {
		t.Fatal(err)
	}
	return job
}

func TestAJobIsEnqueuedWorkedOnAndWaitedFor(t *testing.T) {
	client := house.Client()
	running(t, client, nagaya.WorkerConfig{Queues: []string{"math"}}, func(w *nagaya.Worker) { nagaya.AddWorker[Sum, int](w, summer{}) })
	job := enqueue(t, client, Sum{1, 2}, nagaya.Priority(3))
	result, err := nagaya.Wait[int](limited(t), job)
	if err != nil || result != 3 {
		t.Fatal(result, err)
	}
	view, err := job.Read(limited(t))
	if err != nil || view.Kind != "sum" || view.Queue != "math" || view.Priority != 3 || view.Tags[0] != "t" {
		t.Fatalf("%+v %v", view, err)
	}
}

func TestTheSameKeyFindsTheSameJobAndABatchIsJudgedItemByItem(t *testing.T) {
	client, ctx := house.Client(), limited(t)
	first, again := enqueue(t, client, Any{1}, nagaya.Key("one")), enqueue(t, client, Any{1}, nagaya.Key("one"))
	if first.ID != again.ID || again.FoundBy != "idempotency_key" {
		t.Fatal(first, again)
	}
	var problem *nagaya.Problem
	if _, err := client.Enqueue(ctx, Any{2}, nagaya.Key("one")); !errors.As(err, &problem) || problem.Name != "key-reused" {
		t.Fatal(err)
	}
	good := nagaya.JobOf(Any{1}, nagaya.Queue("idle"))
	// A queue's name is judged when the request is read, a dependency when the job is registered.
	for _, bad := range []nagaya.NewJob{good.With(nagaya.Queue("no such name!")), good.With(nagaya.After("4611686018427387904"))} {
		items, err := client.EnqueueMany(ctx, []nagaya.NewJob{good, bad, good, good})
		if err != nil || len(items) != 4 {
			t.Fatal(items, err)
		}
		for index, item := range items {
			if (item.Err != nil) != (index == 1) {
				t.Errorf("%d: %v", index, item.Err)
			}
		}
	}
}

func TestWaitingTellsAFailureACancellationAndThatItIsNotOver(t *testing.T) {
	client, ctx := house.Client(), limited(t)
	job := enqueue(t, client, Any{1}, nagaya.Queue("nobody"))
	short, cancel := context.WithTimeout(ctx, 50*time.Millisecond)
	defer cancel()
	if _, err := nagaya.Wait[any](short, job); !errors.Is(err, nagaya.ErrNotEnded) {
		t.Fatal(err)
	}
	if err := job.Cancel(ctx, "not needed"); err != nil {
		t.Fatal(err)
	}
	var ended *nagaya.JobError
	if _, err := nagaya.Wait[any](ctx, job); !errors.As(err, &ended) || ended.State != "cancelled" {
		t.Fatal(err)
	}
	running(t, client, nagaya.WorkerConfig{Queues: []string{"fails"}}, func(w *nagaya.Worker) {
		nagaya.Handle(w, func(_ context.Context, _ *nagaya.Attempt, args Any) (any, error) {
			if args.N == 1 {
				panic("out of luck")
			}
			return nil, nagaya.Permanent(errors.New("no such picture"))
		})
	})
	failing := enqueue(t, client, Any{0}, nagaya.Queue("fails"))
	if _, err := nagaya.Wait[any](ctx, failing); !errors.As(err, &ended) || !strings.Contains(ended.Message, "no such picture") || ended.Attempts != 1 {
		t.Fatal(err)
	}
	panicking := enqueue(t, client, Any{1}, nagaya.Queue("fails"), nagaya.MaxRetries(0))
	if _, err := nagaya.Wait[any](ctx, panicking); !errors.As(err, &ended) || !strings.Contains(ended.Message, "panic: out of luck") {
		t.Fatal(err)
	}
}

func TestACancelledJobsContextEndsWithItsCauseAndNothingIsReported(t *testing.T) {
	client, ctx := house.Client(), limited(t)
	begun, cause := make(chan struct{}), make(chan error, 1)
	worker := running(t, client, nagaya.WorkerConfig{Queues: []string{"cancel"}}, func(w *nagaya.Worker) {
		nagaya.Handle(w, func(ctx context.Context, _ *nagaya.Attempt, _ Any) (any, error) {
			close(begun)
			<-ctx.Done()
			cause <- nagaya.Cause(ctx)
			return "too late", nil
		})
	})
	job := enqueue(t, client, Any{1}, nagaya.Queue("cancel"), nagaya.Timeout(2*time.Second))
	<-begun
	if err := job.Cancel(ctx, ""); err != nil {
		t.Fatal(err)
	}
	if why := <-cause; why != nagaya.ErrCancelled {
		t.Fatal(why)
	}
	view, err := job.Read(ctx)
	if err != nil || view.State != "cancelled" || worker.Stats().Succeeded != 0 {
		t.Fatal(view.State, err)
	}
}

func TestALongHandlerKeepsItsLease(t *testing.T) {
	client, ctx := house.Client(), limited(t)
	worker := running(t, client, nagaya.WorkerConfig{Queues: []string{"long"}}, func(w *nagaya.Worker) {
		nagaya.Handle(w, func(context.Context, *nagaya.Attempt, Any) (string, error) {
			for end := time.Now().Add(3500 * time.Millisecond); time.Now().Before(end); {
			}
			return "done", nil
		})
	})
	job := enqueue(t, client, Any{1}, nagaya.Queue("long"), nagaya.Timeout(time.Second))
	if result, err := nagaya.Wait[string](ctx, job); err != nil || result != "done" {
		t.Fatal(result, err)
	}
	if view, err := job.Read(ctx); err != nil || view.Attempts != 1 || worker.Stats().Lost != 0 {
		t.Fatal(view, err)
	}
}

func TestAResultThatIsRefusedFailsItsJobForGoodAndNoOtherOfItsBatch(t *testing.T) {
	client, ctx := house.Client(), limited(t)
	jobs := make([]nagaya.NewJob, 8)
	for n := range jobs {
		jobs[n] = nagaya.JobOf(Any{n}, nagaya.Queue("large"))
	}
	items, err := client.EnqueueMany(ctx, jobs)
	if err != nil {
		t.Fatal(err)
	}
	running(t, client, nagaya.WorkerConfig{Queues: []string{"large"}, Concurrency: 20}, func(w *nagaya.Worker) {
		nagaya.Handle(w, func(_ context.Context, _ *nagaya.Attempt, args Any) (string, error) {
			if args.N == 3 {
				return strings.Repeat("x", 5000), nil
			}
			return "", nil
		})
	})
	for n, item := range items {
		view, err := item.Job.Wait(ctx)
		if err != nil || view.Attempts != 1 || (view.State == "failed") != (n == 3) {
			t.Errorf("%d: %+v %v", n, view, err)
		}
	}
}

func TestASnoozedJobIsDoneLater(t *testing.T) {
	client, at := house.Client(), time.Now().Add(300*time.Millisecond)
	running(t, client, nagaya.WorkerConfig{Queues: []string{"snooze"}}, func(w *nagaya.Worker) {
		nagaya.Handle(w, func(context.Context, *nagaya.Attempt, Any) (string, error) {
			if time.Now().Before(at) {
				return "", nagaya.Snooze(200 * time.Millisecond)
			}
			return "late", nil
		})
	})
	if result, err := nagaya.Wait[string](limited(t), enqueue(t, client, Any{1}, nagaya.Queue("snooze"))); err != nil || result != "late" {
		t.Fatal(result, err)
	}
}

func TestASubscriptionGoesOnWhereItWasAcknowledged(t *testing.T) {
	client, ctx := house.Client(), limited(t)
	var ids []string
	for n := 0; n < 3; n++ {
		ids = append(ids, enqueue(t, client, Any{n}, nagaya.Queue("watched")).ID)
	}
	filter := nagaya.EventFilter{Subscription: "go", Queue: "watched", Kinds: []string{"enqueued"}, After: "0"}
	read := func(count int, acknowledge bool) (seen []string) {
		events := client.Events(filter)
		defer events.Close()
		for len(seen) < count {
			event, err := events.Next(ctx)
			if err != nil {
				t.Fatal(err)
			}
			if seen = append(seen, event.Job); acknowledge {
				if err := event.Ack(ctx); err != nil {
					t.Fatal(err)
				}
			}
		}
		return seen
	}
	for _, part := range []struct {
		count       int
		acknowledge bool
		want        []string
	}{{2, true, ids[:2]}, {1, false, ids[2:]}, {1, false, ids[2:]}} {
		if seen := read(part.count, part.acknowledge); strings.Join(seen, " ") != strings.Join(part.want, " ") {
			t.Fatal(seen, part.want)
		}
	}
}

func TestAWorkerOutlivesARestartOfItsServer(t *testing.T) {
	own := nagayatest.Start(t)
	client, ctx := own.Client(), limited(t)
	gate, begun := make(chan struct{}), make(chan struct{}, 2)
	running(t, client, nagaya.WorkerConfig{Logf: t.Logf}, func(w *nagaya.Worker) {
		nagaya.Handle(w, func(context.Context, *nagaya.Attempt, Any) (string, error) {
			begun <- struct{}{}
			<-gate
			return "held", nil
		})
	})
	job := enqueue(t, client, Any{1})
	<-begun
	if err := own.Restart(); err != nil {
		t.Fatal(err)
	}
	close(gate)
	for _, one := range []*nagaya.Job{job, enqueue(t, client, Any{2})} {
		if result, err := nagaya.Wait[string](ctx, one); err != nil || result != "held" {
			t.Fatal(result, err)
		}
		if view, err := one.Read(ctx); err != nil || view.Attempts != 1 {
			t.Fatal(view, err)
		}
	}
}

func TestAWorkerThatTheServerRefusesEndsWithItsWords(t *testing.T) {
	own := nagayatest.Start(t, "http.token=0123456789abcdef0123456789abcdef")
	client, err := nagaya.New(own.URL, nagaya.WithToken("wrong-wrong-wrong-wrong"))
	if err != nil {
		t.Fatal(err)
	}
	var problem *nagaya.Problem
	if err := nagaya.NewWorker(client, nagaya.WorkerConfig{}).Run(limited(t)); !errors.As(err, &problem) || problem.Status != 401 {
		t.Fatal(err)
	}
}

func TestTheTraceReachesWhatAHandlerEnqueues(t *testing.T) {
	client, ctx := house.Client(), limited(t)
	wrapped := ""
	running(t, client, nagaya.WorkerConfig{Queues: []string{"traced"}}, func(w *nagaya.Worker) {
		w.Use(func(ctx context.Context, attempt *nagaya.Attempt, next func(context.Context) error) error {
			wrapped = fmt.Sprint(attempt.LogFields()...)
			return next(ctx)
		})
		nagaya.Handle(w, func(ctx context.Context, _ *nagaya.Attempt, _ Any) (string, error) {
			next, err := client.Enqueue(ctx, Any{2}, nagaya.Queue("later"))
			if err != nil {
				return "", err
			}
			return next.ID, nil
		})
	})
	trace := "4bf92f3577b34da6a3ce929d0e0e4736"
	job := enqueue(t, client, Any{1}, nagaya.Queue("traced"), nagaya.Traceparent("00-"+trace+"-00f067aa0ba902b7-01"))
	next, err := nagaya.Wait[string](ctx, job)
	if err != nil {
		t.Fatal(err)
	}
	view, err := client.Read(ctx, next)
	if err != nil || !strings.Contains(view.Traceparent, trace) || !strings.Contains(wrapped, job.ID) {
		t.Fatal(view, wrapped, err)
	}
}

func TestSchedulesAreSetRunAndRemoved(t *testing.T) {
	client, ctx := house.Client(), limited(t)
	schedule := nagaya.Schedule{Cron: "0 3 * * *", TimeZone: "Asia/Tokyo", Job: nagaya.JobOf(Any{7}, nagaya.Queue("reports"))}
	if err := client.SetSchedule(ctx, "nightly", schedule); err != nil {
		t.Fatal(err)
	}
	job, err := client.RunSchedule(ctx, "nightly")
	if err != nil {
		t.Fatal(err)
	}
	if view, err := job.Read(ctx); err != nil || string(view.Payload) != `{"n":7}` {
		t.Fatal(view, err)
	}
	if err := client.RemoveSchedule(ctx, "nightly"); err != nil {
		t.Fatal(err)
	}
}

func TestManyJobsAreWaitedForTogether(t *testing.T) {
	client, ctx := house.Client(), limited(t)
	jobs := make([]nagaya.NewJob, 300)
	for n := range jobs {
		jobs[n] = nagaya.JobOf(Any{n}, nagaya.Queue("many"))
	}
	items, err := client.EnqueueMany(ctx, jobs)
	if err != nil {
		t.Fatal(err)
	}
	ids := []string{"4611686018427387904"}
	for _, item := range items {
		ids = append(ids, item.Job.ID)
	}
	running(t, client, nagaya.WorkerConfig{Queues: []string{"many"}, Concurrency: 50}, func(w *nagaya.Worker) {
		nagaya.Handle(w, func(_ context.Context, _ *nagaya.Attempt, args Any) (int, error) { return args.N, nil })
	})
	views, err := client.WaitAll(ctx, ids)
	if err != nil || views[0] != nil {
		t.Fatal(views[0], err)
	}
	for n, view := range views[1:] {
		if string(view.Result) != fmt.Sprint(n) {
			t.Fatalf("%d: %s", n, view.Raw)
		}
	}
	short, cancel := context.WithTimeout(ctx, 50*time.Millisecond)
	defer cancel()
	idle := enqueue(t, client, Any{1}, nagaya.Queue("nobody"))
	if _, err := client.WaitAll(short, []string{idle.ID}); !errors.Is(err, nagaya.ErrNotEnded) {
		t.Fatal(err)
	}
}

func TestIDsAreUniqueAmongManyGoroutines(t *testing.T) {
	ids, ctx := nagaya.NewIDs(house.Client(), 10), limited(t)
	var mutex sync.Mutex
	seen := map[uint64]bool{}
	var all sync.WaitGroup
	for n := 0; n < 35; n++ {
		all.Add(1)
		go func() {
			defer all.Done()
			id, err := ids.Next(ctx)
			mutex.Lock()
			defer mutex.Unlock()
			if err != nil || seen[id] {
				t.Error(id, err)
			}
			seen[id] = true
		}()
	}
	all.Wait()
}

func TestPushedJobsAreVerifiedAndWorkedOn(t *testing.T) {
	client, ctx := house.Client(), limited(t)
	receiver := nagaya.NewPushHandler(client, pushSecret)
	nagaya.HandleQueue(receiver, "pushed-go", func(_ context.Context, _ *nagaya.Attempt, args Any) (int, error) {
		if args.N < 0 {
			return 0, nagaya.Permanent(errors.New("negative"))
		}
		return 2 * args.N, nil
	})
	server := httptest.NewServer(receiver)
	defer server.Close()
	settings := map[string]any{"push": map[string]any{"url": server.URL, "concurrency": 2}}
	if err := client.Do(ctx, "PUT", "/v1/queues/pushed-go", settings, nil); err != nil {
		t.Fatal(err)
	}
	if result, err := nagaya.Wait[int](ctx, enqueue(t, client, Any{4}, nagaya.Queue("pushed-go"))); err != nil || result != 8 {
		t.Fatal(result, err)
	}
	var ended *nagaya.JobError
	if _, err := nagaya.Wait[int](ctx, enqueue(t, client, Any{-4}, nagaya.Queue("pushed-go"))); !errors.As(err, &ended) || ended.Attempts != 1 {
		t.Fatal(err)
	}
	forged, err := http.Post(server.URL, "application/json", strings.NewReader("{}"))
	if err != nil || forged.StatusCode != http.StatusUnauthorized {
		t.Fatal(forged, err)
	}
	forged.Body.Close()
}

func TestWhatWasEnqueuedIsFoundByTestsOfAnApplication(t *testing.T) {
	enqueue(t, house.Client(), Sum{3, 4}, nagaya.Queue("idle"))
	jobs := house.Enqueued(t, "sum")
	var args Sum
	if err := json.Unmarshal(jobs[len(jobs)-1].Payload, &args); err != nil || args != (Sum{3, 4}) {
		t.Fatal(args, err)
	}
}
