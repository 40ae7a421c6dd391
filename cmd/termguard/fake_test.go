package main

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"k8s.io/apimachinery/pkg/labels"
	"sigs.k8s.io/yaml"
)

// served has the resources of fakeCluster: group/version, plural, kind, and short names.
const served = `
v1 namespaces Namespace ns cluster
v1 nodes Node no cluster
v1 persistentvolumes PersistentVolume pv cluster
v1 pods Pod po
v1 configmaps ConfigMap cm
v1 secrets Secret -
v1 services Service svc
v1 serviceaccounts ServiceAccount sa
v1 persistentvolumeclaims PersistentVolumeClaim pvc
v1 events Event ev
apps/v1 deployments Deployment deploy
apps/v1 statefulsets StatefulSet sts
apps/v1 daemonsets DaemonSet ds
apps/v1 replicasets ReplicaSet rs
discovery.k8s.io/v1 endpointslices EndpointSlice -
coordination.k8s.io/v1 leases Lease -
policy/v1 poddisruptionbudgets PodDisruptionBudget pdb
storage.k8s.io/v1 csidrivers CSIDriver - cluster
storage.k8s.io/v1 csinodes CSINode - cluster
storage.k8s.io/v1 storageclasses StorageClass sc cluster
storage.k8s.io/v1 volumeattachments VolumeAttachment - cluster
rbac.authorization.k8s.io/v1 roles Role -
rbac.authorization.k8s.io/v1 rolebindings RoleBinding -
rbac.authorization.k8s.io/v1 clusterroles ClusterRole - cluster
rbac.authorization.k8s.io/v1 clusterrolebindings ClusterRoleBinding - cluster
admissionregistration.k8s.io/v1 validatingwebhookconfigurations ValidatingWebhookConfiguration - cluster
admissionregistration.k8s.io/v1 mutatingwebhookconfigurations MutatingWebhookConfiguration - cluster
admissionregistration.k8s.io/v1 validatingadmissionpolicies ValidatingAdmissionPolicy - cluster
admissionregistration.k8s.io/v1 validatingadmissionpolicybindings ValidatingAdmissionPolicyBinding - cluster
apiextensions.k8s.io/v1 customresourcedefinitions CustomResourceDefinition crd cluster
apiregistration.k8s.io/v1 apiservices APIService - cluster
acme.example.com/v1 widgets Widget w
kiali.io/v1alpha1 kialis Kiali -
`

// fakeCluster is an API server in memory: it gets, lists, patches and deletes objects, with
// finalizers, UIDs and namespace deletion, and runs no controllers.
type fakeCluster struct {
	t          *testing.T
	kubeconfig string

	mu       sync.Mutex
	objects  map[string]map[string]any // by path
	kinds    map[string][]string       // the fields of served, by path of the collection without its namespace
	uids     int
	requests []string // that change something, or list with a selector; each with who asks
	failing  string   // the plural of what cannot be listed
	broken   string   // a group and version whose API server does not answer
	hidden   []string // plurals of what may not be read
	unlisted []string // resources that may be read by name, and not listed
	user     string   // who asks, "" where the cluster does not tell
	// before is called with each request that changes something, before its answer.
	before func(request string)
	// arrived is called with every request, before its answer.
	arrived func(*http.Request)
	// loses reports whether the answer to a request that changes something never arrives.
	loses func(request string) bool
}

