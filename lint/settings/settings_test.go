package settings

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/santhosh-tekuri/jsonschema/v6"
	"go.yaml.in/yaml/v4"

	"github.com/termguard/termguard/config"
	"github.com/termguard/termguard/policies"
)

var ids = []string{"orphaned-finalizer", "slow-termination"}

const head = "apiVersion: termguard.dev/v1\nkind: LintConfig\n"

// documents are checked by the reader and by the schema.
var documents = map[string]struct {
	reason, text string
	want         Settings
	err          string // whole
	schema       bool   // the schema cannot tell that it is wrong
}{
	"Least": {reason: "Only the two lines of its type.", text: head},
	"Whole": {
		reason: "Every key.",
		text: head + `policies: [rules]
exclude: [vendor/, "*.tmpl.yaml"]
failOn: medium
severity: {slow-termination: high}
kubernetesVersion: 1.30
snapshot: facts.json
baseline: known.json
enforcement: {default: warn, policies: {slow-termination: off}}
finalizerOwners: {x.io/f: Deployment/x/controller, y.io/f: external}
params: {slow-termination: {seconds: 600}}
ignore:
- policy: orphaned-finalizer
  paths: [legacy/**, "a/{b,c}.yaml"]
  reason: the cluster is wiped as a whole
  until: 2026-12-31
- {policy: slow-termination, resources: ["*.batch"], namespaces: [night], names: [n-*], reason: batch jobs}
`,
		want: Settings{
			Policies: []string{"rules"}, Exclude: []string{"vendor/", "*.tmpl.yaml"}, FailOn: "medium",
			Severity:          map[string]policies.Severity{"slow-termination": policies.High},
			KubernetesVersion: "1.30", Snapshot: "facts.json", Baseline: "known.json",
			Enforcement: Enforcement{Default: "warn", Policies: map[string]config.Mode{"slow-termination": "off"}},
			Shared: config.Shared{
				FinalizerOwners: map[string]string{"x.io/f": "Deployment/x/controller", "y.io/f": "external"},
				Params:          map[string]any{"slow-termination": map[string]any{"seconds": int64(600)}},
			},
			Ignore: []Ignore{
				{
					Policy: "orphaned-finalizer", Paths: []string{"legacy/**", "a/{b,c}.yaml"}, Reason: "the cluster is wiped as a whole",
					Until: time.Date(2026, 12, 31, 0, 0, 0, 0, time.UTC), Line: 14, Column: 3, Source: "- policy: orphaned-finalizer",
				},
				{
					Policy: "slow-termination", Resources: []string{"*.batch"}, Namespaces: []string{"night"}, Names: []string{"n-*"}, Reason: "batch jobs",
					Line: 18, Column: 3, Source: `- {policy: slow-termination, resources: ["*.batch"], namespaces: [night], names: [n-*], reason: batch jobs}`,
				},
			},
		},
	},
	"Catalog": {
		reason: "An entry of one's own.",
		text:   head + "catalog: [{finalizer: z.io/f, resources: [zs.z.io], owner: Z, component: in-cluster, source: us}]\n",
	},
	"ByteOrderMark": {reason: "Some editors leave one.", text: "\ufeff" + head},
	"Windows":       {reason: "Some editors end lines so.", text: strings.ReplaceAll(head, "\n", "\r\n")},
	"NoValues":      {reason: "A key whose value is still to be written.", text: head + "exclude:\nignore:\nenforcement:\nparams:\n"},
	"Anchors":       {reason: "They are YAML.", text: head + "policies: &a [x]\nexclude: *a\n", want: Settings{Policies: []string{"x"}, Exclude: []string{"x"}}},

	"Empty":        {reason: "An empty file is a mistake.", text: "", err: "f: it is empty: want at least apiVersion: termguard.dev/v1 and kind: LintConfig"},
	"List":         {reason: "Not keys.", text: "- a\n", err: "f:1:1: cannot construct !!seq into settings.Settings"},
	"OtherKind":    {reason: "The webhook's configuration is another one.", text: "apiVersion: termguard.dev/v1\nkind: Config\n", err: "f:1:1: want apiVersion: termguard.dev/v1 and kind: LintConfig; got apiVersion: termguard.dev/v1 and kind: Config"},
	"NoHeader":     {reason: "Which version does it speak?", text: "exclude: [a]\n", err: "f:1:1: want apiVersion: termguard.dev/v1 and kind: LintConfig; got apiVersion: (none) and kind: (none)"},
	"UnknownKey":   {reason: "An unknown key is a typing error.", text: head + "excludes: [a]\n", err: `f:3:1: unknown key "excludes"; did you mean "exclude"?`},
	"StrangeKey":   {reason: "What is not near is no help.", text: head + "enforcement: {zzzzzz: 1}\n", err: `f:3:15: unknown key "zzzzzz" in enforcement; there are default, policies`},
	"OtherCase":    {reason: "Case counts.", text: head + "failon: low\n", err: `f:3:1: unknown key "failon"; did you mean "failOn"?`},
	"TwiceTheKey":  {reason: "Which one counts?", text: head + "kind: LintConfig\n", err: `f:3:1: mapping key "kind" already defined at line 2`, schema: true},
	"TwoDocuments": {reason: "Nobody would read the second.", text: head + "---\nexclude: [a]\n", err: "f:4:1: a second document starts here: move its content into the first", schema: true},
	"Severity":     {reason: "They are few.", text: head + "failOn: hihg\n", err: `f:3:9: failOn: "hihg" is not high, medium, low, info or never`},
	"Mode":         {reason: "They are few.", text: head + "enforcement: {policies: {slow-termination: on}}\n", err: `f:3:44: enforcement.policies.slow-termination: "on" is not deny, warn, dryrun or off`},
	"Owner":        {reason: "It has the form of the annotation.", text: head + "finalizerOwners: {x: a/b}\n", err: `f:3:22: finalizerOwners: owner of "x" is "a/b"; want KIND/NAMESPACE/NAME of a workload, or external`},
	"OddEntry":     {reason: "An entry is checked like those in the binary.", text: head + "catalog: [{finalizer: z.io/f}]\n", err: "f:3:10: catalog entry 1 (z.io/f): resources, owner and source are needed"},
	"NoList":       {reason: "One pattern is a list of one.", text: head + "exclude: vendor\n", err: "f:3:10: cannot construct !!str `vendor` into []string"},
	"NoText":       {reason: "A list is no text.", text: head + "snapshot: [a]\n", err: "f:3:11: cannot construct !!seq into string"},
	"NoReason":     {reason: "Nobody remembers why.", text: head + "ignore:\n- policy: slow-termination\n", err: "f:4:3: ignore: reason is missing: say why the finding may stay"},
	"NoPolicy":     {reason: "All policies is none.", text: head + "ignore: [{reason: x}]\n", err: "f:3:10: ignore: policy is missing: say which one is not wanted"},
	"NoDay":        {reason: "There is no such day.", text: head + "ignore: [{policy: slow-termination, reason: x, until: 2026-13-40}]\n", err: `f:3:55: ignore.until: "2026-13-40" is no day: want YYYY-MM-DD, the last day on which it holds`, schema: true},
	"WindowsPath":  {reason: "It would match nothing.", text: head + "ignore: [{policy: slow-termination, reason: x, paths: ['a\\b']}]\n", err: `f:3:56: ignore.paths: "a\\b": separate folders by /, on Windows too`},
	"AbsolutePath": {reason: "It would match nothing.", text: head + "ignore: [{policy: slow-termination, reason: x, paths: [/etc]}]\n", err: `f:3:56: ignore.paths: "/etc": want a path relative to the folder of the configuration`},
	"OutsidePath":  {reason: "It would match nothing.", text: head + "ignore: [{policy: slow-termination, reason: x, paths: [../a]}]\n", err: `f:3:56: ignore.paths: "../a": want a path below the folder of the configuration`},
	"Bracket":      {reason: "It would match nothing.", text: head + "ignore: [{policy: slow-termination, reason: x, paths: ['a[']}]\n", err: `f:3:56: ignore.paths: "a[" is no pattern: a bracket or brace is not closed`, schema: true},
	"Several":      {reason: "All that is wrong at once, in its order.", text: head + "failOn: x\nzzz: 1\n", err: `f:3:9: failOn: "x" is not high, medium, low, info or never` + "\n" + `f:4:1: unknown key "zzz"; there are apiVersion, baseline, catalog, enforcement, exclude, failOn, finalizerOwners, ignore, kind, kubernetesVersion, params, policies, severity, snapshot`},
}

