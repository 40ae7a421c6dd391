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
	"strconv"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/termguard/termguard/internal/race"
)

func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){"termguard": main, "kubectl-termguard": main})
}

// TestScript runs testdata/script/*.txtar; UPDATE_GOLDEN=1 writes the files
// that they compare with anew. The race detector sees one of them, as each
// start of termguard takes ten times as long with it: what works side by side has
// tests of its own.
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
			t.Errorf("help does not tell what %s does", c.Name())
		}
	}
	if strings.Contains(out.String(), "kubectl") {
		t.Errorf("help of the program by its own name speaks of kubectl:\n%s", &out)
	}
}
