package node

import (
	"context"
	"encoding/json"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/termguard/termguard/cluster"
	"github.com/termguard/termguard/probe/report"
	"github.com/termguard/termguard/test/lab"
	"github.com/termguard/termguard/test/scenario"
)

// stuckMount mounts a FUSE file system without a server: every access blocks until the process ends whose PID
// it prints.
const stuckMount = `mkdir -p "$1"
(exec 3<>/dev/fuse; mount -i -t fuse -o fd=3,rootmode=40000,user_id=0,group_id=0 stuck "$1"; exec sleep 1000000) >/dev/null 2>&1 &
until grep -q " $1 fuse" /proc/mounts; do sleep 0.1; done
echo $!`

// TestProbeAsPod runs the chart's probe as a pod. It must report, yield to other work, not be blocked by a
// mount that never answers, and, if blocked, still be deletable: it must not cause the hangs that it reports.
func TestProbeAsPod(t *testing.T) {
	ctx := t.Context()
	l, node, binary := onNode(t, scenario.ProbeBinary)
	client, err := l.Client()
	if err != nil {
		t.Fatal(err)
	}
	must := func(r lab.Result, err error) string {
		t.Helper()
		if err != nil || r.Code != 0 {
			pods, _ := l.Kubectl(ctx, "describe", "pods", "-n", cluster.HomeNamespace)
			logs, _ := l.Kubectl(ctx, "get", "events", "-A")
			t.Fatalf("%v %s\n%s\n%s", err, r.Stderr, pods.Stdout, logs.Stdout)
		}
		return r.Stdout
	}
	run := func(script string, args ...string) string {
		t.Helper()
		out, err := node.Run(ctx, "sh", append([]string{"-euc", script, "sh"}, args...)...)
		if err != nil {
			t.Fatalf("%s: %v: %s", script, err, out)
		}
		return out
	}
	must(l.Helm(ctx, "install", "termguard", filepath.Join(lab.Root(), "deploy", "chart"), "--namespace", cluster.HomeNamespace, "--create-namespace",
		"--set", "probe.enabled=true,probe.nodeCondition=true,probe.every=2s,probe.kubeletDir="+filepath.Join(node.Dir, "kubelet")+",probe.runtimeDir="+filepath.Join(node.Dir, "containerd")))
	must(l.Kubectl(ctx, "label", "namespace", cluster.HomeNamespace, "--overwrite", "pod-security.kubernetes.io/enforce=privileged"))
	const daemonSet = "daemonset/termguard-probe"
	in := func(args ...string) string { return must(l.Kubectl(ctx, append(args, "-n", cluster.HomeNamespace)...)) }
	if err := node.ImportProgram(ctx, in("get", daemonSet, "-o", "jsonpath={.spec.template.spec.containers[0].image}"), binary); err != nil {
		t.Fatal(err)
	}
	// There is no scheduler.
	patch := func(root string) {
		t.Helper()
		var args []string
		if err := json.Unmarshal([]byte(in("get", daemonSet, "-o", "jsonpath={.spec.template.spec.containers[0].args}")), &args); err != nil {
			t.Fatal(err)
		}
		args = append(args, "--root="+root, "--pod-logs-dir="+filepath.Join(node.Dir, "kubelet", "logs"))
		text, err := json.Marshal(map[string]any{"spec": map[string]any{"template": map[string]any{"spec": map[string]any{
			"nodeName": "real", "hostNetwork": true, "containers": []any{map[string]any{"name": "probe", "args": args}},
		}}}})
		if err != nil {
			t.Fatal(err)
		}
		in("patch", daemonSet, "-p", string(text))
		in("rollout", "status", daemonSet, "--timeout=90s")
	}
	await := func(what string, holds func(report.Report) bool) {
		t.Helper()
		var last report.Report
		if err := l.Await(ctx, time.Minute, what, func(ctx context.Context) (bool, error) {
			cm, err := client.CoreV1().ConfigMaps(cluster.HomeNamespace).Get(ctx, report.Prefix+"real", metav1.GetOptions{})
			if err != nil {
				return false, nil
			}
			last, err = report.Read(cm)
			return err == nil && holds(last), err
		}); err != nil {
			logs, _ := node.Run(ctx, "sh", "-c", "cat "+filepath.Join(node.Dir, "kubelet", "logs")+"/*probe*/probe/*.log | tail -20")
			t.Fatalf("%v\nlast: %+v\n%s", err, last, logs)
		}
	}

	patch("/proc/1/root")
	const pod = `{apiVersion: v1, kind: Pod, metadata: {name: p, namespace: default}, spec: {nodeName: real, hostNetwork: true, automountServiceAccountToken: false, terminationGracePeriodSeconds: 2,
  volumes: [{name: v, emptyDir: {}}], containers: [{name: c, image: ` + lab.Image + `, command: [sleep, "1000000"], volumeMounts: [{name: v, mountPath: /v}]}]}}`
	if err := l.AwaitApplied(ctx, 30*time.Second, pod); err != nil {
		t.Fatal(err)
	}
	must(l.Kubectl(ctx, "wait", "pod", "p", "--for=condition=Ready", "--timeout=60s"))
	await("a report of both pods", func(r report.Report) bool { return r.Pods == 2 && len(r.Unseen) == 0 })
	if got := run(`pid=$(pgrep -x termguard-probe); echo nice $(ps -o ni= -p $pid); ionice -p $pid; grep -h VmHWM /proc/$pid/status; grep -h Rss /proc/$pid/status`); !strings.HasPrefix(got, "nice 19\nidle\n") {
		t.Errorf("it does not yield to others: %s", got)
	} else {
		t.Log(got)
	}

	// CAP_DAC_READ_SEARCH and CAP_SYS_PTRACE (capabilities(7)), in every thread.
	const privileges = "CapAmb:\t0000000000000000\nCapBnd:\t0000000000080004\nCapEff:\t0000000000080004\nCapInh:\t0000000000000000\nCapPrm:\t0000000000080004\nNoNewPrivs:\t1\n"
	if got := run(`grep -hE '^(Cap|NoNewPrivs)' /proc/$(pgrep -x termguard-probe)/task/*/status | sort -u`); got != privileges {
		t.Errorf("it may do\n%s", got)
	}

	volume := strings.TrimSpace(run(`echo "$1"/kubelet/pods/*/volumes/kubernetes.io~empty-dir/v`, node.Dir))
	stuck := filepath.Join(volume, "stuck")
	server := strings.TrimSpace(run(stuckMount, stuck))
	before := time.Now()
	await("a report that was made beside a mount that does not answer", func(r report.Report) bool {
		for _, f := range r.Findings {
			if f.Evidence == fmt.Sprintf("fuse is mounted at %s, within a volume", stuck) {
				return r.Time.After(before.Add(5 * time.Second)) // a later inspection than the one it interrupted
			}
		}
		return false
	})
	if got := must(l.Kubectl(ctx, "get", "node", "real", "-o", `jsonpath={.status.conditions[?(@.type=="PodsCannotGo")]['status','reason','message']}`)); got != "True PodHeldOnNode busy: pod default/p" {
		t.Errorf("the condition of the node is %q", got)
	}
	if got := must(l.Kubectl(ctx, "get", "events", "--field-selector=involvedObject.kind=Node,reason=PodHeldOnNode", "-o", "jsonpath={.items[*]['type','message']}")); got != "Warning busy: pod default/p" {
		t.Errorf("events about the node: %q", got)
	}
	run(`kill "$1"; umount -l "$2"`, server, stuck) // it would block the probe, too

	// It refuses such a file system if it can detect it. Here it cannot, because its whole view of the node is
	// below it.
	run(stuckMount, "/run/stuck")
	patch("/proc/1/root/run/stuck")
	if err := l.Await(ctx, 30*time.Second, "the probe to be held", func(ctx context.Context) (bool, error) {
		out, _ := node.Run(ctx, "sh", "-c", `cat /proc/$(pgrep -x termguard-probe)/task/*/wchan`)
		return strings.Contains(out, "fuse"), nil
	}); err != nil {
		t.Fatal(err)
	}
	var name string
	if err := l.Await(ctx, 30*time.Second, "the pod before it to be gone", func(context.Context) (bool, error) {
		names := strings.Fields(in("get", "pods", "-l", "app.kubernetes.io/name=termguard-probe", "-o", "name"))
		name = strings.Join(names, " ")
		return len(names) == 1, nil
	}); err != nil {
		t.Fatal(err)
	}
	in("delete", daemonSet, "--cascade=orphan")
	in("delete", name, "--timeout=30s")
}