func TestRead(t *testing.T) {
	for name, tc := range documents {
		t.Run(name, func(t *testing.T) {
			got, err := Read(strings.NewReader(tc.text), "f")
			if tc.err != "" {
				if err == nil || err.Error() != tc.err {
					t.Fatalf("%s\nwant the error %s\ngot            %v", tc.reason, tc.err, err)
				}
				return
			}
			if err != nil {
				t.Fatalf("%s\n%v", tc.reason, err)
			}
			tc.want.File = "f"
			ignored := cmp.Options{cmpopts.IgnoreUnexported(Settings{}), cmpopts.EquateEmpty(), cmpopts.IgnoreFields(Settings{}, "Catalog", "APIVersion", "Kind"), cmpopts.IgnoreFields(Ignore{}, "LastDay")}
			if diff := cmp.Diff(tc.want, *got, ignored); diff != "" {
				t.Errorf("%s\nsettings: -want, +got:\n%s", tc.reason, diff)
			}
			facts, err := got.FactsOptions()
			if has := facts.Catalog != nil; err != nil || has != (name == "Catalog") {
				t.Errorf("%s\na catalog of its own: %t, %v", tc.reason, has, err)
			} else if has {
				if _, ok := facts.Catalog.Lookup("z.io/f", "zs.z.io"); !ok {
					t.Errorf("%s\nthe catalog does not hold its entry", tc.reason)
				}
			}
			if err := got.Check(ids); err != nil {
				t.Errorf("%s\n%v", tc.reason, err)
			}
		})
	}
}

