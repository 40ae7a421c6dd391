package download

import (
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/termguard/termguard/internal/bundletest"
	"github.com/termguard/termguard/policies"
)

func TestNew(t *testing.T) {
	for name, tc := range map[string]struct {
		address string
		plain   []string
		err     string // "" where it is taken
	}{
		"HTTPS":          {"https://example.com/bundle.tar.gz", nil, ""},
		"Loopback":       {"http://127.0.0.1:8080/bundle.tar.gz", nil, ""},
		"LoopbackByName": {"http://localhost/bundle.tar.gz", nil, ""},
		"LoopbackSix":    {"http://[::1]:8080/bundle.tar.gz", nil, ""},
		"Plain":          {"http://mirror.example.com/bundle.tar.gz", nil, "--plain-http=mirror.example.com"},
		"PlainAllowed":   {"http://mirror.example.com:81/bundle.tar.gz", []string{"mirror.example.com:81"}, ""},
		"PlainElsewhere": {"http://mirror.example.com:82/bundle.tar.gz", []string{"mirror.example.com:81"}, "--plain-http=mirror.example.com:82"},
		"NoHost":         {"https:///bundle.tar.gz", nil, "no URL of a bundle"},
		"Password":       {"https://me:secret@example.com/bundle.tar.gz", nil, "https://example.com/bundle.tar.gz: want no user"},
		"Query":          {"https://example.com/bundle.tar.gz?sig=secret", nil, "https://example.com/bundle.tar.gz: want no user, query"},
		"File":           {"file:///etc/passwd", nil, "not from file://"},
		"Other":          {"s3://me:secret@bucket/bundle.tar.gz", nil, "s3://…@bucket/bundle.tar.gz: policies come from a path, https:// or oci://"},
		"Tag":            {"oci://example.com/team/policies:1.2", nil, ""},
		"Digest":         {"oci://example.com/team/policies@sha256:" + strings.Repeat("0", 64), nil, ""},
		"NoTag":          {"oci://example.com/team/policies", nil, "names no version: write :TAG or @sha256:DIGEST"},
		"NoRepository":   {"oci://example.com", nil, "want oci://REGISTRY/REPOSITORY:TAG"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := New(tc.address, Options{PlainHTTP: tc.plain})
			if tc.err == "" && err != nil || tc.err != "" && (err == nil || !strings.Contains(err.Error(), tc.err)) {
				t.Errorf("got %v, want an error with %q", err, tc.err)
			}
			if err != nil && strings.Contains(err.Error(), "secret") {
				t.Errorf("the error tells a secret: %v", err)
			}
		})
	}
	if Is("policies/bundle.tar.gz") || !Is("oci://example.com/a:1") {
		t.Error("paths and addresses are not told apart")
	}
}

// server answers with what is set, and notes what it was asked.
type server struct {
	*httptest.Server
	answer http.HandlerFunc
	asked  []*http.Request
}

func serve(t *testing.T, answer http.HandlerFunc) *server {
	t.Helper()
	s := &server{answer: answer}
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.asked = append(s.asked, r)
		s.answer(w, r)
	}))
	t.Cleanup(s.Close)
	return s
}

// following is a bundle at an address.
func following(t *testing.T, address string, options Options) *Bundle {
	t.Helper()
	b, err := New(address, options)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// login writes credentials for a host.
func login(t *testing.T, host, user, password string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "config.json")
	text := fmt.Sprintf(`{"auths": {%q: {"username": %q, "password": %q}}}`, host, user, password)
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

func host(url string) string { return strings.TrimPrefix(url, "http://") }

// TestHTTP: what has not changed is not sent again.
func TestHTTP(t *testing.T) {
	content, tag := "one", `"1"`
	s := serve(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("ETag", tag)
		http.ServeContent(w, r, "bundle.tar.gz", time.Time{}, strings.NewReader(content))
	})
	b := following(t, s.URL+"/bundle.tar.gz", Options{})
	for _, step := range []struct{ now, tag, want string }{{"one", `"1"`, "one"}, {"one", `"1"`, ""}, {"two", `"2"`, "two"}, {"two", `"2"`, ""}} {
		content, tag = step.now, step.tag
		if got, err := b.Fetch(t.Context()); err != nil || string(got) != step.want || (got == nil) != (step.want == "") {
			t.Errorf("of %s with ETag %s: got %q, %v, want %q", step.now, step.tag, got, err, step.want)
		}
	}
	tag = "" // nothing tells that it is the same: it is sent again
	for range 2 {
		if got, err := b.Fetch(t.Context()); err != nil || string(got) != "two" {
			t.Errorf("without an ETag: got %q, %v", got, err)
		}
	}
	if s.asked[0].Header.Get("Authorization") != "" || s.asked[0].UserAgent() != "termguard" {
		t.Errorf("it asks as %q, %q", s.asked[0].Header.Get("Authorization"), s.asked[0].UserAgent())
	}
}

