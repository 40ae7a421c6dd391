package files_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/text/encoding"
	"golang.org/x/text/encoding/unicode"
	"golang.org/x/text/transform"

	"github.com/termguard/termguard/lint/files"
)

// read returns the contents of a file, one line for each item, with its line number.
func read(text string, whole bool) []string {
	var got []string
	file := &files.File{Name: "f.yaml", Content: []byte(text), KeepSchemas: whole}
	for c := range file.Read() {
		for _, o := range c.Objects {
			name := o.Name
			if o.Namespace != "" {
				name = o.Namespace + "/" + name
			}
			got = append(got, fmt.Sprintf("%d-%d %s %s", o.From, o.To, o.Kind, name))
		}
		for _, p := range c.Problems {
			got = append(got, fmt.Sprintf("%d:%d problem: %s", p.Line, p.Column, p.Message))
		}
		for _, m := range c.Marks {
			got = append(got, fmt.Sprintf("%d-%d ignore: %s", m.From, m.To, m.Text))
		}
		if c.Template {
			got = append(got, "template")
		}
		if c.Plain > 0 {
			got = append(got, fmt.Sprintf("plain: %d", c.Plain))
		}
	}
	return got
}

// inUTF16 encodes a text as PowerShell does for >.
func inUTF16(t testing.TB, order unicode.Endianness, text string) string {
	t.Helper()
	wide, err := unicode.UTF16(order, unicode.UseBOM).NewEncoder().String(text)
	if err != nil {
		t.Fatal(err)
	}
	return wide
}

const cm = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: %s}\n"