// The schema that editors use and the reader reject the same documents.
func TestSchema(t *testing.T) {
	document, err := jsonschema.UnmarshalJSON(bytes.NewReader(Schema))
	if err != nil {
		t.Fatal(err)
	}
	compiler := jsonschema.NewCompiler()
	if err := compiler.AddResource("schema.json", document); err != nil {
		t.Fatal(err)
	}
	schema, err := compiler.Compile("schema.json")
	if err != nil {
		t.Fatal(err)
	}
	for name, tc := range documents {
		t.Run(name, func(t *testing.T) {
			err := schema.Validate(plain(t, tc.text))
			if fits, want := err == nil, tc.err == "" || tc.schema; fits != want {
				t.Errorf("%s\nfits the schema: %t, want %t: %v", tc.reason, fits, want, err)
			}
		})
	}
}

// plain returns the first document as an editor sees it, in YAML 1.2.
func plain(t *testing.T, text string) any {
	var node yaml.Node
	if err := yaml.Unmarshal([]byte(text), &node); err != nil || len(node.Content) == 0 {
		return nil
	}
	var convert func(*yaml.Node) any
	convert = func(n *yaml.Node) any {
		n = resolve(n)
		switch n.Kind {
		case yaml.MappingNode:
			m := map[string]any{}
			for i := 0; i < len(n.Content); i += 2 {
				m[n.Content[i].Value] = convert(n.Content[i+1])
			}
			return m
		case yaml.SequenceNode:
			l := []any{}
			for _, item := range n.Content {
				l = append(l, convert(item))
			}
			return l
		default:
			var value any
			if n.Tag == "!!timestamp" {
				return n.Value
			}
			if err := n.Decode(&value); err != nil {
				t.Fatal(err)
			}
			return value
		}
	}
	return convert(node.Content[0])
}

func TestCheck(t *testing.T) {
	text := head + "enforcement: {policies: {orphan-finalizer: off}}\nparams: {zzzzzz: {}}\nignore: [{policy: slow-terminations, reason: x}]\n"
	s, err := Read(strings.NewReader(text), "f")
	if err != nil {
		t.Fatal(err)
	}
	want := `f:3:26: enforcement.policies: policy "orphan-finalizer" not found; did you mean "orphaned-finalizer"?
f:4:10: params: policy "zzzzzz" not found
f:5:19: ignore.policy: policy "slow-terminations" not found; did you mean "slow-termination"?`
	if err := s.Check(ids); err == nil || err.Error() != want {
		t.Errorf("want the error\n%s\ngot\n%v", want, err)
	}
}

