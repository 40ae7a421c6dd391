// Package download fetches OPA bundles over HTTP and from OCI registries. It believes
// nothing that it fetches: whoever takes a bundle from here checks its signature.
package download

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"regexp"
	"slices"
	"strings"
	"time"

	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"oras.land/oras-go/v2/content"
	"oras.land/oras-go/v2/errdef"
	"oras.land/oras-go/v2/registry"
	"oras.land/oras-go/v2/registry/remote"
	"oras.land/oras-go/v2/registry/remote/auth"
	"oras.land/oras-go/v2/registry/remote/credentials"
	"oras.land/oras-go/v2/registry/remote/errcode"

	"github.com/termguard/termguard/policies"
)

const (
	// Limit bounds one download. A bundle has at most policies.MaxBundle bytes, and its
	// signature is read by then, or never.
	Limit = 30 * time.Second
	// maxManifest bounds the manifest of an artefact, which lists one layer. Registries
	// take 4 MiB (distribution-spec, "Pushing Manifests").
	maxManifest = 64 << 10
	// maxRedirects is enough for a registry that hands out blobs from a store of objects.
	maxRedirects = 5
	// maxText bounds what a server's answer adds to an error, in bytes.
	maxText = 400
)

// Options say how bundles are asked for.
type Options struct {
	// Credentials is a file as docker, podman and helm keep it, config.json or the key
	// .dockerconfigjson of a Secret, read at each download; "" for none.
	Credentials string
	// PlainHTTP names hosts, with their ports, that are asked without TLS. Those of
	// loopback are in any case.
	PlainHTTP []string
}

// Bundle is the newest version of an OPA bundle at one address.
type Bundle struct {
	options   Options
	address   *url.URL            // nil of OCI
	reference *registry.Reference // nil of HTTP
	name      string
	client    *http.Client
	version   string // ETag or digest of what was fetched last; "" if that is not known
}

// Is tells whether a name is an address, and not a path.
func Is(name string) bool { return strings.Contains(name, "://") }

// New reads the address of a bundle: https://HOST/PATH, http of hosts that may be asked so,
// oci://REGISTRY/REPOSITORY:TAG or oci://REGISTRY/REPOSITORY@DIGEST.
func New(name string, options Options) (*Bundle, error) {
	scheme, rest, _ := strings.Cut(name, "://")
	b := &Bundle{options: options, name: name}
	switch scheme {
	case "oci":
		reference, err := registry.ParseReference(rest)
		if err != nil {
			return nil, fmt.Errorf("%s: %w: want oci://REGISTRY/REPOSITORY:TAG", name, err)
		}
		if reference.Reference == "" {
			return nil, fmt.Errorf("%s names no version: write :TAG or @sha256:DIGEST behind it", name)
		}
		b.reference = &reference
	case "https", "http":
		address, err := url.Parse(name)
		if err != nil || address.Host == "" {
			return nil, fmt.Errorf("%q is no URL of a bundle: want https://HOST/PATH", redact(name))
		}
		if address.User != nil || address.RawQuery != "" || address.Fragment != "" {
			return nil, fmt.Errorf("%s: want no user, query or fragment in the URL of a bundle, which logs and metrics name: put credentials into a file for --registry-config", address.Scheme+"://"+address.Host+address.Path)
		}
		if scheme == "http" && !b.plain(address.Host) {
			return nil, fmt.Errorf("%s: http is neither private nor sure of whom it speaks to: use https, or allow it by --plain-http=%s", name, address.Host)
		}
		b.address = address
	default:
		return nil, fmt.Errorf("%s: policies come from a path, https:// or oci://, not from %s://", redact(name), scheme)
	}
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.DisableCompression = true // what is asked for is an archive, to the byte
	b.client = &http.Client{
		Transport: onlyTLS{b, transport},
		CheckRedirect: func(_ *http.Request, via []*http.Request) error {
			if len(via) > maxRedirects {
				return fmt.Errorf("more than %d redirects", maxRedirects)
			}
			return nil
		},
	}
	return b, nil
}

