// Command bench measures no-op jobs per second of one worker process against a real server on SQLite, and how long
// enqueueing and waiting for a result takes, by the client and by plain HTTP.
package main

import (
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"log"
	"net/http"
	"sort"
	"sync/atomic"
	"time"

	nagaya "nagaya.dev/go"
	"nagaya.dev/go/nagayatest"
)

type noop struct {
	N int `json:"n"`
}

func (noop) Kind() string                                      { return "noop" }
func (noop) EnqueueDefaults() []nagaya.Option                  { return []nagaya.Option{nagaya.Queue("noop")} }
func work(context.Context, *nagaya.Attempt, noop) (any, error) { return nil, nil }

func main() {
	jobs := flag.Int("jobs", 100_000, "how many")
	places := flag.Int("concurrency", 500, "handlers at a time")
	flag.Parse()
	house, err := nagayatest.Launch()
	if err != nil {
		log.Fatal(err)
	}
	defer house.Stop()
	client := house.Client()
	throughput(client, *jobs, *places)
	latency(client)
}

func throughput(client *nagaya.Client, jobs, places int) {
	ctx := context.Background()
	begin := time.Now()
	all := make([]nagaya.NewJob, jobs)
	for n := range all {
		all[n] = nagaya.JobOf(noop{n})
	}
	if _, err := client.EnqueueMany(ctx, all); err != nil {
		log.Fatal(err)
	}
	fmt.Printf("enqueue: %.0f jobs/s\n", float64(jobs)/time.Since(begin).Seconds())
	var done atomic.Int64
	finished := make(chan struct{})
	worker := nagaya.NewWorker(client, nagaya.WorkerConfig{
		Queues:      []string{"noop"},
		Concurrency: places,
		Observe: func(event nagaya.WorkerEvent) {
			if event.Type == "reported" && done.Add(1) == int64(jobs) {
				close(finished)
			}
		},
	})
	nagaya.Handle(worker, work)
	begin = time.Now()
	ended := make(chan error)
	ctx, stop := context.WithCancel(ctx)
	go func() { ended <- worker.Run(ctx) }()
	<-finished
	fmt.Printf("work: %.0f jobs/s, concurrency %d\n", float64(jobs)/time.Since(begin).Seconds(), places)
	stop()
	if err := <-ended; err != nil {
		log.Fatal(err)
	}
	fmt.Printf("%+v\n", worker.Stats())
}

func latency(client *nagaya.Client) {
	ctx, stop := context.WithCancel(context.Background())
	worker := nagaya.NewWorker(client, nagaya.WorkerConfig{Queues: []string{"noop"}})
	nagaya.Handle(worker, work)
	ended := make(chan error)
	go func() { ended <- worker.Run(ctx) }()
	var byClient, byHTTP []time.Duration
	for round := 0; round < 200; round++ {
		begin := time.Now()
		job, err := client.Enqueue(ctx, noop{round})
		if err == nil {
			_, err = nagaya.Wait[any](ctx, job)
		}
		if err != nil {
			log.Fatal(err)
		}
		byClient = append(byClient, time.Since(begin))
		begin = time.Now()
		plain(client.URL())
		byHTTP = append(byHTTP, time.Since(begin))
	}
	stop()
	if err := <-ended; err != nil {
		log.Fatal(err)
	}
	fmt.Printf("enqueue and wait, median: %s; the same calls by net/http: %s\n", median(byClient), median(byHTTP))
}

func plain(url string) {
	body := []byte(`{"queue":"noop","kind":"noop","payload":{"n":1}}`)
	made, err := http.Post(url+"/v1/jobs", "application/json", bytes.NewReader(body))
	if err != nil {
		log.Fatal(err)
	}
	var job struct{ ID string }
	if err := json.NewDecoder(made.Body).Decode(&job); err != nil {
		log.Fatal(err)
	}
	made.Body.Close()
	read, err := http.Get(url + "/v1/jobs/" + job.ID + "?wait=30s")
	if err != nil {
		log.Fatal(err)
	}
	_, _ = io.Copy(io.Discard, read.Body)
	read.Body.Close()
}

func median(all []time.Duration) time.Duration {
	sort.Slice(all, func(a, b int) bool { return all[a] < all[b] })
	return all[len(all)/2].Round(10 * time.Microsecond)
}
