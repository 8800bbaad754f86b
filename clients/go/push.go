package nagaya

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"time"
)

const pushBodyMax = 64 << 20

// PushHandler receives jobs that the server pushes to an address, instead of claiming them. The status says how the
// attempt ended: 2xx is a success with the body as the result, 422 a failure for good, 503 one that is retried.
type PushHandler struct {
	client  *Client
	secrets []string
	queues  map[string]run
}

// NewPushHandler makes a handler for calls that are signed with one of these secrets; see `jobs.push_secret`.
func NewPushHandler(client *Client, secrets ...string) *PushHandler {
	return &PushHandler{client: client, secrets: secrets, queues: map[string]run{}}
}

// HandleQueue adds the work on jobs of a queue: pushed jobs have no kind.
func HandleQueue[A, R any](p *PushHandler, queue string, handle func(ctx context.Context, attempt *Attempt, args A) (R, error)) {
	p.queues[queue] = typed(handle)
}

func (p *PushHandler) ServeHTTP(response http.ResponseWriter, request *http.Request) {
	body, err := io.ReadAll(http.MaxBytesReader(response, request.Body, pushBodyMax))
	if err != nil {
		http.Error(response, "the body could not be read", http.StatusBadRequest)
		return
	}
	if _, _, err := verifySignature(time.Now(), request.Header, body, p.secrets); err != nil {
		http.Error(response, err.Error(), http.StatusUnauthorized)
		return
	}
	result, err := p.work(request, body)
	var text []byte
	if err == nil && result != nil {
		text, err = encode(result)
	}
	switch {
	case err != nil:
		http.Error(response, cut(err.Error(), 500), statusOf(err))
	case result == nil:
		response.WriteHeader(http.StatusNoContent)
	default:
		response.Header().Set("Content-Type", "application/json")
		_, _ = response.Write(text)
	}
}

func (p *PushHandler) work(request *http.Request, body []byte) (any, error) {
	header := request.Header
	number, _ := strconv.Atoi(header.Get("Nagaya-Job-Attempt"))
	attempt := &Attempt{client: p.client, job: claimedJob{
		ID:          header.Get("Nagaya-Job-Id"),
		Token:       header.Get("Nagaya-Job-Token"),
		Queue:       header.Get("Nagaya-Job-Queue"),
		Attempt:     number,
		Payload:     body,
		ContentType: header.Get("Content-Type"),
		Traceparent: header.Get("Traceparent"),
	}}
	handler, ok := p.queues[attempt.job.Queue]
	if !ok {
		return nil, fmt.Errorf("there is no handler for the queue %q here", attempt.job.Queue)
	}
	return handler(context.WithValue(request.Context(), attemptKey{}, attempt), attempt)
}

func statusOf(err error) int {
	var asked *verdict
	var unfit *invalid
	if errors.As(err, &unfit) || errors.As(err, &asked) && asked.permanent {
		return http.StatusUnprocessableEntity
	}
	return http.StatusServiceUnavailable
}