// TestArchiveStays: a server that calls the archive a compressed tar does not have it unpacked.
func TestArchiveStays(t *testing.T) {
	var archive bytes.Buffer
	z := gzip.NewWriter(&archive)
	_, err := z.Write([]byte("content"))
	if err := errors.Join(err, z.Close()); err != nil {
		t.Fatal(err)
	}
	s := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Encoding", "gzip")
		_, _ = w.Write(archive.Bytes())
	})
	if got, err := following(t, s.URL+"/b", Options{}).Fetch(t.Context()); err != nil || !bytes.Equal(got, archive.Bytes()) {
		t.Errorf("got %d bytes, %v, want the %d that were sent", len(got), err, archive.Len())
	}
}

func TestHTTPErrors(t *testing.T) {
	elsewhere := serve(t, func(w http.ResponseWriter, r *http.Request) {
		http.Error(w, r.Header.Get("Authorization"), http.StatusUnauthorized)
	})
	for name, tc := range map[string]struct {
		reason string
		answer http.HandlerFunc
		login  bool
		want   string
	}{
		"Missing":    {"Nothing is there.", http.NotFound, false, "there is no such bundle"},
		"Broken":     {"The server has a fault.", func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "x", http.StatusBadGateway) }, false, "the server answers 502 Bad Gateway"},
		"Unasked304": {"Nothing was asked about a version.", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNotModified) }, false, "the server answers 304"},
		"TooLarge":   {"It never ends, and is not read for ever.", endless(t), false, "larger than 4194304 bytes"},
		"CutOff": {"The connection breaks.", func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "9")
			_, _ = w.Write([]byte("x"))
		}, false, "unexpected EOF"},
		"WantsLogin": {"Nobody gave credentials.", func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("WWW-Authenticate", "Basic")
			w.WriteHeader(http.StatusUnauthorized)
		}, false, "name a file with them by --registry-config"},
		"WrongLogin": {"They are of somebody else.", func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("WWW-Authenticate", "Basic")
			w.WriteHeader(http.StatusUnauthorized)
		}, true, "does not take the credentials"},
		"ToPlainHTTP": {"A redirect may not lose TLS.", func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "http://mirror.example.com/b?sig=secret", http.StatusFound)
		}, false, "may not be asked without TLS"},
		"ToFile": {"A redirect may not read files.", func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "file:///etc/passwd", http.StatusFound)
		}, false, "file://"},
		"InCircles": {"It never arrives.", func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, "/b?sig=secret", http.StatusFound) }, false, "more than 5 redirects"},
		"ToSomeoneElse": {"Credentials are not for others.", func(w http.ResponseWriter, r *http.Request) {
			if _, _, sent := r.BasicAuth(); !sent {
				w.Header().Set("WWW-Authenticate", "Basic")
				w.WriteHeader(http.StatusUnauthorized)
				return
			}
			http.Redirect(w, r, elsewhere.URL+"/b", http.StatusFound)
		}, true, "does not take the credentials"},
	} {
		t.Run(name, func(t *testing.T) {
			s := serve(t, tc.answer)
			var o Options
			if tc.login {
				o.Credentials = login(t, host(s.URL), "me", "secret")
			}
			got, err := following(t, s.URL+"/b", o).Fetch(t.Context())
			if err == nil || !strings.Contains(err.Error(), tc.want) || got != nil {
				t.Errorf("%s got %d bytes, %v, want an error with %q", tc.reason, len(got), err, tc.want)
			}
			if err != nil && strings.Contains(err.Error(), "secret") {
				t.Errorf("the error tells a secret: %v", err)
			}
		})
	}
	if len(elsewhere.asked) == 0 {
		t.Error("nobody was led elsewhere")
	}
	for _, r := range elsewhere.asked {
		if r.Header.Get("Authorization") != "" {
			t.Error("credentials went to another host")
		}
	}
}

// endless sends content until nobody reads it any more.
func endless(t *testing.T) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		const much = 16 * policies.MaxBundle // more than lies in buffers on the way
		for sent := 0; sent < much; {
			n, err := w.Write(make([]byte, 1<<20))
			if sent += n; err != nil {
				return
			}
		}
		t.Errorf("more than %d bytes were read", much)
	}
}

// TestTakesTooLong: a server that sends nothing costs Limit, and no more.
func TestTakesTooLong(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := following(t, "https://example.com/b", Options{})
		b.client.Transport = silence{}
		start := time.Now()
		_, err := b.Fetch(context.Background())
		if err == nil || !strings.Contains(err.Error(), "took too long (at most 30s)") || time.Since(start) != Limit {
			t.Errorf("after %s: %v", time.Since(start), err)
		}
	})
}

// silence answers nothing.
type silence struct{}

func (silence) RoundTrip(r *http.Request) (*http.Response, error) {
	<-r.Context().Done()
	return nil, r.Context().Err()
}

