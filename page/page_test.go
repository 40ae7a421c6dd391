package page

import (
	"errors"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
)

// example has every kind of block.
func example() *Page {
	var p Page
	p.Verdict("namespaces/demo: ", "hangs", Bad, ": 1 kialis.kiali.io has a finalizer that nothing removes; next: reinstall Kiali")
	p.Blank()
	p.Line("namespaces/demo")
	root := &Node{}
	at := root.Child("kialis.kiali.io/kiali").Verdict("will hang", Bad, ": its owner, Kiali operator (Ansible operator), is not installed [orphaned-finalizer]")
	at.Child("none of its workloads exists: Deployment kiali-operator")
	at.Child("none of its workloads exists: Deployment kiali-operator") // is there
	root.Verdict("may hang", Doubtful, ": x … y").Child("└─ hangs: imitated")
	p.Tree(root)
	p.Blank()
	p.Line("what to do:")
	p.Item("  1. ", "Remove the finalizer, once what it protects is cleaned up: %s", "anything else is leaked")
	p.Item("     because: ", "%s", "its owner is not installed, and nothing else may remove it")
	p.Command(5, `kubectl patch kialis.kiali.io/kiali -n demo --type=json -p '[{"op":"test","path":"/metadata/finalizers/0","value":"kiali.io/finalizer"},{"op":"remove","path":"/metadata/finalizers/0"}]'`)
	p.Command(5, `kubectl annotate ns/demo note='│ …'`)
	return &p
}

func TestWidths(t *testing.T) {
	for _, width := range []int{1, 20, 40, 60, 80} {
		for line := range strings.Lines(example().In(Style{Width: width})) {
			line = strings.TrimSuffix(line, "\n")
			if strings.HasPrefix(strings.TrimSpace(line), "$ ") {
				continue // the terminal wraps it
			}
			longest := 0
			for _, word := range strings.Fields(line) {
				longest = max(longest, utf8.RuneCountInString(word))
			}
			if bound := max(width, narrowest); utf8.RuneCountInString(line) > bound && longest < bound/2 {
				t.Errorf("%d: a line of %d: %s", width, utf8.RuneCountInString(line), line)
			}
		}
	}
	unspaced := func(text string) string { return strings.Join(strings.Fields(text), "") }
	wide, narrow := example().String(), example().In(Style{Width: 30})
	drawn := strings.NewReplacer("│", "", "├─", "", "└─", "")
	if unspaced(drawn.Replace(wide)) != unspaced(drawn.Replace(narrow)) {
		t.Errorf("wrapping changes words: %s", cmp.Diff(wide, narrow))
	}
}

func TestPlainAndColor(t *testing.T) {
	const want = `namespaces/demo: hangs: 1 kialis.kiali.io has a finalizer that nothing removes; next: reinstall Kiali

namespaces/demo
├─ kialis.kiali.io/kiali
│  └─ will hang: its owner, Kiali operator (Ansible operator), is not installed [orphaned-finalizer]
│     └─ none of its workloads exists: Deployment kiali-operator
└─ may hang: x … y
   └─ └─ hangs: imitated

what to do:
  1. Remove the finalizer, once what it protects is cleaned up: anything else is leaked
     because: its owner is not installed, and nothing else may remove it
     $ kubectl patch kialis.kiali.io/kiali -n demo --type=json -p '[{"op":"test","path":"/metadata/finalizers/0","value":"kiali.io/finalizer"},{"op":"remove","path":"/metadata/finalizers/0"}]'
     $ kubectl annotate ns/demo note='│ …'
`
	plain := example().String()
	if diff := cmp.Diff(want, plain); diff != "" {
		t.Errorf("-want, +got:\n%s", diff)
	}
	colored := example().In(Style{Color: true})
	for _, word := range []string{"\x1b[31mhangs\x1b[0m: 1 kialis", "\x1b[31mwill hang\x1b[0m: its owner", "\x1b[33mmay hang\x1b[0m: x", "\x1b[1m     $ kubectl annotate"} {
		if !strings.Contains(colored, word) {
			t.Errorf("%q is missing: %s", word, colored)
		}
	}
	if got := strings.NewReplacer("\x1b[31m", "", "\x1b[33m", "", strong, "", normal, "").Replace(colored); got != plain {
		t.Errorf("color changes text: %s", cmp.Diff(plain, got))
	}
}