// Name is the address as it was given.
func (b *Bundle) Name() string { return b.name }

// plain tells whether a host may be asked without TLS.
func (b *Bundle) plain(host string) bool {
	name := host
	if bare, _, err := net.SplitHostPort(host); err == nil {
		name = bare
	}
	ip := net.ParseIP(strings.Trim(name, "[]"))
	return name == "localhost" || ip != nil && ip.IsLoopback() || slices.Contains(b.options.PlainHTTP, host)
}

// onlyTLS is asked about each request, so about redirects and token servers, too.
type onlyTLS struct {
	bundle *Bundle
	next   http.RoundTripper
}

func (t onlyTLS) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.URL.Scheme != "https" && (r.URL.Scheme != "http" || !t.bundle.plain(r.URL.Host)) {
		return nil, fmt.Errorf("it leads to %s://%s, which may not be asked without TLS (--plain-http)", r.URL.Scheme, r.URL.Host)
	}
	return t.next.RoundTrip(r)
}

// Fetch returns the archive, of at most policies.MaxBundle bytes, or nil if it is as it was
// at the last Fetch. It takes Limit at most. It must not be called twice at a time.
func (b *Bundle) Fetch(ctx context.Context) (archive []byte, err error) {
	ctx, cancel := context.WithTimeout(ctx, Limit)
	defer cancel()
	client, err := b.login()
	if err != nil {
		return nil, err
	}
	version := ""
	if b.reference != nil {
		archive, version, err = b.pull(ctx, client)
	} else {
		archive, version, err = b.get(ctx, client)
	}
	if err != nil {
		return nil, b.explain(err)
	}
	b.version = version
	return archive, nil
}

// login has the credentials that there are now.
func (b *Bundle) login() (*auth.Client, error) {
	client := &auth.Client{Client: b.client, Cache: auth.NewCache()}
	client.SetUserAgent("termguard")
	if file := b.options.Credentials; file != "" {
		if _, err := os.Stat(file); err != nil {
			return nil, fmt.Errorf("read credentials: %w", err)
		}
		store, err := credentials.NewStore(file, credentials.StoreOptions{})
		if err != nil {
			return nil, fmt.Errorf("read credentials: %s is no config.json as docker login writes it", file) // not what it holds
		}
		client.Credential = credentials.Credential(store)
	}
	return client, nil
}

// get asks a web server.
func (b *Bundle) get(ctx context.Context, client *auth.Client) ([]byte, string, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, b.address.String(), nil)
	if err != nil {
		return nil, "", err
	}
	if b.version != "" {
		request.Header.Set("If-None-Match", b.version)
	}
	response, err := client.Do(request)
	if err != nil {
		return nil, "", err
	}
	defer response.Body.Close()
	switch {
	case response.StatusCode == http.StatusNotModified && b.version != "":
		return nil, b.version, nil
	case response.StatusCode != http.StatusOK:
		return nil, "", &errcode.ErrorResponse{StatusCode: response.StatusCode}
	}
	archive, err := io.ReadAll(io.LimitReader(response.Body, policies.MaxBundle+1))
	if err == nil && len(archive) > policies.MaxBundle {
		err = fmt.Errorf("it is larger than %d bytes", policies.MaxBundle)
	}
	return archive, response.Header.Get("ETag"), err
}

