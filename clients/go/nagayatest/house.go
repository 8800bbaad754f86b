// Package nagayatest starts a real server for tests of applications, on free ports and with a folder of its own.
package nagayatest

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	nagaya "nagaya.dev/go"
)

const (
	startLimit = 30 * time.Second
	stopLimit  = 10 * time.Second
)

// House is a running server.
type House struct {
	// URL is where it listens.
	URL string

	bin      string
	folder   string
	settings map[string]string
	listen   string

	mutex   sync.Mutex
	log     strings.Builder
	command *exec.Cmd
	exited  chan struct{}
}

// Start starts a server, and stops it with the test. The program is that of NAGAYA_BIN, or else `nagaya` of PATH.
// Settings are given as `--set` takes them: "jobs.wait_max=30s".
func Start(t testing.TB, settings ...string) *House {
	t.Helper()
	house, err := Launch(settings...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(house.Stop)
	return house
}

// Launch starts a server that the caller stops; for programs that are not tests.
func Launch(settings ...string) (*House, error) {
	folder, err := os.MkdirTemp("", "nagaya-test-")
	if err != nil {
		return nil, err
	}
	house := &House{bin: os.Getenv("NAGAYA_BIN"), folder: folder, listen: "127.0.0.1:0", settings: map[string]string{
		"room.listen":          "127.0.0.1:0",
		"ids.listen":           "127.0.0.1:0",
		"fanout.listen":        "127.0.0.1:0",
		"telemetry.log_format": "json",
	}}
	if house.bin == "" {
		house.bin = "nagaya"
	}
	for _, setting := range settings {
		name, value, found := strings.Cut(setting, "=")
		if !found {
			return nil, fmt.Errorf("%q is no setting: name=value is", setting)
		}
		house.settings[name] = value
	}
	if err := house.launch(); err != nil {
		house.Stop()
		return nil, err
	}
	return house, nil
}

// Client returns a client for this server.
func (h *House) Client() *nagaya.Client {
	client, err := nagaya.New(h.URL, nagaya.WithToken(h.settings["http.token"]))
	if err != nil {
		panic(err)
	}
	return client
}

func (h *House) launch() error {
	args := []string{"up", "--data", filepath.Join(h.folder, "data"), "--set", "http.listen=" + h.listen}
	for name, value := range h.settings {
		args = append(args, "--set", name+"="+value)
	}
	command := exec.Command(h.bin, args...)
	written, err := command.StderrPipe()
	if err != nil {
		return err
	}
	if err := command.Start(); err != nil {
		return fmt.Errorf("%s did not start: %w; set NAGAYA_BIN or add nagaya to PATH", h.bin, err)
	}
	h.command, h.exited = command, make(chan struct{})
	ready := make(chan string, 1)
	go func(exited chan struct{}) {
		lines := bufio.NewScanner(written)
		lines.Buffer(nil, 1<<20)
		for lines.Scan() {
			h.mutex.Lock()
			h.log.WriteString(lines.Text() + "\n")
			h.mutex.Unlock()
			if address := readyAt(lines.Bytes()); address != "" {
				ready <- address
			}
		}
		_ = command.Wait()
		close(exited)
	}(h.exited)
	select {
	case h.listen = <-ready:
		h.URL = "http://" + h.listen
		return nil
	case <-h.exited:
		return fmt.Errorf("%s ended at its start:\n%s", h.bin, h.Log())
	case <-time.After(startLimit):
		return fmt.Errorf("%s was not ready within %s:\n%s", h.bin, startLimit, h.Log())
	}
}

func readyAt(line []byte) string {
	var entry struct {
		Message string `json:"message"`
		HTTP    string `json:"http"`
	}
	if json.Unmarshal(line, &entry) != nil || entry.Message != "ready" {
		return ""
	}
	return entry.HTTP
}

// Log returns what the server has written.
func (h *House) Log() string {
	h.mutex.Lock()
	defer h.mutex.Unlock()
	return h.log.String()
}

// Kill ends the server as a crash would.
func (h *House) Kill() { h.end(syscall.SIGKILL) }

// Restart ends the server as a crash would, and starts it again on the same port with the same data.
func (h *House) Restart() error {
	h.Kill()
	return h.launch()
}

// Stop stops the server and deletes its data.
func (h *House) Stop() {
	h.end(syscall.SIGTERM)
	_ = os.RemoveAll(h.folder)
}

func (h *House) end(signal os.Signal) {
	if h.command == nil {
		return
	}
	_ = h.command.Process.Signal(signal)
	select {
	case <-h.exited:
	case <-time.After(stopLimit):
		_ = h.command.Process.Kill()
		<-h.exited
	}
	h.command = nil
}

// Enqueued returns the jobs of a kind, oldest first. The test fails if there are none.
func (h *House) Enqueued(t testing.TB, kind string) []*nagaya.JobView {
	t.Helper()
	ctx, client := context.Background(), h.Client()
	var page struct {
		Jobs []struct {
			ID string `json:"id"`
		} `json:"jobs"`
	}
	err := client.Do(ctx, "GET", "/v1/jobs?limit=1000&kind="+kind, nil, &page)
	if err == nil && len(page.Jobs) == 0 {
		err = errors.New("none was enqueued")
	}
	if err != nil {
		t.Fatalf("jobs of kind %q: %v", kind, err)
	}
	views := make([]*nagaya.JobView, len(page.Jobs))
	for index, job := range page.Jobs {
		view, err := client.Read(ctx, job.ID)
		if err != nil {
			t.Fatal(err)
		}
		views[len(views)-1-index] = view
	}
	return views
}
