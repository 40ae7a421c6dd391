package snapshots

import (
	"net/http"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/termguard/termguard/cluster"
	"github.com/termguard/termguard/cluster/facts"
)

// A policy's fixture is a cluster with exactly its objects; a document of kind Cluster says the rest.

// own takes termguard's documents; dumps of other tools are no fixtures.
func (d *dump) own(o *unstructured.Unstructured) error {
	switch kind := o.GetKind(); {
	case kind == "Facts":
		return errOld
	case kind == snapshotLine:
		return errNew
	case d.only != nil:
	case kind == "Cluster":
		d.fixture = true
		return cluster.Decode(o, &d.about)
	case kind == "Request":
		d.fixture = true
	}
	return nil
}

// surround completes a fixture: each served resource was listed whole, or could not be.
func (d *dump) surround() {
	d.version, d.now = d.about.Version, time.Time{}
	if d.about.Now != nil {
		d.now = *d.about.Now
	}
	served := sets.Set[string]{}
	for gv, resources := range d.served {
		for _, api := range resources {
			served.Insert(gv.WithResource(api.Name).GroupResource().String())
		}
	}
	failing := map[string]Answer{} // by resource or APIService
	for _, u := range d.about.Unseen {
		failing[u.Resource] = failed(http.StatusBadRequest, metav1.StatusReasonBadRequest, u.Message)
		if u.Reason == facts.UnseenForbidden {
			failing[u.Resource] = failed(http.StatusForbidden, metav1.StatusReasonForbidden, u.Message)
		}
		if gr := schema.ParseGroupResource(u.Resource); !served.Has(u.Resource) {
			d.serve(gr.WithVersion("v1").GroupVersion(), metav1.APIResource{Name: gr.Resource, Kind: "Unseen", Namespaced: u.Namespaced})
		}
	}
	for name, message := range d.about.ListErrors {
		failing[name] = failed(http.StatusInternalServerError, metav1.StatusReasonInternalError, message)
		if version, group, _ := strings.Cut(name, "."); !served.Has(name) {
			d.serve(schema.GroupVersion{Group: group, Version: version}, metav1.APIResource{Name: "things", Kind: "Thing", Namespaced: true})
		}
	}
	for _, name := range d.about.Stale {
		version, group, _ := strings.Cut(name, ".")
		gv := schema.GroupVersion{Group: group, Version: version}
		d.served[gv] = slices.Clone(d.served[gv]) // even without resources
		d.answers[scope(rootOf(gv), "", "")] = failed(http.StatusServiceUnavailable, metav1.StatusReasonServiceUnavailable, "it is stale")
	}
	for gv, resources := range d.served {
		for _, api := range resources {
			gr := gv.WithResource(api.Name).GroupResource()
			said, fails := failing[gr.String()]
			if !fails {
				said, fails = failing[gv.Version+"."+gv.Group]
			}
			if fails {
				delete(d.kinds, gr)
				d.answers[scope(place{GroupVersionResource: gv.WithResource(api.Name)}.path(), "", "")] = said
			} else {
				d.kind(gr).listed[scope("", "", "")] = true
			}
		}
	}
}