// TestImitations checks that words of a tenant have no tone, whatever they say, and cannot write escapes.
func TestImitations(t *testing.T) {
	var p Page
	root := &Node{}
	for _, text := range []string{"will hang: x [orphaned-finalizer]", "forbidden: x", "hangs: x", "namespaces/demo: hangs: x", "     $ rm -rf", "\x1b[31mhangs\x1b[0m", "a\nnamespaces/demo: hangs: x"} {
		p.Line("%s", text)
		p.Item("  because: ", "%s", text)
		root.Child(text)
		p.Table([]string{"SINCE", "VERDICT", "OBJECT"}, [][]Cell{{{Text: text}, {Text: "hangs"}, {Text: text}}})
	}
	p.Tree(root)
	for _, width := range []int{0, 20} {
		if got := p.In(Style{Color: true, Width: width}); strings.Contains(got, "\x1b") {
			t.Errorf("width %d: a tenant's words are colored: %q", width, got)
		}
	}
	if got, want := strings.Count(p.String(), "\n"), 7*4+7; got != want {
		t.Errorf("%d lines, want %d: %s", got, want, p.String())
	}
}

func TestASCII(t *testing.T) {
	for _, color := range []bool{false, true} {
		drawn := example().In(Style{Width: 60, Color: color})
		plain := example().In(Style{Width: 60, Color: color, ASCII: true})
		for line := range strings.Lines(plain) {
			if strings.IndexFunc(line, func(r rune) bool { return r >= utf8.RuneSelf }) >= 0 && !strings.Contains(line, "annotate") {
				t.Errorf("%q is no ASCII", line)
			}
		}
		if !strings.Contains(drawn, "└─ ") || !strings.Contains(plain, "`- ") || !strings.Contains(plain, "note='│ …'") {
			t.Errorf("drawn %s\nplain %s", drawn, plain)
		}
	}
}

// TestTable aligns columns below each other on a narrow terminal, too.
func TestTable(t *testing.T) {
	var p Page
	heading := []string{"SINCE", "VERDICT", "OBJECT", "WHY"}
	p.Table(heading, [][]Cell{
		{{Text: "3d"}, {"hangs", Bad}, {Text: "namespaces/shop"}, {Text: "finalizer finalizers.kubesphere.io/namespaces in metadata.finalizers is not removed"}},
		{{Text: "5m"}, {"at-risk", Doubtful}, {Text: "widgets.acme.example.com/w000 -n demo-prod"}, {Text: "short"}},
	})
	const want = `SINCE  VERDICT  OBJECT                                      WHY
3d     hangs    namespaces/shop
       finalizer finalizers.kubesphere.io/namespaces in metadata.finalizers is
       not removed
5m     at-risk  widgets.acme.example.com/w000 -n demo-prod  short
`
	if diff := cmp.Diff(want, p.In(Style{Width: 80})); diff != "" {
		t.Errorf("-want, +got:\n%s", diff)
	}
	if got := p.In(Style{Color: true}); !strings.Contains(got, "3d     \x1b[31mhangs\x1b[0m    namespaces/shop") {
		t.Errorf("the verdict has no color: %s", got)
	}
	long := "widgets.acme.example.com/" + strings.Repeat("w", 50)
	var wide Page
	wide.Table(heading, [][]Cell{{{Text: "3d"}, {"hangs", Bad}, {Text: long + " -n demo-prod"}, {Text: "short"}}})
	if diff := cmp.Diff("SINCE  VERDICT  OBJECT\n3d     hangs    "+long+"\n       -n demo-prod\n       short\n", wide.In(Style{Width: 91})); diff != "" {
		t.Errorf("an object wider than the terminal breaks before its namespace: -want, +got:\n%s", diff)
	}
}

// TestCommands checks that a command can be copied: it stays in one line.
func TestCommands(t *testing.T) {
	const command = `kubectl patch kialis.kiali.io/kiali -n demo --type=json -p '[{"op":"test","path":"/metadata/finalizers/0","value":"kiali.io/finalizer"}]'`
	var p Page
	p.Command(5, command)
	if got := p.In(Style{Width: 20}); got != "     $ "+command+"\n" {
		t.Errorf("got %q", got)
	}
}

func TestFold(t *testing.T) {
	lines := []string{"a", "b", "c"}
	for _, tc := range []struct {
		most int
		noun string
		want string
	}{{3, "", "a b c"}, {2, "", "a b and 1 more"}, {2, "step", "a b and 1 more step"}, {1, "step", "a and 2 more steps"}} {
		if got := strings.Join(Fold(lines, tc.most, tc.noun), " "); got != tc.want {
			t.Errorf("%d %q: %s", tc.most, tc.noun, got)
		}
	}
}

func TestList(t *testing.T) {
	if got := List([]string{"a", "b", "c"}, 2); got != "a, b and 1 more" {
		t.Error(got)
	}
	if got := List([]string{"a", "b"}, 2); got != "a, b" {
		t.Error(got)
	}
}

type closed struct{}

func (closed) Write([]byte) (int, error) { return 0, errClosed }

var errClosed = errors.New("closed pipe")

func TestClosedPipe(t *testing.T) {
	if err := example().Write(closed{}, Style{}); !errors.Is(err, errClosed) {
		t.Errorf("Write() = %v", err)
	}
}
