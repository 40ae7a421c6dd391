package snapshots

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/termguard/termguard/cluster"
	"github.com/termguard/termguard/cluster/live"
)

// place is the list or object that the path of a request names.
type place struct {
	schema.GroupVersionResource
	namespace, name string
}

func placeOf(path string) (p place, is bool) {
	words := strings.Split(strings.Trim(path, "/"), "/")
	switch {
	case len(words) > 2 && words[0] == "api":
		p.Version, words = words[1], words[2:]
	case len(words) > 3 && words[0] == "apis":
		p.Group, p.Version, words = words[1], words[2], words[3:]
	default:
		return p, false
	}
	if words[0] == "namespaces" && len(words) > 2 {
		p.namespace, words = words[1], words[2:]
	}
	if p.Resource = words[0]; len(words) > 1 {
		p.name = words[1]
	}
	return p, len(words) < 3
}

func rootOf(gv schema.GroupVersion) string {
	if gv.Group == "" {
		return "/api/" + gv.Version
	}
	return "/apis/" + gv.String()
}

func (p place) path() string {
	path := rootOf(p.GroupVersion())
	if p.namespace != "" {
		path += "/namespaces/" + p.namespace
	}
	if path += "/" + p.Resource; p.name != "" {
		path += "/" + p.name
	}
	return path
}

// requested identifies a request, apart from its page.
func requested(u *url.URL) string {
	query := u.Query()
	return scope(u.Path, query.Get("labelSelector"), query.Get("fieldSelector"))
}

// RoundTrip answers as the API server did, and only reads.
func (a *Archive) RoundTrip(r *http.Request) (*http.Response, error) {
	said := a.answer(r)
	var text string
	if said.Type != "" && !strings.Contains(said.Type, "json") && json.Unmarshal(said.Body, &text) == nil {
		said.Body = []byte(text)
	}
	header := http.Header{"Content-Type": {cmp.Or(said.Type, "application/json")}}
	return &http.Response{
		Status: http.StatusText(said.Code), StatusCode: said.Code, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: header, Body: io.NopCloser(bytes.NewReader(said.Body)), ContentLength: int64(len(said.Body)), Request: r,
	}, nil
}

func (a *Archive) answer(r *http.Request) Answer {
	query := r.URL.Query()
	if r.Method != http.MethodGet || query.Get("watch") != "" {
		return failed(http.StatusForbidden, metav1.StatusReasonForbidden, "a snapshot can only be read")
	}
	if said, ok := a.answers[requested(r.URL)]; ok {
		return said
	}
	p, is := placeOf(r.URL.Path)
	switch {
	case !is:
		return a.discovery(r.URL.Path)
	case p.name != "":
		return a.get(p, metadataOnly(r))
	}
	return a.list(p, query, metadataOnly(r))
}

func metadataOnly(r *http.Request) bool {
	return strings.Contains(r.Header.Get("Accept"), "as=PartialObjectMetadata")
}

func answered(body any) Answer {
	text, err := json.Marshal(body)
	if err != nil {
		return failed(http.StatusBadRequest, metav1.StatusReasonBadRequest, err.Error())
	}
	return Answer{Code: http.StatusOK, Body: text}
}

func failed(code int, reason metav1.StatusReason, message string) Answer {
	text, _ := json.Marshal(metav1.Status{ // of strings and a number
		TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}, Status: metav1.StatusFailure, Code: int32(code), Reason: reason, Message: message,
	})
	return Answer{Code: code, Body: text}
}

// lacks answers that the archive lacks something, or as the API server refused to list it.
func (a *Archive) lacks(p place) Answer {
	for _, namespace := range []string{p.namespace, ""} {
		of := place{p.GroupVersionResource, namespace, ""}
		if said, ok := a.answers[scope(of.path(), "", "")]; ok {
			return said
		}
	}
	what := p.GroupResource().String()
	if p.namespace != "" {
		what += " of namespace " + p.namespace
	}
	return failed(http.StatusNotFound, live.ReasonLacks, "the snapshot lacks "+what)
}

