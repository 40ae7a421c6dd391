package main

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
	"unicode/utf8"

	"golang.org/x/sys/unix"

	"github.com/termguard/termguard/internal/race"
	typist "github.com/termguard/termguard/internal/typing"
)

// typing returns a terminal and its keyboard.
func typing(t *testing.T) (terminal, keys *os.File) {
	t.Helper()
	terminal, keys, err := typist.Open()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { terminal.Close(); keys.Close() })
	return terminal, keys
}

// person is a user at a terminal, who answers each question once it is shown, and may type lines
// before the first.
type person struct {
	*os.File
	keys      *os.File
	answers   []string
	questions int
}

func answering(t *testing.T, answers ...string) *person {
	t.Helper()
	terminal, keys := typing(t)
	return &person{terminal, keys, answers, 0}
}

// typesAhead types lines before any question.
func (p *person) typesAhead(t *testing.T, lines string) *person {
	t.Helper()
	if _, err := p.keys.WriteString(lines); err != nil {
		t.Fatal(err)
	}
	return p
}

// reads answers the questions in the output up to now, and those without a prepared answer with no.
func (p *person) reads(transcript string) {
	for ; p.questions < strings.Count(transcript, "[y/N] "); p.questions++ {
		answer := "n"
		if p.questions < len(p.answers) {
			answer = p.answers[p.questions]
		}
		fmt.Fprintln(p.keys, answer)
	}
}

// One of the two terminals can redraw a line.
func TestProgressOnTerminals(t *testing.T) {
	terminal, _ := typing(t)
	for name, tc := range map[string]struct {
		environment map[string]string
		shown       bool
	}{
		"Ordinary": {map[string]string{"TERM": "xterm", "NO_COLOR": "", "LC_ALL": "C.UTF-8"}, true},
		"ASCII":    {map[string]string{"TERM": "xterm", "NO_COLOR": "", "LC_ALL": "C"}, true},
		"Dumb":     {map[string]string{"TERM": "dumb", "NO_COLOR": ""}, false},
		"NoColor":  {map[string]string{"TERM": "xterm", "NO_COLOR": "1"}, false},
	} {
		t.Run(name, func(t *testing.T) {
			for key, value := range tc.environment {
				t.Setenv(key, value)
			}
			p := newProgress(terminal, "reading")
			defer p.clear()
			if shown := p.out != nil; shown != tc.shown {
				t.Errorf("progress: %v, want %v", shown, tc.shown)
			}
			if going := map[string]string{"C": " ...", "C.UTF-8": " …"}[tc.environment["LC_ALL"]]; going != "" && p.going != going {
				t.Errorf("last line %q, want %q", p.going, going)
			}
		})
	}
	t.Run("Quiet", func(t *testing.T) {
		t.Setenv("TERM", "xterm")
		t.Setenv("NO_COLOR", "")
		root := newRoot("termguard")
		root.SetErr(terminal)
		root.SetArgs([]string{"version", "--quiet"})
		root.SetOut(io.Discard)
		if err := root.Execute(); err != nil {
			t.Fatal(err)
		}
		if p := newProgress(root.ErrOrStderr(), "reading"); p.out != nil {
			t.Error("--quiet shows progress")
		}
	})
}

// TestProgressOfCommands delays everything that a command waits for until the terminal shows
// progress.
func TestProgressOfCommands(t *testing.T) {
	t.Setenv("TERM", "xterm")
	t.Setenv("NO_COLOR", "")
	for name, args := range map[string][]string{
		"check":    {"check", "namespace/demo"},
		"delete":   {"delete", "namespace/demo", "--dry-run", "--yes"},
		"scan":     {"scan"},
		"snapshot": {"snapshot"},
		"lint":     {"lint", "-"},
	} {
		t.Run(name, func(t *testing.T) {
			terminal, keys := typing(t)
			shown := make(chan struct{})
			go func() {
				defer close(shown)
				var all []byte
				for buffer := make([]byte, 4096); !bytes.Contains(all, []byte(" …")); {
					n, err := keys.Read(buffer)
					if err != nil {
						return // the terminal is closed: nothing was told
					}
					all = append(all, buffer[:n]...)
				}
			}()
			waits := sync.OnceFunc(func() {
				select {
				case <-shown:
				case <-time.After(30 * time.Second):
					t.Error("no progress is shown")
				}
			})
			c := newFakeCluster(t, stuck())
			c.arrived = func(*http.Request) { waits() }
			stdin := manifest{waits, strings.NewReader("{apiVersion: v1, kind: Namespace, metadata: {name: demo}}")}
			if name != "lint" {
				args = append(args, "--kubeconfig", c.kubeconfig)
			}
			var out bytes.Buffer
			run(t.Context(), append([]string{"termguard"}, args...), stdin, &out, terminal)
			if out.Len() == 0 {
				t.Error("no action was taken")
			}
		})
	}
}

