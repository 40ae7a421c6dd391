package bundletest

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"oras.land/oras-go/v2"
	"oras.land/oras-go/v2/content"
	"oras.land/oras-go/v2/registry/remote"
	"oras.land/oras-go/v2/registry/remote/auth"
)

// Registry is an OCI registry on loopback, as far as pushing and pulling artefacts go
// (https://github.com/opencontainers/distribution-spec). It must not be copied.
type Registry struct {
	// Host is where it listens: 127.0.0.1:PORT.
	Host string
	// User and Password are asked for where they are set.
	User, Password string

	mu     sync.Mutex
	blobs  map[string][]byte // by digest
	types  map[string]string // of manifests, by digest
	tags   map[string]string // the digest of a manifest, by tag
	asked  []string          // METHOD PATH
	broken bool
}

// NewRegistry starts one, which ends with the test.
func NewRegistry(t testing.TB) *Registry {
	t.Helper()
	r := &Registry{blobs: map[string][]byte{}, types: map[string]string{}, tags: map[string]string{}}
	server := httptest.NewServer(r)
	t.Cleanup(server.Close)
	r.Host = strings.TrimPrefix(server.URL, "http://")
	return r
}

// Asked are the requests since it was asked last, as METHOD PATH.
func (r *Registry) Asked() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	asked := r.asked
	r.asked = nil
	return asked
}

// Break has it answer with nothing but errors, or mends it.
func (r *Registry) Break(broken bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.broken = broken
}

// Tamper puts other content in the place of every blob that is an archive, under the digest
// of before.
func (r *Registry) Tamper(archive []byte) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for name, blob := range r.blobs {
		if strings.HasPrefix(string(blob), "\x1f\x8b") {
			r.blobs[name] = archive
		}
	}
}

// Push pushes a bundle, as "oras push bundle.tar.gz:TYPE" does, and returns its digest. An
// empty type is that which OPA takes.
func (r *Registry) Push(ctx context.Context, reference string, archive []byte, mediaType string) (string, error) {
	repository, err := remote.NewRepository(r.Host + "/" + reference)
	if err != nil {
		return "", err
	}
	repository.PlainHTTP = true
	repository.Client = &auth.Client{Credential: auth.StaticCredential(r.Host, auth.Credential{Username: r.User, Password: r.Password})}
	if mediaType == "" {
		mediaType = ocispec.MediaTypeImageLayerGzip
	}
	layer := content.NewDescriptorFromBytes(mediaType, archive)
	if err := repository.Push(ctx, layer, strings.NewReader(string(archive))); err != nil {
		return "", err
	}
	made, err := oras.PackManifest(ctx, repository, oras.PackManifestVersion1_1, "application/vnd.unknown.artifact.v1", oras.PackManifestOptions{Layers: []ocispec.Descriptor{layer}})
	if err != nil {
		return "", err
	}
	return made.Digest.String(), repository.Tag(ctx, made, repository.Reference.Reference)
}

// ServeHTTP answers clients.
func (r *Registry) ServeHTTP(w http.ResponseWriter, q *http.Request) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.asked = append(r.asked, q.Method+" "+q.URL.Path)
	if r.broken {
		http.Error(w, "broken", http.StatusServiceUnavailable)
		return
	}
	if user, password, _ := q.BasicAuth(); r.User != "" && (user != r.User || password != r.Password) {
		w.Header().Set("WWW-Authenticate", `Basic realm="lab"`)
		http.Error(w, "who are you?", http.StatusUnauthorized)
		return
	}
	parts := strings.Split(strings.TrimPrefix(q.URL.Path, "/v2/"), "/")
	at := max(slices.Index(parts, "blobs"), slices.Index(parts, "manifests"))
	if at < 0 || at+1 >= len(parts) {
		http.NotFound(w, q)
		return
	}
	name := parts[at+1]
	switch {
	case q.Method == http.MethodPost: // begins an upload
		w.Header().Set("Location", q.URL.Path+"one")
		w.WriteHeader(http.StatusAccepted)
	case q.Method == http.MethodPut:
		body, err := io.ReadAll(q.Body)
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		id := digest.FromBytes(body).String()
		r.blobs[id] = body
		if parts[at] == "manifests" {
			r.types[id] = q.Header.Get("Content-Type")
			r.tags[name], r.tags[id] = id, id
		}
		w.Header().Set("Docker-Content-Digest", id)
		w.WriteHeader(http.StatusCreated)
	default:
		id := name
		if parts[at] == "manifests" {
			id = r.tags[name]
			w.Header().Set("Docker-Content-Digest", id)
			w.Header().Set("Content-Type", r.types[id])
		}
		blob, known := r.blobs[id]
		if !known {
			http.NotFound(w, q)
			return
		}
		w.Header().Set("Content-Length", fmt.Sprint(len(blob)))
		if q.Method == http.MethodGet {
			_, _ = w.Write(blob)
		}
	}
}