func newFakeCluster(t *testing.T, manifests string) *fakeCluster {
	t.Helper()
	c := &fakeCluster{t: t, objects: map[string]map[string]any{}, kinds: map[string][]string{}}
	for line := range strings.Lines(strings.TrimSpace(served)) {
		fields := strings.Fields(line)
		c.kinds[root(fields[0])+"/"+fields[1]] = fields
	}
	c.apply(manifests)
	server := httptest.NewServer(c)
	t.Cleanup(server.Close)
	c.kubeconfig = filepath.Join(t.TempDir(), "kubeconfig")
	text := fmt.Sprintf(`{apiVersion: v1, kind: Config, current-context: c, contexts: [{name: c, context: {cluster: c, user: u, namespace: demo}}], clusters: [{name: c, cluster: {server: %q}}], users: [{name: u, user: {token: t}}]}`, server.URL)
	if err := os.WriteFile(c.kubeconfig, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return c
}

func root(version string) string {
	if version == "v1" {
		return "/api/v1"
	}
	return "/apis/" + version
}

// apply creates objects, or replaces objects of the same name.
func (c *fakeCluster) apply(manifests string) {
	c.t.Helper()
	for _, document := range strings.Split(manifests, "\n---\n") {
		var object map[string]any
		if err := yaml.Unmarshal([]byte(document), &object); err != nil {
			c.t.Fatal(err)
		}
		if len(object) == 0 {
			continue
		}
		ok := false
		for at, fields := range c.kinds {
			if fields[0] == object["apiVersion"] && fields[2] == object["kind"] {
				ok = true
				meta := object["metadata"].(map[string]any)
				if namespace, _ := meta["namespace"].(string); namespace != "" {
					at = root(fields[0]) + "/namespaces/" + namespace + "/" + fields[1]
				}
				c.mu.Lock()
				c.uids++
				meta["uid"] = "uid-" + strconv.Itoa(c.uids)
				c.objects[at+"/"+meta["name"].(string)] = object
				c.mu.Unlock()
			}
		}
		if !ok {
			c.t.Fatalf("%v is not served", object["kind"])
		}
	}
}

// has reports whether there is an object at a path.
func (c *fakeCluster) has(path string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.objects[path] != nil
}

func (c *fakeCluster) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	if c.arrived != nil {
		c.arrived(r)
	}
	if r.Method != http.MethodGet {
		if c.before != nil && !strings.Contains(r.URL.Path, "selfsubject") {
			c.before(r.Method + " " + r.URL.Path)
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if as := r.Header.Get("Impersonate-User"); as != "" || r.Method != http.MethodGet || r.URL.Query().Has("labelSelector") || r.URL.Query().Has("fieldSelector") {
		c.requests = append(c.requests, strings.TrimSpace(r.Method+" "+r.URL.RequestURI()+" "+as))
	}
	code, answer := c.answer(r, body)
	if c.loses != nil && r.Method != http.MethodGet && c.loses(r.Method+" "+r.URL.Path) {
		panic(http.ErrAbortHandler)
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	if err := json.NewEncoder(w).Encode(answer); err != nil {
		c.t.Error(err)
	}
}

func failure(code int, reason, message string) (int, any) {
	return code, map[string]any{"apiVersion": "v1", "kind": "Status", "status": "Failure", "code": code, "reason": reason, "message": message}
}

func (c *fakeCluster) answer(r *http.Request, body []byte) (int, any) {
	path := r.URL.Path
	switch path {
	case "/version":
		return 200, map[string]any{"gitVersion": "v1.36.3"}
	case "/api":
		return 200, map[string]any{"kind": "APIVersions", "versions": []string{"v1"}}
	case "/apis":
		return 200, c.groups()
	case "/apis/authentication.k8s.io/v1/selfsubjectreviews":
		if c.user != "" {
			return 201, map[string]any{"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview", "status": map[string]any{"userInfo": map[string]any{"username": c.user, "groups": []string{"system:authenticated"}}}}
		}
	}
	if c.broken != "" && path == root(c.broken) {
		return failure(503, "ServiceUnavailable", "the backend of "+c.broken+" is broken")
	}
	if resources := c.resources(path); resources != nil {
		return 200, resources
	}
	for _, plural := range c.hidden {
		if strings.HasSuffix(path, "/"+plural) || strings.Contains(path, "/"+plural+"/") {
			return failure(403, "Forbidden", plural+" is forbidden")
		}
	}
	for _, plural := range c.unlisted {
		if strings.HasSuffix(path, "/"+plural) {
			return failure(403, "Forbidden", plural+" may not be listed")
		}
	}
	if c.failing != "" && strings.HasSuffix(path, "/"+c.failing) {
		return failure(500, "InternalError", "the backend of "+c.failing+" is broken")
	}
	if object := c.objects[path]; object != nil {
		switch r.Method {
		case http.MethodGet:
			return 200, object
		case http.MethodPatch:
			return c.patch(path, object, r.Header.Get("Content-Type"), body)
		case http.MethodDelete:
			return c.delete(path, object, body)
		}
	}
	if fields := c.collection(path); fields != nil && r.Method == http.MethodGet {
		selector, err := labels.Parse(r.URL.Query().Get("labelSelector"))
		if err != nil {
			return failure(400, "BadRequest", err.Error())
		}
		return 200, c.list(path, fields, selector, r)
	}
	return failure(404, "NotFound", path+" not found")
}

func (c *fakeCluster) groups() any {
	var groups []any
	for _, version := range c.versions() {
		group, v, _ := strings.Cut(version, "/")
		one := map[string]any{"groupVersion": version, "version": v}
		if v != "" {
			groups = append(groups, map[string]any{"name": group, "versions": []any{one}, "preferredVersion": one})
		}
	}
	return map[string]any{"apiVersion": "v1", "kind": "APIGroupList", "groups": groups}
}

func (c *fakeCluster) versions() []string {
	versions := map[string]bool{}
	if c.broken != "" {
		versions[c.broken] = true
	}
	for _, fields := range c.kinds {
		versions[fields[0]] = true
	}
	return slices.Sorted(maps.Keys(versions))
}

func (c *fakeCluster) resources(path string) any {
	var resources []any
	version := ""
	for _, at := range slices.Sorted(maps.Keys(c.kinds)) {
		fields := c.kinds[at]
		if root(fields[0]) != path {
			continue
		}
		version = fields[0]
		resource := map[string]any{
			"name": fields[1], "singularName": strings.ToLower(fields[2]), "kind": fields[2], "namespaced": !slices.Contains(fields, "cluster"),
			"verbs": []string{"get", "list", "watch", "patch", "delete"},
		}
		if fields[0] == "apps/v1" || slices.Contains([]string{"pods", "services"}, fields[1]) {
			resource["categories"] = []string{"all"}
		}
		if fields[3] != "-" {
			resource["shortNames"] = fields[3:4]
		}
		resources = append(resources, resource)
	}
	if resources == nil {
		return nil
	}
	return map[string]any{"apiVersion": "v1", "kind": "APIResourceList", "groupVersion": version, "resources": resources}
}

// collection returns the fields of the list at a path, nil if nothing is listed there.
func (c *fakeCluster) collection(path string) []string {
	for _, fields := range c.kinds {
		at := root(fields[0])
		rest, ok := strings.CutPrefix(path, at+"/")
		if !ok {
			continue
		}
		if parts := strings.Split(rest, "/"); rest == fields[1] || len(parts) == 3 && parts[0] == "namespaces" && parts[2] == fields[1] {
			return fields
		}
	}
	return nil
}

func (c *fakeCluster) list(path string, fields []string, selector labels.Selector, r *http.Request) any {
	items := []any{}
	partial := strings.Contains(r.Header.Get("Accept"), "as=PartialObjectMetadataList")
	for _, at := range slices.Sorted(maps.Keys(c.objects)) {
		collection, _, _ := cutLast(at)
		within, _, _ := cutLast(collection)
		everywhere := path == root(fields[0])+"/"+fields[1] && strings.HasSuffix(collection, "/"+fields[1]) && strings.HasPrefix(within, root(fields[0])+"/namespaces/")
		if collection != path && !everywhere {
			continue
		}
		object := maps.Clone(c.objects[at])
		set := labels.Set{}
		for key, value := range object["metadata"].(map[string]any) {
			if key == "labels" {
				for label, text := range value.(map[string]any) {
					set[label] = text.(string)
				}
			}
		}
		if !selector.Matches(set) {
			continue
		}
		if field, name, ok := strings.Cut(r.URL.Query().Get("fieldSelector"), "="); ok && (field != "metadata.name" || object["metadata"].(map[string]any)["name"] != name) {
			continue
		}
		if partial {
			object = map[string]any{"apiVersion": "meta.k8s.io/v1", "kind": "PartialObjectMetadata", "metadata": object["metadata"]}
		}
		items = append(items, object)
	}
	list := map[string]any{"apiVersion": fields[0], "kind": fields[2] + "List", "metadata": map[string]any{"resourceVersion": "1"}, "items": items}
	if partial {
		list["apiVersion"], list["kind"] = "meta.k8s.io/v1", "PartialObjectMetadataList"
	}
	return list
}

func cutLast(path string) (before, after string, ok bool) {
	at := strings.LastIndex(path, "/")
	if at < 0 {
		return path, "", false
	}
	return path[:at], path[at+1:], true
}

func (c *fakeCluster) patch(path string, object map[string]any, kind string, body []byte) (int, any) {
	if kind == "application/merge-patch+json" {
		var patch map[string]any
		if err := json.Unmarshal(body, &patch); err != nil {
			c.t.Error(err)
		}
		if meta, ok := patch["metadata"].(map[string]any); ok && meta["uid"] != nil && meta["uid"] != object["metadata"].(map[string]any)["uid"] {
			return failure(409, "Conflict", "the UID in the precondition is not that of the object")
		}
		merge(object, patch)
		return 200, c.settle(path, object)
	}
	var changes []struct {
		Op, Path string
		Value    any
	}
	if err := json.Unmarshal(body, &changes); err != nil {
		c.t.Error(err)
	}
	for _, change := range changes {
		within, last, _ := cutLast(change.Path)
		parent := any(object)
		for _, key := range strings.Split(strings.TrimPrefix(within, "/"), "/") {
			parent, _ = parent.(map[string]any)[key], true
		}
		var now any
		index, _ := strconv.Atoi(last)
		list, isList := parent.([]any)
		if isList && index < len(list) {
			now = list[index]
		} else if !isList {
			now = parent.(map[string]any)[last]
		}
		switch {
		case change.Op == "test" && !reflect.DeepEqual(now, change.Value):
			return failure(422, "Invalid", "the test of "+change.Path+" failed")
		case change.Op == "remove" && isList:
			_, key, _ := cutLast(within)
			object["metadata"].(map[string]any)[key] = slices.Delete(slices.Clone(list), index, index+1)
		case change.Op == "remove":
			delete(parent.(map[string]any), last)
		case change.Op != "test":
			c.t.Errorf("the fake does not support %s", change.Op)
		}
	}
	return 200, c.settle(path, object)
}

func merge(into, patch map[string]any) {
	for key, value := range patch {
		inner, isMap := value.(map[string]any)
		have, both := into[key].(map[string]any)
		switch {
		case value == nil:
			delete(into, key)
		case isMap && both:
			merge(have, inner)
		default:
			into[key] = value
		}
	}
}

func (c *fakeCluster) delete(path string, object map[string]any, body []byte) (int, any) {
	var options struct {
		Preconditions struct{ UID string }
	}
	if err := json.Unmarshal(body, &options); err != nil && len(body) > 0 {
		c.t.Error(err)
	}
	meta := object["metadata"].(map[string]any)
	if uid := options.Preconditions.UID; uid != "" && uid != meta["uid"] {
		return failure(409, "Conflict", "the UID in the precondition is not that of the object")
	}
	if meta["deletionTimestamp"] == nil {
		meta["deletionTimestamp"] = "2026-01-01T00:00:00Z"
	}
	return 200, c.settle(path, object)
}

// settle does what an API server and the namespace controller do about a Terminating object.
func (c *fakeCluster) settle(path string, object map[string]any) any {
	meta := object["metadata"].(map[string]any)
	if meta["deletionTimestamp"] != nil {
		held, _ := meta["finalizers"].([]any)
		if namespace, ok := strings.CutPrefix(path, "/api/v1/namespaces/"); ok && !strings.Contains(namespace, "/") {
			for at, inside := range maps.Clone(c.objects) {
				if strings.Contains(at, "/namespaces/"+namespace+"/") {
					inside["metadata"].(map[string]any)["deletionTimestamp"] = "2026-01-01T00:00:00Z"
					c.settle(at, inside)
				}
			}
			for at := range c.objects {
				if strings.Contains(at, "/namespaces/"+namespace+"/") {
					return object
				}
			}
		}
		if len(held) == 0 {
			delete(c.objects, path)
			if _, rest, ok := strings.Cut(path, "/namespaces/"); ok && strings.Contains(rest, "/") {
				namespace, _, _ := strings.Cut(rest, "/")
				home := "/api/v1/namespaces/" + namespace
				if around := c.objects[home]; around != nil && around["metadata"].(map[string]any)["deletionTimestamp"] != nil {
					c.settle(home, around)
				}
			}
		}
	}
	return object
}

// stuck returns a namespace with objects whose finalizer no controller removes.
func stuck(names ...string) string {
	world := `
{apiVersion: apiextensions.k8s.io/v1, kind: CustomResourceDefinition, metadata: {name: widgets.acme.example.com}, spec: {group: acme.example.com, scope: Namespaced, names: {kind: Widget, plural: widgets}, versions: [{name: v1, served: true, storage: true}]}, status: {conditions: [{type: Established, status: "True"}], storedVersions: [v1]}}
---
{apiVersion: v1, kind: Namespace, metadata: {name: demo}, spec: {finalizers: [kubernetes]}, status: {phase: Active}}
---
{apiVersion: v1, kind: Namespace, metadata: {name: other}, spec: {finalizers: [kubernetes]}, status: {phase: Active}}
---
{apiVersion: acme.example.com/v1, kind: Widget, metadata: {name: a, namespace: other, finalizers: [acme.example.com/cleanup]}}
---
{apiVersion: v1, kind: ConfigMap, metadata: {name: plain, namespace: demo}}
`
	for _, name := range names {
		world += fmt.Sprintf("---\n{apiVersion: acme.example.com/v1, kind: Widget, metadata: {name: %s, namespace: demo, finalizers: [acme.example.com/cleanup]}}\n", name)
	}
	return world
}
