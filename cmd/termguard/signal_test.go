//go:build unix

package main

import (
	"bufio"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// TestSecondSignal checks that the first SIGTERM drains the webhook, and that the next ends it.
func TestSecondSignal(t *testing.T) {
	api := httptest.NewServer(http.NotFoundHandler())
	t.Cleanup(api.Close)
	kubeconfig := filepath.Join(t.TempDir(), "kubeconfig")
	if err := os.WriteFile(kubeconfig, []byte(`apiVersion: v1
kind: Config
current-context: x
contexts: [{name: x, context: {cluster: x, user: x}}]
clusters: [{name: x, cluster: {server: "`+api.URL+`"}}]
users: [{name: x, user: {}}]
`), 0o600); err != nil {
		t.Fatal(err)
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	command := exec.CommandContext(t.Context(), self)
	command.Args = []string{"termguard", "webhook", "--kubeconfig", kubeconfig, "--listen", "127.0.0.1:0", "--health-listen", "127.0.0.1:0",
		"--tls-cert-file", kubeconfig, "--tls-key-file", kubeconfig, "--drain", "24h"}
	log, err := command.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { command.Process.Kill() })
	send := func() {
		t.Helper()
		if err := command.Process.Signal(syscall.SIGTERM); err != nil {
			t.Fatal(err)
		}
	}
	var logged []string
	drains := false
	lines := bufio.NewScanner(log)
	for !drains && lines.Scan() {
		logged = append(logged, lines.Text())
		if strings.Contains(lines.Text(), "msg=serving") || strings.Contains(lines.Text(), `"msg":"serving"`) {
			send()
		}
		drains = strings.Contains(lines.Text(), "draining")
	}
	if !drains {
		t.Fatalf("the webhook does not drain:\n%s", strings.Join(logged, "\n"))
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for lines.Scan() { // the log of who drains must not fill the pipe
		}
		command.Wait() //nolint:errcheck // how it ended is looked at below
	}()
	again := time.NewTicker(100 * time.Millisecond) // until it listens no longer for a first
	defer again.Stop()
	send()
	for over := false; !over; {
		select {
		case <-ended:
			over = true
		case <-again.C:
			command.Process.Signal(syscall.SIGTERM) //nolint:errcheck // it may have ended meanwhile
		case <-time.After(time.Minute):
			t.Fatal("the webhook did not end")
		}
	}
	status, _ := command.ProcessState.Sys().(syscall.WaitStatus)
	if !status.Signaled() || status.Signal() != syscall.SIGTERM {
		t.Errorf("ended with %v, want it to end by the signal", command.ProcessState)
	}
}
