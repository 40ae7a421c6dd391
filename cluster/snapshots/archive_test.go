package snapshots

import (
	"archive/tar"
	"bufio"
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"

	"github.com/termguard/termguard/cluster"
	"github.com/termguard/termguard/cluster/live"
)

// counted reads a path, and returns the number of objects by "namespace/resource", and the unseen resources.
func counted(t *testing.T, path string) (counts map[string]int, unseen []string) {
	t.Helper()
	a, err := Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer a.Close()
	world, err := a.World(t.Context(), cluster.Options{})
	if err != nil {
		t.Fatal(err)
	}
	counts = map[string]int{}
	world.Read(func(f cluster.Facts) {
		for _, namespace := range []string{"", "a", "b"} {
			for _, resource := range []string{"namespaces", "pods", "configmaps", "gadgets.x.io", "deployments.apps", "secrets"} {
				if n := f.Count(namespace, resource); n > 0 {
					counts[namespace+"/"+resource] = n
				}
			}
		}
		for _, u := range f.Unseen() {
			unseen = append(unseen, u.Resource)
		}
	})
	return counts, unseen
}

// folder writes files.
func folder(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range files {
		file := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

const (
	namespaceA  = `{"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "a", "uid": "1"}}`
	allSpaces   = `{"kind": "NamespaceList", "apiVersion": "v1", "metadata": {"resourceVersion": "7"}, "items": [` + namespaceA + `]}`
	noPods      = `{"kind": "PodList", "apiVersion": "v1", "metadata": {"resourceVersion": "7"}, "items": null}`
	configMap   = `{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c", "namespace": "a"}}`
	listOfYAML  = "apiVersion: v1\nitems:\n- apiVersion: v1\n  data:\n    text: |\n      - apiVersion: v1\n\n      # no comment\n  kind: ConfigMap\n  metadata:\n    name: c\n    namespace: a\n- apiVersion: v1\n  kind: ConfigMap\n  metadata: {name: d, namespace: a}\nkind: List\nmetadata:\n  resourceVersion: \"\"\n"
	customPlain = "apiVersion: x.io/v1\nkind: Gadget\nmetadata: {name: g, namespace: a, finalizers: [x.io/f]}\n"
	definition  = "apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\nmetadata: {name: gadgets.x.io}\nspec: {group: x.io, scope: Namespaced, names: {plural: gadgets, kind: Gadget}, versions: [{name: v1, served: true, storage: true}]}\n"
)

// TestForeign reads what other tools write. Only a list of an API server is the whole of its kind.
func TestForeign(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		reason string
		files  map[string]string
		want   map[string]int
		seen   []string // not unseen
	}{
		"One":         {"An object alone says nothing of others.", map[string]string{"a.json": configMap}, map[string]int{"a/configmaps": 1}, nil},
		"Documents":   {"As kubectl get prints them, one after the other.", map[string]string{"a.yaml": "---\n" + customPlain + "---\n" + definition + "---\n# nothing\n"}, map[string]int{"a/gadgets.x.io": 1}, nil},
		"List":        {"A List of kubectl may be of a selector.", map[string]string{"a.yaml": listOfYAML}, map[string]int{"a/configmaps": 2}, nil},
		"ListJSON":    {"So may its JSON.", map[string]string{"a.json": `{"apiVersion": "v1", "items": [` + configMap + `], "kind": "List"}`}, map[string]int{"a/configmaps": 1}, nil},
		"Flow":        {"Items may stand in one line.", map[string]string{"a.yaml": "kind: List\napiVersion: v1\nitems: [" + configMap + "]\n"}, map[string]int{"a/configmaps": 1}, nil},
		"Array":       {"A support bundle has arrays.", map[string]string{"a.json": "[" + configMap + "]", "b.yaml": "- " + strings.ReplaceAll(strings.TrimSuffix(customPlain, "\n"), "\n", "\n  ") + "\n"}, map[string]int{"a/configmaps": 1, "a/gadgets.x.io": 1}, nil},
		"FlowAlone":   {"YAML may be in braces, too.", map[string]string{"a.yaml": "{apiVersion: v1, kind: ConfigMap, metadata: {name: c, namespace: a}}"}, map[string]int{"a/configmaps": 1}, nil},
		"Nested":      {"A List in a List has objects, too.", map[string]string{"a.json": `{"apiVersion": "v1", "kind": "List", "items": [{"apiVersion": "v1", "kind": "List", "items": [` + configMap + `]}]}`}, map[string]int{"a/configmaps": 1}, nil},
		"Twice":       {"An object counts once.", map[string]string{"a.json": configMap, "b/c.json": configMap}, map[string]int{"a/configmaps": 1}, nil},
		"Nameless":    {"What has no kind or no name is no object.", map[string]string{"a.json": `[{"a": 1}, {"kind": "Pod"}, {"apiVersion": "v1", "kind": "Pod"}, 5, ` + configMap + `]`}, map[string]int{"a/configmaps": 1}, nil},
		"Kindless":    {"Items have the kind of their list, wherever that stands.", map[string]string{"a.json": `{"items": [{"metadata": {"name": "p", "namespace": "a"}}], "kind": "PodList", "apiVersion": "v1"}`}, map[string]int{"a/pods": 1}, nil},
		"InfoDump":    {"kubectl cluster-info dump lists each namespace.", map[string]string{"namespaces.json": allSpaces, "a/pods.json": noPods, "a/p/logs.txt": "{"}, map[string]int{"/namespaces": 1}, []string{"namespaces", "pods"}},
		"Elsewhere":   {"One namespace is not all.", map[string]string{"namespaces.json": strings.Replace(allSpaces, namespaceA, namespaceA+","+strings.Replace(namespaceA, `"a"`, `"b"`, 1), 1), "a/pods.json": noPods}, map[string]int{"/namespaces": 2}, []string{"namespaces"}},
		"MustGather":  {"A must-gather has lists of some namespaces, and files that users may write.", map[string]string{"m/cluster-scoped-resources/core/namespaces.yaml": allSpaces, "m/namespaces/a/core/pods.yaml": noPods, "m/namespaces/a/a.yaml": namespaceA, "m/static/c.yaml": configMap}, map[string]int{"/namespaces": 1}, []string{"namespaces", "pods"}},
		"Bundle":      {"A support bundle has copies of files of pods.", map[string]string{"s/cluster-resources/namespaces.json": allSpaces, "s/cluster-resources/pods/a.json": noPods, "s/copied/c.json": configMap}, map[string]int{"/namespaces": 1}, []string{"namespaces", "pods"}},
		"Fixture":     {"A fixture is all of a cluster, but for what it says.", map[string]string{"a.yaml": listOfYAML + "---\n{apiVersion: termguard.dev/v1, kind: Cluster, unseen: [{resource: pods, namespaced: true, reason: forbidden}]}\n"}, map[string]int{"a/configmaps": 2}, []string{"namespaces", "configmaps", "secrets"}},
		"NoFixture":   {"What was gathered is none.", map[string]string{"s/cluster-resources/namespaces.json": allSpaces, "s/cluster-resources/a.yaml": "{apiVersion: termguard.dev/v1, kind: Cluster}"}, map[string]int{"/namespaces": 1}, []string{"namespaces"}},
		"SecretsData": {"Data of Secrets is not kept.", map[string]string{"a.json": `{"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s", "namespace": "a"}, "data": {"k": "c2VjcmV0"}}`}, map[string]int{"a/secrets": 1}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := folder(t, tc.files)
			counts, unseen := counted(t, dir)
			if diff := cmp.Diff(tc.want, counts); diff != "" {
				t.Errorf("%s: -want, +got:\n%s", tc.reason, diff)
			}
			for _, resource := range []string{"namespaces", "pods", "configmaps", "secrets"} {
				if want := !slices.Contains(tc.seen, resource); slices.Contains(unseen, resource) != want {
					t.Errorf("%s: %s is unseen: %v, want %v", tc.reason, resource, !want, want)
				}
			}
		})
	}
}

