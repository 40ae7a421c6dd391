package snapshots

import (
	"archive/tar"
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/termguard/termguard/cluster"
)

// Files of other tools may be parts; only a list with a resourceVersion is an API server's, and whole, of one
// namespace or of all.

// Folders of an API server's objects. Users of the cluster may have written other files: a support bundle
// copies files of pods.
const (
	gatheredCluster, gatheredNamespaces = "cluster-scoped-resources", "namespaces" // openshift/oc, pkg/cli/admin/inspect
	bundled, bundledInfo                = "cluster-resources", "cluster-info"      // replicatedhq/troubleshoot, pkg/constants
)

var (
	namespacesResource = schema.GroupResource{Resource: "namespaces"}
	secretsResource    = schema.GroupResource{Resource: "secrets"}

	errNothing = errors.New("it holds no Kubernetes objects")
	errTwo     = errors.New("it holds objects of two clusters: name the folder of one")
	errPacked  = errors.New("it is compressed in a way that is not read: unpack it, and name the folder")
)

// dump reads files of other tools into an Archive.
type dump struct {
	*Archive
	only    []string          // folders to read; nil for all
	objects int               // objects
	lists   []list            // an API server's
	uids    map[string]string // of namespaces that every cluster has
	fixture bool
	about   cluster.About // of a fixture
}

type list struct {
	schema.GroupKind
	namespace string // "" for all, or if it has no objects and its file does not tell
	file      string
}

func (a *Archive) foreign(at string, walk func(d *dump, at string, visit func(name string, in io.Reader) error) error) error {
	d := &dump{Archive: a, uids: map[string]string{}}
	names := map[string]bool{}
	err := walk(d, at, func(name string, _ io.Reader) error {
		for _, word := range strings.Split(path.Dir(name), "/") {
			names[word] = true
		}
		return nil
	})
	if err != nil {
		return err
	}
	switch {
	case names[gatheredCluster]:
		d.only = []string{gatheredCluster, gatheredNamespaces}
	case names[bundled]:
		d.only = []string{bundled, bundledInfo}
	}
	err = walk(d, at, func(name string, in io.Reader) error {
		if err := d.read(name, in); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		return nil
	})
	if err != nil {
		return err
	}
	return d.finish()
}

// folder follows no links.
func (d *dump) folder(at string, visit func(name string, in io.Reader) error) error {
	return filepath.WalkDir(at, func(file string, entry fs.DirEntry, err error) error {
		if err != nil || !entry.Type().IsRegular() {
			return err
		}
		name, err := filepath.Rel(at, file)
		if err != nil || !d.wants(filepath.ToSlash(name)) {
			return err
		}
		in, err := os.Open(file)
		if err != nil {
			return err
		}
		defer in.Close()
		return visit(filepath.ToSlash(name), in)
	})
}

// archive visits a tar archive's files, or the only file.
func (d *dump) archive(at string, visit func(name string, in io.Reader) error) error {
	file, err := os.Open(at)
	if err != nil {
		return err
	}
	defer file.Close()
	in, err := unpacked(file)
	if err != nil {
		return err
	}
	const magicAt = 257 // POSIX, pax: ustar
	begin, _ := in.Peek(magicAt + 5)
	switch {
	case bytes.HasPrefix(begin, []byte("\xfd7zXZ")), bytes.HasPrefix(begin, []byte("PK\x03\x04")), bytes.HasPrefix(begin, []byte("BZh")), bytes.HasPrefix(begin, []byte("\x28\xb5\x2f\xfd")):
		return errPacked
	case !bytes.HasSuffix(begin, []byte("ustar")):
		return visit(filepath.Base(at), in)
	}
	files := tar.NewReader(in)
	for {
		header, err := files.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return errors.Join(cutOff(err), err)
		}
		name := path.Clean("/" + header.Name)[1:] // nothing is written under this name
		if header.Typeflag == tar.TypeReg && d.wants(name) {
			if err := visit(name, files); err != nil {
				return errors.Join(cutOff(err), err)
			}
		}
	}
}

func (d *dump) wants(name string) bool {
	if !slices.Contains([]string{".json", ".yaml", ".yml"}, path.Ext(name)) {
		return false
	}
	return d.only == nil || slices.ContainsFunc(strings.Split(path.Dir(name), "/"), func(word string) bool { return slices.Contains(d.only, word) })
}

