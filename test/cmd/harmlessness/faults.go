package main

import (
	"bufio"
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/termguard/termguard/test/lab"
)

const (
	none      = "none"
	reviewed  = "reviewed"
	unchecked = "allowed unchecked"
	refused   = "refused" // failurePolicy: Fail
)

// A fault is a row, and starts with termguard as installed.
type fault struct {
	name, about string
	// wants is the outcome of every review.
	wants string
	// values are set at installation.
	values string
	// start returns the fault's end; then the chart is reset, and termguard started unless it runs.
	start func(ctx context.Context, w *world) (heal func() error, err error)
	// around acts during something else.
	around func(ctx context.Context, w *world, act func() error) error
}

var faults = []fault{
	{
		name: "not installed", about: "The baseline for the other rows.", wants: none,
		start: func(ctx context.Context, w *world) (func() error, error) {
			return nil, errors.Join(w.helm(ctx, "uninstall", "termguard", "--namespace", home, "--wait"), w.Termguard.Stop())
		},
	},
	{name: "in order", about: "termguard as installed.", wants: reviewed},
	{
		name: "not started", about: "The webhook is configured, and no pod runs: connections are refused.", wants: unchecked,
		start: func(_ context.Context, w *world) (func() error, error) { return nil, w.Termguard.Stop() },
	},
	{
		name: "killed", about: "SIGKILL while the first review of the operation waits in its socket; later requests find no listener.", wants: unchecked,
		around: func(ctx context.Context, w *world, act func() error) error {
			if err := w.Termguard.Signal(syscall.SIGSTOP); err != nil {
				return err
			}
			done := make(chan error, 1)
			go func() { done <- act() }()
			err := w.Await(ctx, settling, "a review to be in flight", func(context.Context) (bool, error) { return waiting(w.address + ":443") })
			w.Termguard.Kill()
			return errors.Join(err, <-done, w.startTermguard(ctx))
		},
	},
	{
		name: "frozen", about: "SIGSTOP: connections stay open, without an answer.", wants: unchecked,
		start: func(_ context.Context, w *world) (func() error, error) {
			return func() error { return w.Termguard.Signal(syscall.SIGCONT) }, w.Termguard.Signal(syscall.SIGSTOP)
		},
	},
	{
		name: "slow", about: "A custom policy never ends: termguard stops it after 50 ms, and reports the findings of the others.", wants: reviewed,
		start: func(ctx context.Context, w *world) (func() error, error) {
			return nil, w.restart(ctx, "--policies", w.policy("slow", "count([1 | some _ in numbers.range(1, 100000); some _ in numbers.range(1, 100000)]) > 0"))
		},
	},
	{
		name: "policy fails", about: "A custom policy fails in each evaluation. (Rego cannot make the engine panic; tests of package webhook inject a panic inside termguard, which ends one review and not the process.)", wants: reviewed,
		start: func(ctx context.Context, w *world) (func() error, error) {
			return nil, w.restart(ctx, "--policies", w.policy("fails", "{input.request.uid: x | some x in [1, 2]} != {}"))
		},
	},
	{
		name: "out of memory", about: "The kernel keeps killing it while it starts: its memory cgroup has 24 MB.", wants: unchecked,
		start: outOfMemory,
	},
	{
		name: "wrong certificate", about: "The webhook configuration does not trust the authority of its certificate.", wants: unchecked,
		start: func(ctx context.Context, w *world) (func() error, error) { return nil, w.serveCertificate(ctx, false) },
	},
	{
		name: "expired certificate", about: "Its certificate expired an hour ago.", wants: unchecked,
		start: func(ctx context.Context, w *world) (func() error, error) { return nil, w.serveCertificate(ctx, true) },
	},
	{
		name: "facts incomplete", about: "It may read only three API groups: it answers from these, and lists the rest as unseen.", wants: reviewed,
		start: func(ctx context.Context, w *world) (func() error, error) {
			rights := func(groups string) error {
				return w.run(ctx, `kubectl patch clusterrole termguard-read --type=json -p '[{"op":"replace","path":"/rules/0/apiGroups","value":[`+groups+`]}]'`)
			}
			if err := rights(`"", "apps", "admissionregistration.k8s.io"`); err != nil {
				return nil, err
			}
			return func() error { return errors.Join(rights(`"*"`), w.Termguard.Stop()) }, w.restart(ctx)
		},
	},
	{
		name: "API server restarted", about: "Killed and restarted just before each operation; concurrent operations are hit more than once.", wants: reviewed,
		around: func(ctx context.Context, w *world, act func() error) error {
			if err := w.RestartAPIServer(ctx); err != nil {
				return err
			}
			return act()
		},
	},
	{
		name: "etcd stalled", about: "etcd is frozen for two seconds as each operation starts.", wants: reviewed,
		around: func(ctx context.Context, w *world, act func() error) error {
			etcd := w.Etcd()
			if err := etcd.Signal(syscall.SIGSTOP); err != nil {
				return err
			}
			thawed := make(chan error, 1)
			go func() {
				select {
				case <-time.After(2 * time.Second): // part of the fault
				case <-ctx.Done():
				}
				thawed <- etcd.Signal(syscall.SIGCONT)
			}()
			return errors.Join(act(), <-thawed)
		},
	},
	{
		name: "network black hole", about: "Packets to its address are dropped silently.", wants: unchecked,
		start: func(ctx context.Context, w *world) (func() error, error) {
			if err := w.Termguard.Stop(); err != nil {
				return nil, err
			}
			return blackHole(w.address, 443)
		},
	},
	{
		name: "rolling update", about: "Two replicas behind the Service; new ones keep starting, and each ready one replaces the oldest.", wants: reviewed,
		start: rollingUpdate,
	},
	{
		name: "policies reload", about: "Its configuration changes five times a second: another mode, the first again, an invalid one.", wants: reviewed,
		start: func(ctx context.Context, w *world) (func() error, error) {
			path := filepath.Join(w.Dir(), "config.yaml")
			first, err := os.ReadFile(path)
			if err != nil {
				return nil, err
			}
			other := strings.Replace(string(first), "default: warn", "default: dryrun", 1)
			return w.meanwhile(ctx, func(n int) error {
				text := []string{other, string(first), "kind: Nonsense"}[n%3]
				if err := os.WriteFile(path+".new", []byte(text), 0o600); err != nil {
					return err
				}
				return errors.Join(os.Rename(path+".new", path), pause(ctx, 200*time.Millisecond))
			}, func() error { return os.WriteFile(path, first, 0o600) }), nil
		},
	},
	{
		name: "chart upgraded", about: "`helm upgrade` to other values runs beside each operation.", wants: reviewed,
		around: func(ctx context.Context, w *world, act func() error) error {
			w.replicas++
			done := make(chan error, 1)
			go func() {
				done <- w.helm(ctx, "upgrade", "termguard", chart(), "--namespace", home, "--set", "replicas="+strconv.Itoa(2+w.replicas%2))
			}()
			return errors.Join(act(), <-done)
		},
	},
	{
		name: "uninstalled half way", about: "Pods, Service, rights and service account are deleted; the webhook configuration is left.", wants: unchecked,
		start: func(ctx context.Context, w *world) (func() error, error) {
			if err := w.Termguard.Stop(); err != nil {
				return nil, err
			}
			return func() error { return w.helm(ctx, "uninstall", "termguard", "--namespace", home, "--wait") },
				w.run(ctx, "kubectl delete deployment,service,serviceaccount,clusterrolebinding,clusterrole,role,rolebinding -A -l app.kubernetes.io/name=termguard")
		},
	},
	{name: "Fail: in order", about: "`failurePolicy: Fail`, and termguard as installed.", wants: reviewed, values: "failurePolicy=Fail"},
	{
		name: "Fail: not started", about: "`failurePolicy: Fail`, and no pod runs: reviewed requests are refused and change nothing; each operation is repeated when termguard runs again. The control plane's controllers continue (see the operations), and so do exempt requests: kube-system, termguard's own namespace, and edits of finalizers (`test/chart: TestChart`).", wants: refused, values: "failurePolicy=Fail",
		start: func(_ context.Context, w *world) (func() error, error) { return nil, w.Termguard.Stop() },
	},
}