func TestRead(t *testing.T) {
	object := func(name string) string { return fmt.Sprintf(cm, name) }
	for _, tc := range []struct {
		reason, text string
		want         []string
	}{
		{"one document", object("a"), []string{"1-3 ConfigMap a"}},
		{"a separator with a comment", object("a") + "--- # next\n" + object("b"), []string{"1-3 ConfigMap a", "5-7 ConfigMap b"}},
		{"a separator with trailing space", object("a") + "---  \n" + object("b"), []string{"1-3 ConfigMap a", "5-7 ConfigMap b"}},
		{"content behind the separator", "--- {apiVersion: v1, kind: Pod, metadata: {name: a}}\n", []string{"1-1 Pod a"}},
		{"empty documents and comments", "# licence\n---\n---\n# nothing\n---\n" + object("a") + "---\n", []string{"6-8 ConfigMap a"}},
		{"the end of a document", object("a") + "...\n# between\n---\n" + object("b"), []string{"1-3 ConfigMap a", "7-9 ConfigMap b"}},
		{"a separator in a block scalar is indented", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\ndata:\n  x: |\n    ---\n    y\n", []string{"1-7 ConfigMap a"}},
		{"CRLF", strings.ReplaceAll(object("a")+"---\n"+object("b"), "\n", "\r\n"), []string{"1-3 ConfigMap a", "5-7 ConfigMap b"}},
		{"BOM", "\ufeff" + object("a"), []string{"1-3 ConfigMap a"}},
		{"BOM before a separator", "\ufeff---\n" + object("a"), []string{"2-4 ConfigMap a"}},
		{"no end of line", strings.TrimSpace(object("a")), []string{"1-3 ConfigMap a"}},
		{"JSON", "{\n \"apiVersion\": \"v1\",\n \"kind\": \"Pod\",\n \"metadata\": {\"name\": \"a\\ud83d\\ude00\"}}\n", []string{"1-4 Pod a😀"}},
		{"JSON indented with tabs", "{\n\t\"apiVersion\": \"v1\",\n\t\"kind\": \"Pod\",\n\t\"metadata\": {\"name\": \"a\"}\n}\n", []string{"1-5 Pod a"}},
		{"JSON values in a row", `{"apiVersion":"v1","kind":"Pod","metadata":{"name":"a"}}` + "\n" + `{"apiVersion":"v1","kind":"Pod","metadata":{"name":"b"}}`, []string{"1-1 Pod a", "2-2 Pod b"}},
		{"items of a List", "apiVersion: v1\nkind: List\nitems:\n- apiVersion: v1\n  kind: Pod\n  metadata:\n    name: a\n    namespace: x\n- apiVersion: v1\n  kind: Pod\n  metadata: {name: b}\n", []string{"4-8 Pod x/a", "9-11 Pod b"}},
		{"a list of a kind", "apiVersion: v1\nkind: PodList\nitems: [{apiVersion: v1, kind: Pod, metadata: {name: a}}]\n", []string{"3-3 Pod a"}},
		{"a document that is no object", "a: 1\n---\n- x\n---\nkind: Kustomization\napiVersion: kustomize.config.k8s.io/v1beta1\nresources: [x]\n---\n" + object("a"), []string{"plain: 1", "plain: 1", "plain: 1", "9-11 ConfigMap a"}},
		{"one broken document hides no other", object("a") + "---\na: 1\nb: [1,\nc: 3\n---\n" + object("b"), []string{"1-3 ConfigMap a", "6:4 problem: invalid YAML: the bracket that is opened here is not closed", "9-11 ConfigMap b"}},
		{"a tab", object("a") + "---\na:\n\tb: 1\n", []string{"1-3 ConfigMap a", "6:1 problem: invalid YAML: a tab cannot indent: use spaces"}},
		{"open quotes", "a: 1\nb: 'x\nc: 1\n", []string{"2:4 problem: invalid YAML: the quotes that are opened here are not closed"}},
		{"a key without colon", "a: 1\nb 2\nc: 3\n", []string{"2:1 problem: invalid YAML: a key without a colon"}},
		{"an unknown anchor", "a: 1\n\nb: *x\n", []string{"3:4 problem: invalid YAML: unknown anchor 'x' referenced"}},
		{"of a key given twice the last counts, as for kubectl", "apiVersion: v1\nkind: Pod\nmetadata:\n  name: a\n  name: b\n", []string{"1-5 Pod b"}},
		{"keys of one mapping", "apiVersion: v1\nkind: Pod\nmetadata: {name: a}\nkind: Pod\nmetadata:\n  name: b\n  name: c\n", []string{"1-7 Pod c"}},
		{"a comment without a space before it, as kubectl reads it", "apiVersion: v1\nkind: Pod\nmetadata:\n  name: 'é'# a\n  namespace: \"x # y\"#\n", []string{"1-5 Pod x # y/é"}},
		{"a key behind such a comment", "a: 'b'\n'c'# x: 1\n", []string{"2:1 problem: invalid YAML: a key without a colon"}},
		{"a file encrypted whole with SOPS", "apiVersion: ENC[AES256_GCM,data:a/b=,iv:c/d/e=,type:str]\nkind: ENC[AES256_GCM,data:f]\nmetadata:\n  name: ENC[AES256_GCM,data:g]\n", []string{"plain: 1"}},
		{"a file encrypted whole with git-crypt", "\x00GITCRYPT\x00\xf3 R\x16\n\x01", []string{"plain: 1"}},
		{"git-crypt encrypts whole files", object("a") + "---\n\x00GITCRYPT\x00", []string{"1-3 ConfigMap a", "5:1 problem: cannot be read: not text in UTF-8: it contains a zero byte"}},
		{"redirected by PowerShell", inUTF16(t, unicode.LittleEndian, object("ä𝄞")+"---\r\n"+object("b")), []string{"1-3 ConfigMap ä𝄞", "5-7 ConfigMap b"}},
		{"UTF-16 of the other order", inUTF16(t, unicode.BigEndian, object("a")+"---\n"+object("b")), []string{"1-3 ConfigMap a", "5-7 ConfigMap b"}},
		{"UTF-16 that ends in the middle of a letter", inUTF16(t, unicode.LittleEndian, object("a")) + "x", []string{"4:1 problem: invalid YAML: a key without a colon"}},
		{"a duplicate key in a document that is no object", "a: 1\na: 2\n", []string{"plain: 1"}},
		{"a template", object("a") + "---\napiVersion: v1\n{{- if x }}\nkind: Pod\n{{- end }}\n---\n" + object("b"), []string{"1-3 ConfigMap a", "template", "10-12 ConfigMap b"}},
		{"a template that is YAML", "apiVersion: v1\nkind: Pod\nmetadata:\n  name: {{ .Values.name }}\n", []string{"template"}},
		{"braces in a string are no template", "apiVersion: v1\nkind: Pod\nmetadata: {name: a, annotations: {x: \"{{ y }}\"}}\n", []string{"1-3 Pod a"}},
		{"a binary file", object("a") + "---\n\x00\x01", []string{"1-3 ConfigMap a", "5:1 problem: cannot be read: not text in UTF-8: it contains a zero byte"}},
		{"an anchor and a merge key", "x: &x {name: a}\napiVersion: v1\nkind: Pod\nmetadata:\n  <<: *x\n  namespace: n\n", []string{"1-6 Pod n/a"}},
		{"comments that suppress findings", "# termguard:ignore all-of-it -- old\napiVersion: v1\nkind: Pod\nmetadata:\n  name: a\nspec:\n  # termguard:ignore x -- y\n  containers:\n  - name: c\n  nodeName: n # termguard:ignore z -- w\n", []string{"2-10 Pod a", "1-10 ignore: all-of-it -- old", "8-9 ignore: x -- y", "10-10 ignore: z -- w"}},
		{"text is no comment", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\ndata:\n  x: |\n    # termguard:ignore x -- y\n  y: \"# termguard:ignore x -- y\"\n", []string{"1-7 ConfigMap a"}},
		{"an annotation that suppresses findings", "apiVersion: v1\nkind: Pod\nmetadata:\n  name: a\n  annotations:\n    termguard.dev/ignore: x -- y\n", []string{"1-6 Pod a", "1-6 ignore: x -- y"}},
	} {
		for _, whole := range []bool{false, true} {
			if diff := cmp.Diff(tc.want, read(tc.text, whole)); diff != "" {
				t.Errorf("%s (whole %t): -want, +got:\n%s", tc.reason, whole, diff)
			}
		}
	}
}

const crd = `apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata:
  name: things.example.com
spec:
  group: example.com
  versions:
  - name: v1
    schema:
      openAPIV3Schema:
        type: object
        properties:
          spec: {type: object}

        # a comment
    served: true
`

// TestSchemas skips schemas, which are most of the bytes of real manifests, without moving what
// follows.
func TestSchemas(t *testing.T) {
	for _, whole := range []bool{false, true} {
		file := &files.File{Content: []byte(crd + "---\n" + fmt.Sprintf(cm, "a")), KeepSchemas: whole}
		var got []string
		for c := range file.Read() {
			for _, o := range c.Objects {
				p, exact := o.Find("spec.versions[0].served")
				value, err := o.Value()
				if err != nil {
					t.Fatal(err)
				}
				got = append(got, fmt.Sprintf("%d-%d %s %d:%d %t %q %d", o.From, o.To, o.Kind, p.Line, p.Column, exact, p.Source, len(value)))
			}
		}
		want := []string{`1-16 CustomResourceDefinition 16:13 true "    served: true" 4`, `18-20 ConfigMap 20:18 false "metadata: {name: a}" 3`}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("whole %t: -want, +got:\n%s", whole, diff)
		}
	}
}

func TestFind(t *testing.T) {
	const text = `x: &limits
  cpu: 1
apiVersion: v1
kind: Pod
metadata:
  name: "ä-name"
  annotations: {a.b/c: d}
  finalizers:
  - one
  - two
spec:
  containers:
  - name: a
    resources: *limits
  - <<: {image: merged}
    name: b
`
	for _, tc := range []struct{ field, want string }{
		{"metadata.finalizers[1]", `10:5-8 true "  - two"`},
		{"metadata.finalizers", `8:3-13 true "  finalizers:"`},
		{"metadata.finalizers[7]", `8:3-13 false "  finalizers:"`},
		{`metadata.annotations["a.b/c"]`, `7:24-25 true "  annotations: {a.b/c: d}"`},
		{"spec.containers[0].resources.cpu", `2:8-9 true "  cpu: 1"`},
		{"spec.containers[1].image", `15:17-23 true "  - <<: {image: merged}"`},
		{"spec.template", `6:9-17 false "  name: \"ä-name\""`},
		{"", `6:9-17 false "  name: \"ä-name\""`},
	} {
		file := &files.File{Content: []byte(text)}
		for c := range file.Read() {
			p, exact := c.Objects[0].Find(tc.field)
			if got := fmt.Sprintf("%d:%d-%d %t %q", p.Line, p.Column, p.EndColumn, exact, p.Source); got != tc.want {
				t.Errorf("Find(%s): got %s, want %s", tc.field, got, tc.want)
			}
		}
	}
}

// TestBombs bounds what aliases expand to.
func TestBombs(t *testing.T) {
	bomb := "apiVersion: v1\nkind: Pod\nmetadata: {name: a}\na0: &a0 [x, x, x, x, x, x, x, x, x, x]\n"
	for i := range 9 {
		bomb += fmt.Sprintf("a%d: &a%d [%s]\n", i+1, i+1, strings.TrimSuffix(strings.Repeat(fmt.Sprintf("*a%d, ", i), 10), ", "))
	}
	merges := "x0: &x0 {}\n"
	for i := 1; i < 25; i++ {
		merges += fmt.Sprintf("x%d: &x%d {<<: [%s]}\n", i, i, strings.TrimSuffix(strings.Repeat(fmt.Sprintf("*x%d,", i-1), 6), ","))
	}
	for _, tc := range []struct{ reason, text, want string }{
		{"merges of nothing, by powers of six", "apiVersion: v1\nkind: Pod\nmetadata: {name: a}\n" + merges + "<<: *x24\n", "expand to more than"},
		{"merges in place of an object's type", merges + "<<: *x24\n", "expand to more than"},
		{"a billion laughs", bomb, "expand to more than"},
		{"an alias to itself", "apiVersion: v1\nkind: Pod\nmetadata: {name: a}\nx: &x [*x]\n", "inside the anchor"},
		{"a merge of itself", "apiVersion: v1\nkind: Pod\nmetadata: {name: a}\nx: &x {<<: *x}\n", "inside the anchor"},
	} {
		file := &files.File{Content: []byte(tc.text)}
		for c := range file.Read() {
			for _, o := range c.Objects {
				if _, err := o.Value(); err == nil || !strings.Contains(err.Error(), tc.want) {
					t.Errorf("%s: got %v, want %q", tc.reason, err, tc.want)
				}
			}
			if len(c.Objects) == 0 && !slices.ContainsFunc(c.Problems, func(p files.Problem) bool { return strings.Contains(p.Message, tc.want) }) {
				t.Errorf("%s: neither object nor problem", tc.reason)
			}
		}
	}
}

// TestReadHolding parses only documents that have
// a word, with their places in the file.
func TestReadHolding(t *testing.T) {
	file := &files.File{Name: "a.yaml", Content: []byte(fmt.Sprintf(cm, "a") + "---\nbroken: [\n---\n" + fmt.Sprintf(cm, "here") + "---\n" + fmt.Sprintf(cm, "b"))}
	var got []string
	for c := range file.ReadMatching(files.ContainsAny("here")) {
		for _, o := range c.Objects {
			p, _ := o.Find("metadata.name")
			got = append(got, fmt.Sprintf("%s:%d", o.Name, p.Line))
		}
		for _, p := range c.Problems {
			got = append(got, p.Message)
		}
	}
	before := 2 + strings.Count(fmt.Sprintf(cm, "a"), "\n") + 2
	if want := []string{fmt.Sprintf("here:%d", before+2)}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

// TestCutBreaks reads whole documents that the removal of their schemas would break, and the
// documents after them.
func TestCutBreaks(t *testing.T) {
	broken := crd + "  more: *later\n"
	broken = strings.Replace(broken, "openAPIV3Schema:\n", "openAPIV3Schema:\n        example: &later {a: b}\n", 1)
	objects := 0
	for c := range (&files.File{Name: "f.yaml", Content: []byte(broken + "---\n" + broken + "---\n" + fmt.Sprintf(cm, "a"))}).Read() {
		objects += len(c.Objects)
		for _, p := range c.Problems {
			t.Errorf("line %d: %s", p.Line, p.Message)
		}
	}
	if objects != 3 {
		t.Errorf("%d objects, want 3", objects)
	}
}

func TestWalk(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"a.yaml", "b.yml", "c.json", "d.txt", ".git/x.yaml", "sub/e.yaml", "skip/f.yaml", "sub/skip.yaml", "chart/Chart.yaml", "chart/values.yaml", "chart/templates/t.yaml", "chart/crds/crd.yaml", "k/kustomization.yaml", "k/l.yaml"} {
		full := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(full), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(full, nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for link, target := range map[string]string{"sub/loop": "..", "linked.yaml": "a.yaml", "dangling.yaml": "nowhere", "again": "sub"} {
		if err := os.Symlink(target, filepath.Join(dir, link)); err != nil {
			t.Fatal(err)
		}
	}
	var exclude files.Exclude
	if err := exclude.Add(dir, "skip/", "sub/*.yaml", "!sub/e.yaml"); err != nil {
		t.Fatal(err)
	}
	var got []string
	files.Search{
		Root: dir, Exclude: exclude,
		Visit: func(d *files.Directory) {
			line := d.Name + ":"
			for _, f := range d.Files() {
				line += " " + f.Name
			}
			got = append(got, fmt.Sprintf("%s chart=%t kustomization=%s templates=%d", line, d.Chart, d.Kustomization, d.Templates))
		},
		Problem: func(file, message string) { t.Errorf("%s: %s", file, message) },
	}.Walk("top", dir)
	want := []string{
		"top: top/a.yaml top/b.yml top/c.json top/linked.yaml chart=false kustomization= templates=0",
		"top/chart: chart=true kustomization= templates=1",
		"top/chart/crds: top/chart/crds/crd.yaml chart=false kustomization= templates=0",
		"top/k: top/k/l.yaml chart=false kustomization=kustomization.yaml templates=0",
		"top/sub: top/sub/e.yaml chart=false kustomization= templates=0",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("Walk: -want, +got:\n%s", diff)
	}
	if err := exclude.Add(dir, "[a"); err == nil {
		t.Error("a broken pattern passes")
	}
}

// FuzzRead checks that every position matches its file, and that skipped parts change no finding.
func FuzzRead(f *testing.F) {
	f.Add(crd + "--- # x\n" + fmt.Sprintf(cm, "a"))
	f.Add("\ufeff{\"apiVersion\": \"v1\", \"kind\": \"List\", \"items\": [{\"apiVersion\":\"v1\",\"kind\":\"Pod\",\"metadata\":{\"name\":\"x\"}}]}")
	f.Add("a: &a [*a]\r\nb: {{ x }}\r---\n\u2028x: 'y\n# termguard:ignore z\n")
	f.Add("apiVersion: v1\nkind: Pod\nmetadata:\n  name: a\n  finalizers: [a/b, \"c\"]\n  <<: {x: y}\n")
	f.Add(inUTF16(f, unicode.BigEndian, fmt.Sprintf(cm, "ä𝄞")+"---\n"+fmt.Sprintf(cm, "b")))
	f.Fuzz(func(t *testing.T, text string) {
		shown, _, err := transform.String(unicode.BOMOverride(encoding.Nop.NewDecoder()), text)
		if err != nil {
			t.Skip(err)
		}
		shown = strings.NewReplacer("\u0085", "\u00a0", "\u2028", "\u2002", "\u2029", "\u2002", "\r\n", "\r\n", "\r", "\n").Replace(shown)
		lines := strings.Split(shown, "\n")
		inside := func(what string, p files.Place) {
			if p.Line < 1 || p.Line > len(lines)+1 || p.Column < 1 || p.EndColumn != 0 && p.EndColumn < p.Column {
				t.Errorf("%s at %+v, the file has %d lines", what, p, len(lines))
				return
			}
			if p.Line <= len(lines) {
				line := strings.TrimSuffix(lines[p.Line-1], "\r")
				if p.Source != line && !strings.HasPrefix(p.Source, "      openAPIV3Schema:") && !strings.Contains(p.Source, "openAPIV3Schema: {}") {
					t.Errorf("%s at line %d: %q, the file has %q", what, p.Line, p.Source, line)
				}
				if p.Column > len([]rune(p.Source))+1 {
					t.Errorf("%s at column %d of %q", what, p.Column, p.Source)
				}
			}
		}
		file := &files.File{Content: []byte(text)}
		for c := range file.Read() {
			for _, p := range c.Problems {
				if strings.HasPrefix(p.Message, "cannot be read") {
					continue // it has no text to show
				}
				inside(p.Message, p.Place)
			}
			for _, m := range c.Marks {
				inside(m.Text, m.Place)
			}
			for _, o := range c.Objects {
				for _, field := range []string{"", "metadata.name", "metadata.finalizers[0]", "spec.versions[0].name"} {
					p, _ := o.Find(field)
					inside(o.Kind+" "+field, p)
				}
				_, _ = o.Value()
			}
		}
	})
}

// TestTemplates checks that text with placeholders of other tools is a template, and that a broken
// document is broken even if it has placeholders.
func TestTemplates(t *testing.T) {
	cases := map[string]struct {
		reason, text string
		want         string
	}{
		"Jinja":      {"A line of its own.", "a: 1\n{% if x %}\nb: 2\n{% endif %}\n", "template"},
		"Terraform":  {"Its directives.", "a: 1\n%{ if x }\nb: 2\n%{ endif }\n", "template"},
		"ERB":        {"Ruby's.", "a: 1\n<% if x %>\nb: 2\n<% end %>\n", "template"},
		"FreeMarker": {"Java's.", "a: 1\n<#if x>\nb: 2\n</#if>\n", "template"},
		"Percents":   {"A value, with two.", "spec:\n  parentRefs:\n  - name: %%GATEWAY_NAME%%\n", "template"},
		"Percent":    {"A value.", "apiVersion: v1\nkind: Pod\nmetadata: {name: a}\nspec:\n  containers:\n  - image: %IMG%\n", "template"},
		"At":         {"As autoconf writes it.", "a: @x@\n", "template"},
		"Format":     {"As Python writes it, before other text.", "clusterIP: {SERVICE_IP_PREFIX}.16\n", "template"},
		"Item":       {"As Python writes it, of a mapping.", "image: {images[kat-server]}\n", "template"},
		"Sigil":      {"A value, with one percent sign before it.", "env:\n- name: IP\n  value: %IP\n", "template"},
		"Exclaimed":  {"What is no tag.", "name: !NAME!\nversion: !NAME!.v!VERSION!\n", "template"},
		"Word":       {"What sed replaces by a file.", "data:\n  ca.crt: |\nREPLACE_WITH_CA\n  other: |\nREPLACE_WITH_OTHER\n", "template"},
		"Line":       {"As envsubst reads it, in the place of several lines.", "a:\n  b: 1\n${MORE}\nc: 2\n", "template"},
		"Fallback":   {"As a shell reads it, with a default.", "a:\n${MORE:-  b:\n    c: ${C}\n  }\nd: 1\n", "template"},
		"Key":        {"In the place of a key that is a mapping.", "a: {b: [${X}, {c}d]}\n", "template"},
		"Hidden":     {"What was there is a secret.", "a: ****\nb: <REDACTED: TOKEN>\n", "template"},
		"Value":      {"Nothing breaks.", "a: ${X}\n", "plain: 1"},
		"Broken":     {"To fill it in mends nothing.", "a: ${X}\nb: [\n", "2:5 problem: invalid YAML: did not find expected node content"},
		"BrokenLine": {"Nor does it here.", "a: {x}\n b: 1\n", "2:2 problem: invalid YAML: did not find expected key"},
		"Comments":   {"There is nothing in it.", "# a: {x}\n# %IMG%\n", ""},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if got := strings.Join(read(tc.text, false), "; "); got != tc.want {
				t.Errorf("%s\ngot %q, want %q", tc.reason, got, tc.want)
			}
		})
	}
}

// TestSettingsOfTools checks that JSON files of other tools, which may have comments, and hidden
// files are not broken manifests.
func TestSettingsOfTools(t *testing.T) {
	for name, tc := range map[string]struct {
		reason, file, text string
		problems           int
	}{
		"settings": {"nothing in it is for Kubernetes", "devcontainer.json", "// for editors\n{\"image\": \"go\", // the newest\n}\n", 0},
		"version":  {"settings have an apiVersion, too", ".devcontainer/devcontainer.json", "{\"sources\": [{\"apiVersion\": 2}], // of a kind\n}\n", 0},
		"manifest": {"a document that looks like an object must be valid", "pod.json", "{\"apiVersion\": \"v1\", // the core\n\"kind\": [}\n", 1},
		"hidden":   {"files that begin with a dot belong to other tools", ".github/ISSUE_TEMPLATE/bug.yml", "placeholder: Server Version: v1\n", 0},
		"object":   {"a document that looks like an object must be valid in any file", "./.flux/pod.yaml", "apiVersion: v1\nkind: Pod: a\n", 1},
		"here":     {"the folder that was named is none of them", "./../a/pod.yaml", "kind: Pod: a\n", 1},
		"YAML":     {"which is broken may hide objects", "pod.yaml", "// for editors\n{\"image\": \"go\", // the newest\n}\n", 1},
	} {
		t.Run(name, func(t *testing.T) {
			problems := 0
			for c := range (&files.File{Name: tc.file, Content: []byte(tc.text)}).Read() {
				problems += len(c.Problems)
			}
			if problems != tc.problems {
				t.Errorf("%s: %d problems, want %d", tc.reason, problems, tc.problems)
			}
		})
	}
}

// TestBreaks counts only LF, CRLF and CR as ends of a line, and keeps the columns behind other breaks of YAML 1.1.
func TestBreaks(t *testing.T) {
	want := []string{"2-4 ConfigMap a", "2-4 ignore: x -- y"}
	for _, text := range []string{"# a\u2028b\u0085c\n%s", "# a\r%s"} {
		text = fmt.Sprintf(text, "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a, annotations: {a: \"\u2029\", termguard.dev/ignore: x -- y}}\n")
		if diff := cmp.Diff(want, read(text, false)); diff != "" {
			t.Errorf("%q: -want, +got:\n%s", text, diff)
		}
	}
}