// pull asks a registry. What is named by a digest never changes, and is asked for once.
func (b *Bundle) pull(ctx context.Context, client *auth.Client) ([]byte, string, error) {
	if b.version != "" && b.version == b.reference.Reference {
		return nil, b.version, nil
	}
	repository := &remote.Repository{Client: client, Reference: *b.reference, PlainHTTP: b.plain(b.reference.Host()), MaxMetadataBytes: maxManifest}
	found, err := repository.Resolve(ctx, b.reference.Reference)
	if err != nil {
		return nil, "", err
	}
	version := found.Digest.String()
	if version == b.version {
		return nil, version, nil
	}
	if found.MediaType != ocispec.MediaTypeImageManifest {
		return nil, "", fmt.Errorf("it is a %s, and no artefact with one bundle: name that by its own tag or digest", found.MediaType)
	}
	if found.Size > maxManifest {
		return nil, "", fmt.Errorf("its manifest is larger than %d bytes", maxManifest)
	}
	manifest, err := content.FetchAll(ctx, repository, found) // which holds it to its digest and size
	if err != nil {
		return nil, "", fmt.Errorf("its manifest: %w", err)
	}
	layer, err := bundleLayer(manifest)
	if err != nil {
		return nil, "", err
	}
	archive, err := content.FetchAll(ctx, repository.Blobs(), layer)
	return archive, version, err
}

// bundleLayer finds the layer that is an OPA bundle, as OPA does: the first that is an
// archive of the usual type (https://www.openpolicyagent.org/docs/management-bundles#oci-registry).
func bundleLayer(manifest []byte) (ocispec.Descriptor, error) {
	var read ocispec.Manifest
	if err := json.Unmarshal(manifest, &read); err != nil {
		return ocispec.Descriptor{}, fmt.Errorf("its manifest: %w", err)
	}
	var types []string
	for _, layer := range read.Layers {
		switch {
		case layer.MediaType != ocispec.MediaTypeImageLayerGzip:
			types = append(types, fmt.Sprintf("%.80q", layer.MediaType))
		case layer.Digest.Validate() != nil:
			return layer, errors.New("its manifest: the layer of the bundle has no digest")
		case layer.Size < 0 || layer.Size > policies.MaxBundle:
			return layer, fmt.Errorf("it is larger than %d bytes", policies.MaxBundle)
		default:
			return layer, nil
		}
	}
	return ocispec.Descriptor{}, fmt.Errorf("it holds no bundle, a layer of type %s, but %s: push it as bundle.tar.gz:%[1]s",
		ocispec.MediaTypeImageLayerGzip, strings.Join(append(types[:min(len(types), 3)], fmt.Sprintf("%d layers in all", len(read.Layers))), ", "))
}

// explain says what an answer means, and what to do about it.
func (b *Bundle) explain(err error) error {
	var answer *errcode.ErrorResponse
	status := 0
	if errors.As(err, &answer) {
		status = answer.StatusCode
	}
	switch {
	case status == http.StatusUnauthorized, status == http.StatusForbidden, errors.Is(err, auth.ErrBasicCredentialNotFound):
		if b.options.Credentials == "" {
			return errors.New("download it: the server wants credentials: name a file with them by --registry-config")
		}
		return fmt.Errorf("download it: the server does not take the credentials that %s has for it, or they may not read this", b.options.Credentials)
	case status == http.StatusNotFound, errors.Is(err, errdef.ErrNotFound):
		return errors.New("download it: there is no such bundle")
	case status != 0:
		return fmt.Errorf("download it: the server answers %d %s", status, http.StatusText(status))
	case errors.Is(err, context.DeadlineExceeded):
		return fmt.Errorf("download it: it took too long (at most %s)", Limit)
	}
	return fmt.Errorf("download it: %s", redact(err.Error()))
}

var query = regexp.MustCompile(`\?[^\s"]*|//[^/\s"@]*@`)

// redact takes out of a text what URLs may keep secret, as those have that a registry
// redirects to, and shortens it.
func redact(text string) string {
	text = query.ReplaceAllStringFunc(text, func(found string) string {
		if found[0] == '?' {
			return "?…"
		}
		return "//…@"
	})
	if len(text) > maxText {
		text = strings.ToValidUTF8(text[:maxText], "") + "…"
	}
	return text
}
