package answer

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/termguard/termguard/policies"
)

func TestSet(t *testing.T) {
	names, err := Names(Files{Paths: []string{"testdata/set.yaml"}}, "plain")
	if err != nil {
		t.Fatal(err)
	}
	world := worldOf(t, "cluster.yaml")
	subjects, missing, err := AllFromFacts(world, names)
	if err != nil {
		t.Fatal(err)
	}
	set, err := Ask(t.Context(), newEngine(t), world, Question{Targets: subjects, Missing: missing, Together: true})
	if err != nil {
		t.Fatal(err)
	}
	if set.Verdict != policies.Hangs {
		t.Errorf("verdict %s, want the worst of all items", set.Verdict)
	}
	var text, dot bytes.Buffer
	if err := set.Text(&text); err != nil {
		t.Fatal(err)
	}
	if err := set.DOT(&dot); err != nil {
		t.Fatal(err)
	}
	asJSON, err := json.MarshalIndent(set, "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	golden(t, "set.txt", text.Bytes())
	golden(t, "set.json", append(asJSON, '\n'))
	golden(t, "set.dot", dot.Bytes())
}

func TestNames(t *testing.T) {
	for _, tt := range []struct {
		reason, text string
		want         []Name
		err          string
	}{
		{
			reason: "an object without a namespace is in the default one; one that is named twice is deleted once",
			text:   "{apiVersion: v1, kind: ConfigMap, metadata: {name: a}}\n---\n# nothing\n---\n{apiVersion: apps/v1, kind: Deployment, metadata: {name: b, namespace: ops}}\n---\n{apiVersion: v1, kind: ConfigMap, metadata: {name: a}}\n",
			want:   []Name{{Object: policies.Object{Resource: "configmap", Namespace: "home", Name: "a"}, File: "stdin"}, {Object: policies.Object{Resource: "deployment.apps", Namespace: "ops", Name: "b"}, File: "stdin"}},
		},
		{
			reason: "a list stands for its items",
			text:   `{"apiVersion": "v1", "kind": "List", "items": [{"apiVersion": "kiali.io/v1alpha1", "kind": "Kiali", "metadata": {"name": "k"}}]}`,
			want:   []Name{{Object: policies.Object{Resource: "kiali.kiali.io", Namespace: "home", Name: "k"}, File: "stdin"}},
		},
		{
			reason: "PowerShell redirects with > as UTF-16, and kubectl reads that",
			text:   "\xff\xfe{\x00k\x00i\x00n\x00d\x00:\x00 \x00A\x00,\x00a\x00p\x00i\x00V\x00e\x00r\x00s\x00i\x00o\x00n\x00:\x00 \x00v\x001\x00,\x00m\x00e\x00t\x00a\x00d\x00a\x00t\x00a\x00:\x00 \x00{\x00n\x00a\x00m\x00e\x00:\x00 \x00a\x00}\x00}\x00",
			want:   []Name{{Object: policies.Object{Resource: "a", Namespace: "home", Name: "a"}, File: "stdin"}},
		},
		{reason: "no name", text: "{apiVersion: v1, kind: ConfigMap, metadata: {generateName: a-}}", err: "stdin: an object without apiVersion, kind or metadata.name (document 1)"},
		{reason: "no YAML", text: "a: [", err: "stdin: read manifests: "},
		{reason: "a kustomization", text: "resources: [a.yaml]", err: "a kustomization is no object: check its folder with -k"},
		{reason: "nothing", text: "\n", err: "-: no object in it"},
	} {
		t.Run(tt.reason, func(t *testing.T) {
			got, err := Names(Files{Paths: []string{"-"}, Stdin: strings.NewReader(tt.text)}, "home")
			if (err != nil) != (tt.err != "") || err != nil && !strings.Contains(err.Error(), tt.err) {
				t.Fatalf("got error %v, want %q", err, tt.err)
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("-want, +got:\n%s", diff)
			}
		})
	}
}

// An object that several files name is evaluated once, in whatever folder they are.
func TestNamesOfFiles(t *testing.T) {
	dir := t.TempDir()
	write := func(file, text string) string {
		file = filepath.Join(dir, file)
		if err := errors.Join(os.MkdirAll(filepath.Dir(file), 0o755), os.WriteFile(file, []byte(text), 0o644)); err != nil {
			t.Fatal(err)
		}
		return file
	}
	a := write("a.yaml", "{apiVersion: v1, kind: ConfigMap, metadata: {name: a}}")
	again := write("again.yaml", "{apiVersion: v1, kind: ConfigMap, metadata: {name: a}}")
	deep := write("deep/b.yaml", "{apiVersion: v1, kind: ConfigMap, metadata: {name: b}}")
	empty := write("empty/none.yaml", "")
	for name, tc := range map[string]struct {
		files Files
		want  []Name
		err   string
	}{
		"Twice":     {Files{Paths: []string{a, again}}, []Name{{Object: policies.Object{Resource: "configmap", Name: "a"}, File: a}}, ""},
		"Folder":    {Files{Paths: []string{dir}}, []Name{{Object: policies.Object{Resource: "configmap", Name: "a"}, File: a}}, ""},
		"Recursive": {Files{Paths: []string{dir}, Recursive: true}, []Name{{Object: policies.Object{Resource: "configmap", Name: "a"}, File: a}, {Object: policies.Object{Resource: "configmap", Name: "b"}, File: deep}}, ""},
		"Empty":     {Files{Paths: []string{a, empty}}, nil, "none.yaml: no object in it"},
		"Rendered":  {Files{Rendered: map[string][]byte{"base": []byte("{apiVersion: v1, kind: ConfigMap, metadata: {name: c}}")}}, []Name{{Object: policies.Object{Resource: "configmap", Name: "c"}, File: "base"}}, ""},
	} {
		got, err := Names(tc.files, "")
		if diff := cmp.Diff(tc.want, got); diff != "" || (err != nil) != (tc.err != "") || err != nil && !strings.Contains(err.Error(), tc.err) {
			t.Errorf("%s: error %v, want %q; -want, +got:\n%s", name, err, tc.err, diff)
		}
	}
}

func FuzzNames(f *testing.F) {
	f.Add("{apiVersion: v1, kind: ConfigMap, metadata: {name: a}}\n---\n{}")
	f.Add(`{"apiVersion": "v1", "kind": "List", "items": [1, null, {"kind": {}}]}`)
	f.Fuzz(func(t *testing.T, text string) {
		names, err := Names(Files{Paths: []string{"-"}, Stdin: strings.NewReader(text)}, "home")
		if err == nil && len(names) == 0 {
			t.Error("got neither objects nor an error")
		}
	})
}

// Any name of an object gives a valid graph.
func FuzzDOT(f *testing.F) {
	f.Add(`a"b\`, "c\nd")
	f.Fuzz(func(t *testing.T, name, message string) {
		report := Item{Target: policies.Object{Resource: "pods", Name: name}, Verdict: policies.Hangs, Findings: []policies.Finding{{Message: message, Policy: "p", Certainty: policies.Will}}}
		var dot bytes.Buffer
		if err := (Answer{Items: []Item{report}}).DOT(&dot); err != nil {
			t.Fatal(err)
		}
		if text := dot.String(); strings.Count(text, "->") < 1 || !strings.HasSuffix(text, "}\n") {
			t.Errorf("not a graph: %s", text)
		}
	})
}

// No name ends a string of the DOT language (graphviz.org/doc/info/lang.html).
func TestQuoted(t *testing.T) {
	for label, want := range map[string]string{
		`a`:          `"a"`,
		`a"];b[c="`:  `"a\"];b[c=\""`,
		`a\`:         `"a\\"`,
		`\"`:         `"\\\""`,
		"one\ntwo":   `"one\ntwo"`,
		`\N is a\lb`: `"\\N is a\\lb"`,
	} {
		if got := quoted(label); got != want {
			t.Errorf("%s: got %s, want %s", label, got, want)
		}
	}
}