func (d *dump) read(name string, in io.Reader) error {
	text, next := bufio.NewReaderSize(in, 64<<10), func() *document { return &document{dump: d, file: name} }
	for {
		begin, err := text.Peek(1)
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if bytes.ContainsAny(begin, " \t\r\n\ufeff") {
			_, _ = text.Discard(1)
			continue
		}
		begin, _ = text.Peek(64)
		if inner := bytes.TrimLeft(begin, "{[ \t\r\n"); len(inner) < len(begin) && (len(inner) == 0 || bytes.ContainsAny(inner[:1], `"]}`)) { // YAML has no quotes here
			return readJSON(text, next)
		}
		return readYAML(text, next)
	}
}

type document struct {
	*dump
	file    string
	spaces  map[string]bool  // of the items
	waiting []map[string]any // items without kind, until the list's is known
}

const mostWaiting = 50_000

func (d *document) item(object map[string]any) error {
	o := &unstructured.Unstructured{Object: object}
	if resources, is := object["resources"].([]any); is && object["groupVersion"] != nil && len(resources) > 0 {
		return d.resources(object)
	}
	if o.GetKind() == "" && o.GetAPIVersion() == "" {
		if len(d.waiting) < mostWaiting {
			d.waiting = append(d.waiting, object)
		}
		return nil
	}
	return d.add(o, 0)
}

// resources takes discovery from a support bundle.
func (d *document) resources(object map[string]any) error {
	var list metav1.APIResourceList
	if runtime.DefaultUnstructuredConverter.FromUnstructured(object, &list) != nil {
		return nil
	}
	gv, err := schema.ParseGroupVersion(list.GroupVersion)
	if err != nil || len(d.only) == 0 || d.only[0] != bundled {
		return nil
	}
	for _, api := range list.APIResources {
		d.discovered = true
		d.serve(gv, api)
	}
	return nil
}

// deepest bounds Lists in Lists.
const deepest = 3

func (d *document) add(o *unstructured.Unstructured, depth int) error {
	if strings.HasPrefix(o.GetAPIVersion(), "termguard.dev/") {
		return d.own(o)
	}
	if items, is := o.Object["items"].([]any); is && strings.HasSuffix(o.GetKind(), "List") {
		for _, item := range items {
			object, is := item.(map[string]any)
			if !is || depth == deepest {
				continue
			}
			below := &unstructured.Unstructured{Object: object}
			if below.GetKind() == "" {
				below.SetKind(strings.TrimSuffix(o.GetKind(), "List"))
				below.SetAPIVersion(o.GetAPIVersion())
			}
			if err := d.add(below, depth+1); err != nil {
				return err
			}
		}
		return nil
	}
	gvk := o.GroupVersionKind()
	if _, is := o.Object["metadata"].(map[string]any); !is || gvk.Kind == "" || gvk.Version == "" || o.GetName() == "" {
		return nil
	}
	if gvk.Kind == "CustomResourceDefinition" {
		d.serveDefined(o)
	}
	d.objects++
	d.date(o)
	if d.spaces == nil {
		d.spaces = map[string]bool{}
	}
	d.spaces[o.GetNamespace()] = true
	if gvk.Kind == "Namespace" && gvk.Group == "" && slices.Contains([]string{"default", "kube-system", "kube-public"}, o.GetName()) {
		if before := d.uids[o.GetName()]; before != "" && before != string(o.GetUID()) {
			return errTwo
		}
		d.uids[o.GetName()] = string(o.GetUID())
	}
	secret := gvk.Kind == "Secret" && gvk.Group == ""
	if secret {
		trim(o, secretsResource)
	}
	return d.Archive.add(schema.GroupResource{Group: gvk.Group, Resource: gvk.Kind}, o, !secret) // renamed in finish
}

