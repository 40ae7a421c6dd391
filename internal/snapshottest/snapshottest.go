// Package snapshottest makes snapshots of objects that tests have.
package snapshottest

import (
	"bytes"
	"cmp"
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/termguard/termguard/cluster"
)

// File writes a snapshot of a cluster with exactly these objects, and returns its path. A document of kind
// Cluster among them, as in fixtures, adds what objects cannot show.
func File(t *testing.T, objects []*unstructured.Unstructured) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "snapshot.json")
	if err := os.WriteFile(file, Text(t, objects), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// Text returns the text of such a snapshot.
func Text(t *testing.T, objects []*unstructured.Unstructured) []byte {
	t.Helper()
	about := map[string]any{}
	var rest []*unstructured.Unstructured
	for _, o := range objects {
		if o.GetKind() == "Cluster" && strings.HasPrefix(o.GetAPIVersion(), "termguard.dev/") {
			about = o.Object
		} else {
			rest = append(rest, o)
		}
	}
	var out bytes.Buffer
	line := func(fields any) {
		text, err := json.Marshal(fields)
		if err != nil {
			t.Fatal(err)
		}
		out.Write(append(text, '\n'))
	}
	now, _ := about["now"].(string)
	own := func(kind string, more map[string]any) {
		line(struct {
			APIVersion string `json:"apiVersion"`
			Kind       string `json:"kind"`
			Now        string `json:"now,omitempty"`
			Path       any    `json:"path,omitempty"`
			Last       any    `json:"last,omitempty"`
			Code       any    `json:"code,omitempty"`
			Body       any    `json:"body,omitempty"`
		}{"termguard.dev/v2", kind, now, more["path"], more["last"], more["code"], more["body"]})
	}
	answer := func(path string, code int, body any) {
		own("Answer", map[string]any{"path": path, "code": code, "body": body})
	}
	failed := func(path, message string, code int) {
		answer(path, code, metav1.Status{TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}, Status: "Failure", Code: int32(code), Message: message, Reason: reasons[code]})
	}
	now = cmp.Or(now, time.Now().UTC().Format(time.RFC3339))
	own("Snapshot", nil)
	now = ""
	version, _ := about["version"].(string)
	answer("/version", http.StatusOK, map[string]any{"gitVersion": version})

	type served struct {
		cluster.Resource
		kind    string
		short   []string
		objects []*unstructured.Unstructured
	}
	all := map[string]*served{}
	for _, k := range cluster.Builtin() {
		if slices.Contains(cluster.Whole(), k.Resource) {
			all[k.String()] = &served{Resource: k.Resource, kind: k.Kind, short: k.Short}
		}
	}
	add := func(res cluster.Resource, kind string) *served {
		if all[res.String()] == nil {
			all[res.String()] = &served{Resource: res, kind: kind}
		}
		return all[res.String()]
	}
	mapped := cluster.Resources(rest)
	for _, o := range rest {
		if o.GetKind() == "CustomResourceDefinition" {
			text := func(path ...string) string {
				value, _, _ := unstructured.NestedString(o.Object, path...)
				return value
			}
			versions, _, _ := unstructured.NestedSlice(o.Object, "spec", "versions")
			for _, version := range versions {
				fields, _ := version.(map[string]any)
				name, _ := fields["name"].(string)
				gvr := schema.GroupVersionResource{Group: text("spec", "group"), Version: name, Resource: text("spec", "names", "plural")}
				s := add(cluster.Resource{GroupVersionResource: gvr, Namespaced: text("spec", "scope") == "Namespaced"}, text("spec", "names", "kind"))
				s.short, _, _ = unstructured.NestedStringSlice(o.Object, "spec", "names", "shortNames")
			}
		}
		s := add(mapped[o.GroupVersionKind()], o.GetKind())
		s.objects = append(s.objects, o)
	}
	byGroup := map[schema.GroupVersion][]metav1.APIResource{}
	unseen := map[string]string{}
	list, _ := about["unseen"].([]any)
	for _, item := range list {
		fields, _ := item.(map[string]any)
		resource, _ := fields["resource"].(string)
		unseen[resource], _ = fields["reason"].(string)
		namespaced, _ := fields["namespaced"].(bool)
		if all[resource] == nil {
			gr := schema.ParseGroupResource(resource)
			all[resource] = &served{Resource: cluster.Resource{GroupVersionResource: gr.WithVersion("v1"), Namespaced: namespaced}, kind: "Unseen"}
			for _, k := range cluster.Builtin() {
				if k.GroupResource() == gr {
					all[resource] = &served{Resource: k.Resource, kind: k.Kind, short: k.Short}
				}
			}
		}
	}
	stale := map[schema.GroupVersion]bool{}
	list, _ = about["stale"].([]any)
	for _, item := range list {
		name, _ := item.(string)
		version, group, _ := strings.Cut(name, ".")
		gv := schema.GroupVersion{Group: group, Version: version}
		stale[gv], byGroup[gv] = true, slices.Clone(byGroup[gv])
	}
	errors, _ := about["listErrors"].(map[string]any)
	for name := range errors {
		if version, group, ok := strings.Cut(name, "."); ok && all[name] == nil { // of an APIService
			add(cluster.Resource{GroupVersionResource: schema.GroupVersionResource{Group: group, Version: version, Resource: "things"}, Namespaced: true}, "Thing")
		}
	}
	names := make([]string, 0, len(all))
	for name, s := range all {
		names = append(names, name)
		byGroup[s.GroupVersion()] = append(byGroup[s.GroupVersion()], metav1.APIResource{
			Name: s.Resource.Resource, Kind: s.kind, SingularName: strings.ToLower(s.kind), ShortNames: s.short, Namespaced: s.Namespaced, Verbs: metav1.Verbs{"delete", "get", "list", "watch"},
		})
	}
	slices.Sort(names)
	groups := metav1.APIGroupList{TypeMeta: metav1.TypeMeta{Kind: "APIGroupList", APIVersion: "v1"}}
	for _, gv := range sorted(byGroup) {
		root := "/apis/" + gv.String()
		if gv.Group == "" {
			root = "/api/v1"
		} else {
			version := metav1.GroupVersionForDiscovery{GroupVersion: gv.String(), Version: gv.Version}
			groups.Groups = append(groups.Groups, metav1.APIGroup{Name: gv.Group, Versions: []metav1.GroupVersionForDiscovery{version}, PreferredVersion: version})
		}
		if stale[gv] {
			failed(root, "it is stale", http.StatusServiceUnavailable)
			continue
		}
		answer(root, http.StatusOK, metav1.APIResourceList{TypeMeta: metav1.TypeMeta{Kind: "APIResourceList", APIVersion: "v1"}, GroupVersion: gv.String(), APIResources: byGroup[gv]})
	}
	answer("/api", http.StatusOK, metav1.APIVersions{TypeMeta: metav1.TypeMeta{Kind: "APIVersions", APIVersion: "v1"}, Versions: []string{"v1"}})
	answer("/apis", http.StatusOK, groups)
	for _, name := range names {
		s := all[name]
		path := "/apis/" + s.GroupVersion().String() + "/" + s.Resource.Resource
		if s.Group == "" {
			path = "/api/v1/" + s.Resource.Resource
		}
		if reason := unseen[name]; reason != "" {
			code := http.StatusBadRequest
			if reason == "forbidden" {
				code = http.StatusForbidden
			}
			failed(path, reason, code)
			continue
		}
		message, fails := errors[name].(string)
		if !fails {
			message, fails = errors[s.Version+"."+s.Group].(string)
		}
		if fails {
			failed(path, message, http.StatusInternalServerError)
			continue
		}
		own("List", map[string]any{"path": path, "last": true})
		for _, o := range s.objects {
			line(o.Object)
		}
	}
	for _, path := range []string{"/apis/coordination.k8s.io/v1/leases"} {
		if all["leases.coordination.k8s.io"] == nil {
			own("List", map[string]any{"path": path, "last": true})
		}
	}
	own("End", nil)
	return out.Bytes()
}

var reasons = map[int]metav1.StatusReason{http.StatusForbidden: metav1.StatusReasonForbidden, http.StatusBadRequest: metav1.StatusReasonBadRequest, http.StatusServiceUnavailable: metav1.StatusReasonServiceUnavailable, http.StatusInternalServerError: metav1.StatusReasonInternalError}

func sorted(groups map[schema.GroupVersion][]metav1.APIResource) (all []schema.GroupVersion) {
	for gv := range groups {
		all = append(all, gv)
	}
	slices.SortFunc(all, func(a, b schema.GroupVersion) int { return strings.Compare(a.String(), b.String()) })
	return all
}
