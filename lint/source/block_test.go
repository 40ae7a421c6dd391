package source

import (
	"bytes"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"go.yaml.in/yaml/v4"
)

// say writes a node down with all that lint reads of it.
func say(out io.Writer, n *yaml.Node, depth int) {
	fmt.Fprintf(out, "%*s%d:%d %d %s %d %q %q\n", depth, "", n.Line, n.Column, n.Kind, n.ShortTag(), n.Style, n.Value, n.Anchor)
	for _, child := range n.Content {
		say(out, child, depth+1)
	}
}

// sameNodes holds parseBlock to the parser of all of YAML, and tells whether it
// read the text.
func sameNodes(t *testing.T, name string, text []byte) bool {
	t.Helper()
	root, slabs, ok := parseBlock(text)
	if !ok {
		return false
	}
	defer recycle(slabs) // what is parsed next has its nodes
	var document yaml.Node
	if err := yaml.Unmarshal(text, &document); err != nil {
		t.Errorf("%s: read, where the parser of YAML finds: %v\n%s", name, err, text)
		return true
	}
	var want, got bytes.Buffer
	say(&want, document.Content[0], 0)
	say(&got, root, 0)
	if want.String() != got.String() {
		w, g := strings.Split(want.String(), "\n"), strings.Split(got.String(), "\n")
		for i := range w {
			if i >= len(g) || w[i] != g[i] {
				t.Errorf("%s: want node %s, got %s\n%.300s", name, w[i], strings.Join(g[min(i, len(g)):min(i+1, len(g))], ""), text)
				break
			}
		}
	}
	return true
}

// TestParseBlock reads the manifests of this repository, and those of the folder
// that TERMGUARD_CORPUS names, in both ways.
func TestParseBlock(t *testing.T) {
	for _, folder := range []string{"../..", os.Getenv("TERMGUARD_CORPUS")} {
		if folder == "" {
			continue
		}
		var read, all int
		err := filepath.WalkDir(folder, func(path string, d fs.DirEntry, err error) error {
			if err != nil || !d.Type().IsRegular() || !isManifest(path) || strings.HasSuffix(path, ".json") {
				return err
			}
			text, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			s := newSplitter(bytes.NewReader(text), true)
			defer s.close()
			for {
				d, err := s.next()
				if err != nil {
					return nil //nolint:nilerr // what is no YAML, other tests read
				}
				all++
				if sameNodes(t, path, d.text) {
					read++
				}
			}
		})
		if err != nil {
			t.Fatal(err)
		}
		t.Logf("%s: %d of %d documents", folder, read, all)
		if read < 500 {
			t.Errorf("%s: %d of %d documents were read: that proves little", folder, read, all)
		}
	}
}

// blocks are texts, and whether parseBlock reads them.
var blocks = map[string]bool{
	"a: b\n": true, "a:\n  b: c\nd:\n- e\n- f: g\n  h: i\n": true, "---\n# c\na: b # c\n": true, "a:\n\n  # c\n  b:\n  c: {}\n  d: []\n": true,
	"a: |\n  b\n\n    c\n  \n     \n# d\nb: |-\n   x\n\n": true, "a:\n- |\n  x\n- y\n": true, "a:\n  - b:\n    - c\n    d: \"e f\" # g\n": true,
	"a: 'b'\nc: -d\ne: --f=g:h\n": true, "a: http://b#c,d[e]\n": true, "a: 1\nb: true\nc: ~\nd: 2001-01-01\ne: 0x1F\nf: 1e3\n": true,
	"a:\n  |\n  b\n": false, "a: b: c\n": false, "a: b\n  c\n": false, "a: b\n c: d\n": false, "a:\n  b: c\n d: e\n": false, "a: |\n   x\n  y\n": false,
	"a: |2\n   x\n": false, "a: >\n  b\n": false, "a: &b c\n": false, "a: *b\n": false, "<<: *a\n": false, "a: !!str b\n": false, "? a\n": false,
	"a: 'it''s'\n": false, "a: \"\\n\"\n": false, "a: {b: c}\n": false, "a: b:\n": false, "a:\tb\n": false, "a: ü\n": false, "a: b": false, "- a\n": false,
	"a: |\n      \n  x\n": false, "a: |\n": false, "a:\n- b\n - c\n": false, "a:\n  - b\n  c: d\n": false, "a: \"b\" c\n": false, "a: @b\n": false,
	"a: [b]\n": true, "a: [ b, \"c d\" ,'e',1,1.5,null, ./f ] # g\nb:\n- [c]\n- [\"\"]\n": true, "a: [b c]\n": false, "a: [b,]\n": false, "a: [,]\n": false, "a: [[b]]\n": false,
	"a: [b\n": false, "a: [b,\n  c]\n": false, "a: [-b]\n": false, "a: [b: c]\n": false, "a: [\"b\": c]\n": false, "a: [b]c\n": false, "a: [b]: c\n": false, "a: [b]\n  c: d\n": false,
	"a: ['b''c']\n": false, "a: [\"\\n\"]\n": false, "a: [b #c]\n": false, "a: [*b]\n": false, "a: [ ]\n": false,
	"a:b\n": false, "": false, "\n": false, "# c\n": false, "a: {}\n  b: c\n": false, "a: b\n...\nc\n": false, "%YAML 1.1\n---\na: b\n": false, " ---\na: b\n": false,
}

func TestBlocks(t *testing.T) {
	for text, want := range blocks {
		if got := sameNodes(t, "text", []byte(text)); got != want {
			t.Errorf("%q: read is %t, want %t", text, got, want)
		}
	}
}

func FuzzParseBlock(f *testing.F) {
	for text := range blocks {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		s := newSplitter(strings.NewReader(text), true)
		defer s.close()
		if d, err := s.next(); err == nil { // as parse is given it
			sameNodes(t, "text", d.text)
		}
	})
}
