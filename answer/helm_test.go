package answer

import (
	"bytes"
	"compress/gzip"
	"encoding/base64"
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/termguard/termguard/policies"
)

// stored returns a Secret with a release as Helm stores it.
func stored(t *testing.T, kind string, release map[string]any) map[string]any {
	t.Helper()
	text, err := json.Marshal(release)
	if err != nil {
		t.Fatal(err)
	}
	var packed bytes.Buffer
	w := gzip.NewWriter(&packed)
	if _, err := w.Write(text); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	value := base64.StdEncoding.EncodeToString(packed.Bytes())
	return map[string]any{
		"apiVersion": "v1", "kind": "Secret", "type": kind, "metadata": map[string]any{"name": "any"},
		"data": map[string]any{"release": base64.StdEncoding.EncodeToString([]byte(value))},
	}
}

// records returns the Secrets that Helm keeps, named NAME.vREVISION.
func records(names ...string) map[string]any {
	items := []any{}
	for _, record := range names {
		name, version, _ := strings.Cut(record, ".v")
		items = append(items, map[string]any{"apiVersion": "meta.k8s.io/v1", "kind": "PartialObjectMetadata", "metadata": map[string]any{
			"name": "sh.helm.release.v1." + record, "labels": map[string]any{"owner": "helm", "name": name, "version": version},
		}})
	}
	return map[string]any{"apiVersion": "meta.k8s.io/v1", "kind": "PartialObjectMetadataList", "metadata": map[string]any{}, "items": items}
}

const manifest = `---
# Source: kiali/templates/cr.yaml
{apiVersion: kiali.io/v1alpha1, kind: Kiali, metadata: {name: kiali, namespace: demo}}
---
{apiVersion: apps/v1, kind: Deployment, metadata: {name: kiali-operator}}
---
{apiVersion: v1, kind: PersistentVolumeClaim, metadata: {name: data, annotations: {helm.sh/resource-policy: keep}}}
`

func TestFromRelease(t *testing.T) {
	const v1, secrets, configmaps = "helm.sh/release.v1", "/api/v1/namespaces/ops/secrets", "/api/v1/namespaces/ops/configmaps"
	release := func(version int, status string) map[string]any {
		return map[string]any{"name": "kiali", "namespace": "ops", "version": version, "info": map[string]any{"status": status}, "manifest": manifest}
	}
	damaged := stored(t, v1, release(10, "deployed"))
	value := damaged["data"].(map[string]any)["release"].(string)
	damaged["data"] = map[string]any{"release": value[:len(value)/2/4*4]}
	want := Question{
		As: AsUninstall, Together: true, By: "helm uninstall", Of: "release kiali -n ops, revision 10, deployed", Command: "helm uninstall kiali -n ops",
		Names: []Name{{Object: policies.Object{Resource: "deployment.apps", Namespace: "ops", Name: "kiali-operator"}}, {Object: policies.Object{Resource: "kiali.kiali.io", Namespace: "demo", Name: "kiali"}, Place: 1}},
		Notes: []string{"it leaves objects that helm.sh/resource-policy keeps: persistentvolumeclaim/data"},
	}
	half := want
	half.Of = "release kiali -n ops, revision 10, failed"
	half.Notes = append(half.Notes[:1:1], "the revision is failed: some of its objects may not exist, and objects that only an earlier revision had are left")
	for _, tt := range []struct {
		reason  string
		answers map[string]any
		want    Question
		err     string
	}{
		{reason: "the newest of several, which is no string of digits", want: want, answers: map[string]any{
			secrets: records("other.v1", "kiali.v9", "kiali.v10"), secrets + "/sh.helm.release.v1.kiali.v10": stored(t, v1, release(10, "deployed")),
		}},
		{reason: "an install that failed half way", want: half, answers: map[string]any{
			secrets: records("kiali.v10"), secrets + "/sh.helm.release.v1.kiali.v10": stored(t, v1, release(10, "failed")),
		}},
		{reason: "in a ConfigMap", want: want, answers: map[string]any{
			secrets: records(), configmaps: records("kiali.v10"),
			configmaps + "/sh.helm.release.v1.kiali.v10": map[string]any{"apiVersion": "v1", "kind": "ConfigMap", "data": map[string]any{"release": func() string {
				text, _ := base64.StdEncoding.DecodeString(stored(t, v1, release(10, "deployed"))["data"].(map[string]any)["release"].(string))
				return string(text)
			}()}},
		}},
		{reason: "none of the name", err: `release "kiali" not found in namespace "ops"; did you mean "kialli"?: there are kialli, other`, answers: map[string]any{secrets: records("kialli.v1", "kialli.v2", "other.v1")}},
		{reason: "none at all", err: "there are no releases of Helm 3 or 4", answers: map[string]any{secrets: records(), configmaps: records()}},
		{reason: "of Helm 2", err: `release "kiali" is of Helm 2`, answers: map[string]any{secrets: records(), "/api/v1/configmaps": records("kiali.v1")}},
		{reason: "of a Helm to come", err: `it is of type "helm.sh/release.v2"`, answers: map[string]any{
			secrets: records("kiali.v1"), secrets + "/sh.helm.release.v1.kiali.v1": stored(t, "helm.sh/release.v2", release(1, "deployed")),
		}},
		{reason: "cut off", err: "secrets/sh.helm.release.v1.kiali.v10 -n ops, where Helm keeps release \"kiali\": the record is damaged or cut off", answers: map[string]any{
			secrets: records("kiali.v10"), secrets + "/sh.helm.release.v1.kiali.v10": damaged,
		}},
		{reason: "another's record under its name", err: `holds revision 3 of release "kiali": want 10 of "kiali"`, answers: map[string]any{
			secrets: records("kiali.v10"), secrets + "/sh.helm.release.v1.kiali.v10": stored(t, v1, release(3, "deployed")),
		}},
		{reason: "only its history is left", err: "is uninstalled: helm has only kept its history", answers: map[string]any{
			secrets: records("kiali.v1"), secrets + "/sh.helm.release.v1.kiali.v1": stored(t, v1, release(1, "uninstalled")),
		}},
		{reason: "Secrets may not be read", err: "helm get manifest kiali -n ops | termguard check -f - --helm", answers: map[string]any{}},
	} {
		t.Run(tt.reason, func(t *testing.T) {
			got, err := FromRelease(t.Context(), apiServer(t, tt.answers), "ops", "kiali")
			if (err != nil) != (tt.err != "") || err != nil && !strings.Contains(err.Error(), tt.err) {
				t.Fatalf("got error %v, want %q", err, tt.err)
			}
			if diff := cmp.Diff(tt.want, got, cmpopts.IgnoreUnexported(Question{})); diff != "" {
				t.Errorf("-want, +got:\n%s", diff)
			}
		})
	}
}