// packed returns an archive of files; a name with " -> " is a link.
func packed(t testing.TB, files ...string) []byte {
	t.Helper()
	var out bytes.Buffer
	zipped := gzip.NewWriter(&out)
	archive := tar.NewWriter(zipped)
	for i := 0; i < len(files); i += 2 {
		name, target, link := strings.Cut(files[i], " -> ")
		header := &tar.Header{Name: name, Mode: 0o600, Size: int64(len(files[i+1])), Format: tar.FormatPAX}
		if link {
			header.Typeflag, header.Linkname, header.Size = tar.TypeSymlink, target, 0
		}
		if err := archive.WriteHeader(header); err != nil {
			t.Fatal(err)
		}
		if !link {
			if _, err := io.WriteString(archive, files[i+1]); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := errors.Join(archive.Close(), zipped.Close()); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

// TestBadInput: what cannot be read is an error that says what to do, and never a part of it.
func TestBadInput(t *testing.T) {
	t.Parallel()
	whole := string(packed(t, "a.json", configMap))
	other := strings.Replace(namespaceA, `"1"`, `"2"`, 1)
	for name, tc := range map[string]struct{ text, want string }{
		"Nothing":   {"", "it holds no Kubernetes objects"},
		"Text":      {"hello", "it holds no Kubernetes objects"},
		"Cut":       {configMap[:40], "its end is missing"},
		"CutList":   {listOfYAML[:strings.Index(listOfYAML, "kind: List")], "its end is missing"},
		"CutTar":    {whole[:len(whole)-30], "its end is missing"},
		"CutYAML":   {"apiVersion: v1\nitems:\n- {a: ", "did not find expected"},
		"Old":       {`{"apiVersion": "termguard.dev/v1", "kind": "Facts"}`, "make a new one with termguard snapshot"},
		"Other":     {`{"apiVersion": "termguard.dev/v9", "kind": "Snapshot"}`, "another version of termguard"},
		"Xz":        {"\xfd7zXZ\x00", "unpack it"},
		"Zip":       {"PK\x03\x04", "unpack it"},
		"Logs":      {configMap + "\n==== START logs for container x ====\n", "--output-directory"},
		"Anchors":   {"a: &a [1,1,1,1,1,1,1,1,1,1]\nb: &b [*a,*a,*a,*a,*a,*a,*a,*a,*a,*a]\nc: &c [*b,*b,*b,*b,*b,*b,*b,*b,*b,*b]\nd: &d [*c,*c,*c,*c,*c,*c,*c,*c,*c,*c]\ne: &e [*d,*d,*d,*d,*d,*d,*d,*d,*d,*d]\nf: [*e,*e,*e,*e,*e,*e,*e,*e,*e,*e]\n", "excessive aliasing"},
		"TwoOfThem": {strings.ReplaceAll(namespaceA, `"a"`, `"default"`) + strings.ReplaceAll(other, `"a"`, `"default"`), "two clusters"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			file := filepath.Join(t.TempDir(), "a.yaml")
			if err := os.WriteFile(file, []byte(tc.text), 0o600); err != nil {
				t.Fatal(err)
			}
			a, err := Open(file)
			if err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("error %v, want one with %q", err, tc.want)
			}
			if a != nil {
				_ = a.Close()
			}
		})
	}
}

// TestTwoGathers: what was gathered of another cluster beside is an error, not a part of this one.
func TestTwoGathers(t *testing.T) {
	t.Parallel()
	spaces := strings.ReplaceAll(allSpaces, `"a"`, `"default"`)
	dir := folder(t, map[string]string{
		"one/cluster-scoped-resources/core/namespaces.yaml": spaces,
		"two/cluster-scoped-resources/core/namespaces.yaml": strings.Replace(spaces, `"uid": "1"`, `"uid": "2"`, 1),
	})
	if _, err := Open(dir); !errors.Is(err, errTwo) {
		t.Errorf("error %v, want %v", err, errTwo)
	}
}

// TestTar: the names in an archive lead nowhere, and links are not followed.
func TestTar(t *testing.T) {
	t.Parallel()
	outside := filepath.Join(folder(t, map[string]string{"c.json": strings.Replace(configMap, `"c"`, `"outside"`, 1)}), "c.json")
	file := filepath.Join(t.TempDir(), "a.tar.gz")
	archive := packed(t, "../../a.json", configMap, "/b.json", strings.Replace(configMap, `"c"`, `"b"`, 1), "d.json -> "+outside, "", "e/../../f.json", strings.Replace(configMap, `"c"`, `"f"`, 1))
	if err := os.WriteFile(file, archive, 0o600); err != nil {
		t.Fatal(err)
	}
	counts, _ := counted(t, file)
	if diff := cmp.Diff(map[string]int{"a/configmaps": 3}, counts); diff != "" {
		t.Errorf("-want, +got:\n%s", diff)
	}
	dir := t.TempDir()
	if err := os.Symlink(outside, filepath.Join(dir, "c.json")); err != nil {
		t.Skip(err)
	}
	if _, err := Open(dir); !errors.Is(err, errNothing) {
		t.Errorf("a folder with a link: %v, want %v", err, errNothing)
	}
}

// TestBomb: a small archive that unpacks to much is not read to its end.
func TestBomb(t *testing.T) {
	t.Parallel()
	var bomb bytes.Buffer
	zipped := gzip.NewWriter(&bomb)
	for range 2 * longestLine >> 20 {
		if _, err := zipped.Write(bytes.Repeat([]byte("a"), 1<<20)); err != nil {
			t.Fatal(err)
		}
	}
	_ = zipped.Close()
	for name, text := range map[string][]byte{"a.yaml": bomb.Bytes(), "b.json": bomb.Bytes()} {
		file := filepath.Join(t.TempDir(), name)
		if err := os.WriteFile(file, text, 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := Open(file); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
	in := &limited{strings.NewReader("abcdef"), 5, errBig}
	if _, err := io.ReadAll(in); !errors.Is(err, errBig) {
		t.Errorf("error %v, want %v", err, errBig)
	}
}

// TestMemory reads a file of many objects, in little memory: rows of them.
func TestMemory(t *testing.T) {
	const objects, most = 100_000, 64 << 20
	file := filepath.Join(t.TempDir(), "a.json")
	out, err := os.Create(file)
	if err != nil {
		t.Fatal(err)
	}
	w := bufio.NewWriter(out)
	fmt.Fprint(w, `{"apiVersion": "v1", "kind": "List", "items": [`+configMap)
	filling := strings.Repeat("x", 1000)
	for i := range objects {
		fmt.Fprintf(w, `,{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c%d", "namespace": "a"}, "data": {"a": %q}}`, i, filling)
	}
	fmt.Fprint(w, "]}")
	if err := errors.Join(w.Flush(), out.Close()); err != nil {
		t.Fatal(err)
	}
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	a, err := Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer a.Close()
	runtime.GC()
	runtime.ReadMemStats(&after)
	if held := int64(after.HeapAlloc) - int64(before.HeapAlloc); held > most {
		t.Errorf("%d objects take %d MiB", objects, held>>20)
	}
	if n := len(a.kind(schema.GroupResource{Resource: "configmaps"}).rows); n != objects+1 {
		t.Errorf("%d objects, want %d", n, objects+1)
	}
}

// TestNewest: of an object in several versions the newest counts, and of one version the whole.
func TestNewest(t *testing.T) {
	t.Parallel()
	a, err := newArchive()
	if err != nil {
		t.Fatal(err)
	}
	defer a.Close()
	configMaps := schema.GroupResource{Resource: "configmaps"}
	for _, o := range []struct {
		version, mark string
		whole         bool
	}{{"9", "old", true}, {"10", "new", true}, {"10", "partial", false}, {"8", "older", true}} {
		object := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "ConfigMap", "data": map[string]any{"a": o.mark}}}
		object.SetName("c")
		object.SetResourceVersion(o.version)
		if err := a.add(configMaps, object, o.whole); err != nil {
			t.Fatal(err)
		}
	}
	rows := a.kind(configMaps).rows
	if len(rows) != 1 {
		t.Fatalf("%d rows", len(rows))
	}
	got, err := a.read(rows[0])
	if err != nil {
		t.Fatal(err)
	}
	if mark, _, _ := unstructured.NestedString(got.Object, "data", "a"); mark != "new" {
		t.Errorf("the %s one counts", mark)
	}
}

// TestTrim: a snapshot has no values that may be confidential.
func TestTrim(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct{ reason, resource, object, want string }{
		"Secret":    {"Of Secrets, only the metadata and the type.", "secrets", `{"apiVersion":"v1","kind":"Secret","metadata":{"name":"s"},"type":"Opaque","data":{"a":"c"},"stringData":{"a":"c"},"immutable":true}`, `{"apiVersion":"v1","kind":"Secret","metadata":{"name":"s"},"type":"Opaque"}`},
		"Fields":    {"Of what managers wrote, the finalizers.", "pods", `{"metadata":{"annotations":{"kubectl.kubernetes.io/last-applied-configuration":"{}"},"managedFields":[{"manager":"m","fieldsV1":{"f:metadata":{"f:finalizers":{".":{}},"f:labels":{}},"f:spec":{}}},{"manager":"n","fieldsV1":{"f:spec":{}}}]}}`, `{"metadata":{"annotations":{},"managedFields":[{"fieldsV1":{"f:metadata":{"f:finalizers":{".":{}}}},"manager":"m"},{"manager":"n"}]}}`},
		"Variables": {"Variables and arguments may hold passwords.", "pods", `{"spec":{"containers":[{"args":["--password=hunter2","--leader-elect","--token","hunter2","chattr +i a; login --token hunter2 TOKEN=hunter2"],"env":[{"name":"DB_PASSWORD","value":"hunter2"},{"name":"WATCH_NAMESPACE","value":"ops"}]}]}}`, `{"spec":{"containers":[{"args":["--password=","--leader-elect","--token","","chattr +i a; login --token  TOKEN="],"env":[{"name":"DB_PASSWORD","value":""},{"name":"WATCH_NAMESPACE","value":"ops"}]}]}}`},
		"Custom":    {"So may specs. Names of Secrets stay.", "gadgets", `{"spec":{"adminPassword":"hunter2","passwordSecretName":"s","tokenSecretRef":{"name":"t"},"text":"two words","replicas":3,"on":true}}`, `{"spec":{"adminPassword":"","on":true,"passwordSecretName":"s","replicas":3,"text":"","tokenSecretRef":{"name":"t"}}}`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o := &unstructured.Unstructured{}
			value, err := fromYAML([]byte(tc.object))
			if err != nil {
				t.Fatal(err)
			}
			o.Object = value.(map[string]any)
			trim(o, schema.GroupResource{Resource: tc.resource})
			want, err := fromYAML([]byte(tc.want))
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(want, any(o.Object)); diff != "" {
				t.Errorf("%s: -want, +got:\n%s", tc.reason, diff)
			}
		})
	}
}