// date makes the archive no older than an object.
func (d *dump) date(o *unstructured.Unstructured) {
	metadata, _ := o.Object["metadata"].(map[string]any)
	spec, _ := o.Object["spec"].(map[string]any)
	times := []any{metadata["creationTimestamp"], o.Object["lastTimestamp"], spec["renewTime"]}
	fields, _ := metadata["managedFields"].([]any)
	status, _ := o.Object["status"].(map[string]any)
	conditions, _ := status["conditions"].([]any)
	for _, entry := range slices.Concat(fields, conditions) {
		entry, _ := entry.(map[string]any)
		times = append(times, entry["time"], entry["lastTransitionTime"], entry["lastHeartbeatTime"])
	}
	if grace := metadata["deletionGracePeriodSeconds"]; grace == nil || grace == int64(0) { // otherwise it may be later
		times = append(times, metadata["deletionTimestamp"])
	}
	for _, value := range times {
		text, _ := value.(string)
		if at, err := time.Parse(time.RFC3339, text); err == nil && at.After(d.now) {
			d.now = at
		}
	}
}

func (d *document) end(fields map[string]any) error {
	o := &unstructured.Unstructured{Object: fields}
	kind := strings.TrimSuffix(o.GetKind(), "List")
	for _, object := range d.waiting {
		if item := (&unstructured.Unstructured{Object: object}); kind != o.GetKind() && kind != "" {
			item.SetKind(kind)
			item.SetAPIVersion(o.GetAPIVersion())
			if err := d.add(item, 0); err != nil {
				return err
			}
		}
	}
	version, _, _ := unstructured.NestedString(fields, "metadata", "resourceVersion")
	_, listed := fields["items"]
	switch {
	case listed && o.GetKind() == "" && o.GetAPIVersion() != "": // kubectl writes it last
		return errCut
	case !listed && d.spaces == nil && len(d.waiting) == 0: // one object
		if version, is, _ := unstructured.NestedString(fields, "info", "gitVersion"); is && path.Base(path.Dir(d.file)) == bundledInfo {
			d.version = version
			return nil
		}
		if len(fields) == 0 {
			return nil
		}
		return d.add(o, 0)
	case kind != o.GetKind() && kind != "" && version != "":
		d.list(o.GroupVersionKind().GroupVersion().WithKind(kind).GroupKind())
	}
	return nil
}

func (d *document) list(kind schema.GroupKind) {
	l := list{GroupKind: kind, file: d.file}
	switch len(d.spaces) {
	case 1:
		for namespace := range d.spaces {
			l.namespace = namespace
		}
	case 0:
		words := strings.Split(d.file, "/")
		at := slices.Index(words, gatheredNamespaces)
		switch {
		case slices.Contains(words, bundled):
			l.namespace = strings.TrimSuffix(words[len(words)-1], path.Ext(d.file))
		case at >= 0 && at+1 < len(words)-1:
			l.namespace = words[at+1]
		case len(words) > 1:
			l.namespace = words[len(words)-2]
		}
	}
	d.lists = append(d.lists, l)
}

// finish runs when all definitions are known.
func (d *dump) finish() error {
	if d.objects+len(d.lists) == 0 {
		return errNothing
	}
	if !d.discovered {
		d.serveBuiltin()
	}
	byKind := d.kinds
	d.kinds = map[schema.GroupResource]*kind{}
	for gk, k := range byKind {
		d.kinds[d.resourceOf(schema.GroupKind{Group: gk.Group, Kind: gk.Resource}, k)] = k
	}
	if d.fixture {
		d.surround()
		return nil
	}
	for _, l := range d.lists {
		gr, namespaced, served := d.servedAs(l.GroupKind)
		if !served {
			continue
		}
		if !namespaced {
			l.namespace = ""
		}
		k := d.kind(gr)
		k.listed[scope(l.namespace, "", "")] = l.namespace != "" || !namespaced || k.listed[scope("", "", "")] || len(k.spaces) > 1
	}
	all := d.kinds[namespacesResource]
	if all == nil || !all.complete("", "", "") {
		return nil
	}
	for gr, k := range d.kinds {
		if gr == namespacesResource || k.listed[scope("", "", "")] {
			continue
		}
		whole := true
		for _, r := range all.rows {
			o, err := d.Archive.read(r)
			if err != nil {
				return err
			}
			whole = whole && k.listed[scope(o.GetName(), "", "")]
		}
		if whole && len(all.rows) > 0 {
			k.listed[scope("", "", "")] = true
		}
	}
	return nil
}
