package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/termguard/termguard/internal/race"
)

func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){"termguard": main, "kubectl-termguard": main})
}

// TestScript runs testdata/script/*.txtar; UPDATE_GOLDEN=1 writes the files that they compare with.
// The race detector sees one of them, as each start of termguard takes ten times as long with it:
// concurrent code has tests of its own.
func TestScript(t *testing.T) {
	const dir = "testdata/script"
	scripts, err := filepath.Glob(dir + "/*.txtar")
	if err != nil {
		t.Fatal(err)
	}
	if race.Detector {
		scripts = []string{dir + "/lint_input.txtar"}
	}
	testscript.Run(t, testscript.Params{
		Files:         scripts,
		UpdateScripts: os.Getenv("UPDATE_GOLDEN") != "",
		Cmds:          map[string]func(*testscript.TestScript, bool, []string){"exits": exits},
		// The race detector reserves more memory than some scripts allow.
		Condition: func(name string) (bool, error) {
			if name != "bounded" {
				return false, fmt.Errorf("unknown condition %q", name)
			}
			return runtime.GOOS == "linux" && !race.Detector, nil
		},
		Setup: func(env *testscript.Env) error {
			env.Setenv("KUBECONFIG", "")
			return nil
		},
	})
}

// exits CODE PROGRAM ARGS... expects an exit code.
func exits(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: exits CODE PROGRAM ARGS...")
	}
	got := 0
	if err := ts.Exec(args[1], args[2:]...); err != nil {
		var exit *exec.ExitError
		if !errors.As(err, &exit) {
			ts.Fatalf("%v", err)
		}
		got = exit.ExitCode()
	}
	if want := args[0]; strconv.Itoa(got) != want {
		ts.Fatalf("exit code %d, want %s", got, want)
	}
}

// A command that is not documented does not exist.
func TestHelp(t *testing.T) {
	var out, errs bytes.Buffer
	if code := run(t.Context(), []string{"termguard", "--help"}, nil, &out, &errs); code != 0 {
		t.Fatalf("exit code %d: %s", code, &errs)
	}
	for _, c := range newRoot("termguard").Commands() {
		if !c.IsAvailableCommand() {
			continue
		}
		if c.Short == "" || !regexp.MustCompile(`(?m)^  `+c.Name()+` +`+regexp.QuoteMeta(c.Short)).MatchString(out.String()) {
			t.Errorf("help lacks a description of %s", c.Name())
		}
	}
	lines := strings.Split(strings.TrimSuffix(out.String(), "\n"), "\n")
	if tooLong := func(line string) bool { return len(line) > 80 }; len(lines) > 24 || slices.ContainsFunc(lines, tooLong) {
		t.Errorf("help does not fit a screen of 24 lines and 80 columns: %d lines:\n%s", len(lines), &out)
	}
	if strings.Contains(out.String(), "kubectl") {
		t.Errorf("help of termguard, not run as a plugin, mentions kubectl:\n%s", &out)
	}
}

// Whether a terminal shows box drawing depends on its locale, by the order of variables in POSIX,
// and on its type.
func TestDrawsBoxes(t *testing.T) {
	for name, tc := range map[string]struct {
		system string
		env    map[string]string
		want   bool
	}{
		"UTF8":      {"linux", map[string]string{"LANG": "en_US.UTF-8", "TERM": "xterm"}, true},
		"Spelling":  {"linux", map[string]string{"LC_CTYPE": "C.utf8", "LANG": "C"}, true},
		"First":     {"linux", map[string]string{"LC_ALL": "C", "LC_CTYPE": "en_US.UTF-8", "LANG": "en_US.UTF-8"}, false},
		"Chinese":   {"linux", map[string]string{"LANG": "zh_CN.GB18030"}, false},
		"NoLocale":  {"linux", nil, false},
		"Dumb":      {"linux", map[string]string{"LANG": "en_US.UTF-8", "TERM": "dumb"}, false},
		"Old":       {"linux", map[string]string{"LANG": "en_US.UTF-8", "TERM": "vt100"}, false},
		"NoLocales": {"windows", nil, true},
	} {
		if got := drawsBoxes(tc.system, func(key string) string { return tc.env[key] }); got != tc.want {
			t.Errorf("%s: got %v, want %v", name, got, tc.want)
		}
	}
}

// --ascii applies wherever output is written.
func TestASCIIFlag(t *testing.T) {
	race.Skip(t)
	c := newFakeCluster(t, stuck("a", "b"))
	outputs := map[string]string{}
	for _, flag := range []string{"--ascii=false", "--ascii"} {
		var out, errs bytes.Buffer
		if code := run(t.Context(), []string{"termguard", "check", "ns/demo", flag, "--kubeconfig", c.kubeconfig}, nil, &out, &errs); code == exitFailed {
			t.Fatalf("%s", &errs)
		}
		outputs[flag] = out.String()
	}
	if !strings.Contains(outputs["--ascii=false"], "└─ ") || !strings.Contains(outputs["--ascii"], "`- ") || strings.Contains(outputs["--ascii"], "─") {
		t.Errorf("got %v", outputs)
	}
}