// TestRecord: a recorded file answers recorded requests as the API server did, and no others.
func TestRecord(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/api/v1/pods":
			fmt.Fprint(w, `{"kind":"PodList","apiVersion":"v1","metadata":{"resourceVersion":"5"},"items":[{"metadata":{"name":"p","namespace":"a","resourceVersion":"4"}}]}`)
		case "/plain":
			w.Header().Set("Content-Type", "text/plain")
			fmt.Fprint(w, "ok <\n")
		default:
			http.Error(w, `{"kind":"Status","apiVersion":"v1","status":"Failure","code":403,"reason":"Forbidden"}`, http.StatusForbidden)
		}
	}))
	defer server.Close()
	var out bytes.Buffer
	recorder := NewRecorder(&out, time.Unix(1, 0), false)
	config := &rest.Config{Host: server.URL}
	config.Wrap(recorder.Wrap)
	asks := func(config *rest.Config, path string) string {
		client, err := rest.HTTPClientFor(config)
		if err != nil {
			t.Fatal(err)
		}
		response, err := client.Get(config.Host + path)
		if err != nil {
			t.Fatal(err)
		}
		defer response.Body.Close()
		text, _ := io.ReadAll(response.Body)
		return fmt.Sprint(response.StatusCode, " ", strings.TrimSpace(string(text)))
	}
	paths := []string{"/api/v1/pods?limit=500", "/plain", "/api/v1/secrets"}
	recorded := map[string]string{}
	for _, path := range paths {
		recorded[path] = asks(config, path)
	}
	if err := recorder.Close(); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "s.json")
	if err := os.WriteFile(file, out.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	a, err := Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer a.Close()
	for _, path := range paths[1:] {
		if got := asks(live.Over(a), path); got != recorded[path] {
			t.Errorf("%s: %q, want %q", path, got, recorded[path])
		}
	}
	for path, want := range map[string]string{
		"/api/v1/namespaces/a/pods/p": `200 {"apiVersion":"v1","kind":"Pod","metadata":{"name":"p","namespace":"a","resourceVersion":"4"}}`,
		"/api/v1/namespaces/b/pods":   `200 {"apiVersion":"v1","items":[],"kind":"PodList","metadata":{"resourceVersion":"1"}}`,
		"/api/v1/namespaces/a/pods/q": `404 {"metadata":{},"status":"Failure","message":"pods \"q\" not found","reason":"NotFound","code":404`,
		"/api/v1/services":            `404 {"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","message":"the snapshot lacks services"`,
	} {
		if got := asks(live.Over(a), path); !strings.HasPrefix(strings.Replace(got, `"kind":"Status","apiVersion":"v1",`, "", 1), strings.Replace(want, `"kind":"Status","apiVersion":"v1",`, "", 1)) {
			t.Errorf("%s: %q, want %q", path, got, want)
		}
	}
	text := out.String()
	for cut := range len(text) - 1 { // without its last line feed it is whole
		if err := os.WriteFile(file, []byte(text[:cut]), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := Open(file); err == nil {
			t.Fatalf("no error for the first %d of %d bytes", cut, len(text))
		}
	}
}

func FuzzOpen(f *testing.F) {
	f.Add([]byte(configMap))
	f.Add([]byte(listOfYAML))
	f.Add([]byte("- " + configMap + "\n- {}\n"))
	f.Add([]byte(customPlain + "---\n{apiVersion: termguard.dev/v1, kind: Cluster, stale: [v1.x.io], listErrors: {v2.y.io: a, c: b}, unseen: [{resource: pods}, {resource: z.x.io}]}\n"))
	archive := packed(f, "a/cluster-resources/pods/a.json", noPods, "../b.yaml", listOfYAML, "c.json -> /etc/passwd", "")
	f.Add(archive)
	if tarred, err := gzip.NewReader(bytes.NewReader(archive)); err == nil {
		if text, err := io.ReadAll(tarred); err == nil {
			f.Add(text)
		}
	}
	f.Add([]byte(`{"items":[{"metadata":{"name":"a"}}],"kind":"PodList","apiVersion":"v1","metadata":{"resourceVersion":"1"}}`))
	f.Add([]byte(`{"apiVersion":"termguard.dev/v2","kind":"Snapshot"}` + "\n" + `{"apiVersion":"termguard.dev/v2","kind":"List","path":"/api/v1/pods","last":true}` + "\n" + configMap + "\n" + `{"apiVersion":"termguard.dev/v2","kind":"End"}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		file := filepath.Join(t.TempDir(), "a.yaml")
		if err := os.WriteFile(file, text, 0o600); err != nil {
			t.Fatal(err)
		}
		a, err := Open(file)
		if err != nil {
			return
		}
		defer a.Close()
		for _, path := range []string{"/api/v1/pods", "/api/v1/namespaces/a/configmaps/c", "/apis", "/api/v1", "/apis/x/v1", "/"} {
			request := httptest.NewRequest(http.MethodGet, path, nil)
			if response, err := a.RoundTrip(request); err != nil || response.StatusCode == 0 {
				t.Errorf("%s: %v", path, err)
			}
		}
	})
}