func pause(ctx context.Context, long time.Duration) error {
	select {
	case <-time.After(long):
	case <-ctx.Done():
	}
	return nil
}

func (w *world) meanwhile(ctx context.Context, do func(n int) error, end func() error) (heal func() error) {
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan error, 1)
	go func() {
		for n := 0; ; n++ {
			if ctx.Err() != nil {
				done <- nil
				return
			}
			if err := do(n); err != nil {
				done <- err
				return
			}
		}
	}()
	return func() error { cancel(); return errors.Join(<-done, end()) }
}

func (w *world) policy(id, condition string) string {
	folder := filepath.Join(w.Dir(), "policies-"+id)
	text := `# METADATA
# title: One that ` + id + `
# description: What a mistake can do.
# related_resources:
#   - ref: https://example.com/handbook
#     description: The rule of our house.
# custom:
#   id: harm-` + id + `
#   severity: medium
#   triggers: [delete, finalizer-edit]
#   remedy: Repair the policy.
#   limits: All.
package termguard.harm_` + id + `

deny contains {"kind": "forbidden", "msg": "no", "objects": [], "evidence": [], "field": "metadata"} if {
	` + condition + `
}
`
	path := filepath.Join(folder, "harm_"+id, "harm_"+id+".rego")
	if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(text), 0o600)); err != nil {
		return err.Error() // not a folder, so termguard will report it
	}
	return folder
}

