package webhook

import (
	"bufio"
	"bytes"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/termguard/termguard/cluster"
	"github.com/termguard/termguard/config"
)

// dial opens a connection to the port for reviews, with or without TLS.
func (r running) dial(t *testing.T, config *tls.Config) net.Conn {
	t.Helper()
	address := strings.TrimPrefix(r.reviews, "https://")
	conn, err := net.Dial("tcp", address)
	if err == nil && config != nil {
		conn = tls.Client(conn, config)
		err = conn.(*tls.Conn).HandshakeContext(t.Context())
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	return conn
}

// reviewed sends a review as the API server does, and fails the test unless the answer is complete.
func (r running) reviewed(t *testing.T, beside string) {
	t.Helper()
	status, got := post(t, r.client, r.reviews+Path, body(t, v1, deleteNamespace))
	if status != http.StatusOK || len(got.Response.Warnings) != 2 {
		t.Fatalf("a review beside %s: %d %+v", beside, status, got)
	}
}

func warning() http.Handler {
	return NewHandler(Options{Log: quiet, Facts: facts{}, Evaluator: finds(maybe("p", "perhaps"))})
}

func TestSilentConnections(t *testing.T) {
	r := run(t, warning(), &Server{Drain: time.Millisecond, MaxConnections: 100})
	first := r.dial(t, nil)
	for range 500 {
		r.dial(t, nil)
		r.reviewed(t, "silent connections")
	}
	if err := first.SetReadDeadline(time.Now().Add(time.Minute)); err != nil {
		t.Fatal(err)
	}
	if _, err := first.Read(make([]byte, 1)); err == nil || errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("the first of 500 silent connections is still open: %v", err)
	}
}

// Idle connections of the health port are bounded, too.
func TestSilentHealthConnections(t *testing.T) {
	r := run(t, warning(), &Server{Drain: time.Millisecond})
	dial := func() net.Conn {
		conn, err := net.Dial("tcp", strings.TrimPrefix(r.health, "http://"))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { conn.Close() })
		if _, err := io.WriteString(conn, "GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n"); err != nil {
			t.Fatal(err)
		}
		response, err := http.ReadResponse(bufio.NewReader(conn), nil)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := io.Copy(io.Discard, response.Body); err != nil {
			t.Fatal(err)
		}
		return conn
	}
	first := dial()
	for range 3 * maxHealthConnections {
		dial()
	}
	if err := first.SetReadDeadline(time.Now().Add(10 * time.Second)); err != nil { // less than it may idle
		t.Fatal(err)
	}
	if _, err := first.Read(make([]byte, 1)); err == nil || errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("the first of %d silent connections is still open: %v", 3*maxHealthConnections, err)
	}
}

// Bodies that were announced and do not arrive take no room from others.
func TestSlowBodies(t *testing.T) {
	r := run(t, warning(), &Server{Drain: time.Millisecond})
	header := fmt.Sprintf("POST %s HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n{", Path, MaxBody)
	before := liveHeap()
	var slow []net.Conn
	for range 200 {
		conn := r.dial(t, &tls.Config{InsecureSkipVerify: true})
		if _, err := io.WriteString(conn, header); err != nil {
			t.Fatal(err)
		}
		slow = append(slow, conn)
	}
	r.reviewed(t, "slow bodies")
	if growth := liveHeap() - before; growth > 32<<20 {
		t.Errorf("%d slow bodies hold %d MiB", len(slow), growth>>20)
	}
	large := with(deleteNamespace, `"name":"demo"},"spec"`, `"name":"demo","annotations":{"a":"`+strings.Repeat("x", 2<<20)+`"}},"spec"`)
	if status, got := post(t, r.client, r.reviews+Path, body(t, v1, large)); status != http.StatusOK || got.Response.AuditAnnotations["error"] == string(failureBusy) {
		t.Errorf("a large review beside slow bodies: %d %+v", status, got)
	}
	for _, conn := range slow { // none is waited for longer than the API server would
		response, err := http.ReadResponse(bufio.NewReader(conn), nil)
		if err != nil {
			continue // closed without a word
		}
		if response.StatusCode != http.StatusBadRequest || !response.Close {
			t.Fatalf("a slow body is answered with %d", response.StatusCode)
		}
	}
}

// The API server speaks HTTP/1.1 to Services; HTTP/2 brings attacks of its own.
func TestNoHTTP2(t *testing.T) {
	r := run(t, warning(), &Server{Drain: time.Millisecond})
	conn, err := tls.Dial("tcp", strings.TrimPrefix(r.reviews, "https://"), &tls.Config{InsecureSkipVerify: true, NextProtos: []string{"h2"}})
	if err == nil {
		conn.Close()
		t.Error("HTTP/2 was agreed on")
	}
	both := r.dial(t, &tls.Config{InsecureSkipVerify: true, NextProtos: []string{"h2", "http/1.1"}}).(*tls.Conn)
	if got := both.ConnectionState().NegotiatedProtocol; got != "http/1.1" {
		t.Errorf("agreed on %q", got)
	}
	plain := r.dial(t, &tls.Config{InsecureSkipVerify: true})
	if _, err := io.WriteString(plain, "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	response, err := http.ReadResponse(bufio.NewReader(plain), nil)
	if err == nil && response.StatusCode < http.StatusBadRequest {
		t.Errorf("the preface of HTTP/2 is answered with %d", response.StatusCode)
	}
	r.reviewed(t, "HTTP/2")
}

// A client without a certificate, or with a wrong one, gets no answer to any request.
// certs.TestClients checks which are wrong.
func TestStrangersAreToldNothing(t *testing.T) {
	handled := make(chan struct{}, 1)
	r := run(t, http.HandlerFunc(func(http.ResponseWriter, *http.Request) { handled <- struct{}{} }), &Server{
		VerifyConnection: func(tls.ConnectionState) error { return errors.New("a stranger") },
		Drain:            time.Millisecond,
	})
	foreign := borrowCertificate(t)
	for name, certificates := range map[string][]tls.Certificate{"no certificate": nil, "a wrong one": {foreign}} {
		client := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true, Certificates: certificates}}}
		if response, err := client.Post(r.reviews+Path, "application/json", bytes.NewReader(body(t, v1, deleteNamespace))); err == nil {
			response.Body.Close()
			t.Errorf("%s: answered with %d", name, response.StatusCode)
		}
	}
	if len(handled) > 0 {
		t.Error("a review of an unknown client was evaluated")
	}
}