// manifest can be read only after an event.
type manifest struct {
	after func()
	io.Reader
}

func (m manifest) Read(p []byte) (int, error) {
	m.after()
	return m.Reader.Read(p)
}

// TestCheckOnTerminals checks that an answer is as wide as the terminal, and is drawn with the
// signs of its locale.
func TestCheckOnTerminals(t *testing.T) {
	race.Skip(t)
	c := newFakeCluster(t, stuck("alpha", "beta"))
	for name, tc := range map[string]struct {
		locale  string
		columns uint16
		boxes   bool
	}{
		"UTF-8":  {"C.UTF-8", 80, true},
		"Narrow": {"en_US.utf8", 60, true},
		"POSIX":  {"POSIX", 80, false},
		"Latin1": {"de_DE.ISO-8859-1", 80, false},
		"GB2312": {"zh_CN.GB2312", 60, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Setenv("TERM", "xterm")
			t.Setenv("NO_COLOR", "1")
			t.Setenv("LC_ALL", tc.locale)
			text, errs := onTerminal(t, tc.columns, nil, "check", "ns/demo", "--kubeconfig", c.kubeconfig)
			if boxes := strings.Contains(text, "└─ "); boxes != tc.boxes || !boxes && !strings.Contains(text, "`- ") {
				t.Errorf("boxes: %v, want %v: %s%s", boxes, tc.boxes, text, errs)
			}
			if at := strings.IndexFunc(text, func(r rune) bool { return r >= utf8.RuneSelf }); at >= 0 && !tc.boxes {
				t.Errorf("not ASCII: %q", text[at:min(len(text), at+20)])
			}
		})
	}
}

// TestDeleteOnTerminals checks that questions are as wide as the terminal, and that the answer is
// typed after the question.
func TestDeleteOnTerminals(t *testing.T) {
	t.Setenv("TERM", "xterm")
	t.Setenv("NO_COLOR", "1")
	t.Setenv("LC_ALL", "C.UTF-8")
	c := newFakeCluster(t, orphaned("a", "b"))
	text, errs := onTerminal(t, 50, answering(t), "delete", "ns/demo", "--kubeconfig", c.kubeconfig)
	if !strings.Contains(text, "  risked: ") || !strings.Contains(text, "\n[y/N] ") {
		t.Errorf("no question: %s%s", text, errs)
	}
}

// onTerminal returns what a command shows on a terminal of so many columns, and checks that no line
// is wider.
func onTerminal(t *testing.T, columns uint16, stdin io.Reader, args ...string) (text, errs string) {
	t.Helper()
	terminal, keys := typing(t)
	if err := unix.IoctlSetWinsize(int(keys.Fd()), unix.TIOCSWINSZ, &unix.Winsize{Row: 24, Col: columns}); err != nil {
		t.Fatal(err)
	}
	who, ok := stdin.(*person)
	if ok {
		stdin = who.File
	}
	transcript := make(chan string)
	go func() {
		var text []byte
		for buffer := make([]byte, 4096); ; {
			n, err := keys.Read(buffer)
			if text = append(text, buffer[:n]...); ok {
				who.reads(string(text))
			}
			if err != nil { // EIO when nobody has the terminal any more
				break
			}
		}
		transcript <- string(text)
	}()
	var stderr bytes.Buffer
	run(t.Context(), append([]string{"termguard"}, args...), stdin, terminal, &stderr)
	terminal.Close()
	text = <-transcript
	for line := range strings.SplitSeq(strings.ReplaceAll(text, "[y/N] ", "[y/N] \r\n"), "\r\n") { // the answer ends its line
		if n := utf8.RuneCountInString(line); n > int(columns) && !strings.HasPrefix(strings.TrimSpace(line), "$ ") { // a command is copied whole
			t.Errorf("%d of %d columns: %s", n, columns, line)
		}
	}
	return text, stderr.String()
}