// The certificate is unknown to the webhook configuration, or known but expired.
func (w *world) serveCertificate(ctx context.Context, expired bool) error {
	authority, err := lab.NewAuthority("another")
	if err != nil {
		return err
	}
	end := time.Now().Add(time.Hour)
	if expired {
		end = time.Now().Add(-time.Hour)
	}
	certificate, key, err := authority.IssueUntil(end, "termguard", nil, []string{"termguard." + home + ".svc"}, w.address)
	if err != nil {
		return err
	}
	file := filepath.Join(w.Dir(), "harm")
	if err := errors.Join(os.WriteFile(file+".crt", certificate, 0o600), os.WriteFile(file+".key", key, 0o600), w.restart(ctx, "--tls-cert-file", file+".crt", "--tls-key-file", file+".key")); err != nil {
		return err
	}
	if !expired {
		return nil
	}
	return w.trust(ctx, authority.PEM())
}

// outOfMemory plays the kubelet for a container that the kernel kills at start.
func outOfMemory(ctx context.Context, w *world) (func() error, error) {
	if err := w.Termguard.Stop(); err != nil {
		return nil, err
	}
	group, limit, counters := "/sys/fs/cgroup/memory", "memory.limit_in_bytes", "memory.oom_control"
	if _, err := os.Stat(group); err != nil { // version 2
		group, limit, counters = "/sys/fs/cgroup", "memory.max", "memory.events"
	}
	group = filepath.Join(group, filepath.Base(w.Dir())+"-harm")
	if err := errors.Join(os.Mkdir(group, 0o755), os.WriteFile(filepath.Join(group, limit), []byte("24000000"), 0)); err != nil {
		return nil, fmt.Errorf("a memory cgroup, as root: %w", err)
	}
	contained := filepath.Join(w.Dir(), "contained")
	script := "#!/bin/sh\necho 0 >" + filepath.Join(group, "cgroup.procs") + " && exec " + w.binary + ` "$@"`
	if err := os.WriteFile(contained, []byte(script), 0o700); err != nil {
		return nil, err
	}
	heal := w.meanwhile(ctx, func(int) error {
		p, err := w.RunDeployment(ctx, home, "termguard", "termguard", contained, "--config", w.configFile)
		if err != nil {
			return err
		}
		w.Forget(p)
		<-p.Exited()
		return pause(ctx, 300*time.Millisecond)
	}, func() error {
		events, err := os.ReadFile(filepath.Join(group, counters))
		if err == nil && !regexp.MustCompile(`oom_kill [1-9]`).Match(events) {
			err = fmt.Errorf("the kernel killed nothing: %s", events)
		}
		return errors.Join(err, os.Remove(group))
	})
	return heal, nil
}