// TestOCI: an artefact as oras pushes it; what has not changed is not sent again, and what a
// digest names is not asked for again.
func TestOCI(t *testing.T) {
	r := bundletest.NewRegistry(t)
	push := func(content string) string {
		t.Helper()
		digest, err := r.Push(t.Context(), "team/policies:1", []byte(content), "")
		if err != nil {
			t.Fatal(err)
		}
		r.Asked()
		return digest
	}
	first := push("one")
	b := following(t, "oci://"+r.Host+"/team/policies:1", Options{})
	fetch := func(b *Bundle, want string, requests ...string) {
		t.Helper()
		got, err := b.Fetch(t.Context())
		if err != nil || string(got) != want || (got == nil) != (want == "") {
			t.Errorf("got %q, %v, want %q", got, err, want)
		}
		if asked := r.Asked(); !slices.Equal(asked, requests) {
			t.Errorf("asked %q, want %q", asked, requests)
		}
	}
	requests := func(reference, digest, content string) []string {
		at := "/v2/team/policies/"
		return []string{"HEAD " + at + "manifests/" + reference, "GET " + at + "manifests/" + digest, fmt.Sprintf("GET %sblobs/sha256:%x", at, sha256.Sum256([]byte(content)))}
	}
	fetch(b, "one", requests("1", first, "one")...)
	fetch(b, "", "HEAD /v2/team/policies/manifests/1")
	second := push("two")
	fetch(b, "two", requests("1", second, "two")...)
	pinned := following(t, "oci://"+r.Host+"/team/policies@"+first, Options{})
	fetch(pinned, "one", requests(first, first, "one")...)
	fetch(pinned, "")
}

func TestOCIErrors(t *testing.T) {
	r := bundletest.NewRegistry(t)
	push := func(reference, content, mediaType string) {
		t.Helper()
		if _, err := r.Push(t.Context(), reference, []byte(content), mediaType); err != nil {
			t.Fatal(err)
		}
	}
	fails := func(reference, want string, o Options) {
		t.Helper()
		if got, err := following(t, "oci://"+r.Host+"/"+reference, o).Fetch(t.Context()); err == nil || !strings.Contains(err.Error(), want) || got != nil {
			t.Errorf("%s: got %d bytes, %v, want an error with %q", reference, len(got), err, want)
		}
	}
	fails("nothing:1", "there is no such bundle", Options{})
	push("plain:1", "x", "application/vnd.oci.image.layer.v1.tar")
	fails("plain:1", `but "application/vnd.oci.image.layer.v1.tar", 1 layers in all: push it as bundle.tar.gz:application/vnd.oci.image.layer.v1.tar+gzip`, Options{})
	push("large:1", strings.Repeat("x", policies.MaxBundle+1), "")
	fails("large:1", "larger than 4194304 bytes", Options{})
	push("tampered:1", "\x1f\x8bone", "")
	r.Tamper([]byte("\x1f\x8btwo"))
	fails("tampered:1", "mismatched digest", Options{})
	r.User, r.Password = "robot", "secret"
	push("private:1", "one", "")
	fails("private:1", "name a file with them by --registry-config", Options{})
	fails("private:1", "does not take the credentials", Options{Credentials: login(t, r.Host, "robot", "guess")})
	fails("private:1", "wants credentials: name", Options{})
	fails("private:1", "may not read this", Options{Credentials: login(t, "example.com", "robot", "secret")})
	fails("private:1", "read credentials", Options{Credentials: filepath.Join(t.TempDir(), "none")})
	nonsense := filepath.Join(t.TempDir(), "config.json")
	if err := os.WriteFile(nonsense, []byte("secret"), 0o600); err != nil {
		t.Fatal(err)
	}
	fails("private:1", "no config.json as docker login writes it", Options{Credentials: nonsense})
	b := following(t, "oci://"+r.Host+"/private:1", Options{Credentials: login(t, r.Host, "robot", "secret")})
	if got, err := b.Fetch(t.Context()); err != nil || string(got) != "one" {
		t.Errorf("with credentials: %q, %v", got, err)
	}
}

func FuzzNew(f *testing.F) {
	f.Add("oci://example.com/team/policies:1.2")
	f.Add("https://me:secret@example.com/b?c#d")
	f.Fuzz(func(t *testing.T, name string) {
		b, err := New(name, Options{})
		if err == nil && (b.address == nil) == (b.reference == nil) {
			t.Errorf("%q is neither of HTTP nor of OCI, or both", name)
		}
		if err == nil && b.address != nil && b.address.Scheme == "http" && !b.plain(b.address.Host) {
			t.Errorf("%q would be asked for without TLS", name)
		}
	})
}

func FuzzBundleLayer(f *testing.F) {
	f.Add([]byte(`{"layers": [{"mediaType": "application/vnd.oci.image.layer.v1.tar+gzip", "digest": "sha256:` + strings.Repeat("0", 64) + `", "size": 1}]}`))
	f.Add([]byte(`{"layers": [{"mediaType": "a"}]}`))
	f.Fuzz(func(t *testing.T, manifest []byte) {
		layer, err := bundleLayer(manifest)
		if err == nil && (layer.Size < 0 || layer.Size > policies.MaxBundle || layer.Digest.Validate() != nil) {
			t.Errorf("it is taken: %+v", layer)
		}
	})
}
