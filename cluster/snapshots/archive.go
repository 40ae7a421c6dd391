package snapshots

import (
	"context"
	"encoding/json"
	"fmt"
	"hash/maphash"
	"os"
	"strconv"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/termguard/termguard/cluster"
)

// Archive answers as a cluster's API server did. The objects lie in a temporary file; memory holds a row for
// each.
type Archive struct {
	file *os.File
	size int64
	seed maphash.Seed

	now        time.Time
	kinds      map[schema.GroupResource]*kind
	answers    map[string]Answer                            // other than lists, by request; see asked
	handshakes map[string]cluster.Handshake                 // by address
	served     map[schema.GroupVersion][]metav1.APIResource // if no answer of the API server says so
	version    string
	// Redacted says that names are replaced and texts left out, which policies may read.
	Redacted bool
	// discovered says that served is from discovery.
	discovered bool
}

type kind struct {
	rows   []row
	byName map[uint64]int  // row indexes, by the hash of namespace and name
	listed map[string]bool // lists that were read whole; see scope
	spaces map[string]int  // rows by namespace
}

type row struct {
	at        int64
	size      int
	version   uint64 // resourceVersion, 0 if no number
	namespace string
	whole     bool // more than its metadata
}

type Answer struct {
	Type string          `json:"type,omitempty"`
	Code int             `json:"code"`
	Body json.RawMessage `json:"body"`
}

func newArchive() (*Archive, error) {
	file, err := temporary()
	if err != nil {
		return nil, err
	}
	return &Archive{
		file: file, seed: maphash.MakeSeed(), kinds: map[schema.GroupResource]*kind{}, answers: map[string]Answer{}, handshakes: map[string]cluster.Handshake{},
		served: map[schema.GroupVersion][]metav1.APIResource{},
	}, nil
}

// temporary returns a file that exists until it is closed. On Windows, the caller removes it then.
func temporary() (*os.File, error) {
	file, err := os.CreateTemp("", "termguard-snapshot-*")
	if err == nil {
		_ = os.Remove(file.Name())
	}
	return file, err
}

// Close removes the temporary file.
func (a *Archive) Close() error {
	err := a.file.Close()
	_ = os.Remove(a.file.Name())
	return err
}

// Options adds the time of the archive, and its handshakes.
func (a *Archive) Options(options cluster.Options) cluster.Options {
	if !a.now.IsZero() {
		options.Now = func() time.Time { return a.now }
	}
	options.Try, options.Everywhere = a.try, true
	return options
}

func (a *Archive) try(_ context.Context, b cluster.Backend) cluster.Handshake {
	if t, recorded := a.handshakes[b.Address]; recorded {
		return t
	}
	return cluster.Handshake{Unseen: "not in the snapshot"}
}

// scope identifies a list in a namespace, or at the path of a request.
func scope(where, labelSelector, fieldSelector string) string {
	return where + "\n" + labelSelector + "\n" + fieldSelector
}

func (a *Archive) kind(gr schema.GroupResource) *kind {
	k := a.kinds[gr]
	if k == nil {
		k = &kind{byName: map[uint64]int{}, listed: map[string]bool{}, spaces: map[string]int{}}
		a.kinds[gr] = k
	}
	return k
}

func (a *Archive) key(namespace, name string) uint64 {
	return maphash.Comparable(a.seed, [2]string{namespace, name})
}

// add keeps the newest object of a name, and of one version the whole.
func (a *Archive) add(gr schema.GroupResource, object *unstructured.Unstructured, whole bool) error {
	text, err := object.MarshalJSON()
	if err != nil {
		return fmt.Errorf("%s %q: %w", object.GetKind(), object.GetName(), err)
	}
	k, namespace := a.kind(gr), strings.Clone(object.GetNamespace())
	version, _ := strconv.ParseUint(object.GetResourceVersion(), 10, 64)
	r := row{at: a.size, size: len(text), version: version, namespace: namespace, whole: whole}
	key := a.key(namespace, object.GetName())
	switch at, twice := k.byName[key]; {
	case !twice:
		k.byName[key] = len(k.rows)
		k.rows = append(k.rows, r)
		k.spaces[namespace]++
	case version < k.rows[at].version, version == k.rows[at].version && k.rows[at].whole && !whole:
		return nil
	default:
		k.rows[at] = r
	}
	_, err = a.file.WriteAt(text, a.size)
	a.size += int64(len(text))
	return err
}

func (a *Archive) read(r row) (*unstructured.Unstructured, error) {
	text, object := make([]byte, r.size), &unstructured.Unstructured{}
	if _, err := a.file.ReadAt(text, r.at); err != nil {
		return nil, err
	}
	return object, object.UnmarshalJSON(text)
}
