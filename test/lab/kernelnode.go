package lab

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/termguard/termguard/internal/shell"
)

// KernelNodeNeeds names what this machine lacks for a node with its own kernel, "" if nothing.
func KernelNodeNeeds() string {
	return strings.Join(append(realNodeLacks(), lacks(map[string]string{
		"linux.uml": "user-mode-linux", "modprobe": "kmod", "mount.nfs": "nfs-common", "ip": "iproute2",
	}, "/dev/net/tun", "/usr/lib/uml/modules")...), ", ")
}

// kernelInit writes only the node's files. Addresses of NodeNetwork are local; others are behind its network
// card.
const kernelInit = `#!/bin/sh
export PATH=/usr/sbin:/usr/bin:/sbin:/bin
mount --make-rshared /
mount -t proc proc /proc
mount -t sysfs sysfs /sys
mount -t cgroup2 cgroup2 /sys/fs/cgroup
for d in /run /var/lib /var/log; do mount -t tmpfs -o mode=755 tmpfs "$d"; done
mount -t hostfs -o DIR none DIR
for disk in kubelet containerd; do mount -t tmpfs tmpfs DIR/$disk; done

at=/sys/fs/cgroup
for part in $(echo CGROUP | tr / ' ') ''; do
	for c in $(cat $at/cgroup.controllers); do echo +$c >$at/cgroup.subtree_control; done
	at=$at/$part
	mkdir -p $at
done

mkdir -p /run/modules/lib
ln -s /usr/lib/uml/modules /run/modules/lib/modules
modprobe -d /run/modules -a overlay nfsv3 || exit

ip link set lo up
ip addr del 127.0.0.1/8 dev lo
ip addr add 127.0.0.1/32 dev lo
ip route add local NETWORK.254.0/24 dev lo
ip addr add GUEST/30 dev eth0
ip link set eth0 up
for i in all eth0; do echo 1 >/proc/sys/net/ipv4/conf/$i/route_localnet; done
ip route add NETWORK.0.0/16 via HOST
ip route add default via HOST # by which the kubelet finds its address

# The kubelet does not start where it finds no clock speed (cAdvisor, utils/sysfs).
(cat /proc/cpuinfo; echo "cpu MHz : 1000.000") >/run/cpuinfo
mount --bind /run/cpuinfo /proc/cpuinfo

touch DIR/up
while :; do
	for job in DIR/jobs/*.sh; do
		[ -e "$job" ] || continue
		job=${job%.sh}
		mv "$job.sh" "$job"
		(sh "$job" >"$job.out" 2>&1 </dev/null; echo $? >"$job.code~"; mv "$job.code~" "$job.code") &
	done
	sleep 0.1
done
`

