package main

import (
	"bytes"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"testing"
	"time"
)

// A signal ends lint at once, whatever it waits for, and lint reports its findings up to then.
func TestLintSignals(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("processes of Windows get no signals: run it elsewhere")
	}
	command := exec.CommandContext(t.Context(), "termguard", "lint", "-") // made by TestMain
	in, err := command.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	var stdout, stderr bytes.Buffer
	command.Stdout, command.Stderr = &stdout, &stderr
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	// The input is larger than a pipe buffer: once it is written, lint is reading.
	if _, err := in.Write(bytes.Repeat([]byte("# a\n"), 1<<18)); err != nil {
		t.Fatal(err)
	}
	if err := command.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- command.Wait() }()
	select {
	case <-ended:
	case <-time.After(time.Minute):
		_ = command.Process.Kill()
		t.Fatal("lint did not end")
	}
	if code := command.ProcessState.ExitCode(); code != exitFailed {
		t.Errorf("exit code %d, want %d", code, exitFailed)
	}
	if !strings.Contains(stdout.String(), "note: stopped, as interrupt") || !strings.Contains(stdout.String(), "no findings") || !strings.Contains(stderr.String(), "there may be more findings") {
		t.Errorf("stdout:\n%s\nstderr:\n%s", &stdout, &stderr)
	}
}
