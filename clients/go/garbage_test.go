package nagaya_test

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	nagaya "nagaya.dev/go"
)

// Answers that are no answers: a proxy's error page with status 200, lists that are too short.
func TestAWorkerOutlastsAnswersThatMakeNoSense(t *testing.T) {
	target, err := url.Parse(house.URL)
	if err != nil {
		t.Fatal(err)
	}
	page := "<html>bad gateway</html>"
	var mutex sync.Mutex
	spoiled := map[string][]string{
		"/claim":    {page, "7", "[]"},
		"/complete": {page, `{"jobs":[]}`, "7"},
		"/extend":   {page, page, page},
	}
	honest := httputil.NewSingleHostReverseProxy(target)
	server := httptest.NewServer(http.HandlerFunc(func(response http.ResponseWriter, request *http.Request) {
		mutex.Lock()
		for path, answers := range spoiled {
			if strings.HasSuffix(request.URL.Path, path) && len(answers) > 0 {
				spoiled[path] = answers[1:]
				mutex.Unlock()
				_, _ = io.WriteString(response, answers[0])
				return
			}
		}
		mutex.Unlock()
		request.Host = target.Host
		honest.ServeHTTP(response, request)
	}))
	defer server.Close()
	client, err := nagaya.New(server.URL)
	if err != nil {
		t.Fatal(err)
	}
	reported := make(chan string, 1)
	config := nagaya.WorkerConfig{Queues: []string{"garbage"}, Poll: time.Second, Logf: t.Logf, Observe: func(event nagaya.WorkerEvent) {
		if event.Type == "reported" {
			reported <- event.Outcome
		}
	}}
	running(t, client, config, func(w *nagaya.Worker) {
		nagaya.Handle(w, func(ctx context.Context, _ *nagaya.Attempt, args Any) (int, error) {
			select {
			case <-time.After(1500 * time.Millisecond):
				return args.N, nil
			case <-ctx.Done():
				return 0, ctx.Err()
			}
		})
	})
	job := enqueue(t, house.Client(), Any{7}, nagaya.Queue("garbage"), nagaya.Timeout(3*time.Second))
	if result, err := nagaya.Wait[int](limited(t), job); err != nil || result != 7 {
		t.Fatal(result, err)
	}
	view, err := job.Read(limited(t))
	if err != nil || view.Attempts != 1 {
		t.Fatal(view, err)
	}
	if outcome := <-reported; outcome != "succeeded" {
		t.Fatal(outcome)
	}
}