// StartKernelNode starts a real node in User Mode Linux, in half a minute, for features that this machine's
// kernel may lack, such as an NFS client. Its kubelet and containerd cannot be signalled.
func (l *Lab) StartKernelNode(ctx context.Context, name string) (*RealNode, error) {
	if needs := KernelNodeNeeds(); needs != "" {
		return nil, fmt.Errorf("a node with a kernel of its own needs %s", needs)
	}
	programs, node, err := BuildNode(ctx, l.options.Progress)
	if err != nil {
		return nil, err
	}
	n := &RealNode{Name: name, Dir: filepath.Join(l.dir, name), lab: l, runtime: programs, kubelet: node, jobs: new(atomic.Int64)}
	for _, dir := range []string{"", "jobs", "kubelet", "containerd"} {
		if err := os.Mkdir(filepath.Join(n.Dir, dir), 0o755); err != nil {
			return nil, err
		}
	}
	// Four addresses per node of 198.18.0.0/16, for tests (RFC 2544).
	number, count := strings.TrimPrefix(l.network, "127."), int(l.kernels.Add(1))
	address := func(last int) string { return fmt.Sprintf("198.18.%s.%d", number, 4*count+last) }
	card := fmt.Sprintf("tg%s-%d", number, count)
	fill := strings.NewReplacer("DIR", n.Dir, "CGROUP", n.cgroup(), "NETWORK", l.network, "HOST", address(1), "GUEST", address(2))
	first := filepath.Join(n.Dir, "init.sh")
	if err := os.WriteFile(first, []byte(fill.Replace(kernelInit)), 0o755); err != nil {
		return nil, err
	}
	if err := l.plug(card, address(1)+"/30"); err != nil {
		return nil, fmt.Errorf("make a network card for node %s: %w", name, err)
	}
	// All processes of a PID namespace die with the first.
	kernel := shell.Join([]string{"linux.uml", "mem=1G", "root=/dev/root", "rootfstype=hostfs", "rootflags=/", "ro", "init=" + first,
		"con=null", "con0=null,fd:1", "umid=" + name, "quiet", "eth0=tuntap," + card})
	cmd := exec.Command("sh", "-ec", "mount --make-rprivate /; mount -t proc proc /proc; exec "+kernel)
	if n.init, err = l.startOn(spawn, "init-"+name, cmd, syscall.CLONE_NEWNS|syscall.CLONE_NEWPID); err != nil {
		return nil, err
	}
	n.init.onNode = true
	l.keep(n.init)
	if err := l.Await(ctx, time.Minute, "the kernel of node "+name, func(context.Context) (bool, error) {
		_, err := os.Stat(filepath.Join(n.Dir, "up"))
		return err == nil, nil
	}); err != nil {
		return nil, fmt.Errorf("%w\n%s", err, n.init.Log())
	}
	// A slowly registering kubelet stops publishing its CSINode.
	if err := l.Apply(ctx, "{apiVersion: v1, kind: Node, metadata: {name: "+name+"}}"); err != nil {
		return nil, err
	}
	return n, n.boot(ctx)
}

func (l *Lab) NodeNetwork() string { return l.network + ".254" }

// The address may route loopback addresses. The watchdog removes the card.
func (l *Lab) plug(card, address string) error {
	if _, err := l.write(card+".card", nil); err != nil {
		return err
	}
	if err := ip("tuntap", "add", "dev", card, "mode", "tap"); err != nil {
		return err
	}
	return errors.Join(
		ip("addr", "add", address, "dev", card), ip("link", "set", card, "up"),
		os.WriteFile("/proc/sys/net/ipv4/conf/"+card+"/route_localnet", []byte("1"), 0))
}

func ip(args ...string) error {
	if out, err := exec.Command("ip", args...).CombinedOutput(); err != nil {
		return fmt.Errorf("ip %s: %w: %s", strings.Join(args, " "), err, out)
	}
	return nil
}

// job runs in the background, and returns the path of its output (.out), later its exit code (.code).
func (n *RealNode) job(cmd *exec.Cmd) (string, error) {
	words := slices.Concat([]string{"exec", "env", "-i"}, n.lab.environment(), cmd.Env, cmd.Args)
	job := filepath.Join(n.Dir, "jobs", strconv.Itoa(int(n.jobs.Add(1))))
	if err := os.WriteFile(job+".new", []byte("cd "+shell.Quote(n.Dir)+"\n"+shell.Join(words)+"\n"), 0o644); err != nil {
		return "", err
	}
	return job, os.Rename(job+".new", job+".sh")
}

func (n *RealNode) runJob(ctx context.Context, cmd *exec.Cmd) (string, error) {
	job, err := n.job(cmd)
	if err != nil {
		return "", err
	}
	var code []byte
	for err = os.ErrNotExist; errors.Is(err, os.ErrNotExist); code, err = os.ReadFile(job + ".code") {
		select {
		case <-ctx.Done():
			return "", context.Cause(ctx)
		case <-n.init.Exited():
			return "", n.init.failed()
		case <-time.After(100 * time.Millisecond):
		}
	}
	out, failed := os.ReadFile(job + ".out")
	if err := errors.Join(err, failed); err != nil {
		return "", err
	}
	if code := strings.TrimSpace(string(code)); code != "0" {
		return string(out), fmt.Errorf("exit status %s", code)
	}
	return string(out), nil
}
