// Package rotation changes termguard's certificates and version during constant deletions: no delete is lost,
// denied or unreviewed.
package rotation

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/termguard/termguard/test/lab"
	"github.com/termguard/termguard/test/scenario"
)

const home = "termguard-system"

func workers(t *testing.T) int {
	t.Helper()
	text := os.Getenv("DELETES")
	if text == "" {
		return 50
	}
	n, err := strconv.Atoi(text)
	if err != nil {
		t.Fatalf("DELETES: %v", err)
	}
	return n
}

// TestEmbedded tests termguard's own authority with two replicas.
func TestEmbedded(t *testing.T) {
	s := newSite(t)
	defer s.write("embedded")
	// Both start at once without a Secret, and race for the first authority.
	s.kubectl("delete", "secret", "termguard-ca", "-n", home)
	var members []member
	for n := range 2 {
		// A renewal begins at a third of the validity, of which API servers get 5 s to learn of a new
		// authority.
		members = append(members, s.replica(s.binary, n, "--leaf-duration", "30s", "--ca-duration", "60s"))
	}
	for _, m := range members {
		s.join(m)
	}
	secret := func(change string) func() {
		return func() { s.kubectl("patch", "secret", "termguard-ca", "-n", home, "--type=merge", "-p", change) }
	}
	s.checkReviewed("both replicas start", func() {})
	for _, step := range []struct {
		name string
		do   func()
		done func(before, after state) bool
	}{
		{"a serving certificate is renewed, as it ages", func() {}, newLeaves},
		{"the Secret is deleted", func() { s.kubectl("delete", "secret", "termguard-ca", "-n", home) }, newAuthority},
		{"the Secret is emptied", secret(`{"data": null}`), newAuthority},
		{"the Secret is filled with nonsense", secret(`{"data": {"ca.crt": "bm9uc2Vuc2U=", "tls.crt": "bm9uc2Vuc2U=", "tls.key": "bm9uc2Vuc2U="}}`), newAuthority},
		{"the authority is renewed, as it ages", func() {}, newAuthority},
	} {
		s.under(step.name, step.do, step.done)
	}
	s.editBundle()
	s.checkReviewed("after the edit", func() {})
}

func newAuthority(before, after state) bool {
	return before.authority != after.authority && after.current
}

func newLeaves(before, after state) bool {
	return before.leaves[0] != after.leaves[0] && before.leaves[1] != after.leaves[1] && after.current
}

// state is the current and the trusted authorities, and each replica's certificate.
type state struct {
	authority, trusted string
	leaves             []string
	current            bool // all leaves are signed by the current authority
}

type site struct {
	*scenario.Guarded
	t        *testing.T
	client   kubernetes.Interface
	others   kubernetes.Interface // its requests are queued by the API server like users' requests
	service  *lab.Replicas
	address  string
	binary   string
	config   string
	replicas []lab.Replica
	rows     []string // of the table
}