// An operator that is uninstalled with the objects that it cleans up is reported, with what to
// delete first. One that is kept outlives them, like an operator elsewhere.
func TestHelm(t *testing.T) {
	world, engine := worldOf(t, "helm.yaml"), newEngine(t)
	for file, manifest := range map[string]string{
		"helm.txt":      manifest,
		"helm-kept.txt": strings.Replace(manifest, "namespace: demo}", "namespace: demo, annotations: {helm.sh/resource-policy: keep}}", 1),
	} {
		q, err := FromHelmManifest("-", "ops", strings.NewReader(manifest))
		if err != nil {
			t.Fatal(err)
		}
		q.Of, q.Command = "release kiali -n ops, revision 1, deployed", "helm uninstall kiali -n ops"
		if q.Targets, q.Missing, err = AllFromFacts(world, q.Names); err != nil {
			t.Fatal(err)
		}
		set, err := Ask(t.Context(), engine, world, q)
		if err != nil {
			t.Fatal(err)
		}
		var text bytes.Buffer
		if err := set.Text(&text); err != nil {
			t.Fatal(err)
		}
		golden(t, file, text.Bytes())
	}
}

// Helm looks up the kinds of all objects before it deletes any.
func TestHelmKindGone(t *testing.T) {
	q, err := FromHelmManifest("-", "ops", strings.NewReader("{apiVersion: gone.io/v1, kind: Widget, metadata: {name: w}}\n---\n{apiVersion: v1, kind: Pod, metadata: {name: p}}\n"))
	if err != nil {
		t.Fatal(err)
	}
	world := worldOf(t, "helm.yaml")
	if q.Targets, q.Missing, err = AllFromFacts(world, q.Names); err != nil {
		t.Fatal(err)
	}
	if _, err := Ask(t.Context(), newEngine(t), world, q); err == nil || !strings.Contains(err.Error(), `helm uninstall deletes nothing as long as a kind of the release is not served: type "widget.gone.io" not found`) {
		t.Errorf("error %v", err)
	}
	q.As, q.By = AsDelete, "" // kubectl deletes the rest
	set, err := Ask(t.Context(), newEngine(t), world, q)
	if err != nil || len(set.Missing) != 2 || set.Verdict != policies.Completes {
		t.Errorf("%v, missing %q, %s", err, set.Missing, set.Verdict)
	}
}

func TestFromHelmManifestRefuses(t *testing.T) {
	for text, want := range map[string]string{
		"\n": "-: no object in it that helm uninstall deletes",
		"{apiVersion: v1, kind: Pod, metadata: {name: p, annotations: {helm.sh/hook: pre-delete}}}": "-: no object in it that helm uninstall deletes",
		"a: [":          "-: document 0 of the manifest: ",
		"{kind: Pod}\n": "an object without apiVersion, kind or metadata.name",
	} {
		if _, err := FromHelmManifest("-", "ops", strings.NewReader(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: error %v, want %q", text, err, want)
		}
	}
	if _, err := FromHelmManifest("testdata/none.yaml", "ops", nil); err == nil {
		t.Error("got no error for a missing file")
	}
}
