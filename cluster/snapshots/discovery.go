package snapshots

import (
	"net/http"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/version"

	"github.com/termguard/termguard/cluster"
)

var verbs = metav1.Verbs{"delete", "get", "list"}

func (a *Archive) serve(gv schema.GroupVersion, api metav1.APIResource) {
	if !slices.ContainsFunc(a.served[gv], func(other metav1.APIResource) bool { return other.Name == api.Name }) {
		if len(api.Verbs) == 0 {
			api.Verbs = verbs
		}
		a.served[gv] = append(a.served[gv], api)
	}
}

// serveBuiltin also adds kinds that the cluster does not serve: they are unseen.
func (a *Archive) serveBuiltin() {
	for _, k := range cluster.Builtin() {
		if !k.Past {
			a.serve(k.GroupVersion(), metav1.APIResource{Name: k.Resource.Resource, Kind: k.Kind, SingularName: strings.ToLower(k.Kind), ShortNames: k.Short, Namespaced: k.Namespaced})
		}
	}
}

func (a *Archive) serveDefined(definition *unstructured.Unstructured) {
	text := func(path ...string) string {
		value, _, _ := unstructured.NestedString(definition.Object, path...)
		return value
	}
	short, _, _ := unstructured.NestedStringSlice(definition.Object, "spec", "names", "shortNames")
	versions, _, _ := unstructured.NestedFieldNoCopy(definition.Object, "spec", "versions")
	list, _ := versions.([]any)
	if old := text("spec", "version"); old != "" && len(list) == 0 {
		list = []any{map[string]any{"name": old, "served": true}}
	}
	for _, item := range list {
		fields, _ := item.(map[string]any)
		name, _ := fields["name"].(string)
		if served, _ := fields["served"].(bool); served && name != "" {
			a.serve(schema.GroupVersion{Group: text("spec", "group"), Version: name}, metav1.APIResource{
				Name: text("spec", "names", "plural"), Kind: text("spec", "names", "kind"), SingularName: text("spec", "names", "singular"),
				ShortNames: short, Namespaced: text("spec", "scope") == "Namespaced",
			})
		}
	}
}

func (a *Archive) servedAs(gk schema.GroupKind) (gr schema.GroupResource, namespaced, served bool) {
	for gv, resources := range a.served {
		for _, api := range resources {
			if gv.Group == gk.Group && api.Kind == gk.Kind && !strings.Contains(api.Name, "/") {
				return schema.GroupResource{Group: gv.Group, Resource: api.Name}, api.Namespaced, true
			}
		}
	}
	return gr, false, false
}

// resourceOf guesses the name of an undefined kind as Kubernetes would, and serves it.
func (a *Archive) resourceOf(gk schema.GroupKind, k *kind) schema.GroupResource {
	if gr, _, served := a.servedAs(gk); served {
		return gr
	}
	guess, _ := meta.UnsafeGuessKindToResource(gk.WithVersion(""))
	gv := schema.GroupVersion{Group: gk.Group, Version: "v1"}
	if o, err := a.read(k.rows[0]); err == nil {
		gv = o.GroupVersionKind().GroupVersion()
	}
	a.serve(gv, metav1.APIResource{Name: guess.Resource, Kind: gk.Kind, SingularName: strings.ToLower(gk.Kind), Namespaced: k.spaces[""] == 0})
	return guess.GroupResource()
}

func (a *Archive) discovery(path string) Answer {
	words := strings.Split(strings.Trim(path, "/"), "/")
	gv := schema.GroupVersion{Version: words[len(words)-1]}
	switch {
	case path == "/version":
		return answered(version.Info{GitVersion: a.version})
	case path == "/api":
		return answered(metav1.APIVersions{TypeMeta: metav1.TypeMeta{Kind: "APIVersions", APIVersion: "v1"}, Versions: []string{"v1"}})
	case path == "/apis":
		return answered(a.apiGroups())
	case len(words) == 3 && words[0] == "apis":
		gv.Group = words[1]
	}
	resources, served := a.served[gv]
	if !served {
		return failed(http.StatusNotFound, metav1.StatusReasonNotFound, "the snapshot does not show that "+path+" is served")
	}
	return answered(metav1.APIResourceList{TypeMeta: metav1.TypeMeta{Kind: "APIResourceList", APIVersion: "v1"}, GroupVersion: gv.String(), APIResources: resources})
}

func (a *Archive) apiGroups() metav1.APIGroupList {
	list := metav1.APIGroupList{TypeMeta: metav1.TypeMeta{Kind: "APIGroupList", APIVersion: "v1"}}
	gvs := make([]schema.GroupVersion, 0, len(a.served))
	for gv := range a.served {
		if gv.Group != "" {
			gvs = append(gvs, gv)
		}
	}
	slices.SortFunc(gvs, func(x, y schema.GroupVersion) int {
		if x.Group != y.Group {
			return strings.Compare(x.Group, y.Group)
		}
		return version.CompareKubeAwareVersionStrings(y.Version, x.Version) // newest first
	})
	for _, gv := range gvs {
		last := len(list.Groups) - 1
		named := metav1.GroupVersionForDiscovery{GroupVersion: gv.String(), Version: gv.Version}
		if last < 0 || list.Groups[last].Name != gv.Group {
			list.Groups = append(list.Groups, metav1.APIGroup{Name: gv.Group, PreferredVersion: named})
			last++
		}
		list.Groups[last].Versions = append(list.Groups[last].Versions, named)
	}
	return list
}
