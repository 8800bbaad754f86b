package nagaya

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"
)

const secret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"

func TestSignaturesAreThoseOfTheStandard(t *testing.T) {
	// The expected value was computed with Python's hmac module.
	got, err := SignWebhook(secret, "msg_p5jXN8AQM9LWM0D4loKWxJek", time.Unix(1_614_265_330, 0), []byte(`{"test": 2432232314}`))
	if err != nil || got != "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=" {
		t.Fatal(got, err)
	}
	if _, err := SignWebhook("whsec_c2hvcnQ=", "m", time.Unix(1, 0), nil); err == nil {
		t.Fatal("a short secret was taken")
	}
}

func TestWebhooksAreVerifiedByTheirBytesTimeAndSecret(t *testing.T) {
	at := time.Unix(1_700_000_000, 0)
	body := []byte(`{"type":"job.succeeded","data":{"id":"7","job":"9"}}`)
	signature, err := SignWebhook(secret, "msg_1", at, body)
	if err != nil {
		t.Fatal(err)
	}
	header := http.Header{}
	header.Set("webhook-id", "msg_1")
	header.Set("webhook-timestamp", fmt.Sprint(at.Unix()))
	header.Set("webhook-signature", "v1,else "+signature)
	call, err := VerifyWebhookAt(at, header, body, secret)
	if err != nil || call.ID != "msg_1" || call.Type != "job.succeeded" || call.Data.Job != "9" {
		t.Fatal(call, err)
	}
	for name, verify := range map[string]func() (*WebhookCall, error){
		"old":     func() (*WebhookCall, error) { return VerifyWebhookAt(at.Add(6*time.Minute), header, body, secret) },
		"changed": func() (*WebhookCall, error) { return VerifyWebhookAt(at, header, append(body, ' '), secret) },
		"other secret": func() (*WebhookCall, error) {
			return VerifyWebhookAt(at, header, body, strings.Replace(secret, "M", "N", 1))
		},
		"no secret": func() (*WebhookCall, error) { return VerifyWebhookAt(at, header, body) },
	} {
		if _, err := verify(); !errors.Is(err, ErrWebhook) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestPausesDoubleUpToTheirLimitAndHeedRetryAfter(t *testing.T) {
	for failures, most := range map[int]time.Duration{1: 100 * time.Millisecond, 4: 800 * time.Millisecond, 9: 5 * time.Second, 1 << 30: 5 * time.Second} {
		if pause := defaultRetry.pause(failures, 0); pause > most || pause < most/2 {
			t.Errorf("%d: %s", failures, pause)
		}
	}
	if pause := defaultRetry.pause(1, time.Minute); pause != defaultRetry.Max {
		t.Error(pause)
	}
}

func TestAJobIsWrittenWithWhatWasSaidAndNothingElse(t *testing.T) {
	raw := json.RawMessage(`{"b" : 1,"a":18446744073709551615}`)
	text, err := NewJob{Payload: raw}.With(Queue("q"), Priority(0)).write(context.Background(), "k")
	want := `{"queue":"q","idempotency_key":"k","priority":0,"payload":{"b" : 1,"a":18446744073709551615}}`
	if err != nil || string(text) != want {
		t.Fatal(string(text), err)
	}
	text, err = NewJob{Payload: Binary{Bytes: []byte{0, 255}, ContentType: "image/png"}}.write(context.Background(), "")
	if err != nil || string(text) != `{"queue":"default","payload_base64":"AP8=","content_type":"image/png"}` {
		t.Fatal(string(text), err)
	}
	if _, err := (NewJob{Payload: json.RawMessage("{")}).write(context.Background(), ""); err == nil {
		t.Fatal("what is no JSON was taken")
	}
}

func TestAddressesThatAreNoneAreRefused(t *testing.T) {
	for _, address := range []string{"127.0.0.1:7400", "ftp://a", "http://", "http://a/?b=1"} {
		if _, err := New(address); err == nil {
			t.Errorf("%s was taken", address)
		}
	}
}
