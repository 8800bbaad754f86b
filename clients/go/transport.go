package nagaya

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

const (
	connectLimit = 5 * time.Second
	// Below the usual limits of load balancers.
	idleLimit      = 50 * time.Second
	answerBytesMax = 256 << 20
)

// RetryPolicy says how often and after which pauses a call is repeated.
type RetryPolicy struct {
	// Attempts is how often a call is sent in total; 1 means no repetition.
	Attempts int
	// First is the pause after the first failure; it doubles up to Max.
	First, Max time.Duration
}

var defaultRetry = RetryPolicy{Attempts: 6, First: 100 * time.Millisecond, Max: 5 * time.Second}

var dice = struct {
	sync.Mutex
	*rand.Rand
}{Rand: rand.New(rand.NewSource(time.Now().UnixNano()))}

func random() float64 {
	dice.Lock()
	defer dice.Unlock()
	return dice.Float64()
}

// pause returns how long to wait after the nth failure, counted from 1: between half of the doubled pause and all of
// it, so that many clients do not come back at one moment. A longer wish of the server counts, up to the longest pause.
func (p RetryPolicy) pause(failures int, wish time.Duration) time.Duration {
	whole := p.Max
	if failures <= 20 && p.First<<(failures-1) < p.Max {
		whole = p.First << (failures - 1)
	}
	drawn := time.Duration(float64(whole) * (0.5 + random()/2))
	if wish > p.Max {
		wish = p.Max
	}
	if wish > drawn {
		return wish
	}
	return drawn
}

// repeat says whether a call may be repeated when its outcome is unknown.
type repeat int

const (
	repeatSafe repeat = iota
	repeatIfNotDone
	repeatNever
)

type call struct {
	method string
	// With the query, encoded.
	path string
	body []byte
	// How long the server was asked to wait before it answers.
	wait    time.Duration
	timeout time.Duration
	repeat  repeat
	accept  string
}

type transport struct {
	base    string
	token   string
	http    *http.Client
	timeout time.Duration
	retry   RetryPolicy
	agent   string
}

func newTransport(address string) (*transport, error) {
	parsed, err := url.Parse(address)
	if err != nil || parsed.Host == "" || (parsed.Scheme != "http" && parsed.Scheme != "https") || parsed.RawQuery != "" {
		return nil, fmt.Errorf("%q is no address such as http://127.0.0.1:7400", address)
	}
	return &transport{
		base: strings.TrimRight(address, "/"),
		http: &http.Client{
			Transport: &http.Transport{
				DialContext:         (&net.Dialer{Timeout: connectLimit}).DialContext,
				MaxIdleConnsPerHost: 64,
				IdleConnTimeout:     idleLimit,
				ForceAttemptHTTP2:   true,
				DisableCompression:  true,
				Proxy:               http.ProxyFromEnvironment,
			},
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		},
		timeout: 30 * time.Second,
		retry:   defaultRetry,
		agent:   "nagaya-go/" + Version,
	}, nil
}

// send sends a call and repeats it where that is safe.
func (t *transport) send(ctx context.Context, c call) ([]byte, error) {
	for failures := 1; ; failures++ {
		body, err := t.once(ctx, c)
		if err == nil || ctx.Err() != nil {
			return body, err
		}
		allowed := c.repeat == repeatSafe || c.repeat == repeatIfNotDone && wasNotDone(err)
		if !allowed || !IsTemporary(err) || failures >= t.retry.Attempts {
			return nil, err
		}
		if err := sleep(ctx, t.retry.pause(failures, retryAfterOf(err))); err != nil {
			return nil, err
		}
	}
}

// once sends a call once.
func (t *transport) once(ctx context.Context, c call) ([]byte, error) {
	limit := c.timeout
	if limit == 0 {
		limit = t.timeout
	}
	limited, cancel := context.WithTimeout(ctx, limit+c.wait)
	defer cancel()
	response, wasSent, err := t.open(limited, c)
	if err != nil {
		return nil, t.failed(ctx, err, wasSent)
	}
	defer response.Body.Close()
	body, err := io.ReadAll(io.LimitReader(response.Body, answerBytesMax+1))
	if err != nil {
		return nil, t.failed(ctx, err, true)
	}
	if len(body) > answerBytesMax {
		return nil, fmt.Errorf("the answer to %s has more than %d bytes", c.path, answerBytesMax)
	}
	if response.StatusCode >= 200 && response.StatusCode < 300 {
		return body, nil
	}
	return nil, readProblem(response.StatusCode, body, retryAfter(response.Header))
}

// open sends a request and returns the head of its answer, and whether the request had a connection.
func (t *transport) open(ctx context.Context, c call) (*http.Response, bool, error) {
	var wasSent atomic.Bool
	ctx = httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{GotConn: func(httptrace.GotConnInfo) { wasSent.Store(true) }})
	request, err := http.NewRequestWithContext(ctx, c.method, t.base+c.path, bytes.NewReader(c.body))
	if err != nil {
		return nil, false, err
	}
	request.Header.Set("User-Agent", t.agent)
	if c.accept != "" {
		request.Header.Set("Accept", c.accept)
	}
	if c.body != nil {
		request.Header.Set("Content-Type", "application/json")
	}
	if t.token != "" {
		request.Header.Set("Authorization", "Bearer "+t.token)
	}
	response, err := t.http.Do(request)
	return response, wasSent.Load(), err
}

func (t *transport) failed(ctx context.Context, err error, wasSent bool) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	return &ConnectionError{WasSent: wasSent, IsTimeout: errors.Is(err, context.DeadlineExceeded), Err: err}
}

func (t *transport) json(ctx context.Context, c call, answer any) error {
	body, err := t.send(ctx, c)
	if err != nil || answer == nil || len(body) == 0 {
		return err
	}
	if err := json.Unmarshal(body, answer); err != nil {
		return fmt.Errorf("the answer to %s could not be understood: %w", c.path, err)
	}
	return nil
}

func retryAfter(header http.Header) time.Duration {
	seconds, err := strconv.Atoi(header.Get("Retry-After"))
	if err != nil || seconds < 0 {
		return 0
	}
	return time.Duration(seconds) * time.Second
}

// sleep waits, or returns the context's error.
func sleep(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
		return nil
	}
}

// encode writes JSON. A json.RawMessage is passed on byte for byte, and nothing is escaped for HTML.
func encode(value any) ([]byte, error) {
	if raw, ok := value.(json.RawMessage); ok {
		if !json.Valid(raw) {
			return nil, errors.New("the raw message is no JSON")
		}
		return raw, nil
	}
	var out bytes.Buffer
	encoder := json.NewEncoder(&out)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(value); err != nil {
		return nil, err
	}
	return bytes.TrimSuffix(out.Bytes(), []byte("\n")), nil
}
