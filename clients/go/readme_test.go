package nagaya_test

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
)

// The quick start as a new user does it: an empty folder, the module, and the README's lines.
func TestTheQuickStartOfTheReadmeWorks(t *testing.T) {
	readme, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	program := regexp.MustCompile("(?s)```go\n(// main.go\n.*?)```").FindSubmatch(readme)
	here, err := filepath.Abs(".")
	if err != nil || program == nil {
		t.Fatal("the README has no main.go", err)
	}
	folder := t.TempDir()
	if err := os.WriteFile(filepath.Join(folder, "main.go"), program[1], 0o600); err != nil {
		t.Fatal(err)
	}
	run := func(name string, args ...string) string {
		t.Helper()
		command := exec.Command(name, args...)
		command.Dir, command.Env = folder, append(os.Environ(), "NAGAYA_URL="+house.URL, "GOFLAGS=-mod=mod", "GOPROXY=off")
		var stdout, stderr bytes.Buffer
		command.Stdout, command.Stderr = &stdout, &stderr
		if err := command.Run(); err != nil {
			t.Fatalf("%s %s: %v\n%s", name, strings.Join(args, " "), err, stderr.String())
		}
		return stdout.String()
	}
	run("go", "mod", "init", "example.com/app")
	run("go", "mod", "edit", "-require", "nagaya.dev/go@v0.1.0", "-replace", "nagaya.dev/go="+here)
	run("go", "vet", ".")
	run("go", "build", "-o", "app", ".")
	worker := exec.Command(filepath.Join(folder, "app"), "work")
	worker.Env = append(os.Environ(), "NAGAYA_URL="+house.URL)
	if err := worker.Start(); err != nil {
		t.Fatal(err)
	}
	if said := run(filepath.Join(folder, "app")); said != "small-teapot.jpg\n" {
		t.Errorf("it said %q", said)
	}
	if err := worker.Process.Signal(syscall.SIGTERM); err != nil {
		t.Error(err)
	}
	if err := worker.Wait(); err != nil {
		t.Errorf("the worker ended with %v", err)
	}
}
