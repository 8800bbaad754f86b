package nagaya

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"net/http"
	"strconv"
	"strings"
	"time"
)

const (
	webhookTolerance = 5 * time.Minute
	keyBytesMin      = 24
	keyBytesMax      = 64
)

// ErrWebhook means that a call is not what it says: it is not signed with any of the secrets, too old, or incomplete.
var ErrWebhook = errors.New("the webhook could not be verified")

// WebhookCall is a verified call. Remember its ID for four days and ignore it the second time.
type WebhookCall struct {
	ID        string
	Timestamp time.Time
	// Type is "job.succeeded" and the like.
	Type string
	Data Event
}

// VerifyWebhook verifies a call as Standard Webhooks 1.0 defines it. The body must be as it was received. During a
// rotation there are two secrets.
func VerifyWebhook(header http.Header, body []byte, secrets ...string) (*WebhookCall, error) {
	return VerifyWebhookAt(time.Now(), header, body, secrets...)
}

// VerifyWebhookAt is VerifyWebhook for a given time.
func VerifyWebhookAt(now time.Time, header http.Header, body []byte, secrets ...string) (*WebhookCall, error) {
	id, at, err := verifySignature(now, header, body, secrets)
	if err != nil {
		return nil, err
	}
	webhook := &WebhookCall{ID: id, Timestamp: at}
	document := struct {
		Type string `json:"type"`
		Data *Event `json:"data"`
	}{Data: &webhook.Data}
	if err := json.Unmarshal(body, &document); err != nil {
		return nil, err
	}
	webhook.Type = document.Type
	return webhook, nil
}

func verifySignature(now time.Time, header http.Header, body []byte, secrets []string) (string, time.Time, error) {
	id, stamp := header.Get("Webhook-Id"), header.Get("Webhook-Timestamp")
	seconds, err := strconv.ParseInt(stamp, 10, 64)
	if err != nil || id == "" {
		return "", time.Time{}, ErrWebhook
	}
	at := time.Unix(seconds, 0)
	if off := now.Sub(at); off > webhookTolerance || off < -webhookTolerance {
		return "", time.Time{}, ErrWebhook
	}
	// Every pair is compared, so that the time taken tells nothing.
	isRight := false
	for _, secret := range secrets {
		wanted, err := SignWebhook(secret, id, at, body)
		if err != nil {
			return "", time.Time{}, err
		}
		for _, given := range strings.Fields(header.Get("Webhook-Signature")) {
			if hmac.Equal([]byte(wanted), []byte(given)) {
				isRight = true
			}
		}
	}
	if !isRight {
		return "", time.Time{}, ErrWebhook
	}
	return id, at, nil
}

// SignWebhook returns the value of the header webhook-signature, for tests of receivers.
func SignWebhook(secret, id string, at time.Time, body []byte) (string, error) {
	key, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(strings.TrimSpace(secret), "whsec_"))
	if err != nil || len(key) < keyBytesMin || len(key) > keyBytesMax {
		return "", errors.New("a secret looks like `whsec_` and 24 to 64 bytes in base64")
	}
	mac := hmac.New(sha256.New, key)
	mac.Write([]byte(id + "." + strconv.FormatInt(at.Unix(), 10) + "."))
	mac.Write(body)
	return "v1," + base64.StdEncoding.EncodeToString(mac.Sum(nil)), nil
}