func TestFindAndLoad(t *testing.T) {
	root := t.TempDir()
	write := func(name, text string) {
		path := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	write(".termguard.yaml", head+"exclude: [outer]\n")
	write("repo/.git/HEAD", "")
	write("repo/a/b/x.yaml", "")
	write("configured/.git", "gitdir: elsewhere") // as in a work tree
	write("configured/.termguard.yaml", head+"snapshot: facts/all.json\nbaseline: /abs.json\npolicies: [rules]\n")
	write("configured/a/b/x.yaml", "")
	write("odd/.termguard.yaml/x", "")
	cases := map[string]struct{ reason, dir, want, err string }{
		"Above":      {reason: "It stands above.", dir: "configured/a/b", want: "configured/.termguard.yaml"},
		"Beside":     {reason: "It stands here.", dir: "configured", want: "configured/.termguard.yaml"},
		"Repository": {reason: "What is above the repository belongs to others.", dir: "repo/a/b"},
		"Folder":     {reason: "Somebody will wonder.", dir: "odd", err: "is a folder: want a file"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			got, err := Find(filepath.Join(root, tc.dir))
			if tc.err != "" {
				if err == nil || !strings.Contains(err.Error(), tc.err) {
					t.Fatalf("%s\nwant an error with %q, got %v", tc.reason, tc.err, err)
				}
				return
			}
			want := ""
			if tc.want != "" {
				want = filepath.Join(root, tc.want)
			}
			if err != nil || got != want {
				t.Errorf("%s\nfound %q, %v; want %q", tc.reason, got, err, want)
			}
		})
	}
	file := filepath.Join(root, "configured/.termguard.yaml")
	s, err := Load(file, "")
	if err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(root, "configured")
	got := []string{s.Snapshot, s.Baseline, s.Policies[0]}
	if diff := cmp.Diff([]string{filepath.Join(dir, "facts/all.json"), "/abs.json", filepath.Join(dir, "rules")}, got); diff != "" {
		t.Errorf("paths: -want, +got:\n%s", diff)
	}
	if _, err := Load(file, dir); err == nil || !strings.Contains(err.Error(), "baseline: /abs.json is not in "+dir) {
		t.Errorf("a path out of the folder that the configuration may speak of: %v", err)
	}
}

func TestMatches(t *testing.T) {
	cases := map[string]struct {
		reason string
		paths  []string
		file   string
		want   bool
	}{
		"All":        {"No paths are all.", nil, "a/b.yaml", true},
		"Exact":      {"The file itself.", []string{"a/b.yaml"}, "a/b.yaml", true},
		"Other":      {"Another file.", []string{"a/c.yaml"}, "a/b.yaml", false},
		"Folder":     {"A folder is all that is in it.", []string{"a"}, "a/b/c.yaml", true},
		"Slash":      {"So it is with a slash.", []string{"./a/"}, "a/b/c.yaml", true},
		"Dot":        {"This folder is everything.", []string{"."}, "a/b.yaml", true},
		"Prefix":     {"A name that starts alike is another.", []string{"a"}, "ab/c.yaml", false},
		"Star":       {"One star stays in its folder.", []string{"a/*.yaml"}, "a/b/c.yaml", false},
		"DoubleStar": {"Two stars do not.", []string{"**/*.yaml"}, "a/b/c.yaml", true},
		"Braces":     {"Either.", []string{"{a,b}/*.yaml"}, "b/c.yaml", true},
		"Second":     {"One of several.", []string{"x", "a"}, "a/b.yaml", true},
	}
	job := policies.Object{Resource: "jobs.batch", Namespace: "night", Name: "n-1"}
	for want, i := range map[bool][]Ignore{
		true:  {{Resources: []string{"jobs.batch"}}, {Resources: []string{"pods", "*.batch"}, Namespaces: []string{"night"}, Names: []string{"n-*"}}, {Names: []string{"n-?"}}},
		false: {{Resources: []string{"jobs"}}, {Resources: []string{"*.batch"}, Namespaces: []string{"day"}}, {Names: []string{"n"}}, {Paths: []string{"b"}, Names: []string{"*"}}},
	} {
		for _, i := range i {
			if i.Matches("a/b.yaml", policies.Object{Resource: "namespaces", Name: "night"}, job) != want {
				t.Errorf("%+v: want %t of %v", i, want, job)
			}
		}
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			i := Ignore{Policy: "p", Paths: tc.paths}
			if got := i.Matches(tc.file); got != tc.want {
				t.Errorf("%s\nmatches: %t", tc.reason, got)
			}
		})
	}
}

func FuzzRead(f *testing.F) {
	for _, tc := range documents {
		f.Add(tc.text)
	}
	f.Add(head + "params: {a: &a [*a]}")
	f.Fuzz(func(t *testing.T, text string) {
		s, err := Read(strings.NewReader(text), "f")
		if err != nil {
			if message := err.Error(); !strings.HasPrefix(message, "f:") {
				t.Errorf("the error does not name the file: %s", message)
			}
			return
		}
		_ = s.Check(ids)
		lines := strings.Count(text, "\n") + 1
		for _, i := range s.Ignore {
			if i.Line < 1 || i.Line > lines || i.Reason == "" || i.Policy == "" {
				t.Errorf("accepted %+v", i)
			}
			i.Matches("a/b.yaml")
		}
	})
}