func newSite(t *testing.T) *site {
	t.Helper()
	ctx := t.Context()
	g, err := scenario.PatientGuard(ctx, lab.Options{Progress: t.Output()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(g.Stop)
	s := &site{Guarded: g, t: t}
	must := func(err error) {
		if err != nil {
			t.Helper()
			t.Fatal(err)
		}
	}
	s.client, err = g.Client()
	must(err)
	s.binary, err = scenario.Binary()
	must(err)
	s.config, err = g.MountConfig(ctx)
	must(err)
	s.address, err = g.ClusterIP(ctx, home, "termguard")
	must(err)
	must(g.Termguard.Stop())
	s.service, err = lab.Balance(ctx, s.address+":443")
	must(err)
	s.kubectl("create", "serviceaccount", "people", "-n", "default")
	s.kubectl("create", "clusterrolebinding", "people", "--clusterrole=cluster-admin", "--serviceaccount=default:people")
	config, err := g.ServiceAccountConfig(ctx, "default", "people")
	must(err)
	// The API server's queues reject clients for up to 32 s at a time (k8s.io/apiserver,
	// pkg/util/flowcontrol/dropped_requests_tracker.go).
	config.Timeout = 5 * time.Minute
	config.WarningHandler = rest.NoWarnings{}
	s.others, err = kubernetes.NewForConfig(config)
	must(err)
	return s
}

type member struct {
	lab.Replica
	process *lab.Process
}

// replica starts a replica on its own ports of the Service's address.
func (s *site) replica(binary string, n int, extra ...string) member {
	s.t.Helper()
	at := func(base int) string { return net.JoinHostPort(s.address, strconv.Itoa(base+n)) }
	args := slices.Concat([]string{"--config", s.config, "--listen", at(10000), "--health-listen", at(11000)}, s.PatientArgs(), extra)
	process, err := s.RunDeployment(s.t.Context(), home, "termguard", "termguard", binary, args...)
	if err != nil {
		s.t.Fatal(err)
	}
	return member{lab.Replica{Address: at(10000), Readiness: "http://" + at(11000) + "/readyz"}, process}
}

func (s *site) join(m member) {
	s.t.Helper()
	if err := s.Await(s.t.Context(), time.Minute, "a replica to be ready", func(ctx context.Context) (bool, error) { return m.Ready(ctx), nil }); err != nil {
		s.t.Fatal(err)
	}
	s.replicas = append(s.replicas, m.Replica)
	s.service.Add(m.Replica)
}

// leave terminates a replica, and removes it from the Service once it is no longer ready.
func (s *site) leave(m member) {
	s.t.Helper()
	s.replicas = slices.DeleteFunc(s.replicas, func(other lab.Replica) bool { return other == m.Replica })
	s.Forget(m.process)
	if err := m.process.Signal(syscall.SIGTERM); err != nil {
		s.t.Fatal(err)
	}
	if err := s.Await(s.t.Context(), time.Minute, "its readiness to turn off", func(ctx context.Context) (bool, error) { return !m.Ready(ctx), nil }); err != nil {
		s.t.Fatal(err)
	}
	s.service.Remove(m.Replica)
	<-m.process.Exited()
}

func (s *site) kubectl(args ...string) {
	s.t.Helper()
	if r, err := s.Kubectl(s.t.Context(), args...); err != nil || r.Code != 0 {
		s.t.Fatalf("kubectl %q: %v %s", args, err, r.Stderr)
	}
}

// state returns an error if a replica serves a certificate that is not trusted.
func (s *site) state(ctx context.Context) (now state, err error) {
	secret, err := s.client.CoreV1().Secrets(home).Get(ctx, "termguard-ca", metav1.GetOptions{})
	if err != nil {
		return now, err
	}
	now.authority = string(secret.Data["ca.crt"])
	hooks, err := s.client.AdmissionregistrationV1().ValidatingWebhookConfigurations().Get(ctx, "termguard", metav1.GetOptions{})
	if err != nil {
		return now, err
	}
	now.current = true
	now.trusted = string(hooks.Webhooks[0].ClientConfig.CABundle)
	for _, r := range s.replicas {
		conn, err := tls.Dial("tcp", r.Address, &tls.Config{InsecureSkipVerify: true})
		if err != nil {
			return now, err
		}
		leaf := conn.ConnectionState().PeerCertificates[0]
		conn.Close()
		for _, h := range hooks.Webhooks {
			roots := x509.NewCertPool()
			roots.AppendCertsFromPEM(h.ClientConfig.CABundle)
			if _, err := leaf.Verify(x509.VerifyOptions{Roots: roots, DNSName: "termguard." + home + ".svc"}); err != nil {
				return now, err
			}
		}
		own := x509.NewCertPool()
		own.AppendCertsFromPEM(secret.Data["ca.crt"])
		_, err = leaf.Verify(x509.VerifyOptions{Roots: own})
		now.current = now.current && err == nil
		now.leaves = append(now.leaves, leaf.SerialNumber.String())
	}
	return now, nil
}

func (s *site) awaitState(what string, done func(state) bool) (now state) {
	s.t.Helper()
	var last error
	if err := s.Await(s.t.Context(), 2*time.Minute, what, func(ctx context.Context) (bool, error) {
		now, last = s.state(ctx)
		return last == nil && done(now), nil
	}); err != nil {
		s.t.Fatal(errors.Join(err, last))
	}
	return now
}

// under changes something during deletions and waits for the change to be done.
func (s *site) under(name string, do func(), done func(before, after state) bool) {
	s.t.Helper()
	before := s.awaitState("the replicas to agree", func(state) bool { return true })
	s.checkReviewed(name, func() {
		do()
		s.awaitState(name, func(after state) bool { return done(before, after) })
	})
}

func (s *site) checkReviewed(name string, happens func()) {
	s.t.Helper()
	s.awaitState("the replicas to agree", func(state) bool { return true })
	before := s.calls()
	stop := s.deletes()
	happens()
	deleted := stop()
	calls := s.calls().Since(before)
	s.t.Logf("%s: %d deletes, %d calls, %d failed open, %v each", name, deleted, calls.N, calls.FailedOpen, calls.Mean().Round(time.Millisecond))
	s.rows = append(s.rows, fmt.Sprintf("| %s | %d | 0 | 0 | %d |", name, deleted, calls.FailedOpen))
	if calls.FailedOpen > 0 || calls.N < deleted {
		s.t.Errorf("%s: %d deletes, %d reviewed, %d allowed unchecked:\n%s", name, deleted, calls.N-calls.FailedOpen, calls.FailedOpen, s.failures(20))
	}
}

func (s *site) failures(n int) string {
	var why []string
	for line := range strings.Lines(s.APIServer().Log()) {
		if strings.Contains(line, "failing open") {
			why = append(why, line)
		}
	}
	return strings.Join(why[max(0, len(why)-n):], "")
}

func (s *site) calls() scenario.Calls {
	s.t.Helper()
	c, err := scenario.CallsOf(s.t.Context(), s.client, "delete.termguard.dev")
	if err != nil {
		s.t.Fatal(err)
	}
	return c
}

// deletes creates and deletes Roles, which are reviewed and deleted at once, until stopped. Each worker does so
// at least once.
func (s *site) deletes() (stop func() int) {
	ctx, cancel := context.WithCancel(s.t.Context())
	roles := s.others.RbacV1().Roles("default")
	var deleted atomic.Int64
	var running sync.WaitGroup
	for n := range workers(s.t) {
		running.Go(func() {
			for first := true; first || ctx.Err() == nil; first = false {
				name := "r" + strconv.Itoa(n)
				if _, err := roles.Create(s.t.Context(), &rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{}); err != nil {
					s.t.Errorf("create: %v", err)
					return
				}
				if err := roles.Delete(s.t.Context(), name, metav1.DeleteOptions{}); err != nil {
					s.t.Errorf("a delete is lost or refused: %v", err)
					return
				}
				deleted.Add(1)
			}
		})
	}
	return func() int { cancel(); running.Wait(); return int(deleted.Load()) }
}

// editBundle removes the authority from the webhook configuration: calls fail until a replica has restored it.
func (s *site) editBundle() {
	s.t.Helper()
	before := s.calls()
	stop := s.deletes()
	configurations := s.client.AdmissionregistrationV1().ValidatingWebhookConfigurations()
	var err error
	for {
		hooks, getErr := configurations.Get(s.t.Context(), "termguard", metav1.GetOptions{})
		if getErr != nil {
			s.t.Fatal(getErr)
		}
		for i := range hooks.Webhooks {
			hooks.Webhooks[i].ClientConfig.CABundle = s.OtherCABundle()
		}
		if _, err = configurations.Update(s.t.Context(), hooks, metav1.UpdateOptions{}); !apierrors.IsConflict(err) {
			break
		}
	}
	if err != nil {
		s.t.Fatal(err)
	}
	s.awaitState("the caBundle to be repaired", func(state) bool { return true })
	deleted := stop()
	s.rows = append(s.rows, fmt.Sprintf("| the caBundle is edited: the webhook cannot be called until it is repaired | %d | 0 | 0 | %d |", deleted, s.calls().Since(before).FailedOpen))
	s.t.Log(s.rows[len(s.rows)-1])
}