// TestClosedPipe checks in each format that a command whose output is closed, as by head, ends silently by
// SIGPIPE and has changed nothing.
func TestClosedPipe(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	commands := []string{"check --terminating -A", "delete ns/demo --yes", "snapshot", "policy list", "policy catalog", "policy explain in-use"}
	for command, formats := range map[string]string{
		"check ns/demo": "text full wide name json yaml jsonpath={.verdict} dot",
		"scan":          "text name json yaml jsonpath={.verdict} html",
		"lint":          "text json sarif junit github",
		"doctor":        "text json",
	} {
		for format := range strings.FieldsSeq(formats) {
			commands = append(commands, command+" -o "+format)
		}
	}
	manifest := filepath.Join(t.TempDir(), "widget.yaml")
	if err := os.WriteFile(manifest, []byte(stuckNow), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, args := range commands {
		t.Run(args, func(t *testing.T) {
			t.Parallel()
			c := newFakeCluster(t, stuck("alpha")+"---\n"+strings.ReplaceAll(stuckNow, "demo", "other"))
			read, write, err := os.Pipe()
			if err != nil {
				t.Fatal(err)
			}
			read.Close()
			command := exec.CommandContext(t.Context(), self)
			command.Args = append([]string{"termguard"}, strings.Fields(args)...)
			switch name := command.Args[1]; name {
			case "lint":
				command.Args = append(command.Args, manifest)
			case "policy":
			default:
				command.Args = append(command.Args, "--kubeconfig", c.kubeconfig)
			}
			var errs bytes.Buffer
			command.Stdout, command.Stderr = write, &errs
			command.Run() //nolint:errcheck // how it ended is looked at below
			write.Close()
			status, _ := command.ProcessState.Sys().(syscall.WaitStatus)
			if !status.Signaled() || status.Signal() != syscall.SIGPIPE || errs.Len() > 0 {
				t.Errorf("ended with %v: %s", command.ProcessState, &errs)
			}
			for _, request := range c.requests {
				if !strings.HasPrefix(request, "GET ") && !strings.Contains(request, "/selfsubject") {
					t.Errorf("sent %s", request)
				}
			}
		})
	}
}

// stuckNow is an object that stays Terminating.
const stuckNow = `{apiVersion: acme.example.com/v1, kind: Widget, metadata: {name: late, namespace: demo, deletionTimestamp: "2026-01-01T00:00:00Z", finalizers: [acme.example.com/cleanup]}}
`

// TestLongTextOnTerminals checks that a text longer than the terminal repeats its answer at the
// end; a short one does not.
func TestLongTextOnTerminals(t *testing.T) {
	t.Setenv("TERM", "xterm")
	t.Setenv("NO_COLOR", "1")
	t.Setenv("LC_ALL", "C.UTF-8")
	var names []string
	for i := range 60 {
		names = append(names, fmt.Sprintf("a-name-of-some-length-%03d", i))
	}
	for reason, tc := range map[string]struct {
		world string
		want  int
	}{
		"long":  {orphaned(names...), 2},
		"short": {orphaned("a"), 1},
	} {
		c := newFakeCluster(t, tc.world)
		text, errs := onTerminal(t, 200, answering(t), "check", "ns/demo", "--kubeconfig", c.kubeconfig)
		lines := strings.Split(strings.TrimSpace(text), "\r\n")
		if got := strings.Count(text, "namespaces/demo: hangs: "); got != tc.want || tc.want == 2 && !slices.Contains(lines[len(lines)-4:], lines[0]) {
			t.Errorf("%s: the answer is printed %d times, want %d: %s%s", reason, got, tc.want, text, errs)
		}
	}
}
