// Package serving compares the server of package webhook with controller-runtime's, to show why termguard has
// its own.
package serving

import (
	"bytes"
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"log"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strconv"
	"testing"
	"time"

	"github.com/go-logr/logr"
	utilnet "k8s.io/apimachinery/pkg/util/net"
	crlog "sigs.k8s.io/controller-runtime/pkg/log"
	crwebhook "sigs.k8s.io/controller-runtime/pkg/webhook"

	"github.com/termguard/termguard/webhook"
)

type start func(ctx context.Context, address string, certificate *tls.Certificate, handler http.Handler) error

var quiet = slog.New(slog.DiscardHandler)

func ours(ctx context.Context, address string, certificate *tls.Certificate, handler http.Handler) error {
	server := webhook.Server{
		Handler:        handler,
		GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return certificate, nil },
		Listen:         address, HealthListen: "127.0.0.1:0", Drain: time.Millisecond, MaxConnections: 50, Log: quiet,
	}
	return server.Start(ctx)
}

func controllerRuntimes(ctx context.Context, address string, certificate *tls.Certificate, handler http.Handler) error {
	crlog.SetLogger(logr.FromSlogHandler(quiet.Handler()))
	log.SetOutput(io.Discard) // gets each failed handshake, as text
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return err
	}
	number, err := strconv.Atoi(port)
	if err != nil {
		return err
	}
	server := crwebhook.NewServer(crwebhook.Options{Host: host, Port: number, TLSOpts: []func(*tls.Config){func(c *tls.Config) {
		c.MinVersion = tls.VersionTLS12
		c.NextProtos = []string{"http/1.1"}
		c.GetCertificate = func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return certificate, nil }
	}}})
	server.Register(webhook.Path, handler)
	return server.Start(ctx)
}

func serve(t testing.TB, by start, handler http.Handler) (address string, client *http.Client) {
	t.Helper()
	borrowed := httptest.NewTLSServer(http.NotFoundHandler())
	t.Cleanup(borrowed.Close)
	free, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address = free.Addr().String()
	free.Close()
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- by(ctx, address, &borrowed.TLS.Certificates[0], handler) }()
	t.Cleanup(func() {
		borrowed.Client().CloseIdleConnections()
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	for {
		select {
		case err := <-ended:
			t.Fatal("ended at once:", err)
		case <-t.Context().Done():
			t.Fatal("does not listen")
		default:
		}
		if conn, err := net.Dial("tcp", address); err == nil {
			conn.Close()
			return address, borrowed.Client()
		}
	}
}

func ask(client *http.Client, address string) error {
	response, err := client.Post("https://"+address+webhook.Path, "application/json", bytes.NewReader([]byte("{}")))
	if err != nil {
		return err
	}
	defer response.Body.Close()
	_, err = io.Copy(io.Discard, response.Body)
	return err
}

// demands are termguard's requirements of a server.
var demands = map[string]struct {
	reason string
	check  func(t *testing.T, by start) error
}{
	"hangs up after the client": {
		"If both sides keep an idle connection for the same time, the server closes it while a review is being sent. A review is not retried, so the request goes unchecked.",
		func(t *testing.T, by start) error {
			served := make(chan *http.Server, 1)
			address, client := serve(t, by, http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
				served <- r.Context().Value(http.ServerContextKey).(*http.Server)
			}))
			if err := ask(client, address); err != nil {
				t.Fatal(err)
			}
			theirs := utilnet.SetTransportDefaults(&http.Transport{}).IdleConnTimeout
			if s := <-served; s.IdleTimeout <= theirs {
				return fmt.Errorf("the server keeps an idle connection for %v, the API server for %v", s.IdleTimeout, theirs)
			}
			return nil
		},
	},
	"buffers little that is not read yet": {
		"Headers come before any code of termguard: a hundred strangers must not fill its memory.",
		func(t *testing.T, by start) error {
			address, _ := serve(t, by, http.NotFoundHandler())
			before := heap()
			const strangers, size = 40, 900 << 10
			header := append([]byte("POST "+webhook.Path+" HTTP/1.1\r\nHost: x\r\nX: "), bytes.Repeat([]byte("x"), size)...)
			for range strangers {
				conn, err := tls.Dial("tcp", address, &tls.Config{InsecureSkipVerify: true})
				if err != nil {
					t.Fatal(err)
				}
				t.Cleanup(func() { conn.Close() })
				conn.Write(header) // a server may hang up meanwhile
			}
			if growth := heap() - before; growth > strangers*size/2 {
				return fmt.Errorf("%d connections that sent %d KiB of headers hold %d MiB", strangers, size>>10, growth>>20)
			}
			return nil
		},
	},
	"closes the silent ones among too many": {
		"Silent connections cost memory, too, and opening them needs no certificate.",
		func(t *testing.T, by start) error {
			address, client := serve(t, by, http.NotFoundHandler())
			var first net.Conn
			for range 500 {
				conn, err := net.Dial("tcp", address)
				if err != nil {
					t.Fatal(err)
				}
				t.Cleanup(func() { conn.Close() })
				if first == nil {
					first = conn
				}
				if err := ask(client, address); err != nil {
					return fmt.Errorf("beside silent connections, a review fails: %w", err)
				}
			}
			if err := first.SetReadDeadline(time.Now().Add(time.Second)); err != nil {
				t.Fatal(err)
			}
			if _, err := first.Read(make([]byte, 1)); err == nil || utilnet.IsTimeout(err) {
				return fmt.Errorf("500 connections are open at the same time")
			}
			return nil
		},
	},
}

func heap() int64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

func TestOurs(t *testing.T) {
	for name, d := range demands {
		t.Run(name, func(t *testing.T) {
			if err := d.check(t, ours); err != nil {
				t.Errorf("%v\n%s", err, d.reason)
			}
		})
	}
}

// TestControllerRuntimes fails once controller-runtime's server meets every requirement, because then it should
// be used.
func TestControllerRuntimes(t *testing.T) {
	missed := 0
	for name, d := range demands {
		t.Run(name, func(t *testing.T) {
			if err := d.check(t, controllerRuntimes); err != nil {
				t.Log(err)
				missed++
			}
		})
	}
	if missed == 0 {
		t.Error("controller-runtime's server meets every requirement: serve with it, and delete webhook.Server")
	}
}

// BenchmarkReview is one request on an open connection.
func BenchmarkReview(b *testing.B) {
	for _, c := range []struct {
		name string
		by   start
	}{{"ours", ours}, {"controller-runtime", controllerRuntimes}} {
		b.Run(c.name, func(b *testing.B) {
			address, client := serve(b, c.by, http.NotFoundHandler())
			for b.Loop() {
				if err := ask(client, address); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