func (k *kind) complete(namespace, labelSelector, fieldSelector string) bool {
	return k.listed[scope("", "", "")] || k.listed[scope(namespace, "", "")] || k.listed[scope(namespace, labelSelector, fieldSelector)]
}

func (a *Archive) get(p place, metadata bool) Answer {
	k := a.kinds[p.GroupResource()]
	if k == nil {
		return a.lacks(p)
	}
	at, there := k.byName[a.key(p.namespace, p.name)]
	switch {
	case !there && k.complete(p.namespace, "", "metadata.name="+p.name):
		return failed(http.StatusNotFound, metav1.StatusReasonNotFound, fmt.Sprintf("%s %q not found", p.GroupResource(), p.name))
	case !there:
		return a.lacks(p)
	}
	object, err := a.read(k.rows[at])
	if err != nil {
		return failed(http.StatusBadRequest, metav1.StatusReasonBadRequest, err.Error())
	}
	if metadata || !k.rows[at].whole {
		object = partial(object)
	}
	return answered(object)
}

func partial(object *unstructured.Unstructured) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{"apiVersion": "meta.k8s.io/v1", "kind": "PartialObjectMetadata", "metadata": object.Object["metadata"]}}
}

func (a *Archive) list(p place, query url.Values, metadata bool) Answer {
	k := a.kinds[p.GroupResource()]
	if k == nil {
		return a.lacks(p)
	}
	byLabel, byField := query.Get("labelSelector"), query.Get("fieldSelector")
	complete := k.complete(p.namespace, byLabel, byField)
	if !complete && (len(k.rows) == 0 || p.namespace != "" && k.spaces[p.namespace] == 0) {
		return a.lacks(p)
	}
	selects, err := selecting(byLabel, byField)
	if err != nil {
		return failed(http.StatusBadRequest, metav1.StatusReasonBadRequest, err.Error())
	}
	limit, _ := strconv.Atoi(query.Get("limit"))
	next, _ := strconv.Atoi(query.Get("continue"))
	kindOf, gv := builtinKind(p.GroupResource())+"List", p.GroupVersion().String() // typed clients need the kind
	if metadata {
		kindOf, gv = "PartialObjectMetadataList", "meta.k8s.io/v1"
	}
	items, about := []any{}, map[string]any{"resourceVersion": "1"}
	for ; next < len(k.rows); next++ {
		if limit > 0 && len(items) == limit {
			about["continue"] = strconv.Itoa(next)
			break
		}
		r := k.rows[next]
		if p.namespace != "" && r.namespace != p.namespace {
			continue
		}
		object, err := a.read(r)
		if err != nil {
			return failed(http.StatusBadRequest, metav1.StatusReasonBadRequest, err.Error())
		}
		if !selects(object) {
			continue
		}
		switch {
		case metadata:
			object = partial(object)
		case !r.whole:
			return a.lacks(p)
		}
		items = append(items, object.Object)
	}
	if !complete && about["continue"] == nil {
		about["remainingItemCount"] = 1
	}
	return answered(map[string]any{"apiVersion": gv, "kind": kindOf, "metadata": about, "items": items})
}

func builtinKind(gr schema.GroupResource) string {
	at := slices.IndexFunc(cluster.Builtin(), func(k cluster.Kind) bool { return k.GroupResource() == gr })
	if at < 0 {
		return ""
	}
	return cluster.Builtin()[at].Kind
}

func selecting(byLabel, byField string) (func(*unstructured.Unstructured) bool, error) {
	labelled, err := labels.Parse(byLabel)
	if err != nil {
		return nil, err
	}
	has, err := fields.ParseSelector(byField)
	if err != nil {
		return nil, err
	}
	text := func(o *unstructured.Unstructured, path ...string) string {
		value, _, _ := unstructured.NestedString(o.Object, path...)
		return value
	}
	return func(o *unstructured.Unstructured) bool {
		return labelled.Matches(labels.Set(o.GetLabels())) && (has.Empty() || has.Matches(fields.Set{
			metav1.ObjectNameField: o.GetName(), "metadata.namespace": o.GetNamespace(),
			"type": text(o, "type"), "reason": text(o, "reason"), "involvedObject.uid": text(o, "involvedObject", "uid"),
		}))
	}, nil
}