// Two replicas listen on ports of the Service's address, which is loopback.
func rollingUpdate(ctx context.Context, w *world) (func() error, error) {
	if err := w.Termguard.Stop(); err != nil {
		return nil, err
	}
	serving, stop := context.WithCancel(ctx)
	service, err := lab.Balance(serving, w.address+":443")
	if err != nil {
		stop()
		return nil, err
	}
	type member struct {
		process *lab.Process
		replica lab.Replica
	}
	var running []member
	next := func(n int) error {
		at := func(base int) string { return net.JoinHostPort(w.address, strconv.Itoa(base+n%1000)) }
		m := member{replica: lab.Replica{Address: at(10000), Readiness: "http://" + at(11000) + "/readyz"}}
		var err error
		if m.process, err = w.RunDeployment(ctx, home, "termguard", "termguard", w.binary, "--config", w.configFile, "--listen", at(10000), "--health-listen", at(11000)); err != nil {
			return err
		}
		running = append(running, m)
		if err := w.Await(ctx, limit, "a replica to be ready", func(ctx context.Context) (bool, error) { return m.replica.Ready(ctx), nil }); err != nil {
			return err
		}
		service.Add(m.replica)
		if len(running) <= 2 {
			return nil
		}
		// The kubelet stops it before its readiness changes.
		oldest := running[0]
		running = running[1:]
		w.Forget(oldest.process)
		if err := oldest.process.Signal(syscall.SIGTERM); err != nil {
			return err
		}
		err = w.Await(ctx, limit, "its readiness to turn off", func(ctx context.Context) (bool, error) { return !oldest.replica.Ready(ctx), nil })
		service.Remove(oldest.replica)
		<-oldest.process.Exited()
		return err
	}
	if err := errors.Join(next(0), next(1)); err != nil {
		stop()
		return nil, err
	}
	heal := w.meanwhile(ctx, func(n int) error { return next(n + 2) }, func() error {
		stop()
		var errs []error
		for _, m := range running {
			errs = append(errs, m.process.Stop())
		}
		return errors.Join(errs...)
	})
	return heal, nil
}

// blackHole fills its queue and never accepts: the kernel drops all packets (listen(2)).
func blackHole(address string, port int) (heal func() error, err error) {
	fd, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	at := &syscall.SockaddrInet4{Port: port, Addr: [4]byte(net.ParseIP(address).To4())}
	if err := errors.Join(syscall.SetsockoptInt(fd, syscall.SOL_SOCKET, syscall.SO_REUSEADDR, 1), syscall.Bind(fd, at), syscall.Listen(fd, 0)); err != nil {
		return nil, errors.Join(fmt.Errorf("listen at %s: %w", address, err), syscall.Close(fd))
	}
	var full []net.Conn
	for {
		conn, err := net.DialTimeout("tcp", net.JoinHostPort(address, strconv.Itoa(port)), 300*time.Millisecond)
		if err != nil {
			break // the queue is full
		}
		full = append(full, conn)
	}
	return func() error {
		for _, conn := range full {
			conn.Close()
		}
		return syscall.Close(fd)
	}, nil
}

// waiting means an unread request (proc(5), net/tcp: rx_queue).
func waiting(address string) (bool, error) {
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return false, err
	}
	ip := net.ParseIP(host).To4()
	slices.Reverse(ip)
	number, err := strconv.Atoi(port)
	if err != nil {
		return false, err
	}
	local := fmt.Sprintf("%s:%04X", strings.ToUpper(hex.EncodeToString(ip)), number)
	f, err := os.Open("/proc/net/tcp")
	if err != nil {
		return false, err
	}
	defer f.Close()
	for lines := bufio.NewScanner(f); lines.Scan(); {
		fields := strings.Fields(lines.Text())
		const established = "01"
		if len(fields) > 4 && fields[1] == local && fields[3] == established && !strings.HasSuffix(fields[4], ":00000000") {
			return true, nil
		}
	}
	return false, nil
}