// removals records the removals that a Learner gets.
type removals struct{ seen []cluster.Removal }

func (r *removals) Saw(one cluster.Removal) { r.seen = append(r.seen, one) }

// TestForgedReviews posts reviews that the API server never sent, about an existing object, with a
// forged annotation, user and removal. They have no effect beyond the answer unless a certificate
// identifies the caller.
func TestForgedReviews(t *testing.T) {
	const kiali = `{"name":"kiali","namespace":"demo","finalizers":["kiali.io/finalizer"]`
	going := kiali + `,"deletionTimestamp":"2026-01-01T00:00:00Z"}`
	forged := func(request string) string {
		return with(request, `"uid":"u2"`, `"uid":"u2","userInfo":{"username":"made up"}`)
	}
	labelled := worldOf(map[string]any{config.EnforceLabel: "warn"})
	for name, tc := range map[string]struct {
		reason, request string
		facts           Facts
		events, learned int // where reviews are authentic
	}{
		"Refused":     {"a user tried to delete it", forged(deleteKiali(kiali + `}`)), worldOf(nil), 1, 0},
		"BreakGlass":  {"an annotation says why", forged(deleteKiali(kiali + `,"annotations":{"termguard.dev/allow-hang":"made up"}}`)), worldOf(nil), 1, 0},
		"Declared":    {"an annotation says who removes the finalizer", forged(deleteKiali(kiali + `,"annotations":{"termguard.dev/finalizer-owner":"external"}}`)), worldOf(nil), 1, 0},
		"LooserLabel": {"the label of its namespace lets it go", forged(deleteKiali(kiali + `}`)), labelled, 1, 0},
		"Removal":     {"a user removes the finalizer", forged(with(deleteKiali(going), `"operation":"DELETE"`, `"operation":"UPDATE","object":{"metadata":{"name":"kiali","namespace":"demo","deletionTimestamp":"2026-01-01T00:00:00Z"}}`)), labelled, 0, 1},
	} {
		t.Run(name, func(t *testing.T) {
			for _, authentic := range []bool{false, true} {
				events, learner, log := &recorder{}, &removals{}, &bytes.Buffer{}
				client, url := serve(t, Options{
					Evaluator: realEngine(t), Facts: tc.facts, Authentic: authentic, Recorder: events, Learner: learner, Deadline: time.Minute,
					Enforcement: config.Enforcement{Default: config.Deny}, Log: slog.New(slog.NewTextHandler(log, nil)),
				})
				if status, got := post(t, client, url, body(t, v1, tc.request)); status != http.StatusOK || got.Response.AuditAnnotations["error"] != "" {
					t.Fatalf("%s: %d %+v", tc.reason, status, got)
				}
				wantEvents, wantLearned := tc.events, tc.learned
				if !authentic {
					wantEvents, wantLearned = 0, 0
				}
				if len(events.got) != wantEvents || len(learner.seen) != wantLearned {
					t.Errorf("%s, authentic %v: Events %+v, learned %+v; want %d and %d", tc.reason, authentic, events.got, learner.seen, wantEvents, wantLearned)
				}
				if tc.events > 0 && !strings.Contains(log.String(), fmt.Sprintf("authentic=%v", authentic)) {
					t.Errorf("%s, authentic %v: the log does not say so: %s", tc.reason, authentic, log)
				}
			}
		})
	}
}

// TestSecurityPage checks that each test named in test/results/attacks.md exists.
func TestSecurityPage(t *testing.T) {
	page, err := os.ReadFile("../test/results/attacks.md")
	if err != nil {
		t.Fatal(err)
	}
	named := regexp.MustCompile("`([a-z/]+): (Test[A-Za-z0-9]+)`").FindAllStringSubmatch(string(page), -1)
	if len(named) < 20 {
		t.Fatalf("the page names %d tests", len(named))
	}
	for _, n := range named {
		files, err := filepath.Glob(filepath.Join("..", n[1], "*_test.go"))
		if err != nil {
			t.Fatal(err)
		}
		if !slices.ContainsFunc(files, func(file string) bool {
			text, err := os.ReadFile(file)
			return err == nil && bytes.Contains(text, []byte("func "+n[2]+"("))
		}) {
			t.Errorf("there is no %s in %s", n[2], n[1])
		}
	}
}
