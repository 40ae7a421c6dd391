// Package node tests termguard on a real node with kubelet, containerd and runc: processes without end, files
// that cannot be removed, and daemons that do not run.
package node

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"
	watchtools "k8s.io/client-go/tools/watch"
	"sigs.k8s.io/yaml"

	"github.com/termguard/termguard/cluster"
	"github.com/termguard/termguard/cluster/live"
	"github.com/termguard/termguard/probe/report"
	"github.com/termguard/termguard/test/lab"
	"github.com/termguard/termguard/test/scenario"
)

// Scenario is one file: this document, then the objects to create. "$NS" is a namespace, "$NODE" a node,
// "$IMAGE" the lab's image, "$NETWORK" the first three numbers of an address (lab.NodeNetwork), and "$ON"
// fields of every pod: its node, the host network and no token.
type Scenario struct {
	Name string `json:"-"`
	// About is as in scenario.Scenario.
	About string `json:"about"`
	// Own means that the scenario breaks its node.
	Own bool `json:"own,omitempty"`
	// Kernel means that it needs an NFS client, on a node with its own kernel.
	Kernel bool `json:"kernel,omitempty"`
	// Alone means that it takes the whole machine.
	Alone bool `json:"alone,omitempty"`
	// Shape is the pod's name in the table of estimates; "" excludes it.
	Shape string `json:"shape,omitempty"`
	// Crowd names its copies in the table of many pods.
	Crowd string `json:"crowd,omitempty"`
	// Pod is the faults' pod, "p" by default.
	Pod string `json:"pod,omitempty"`
	// Unready means that the pod never runs.
	Unready bool   `json:"unready,omitempty"`
	First   []Step `json:"first,omitempty"`
	// Placed are steps before the wait for the pod, such as a scheduler's.
	Placed []Step `json:"placed,omitempty"`
	// Before are steps that cause the faults, before the query.
	Before []Step `json:"before,omitempty"`
	// Delete has arguments of kubectl delete, "pod p" by default.
	Delete string `json:"delete,omitempty"`
	// Expect are verdicts before the delete.
	Expect []string `json:"expect"`
	// Says is a regular expression for a finding before the delete.
	Says string `json:"says,omitempty"`
	// Reports are regular expressions for the probe's last report before the delete, "CERTAINTY EVIDENCE",
	// and ReportsNo ones that must not match.
	Reports   []string `json:"reports,omitempty"`
	ReportsNo []string `json:"reportsNo,omitempty"`
	// Unforeseen is why the hang cannot be known outside the node, which permits a verdict that it completes.
	Unforeseen string `json:"unforeseen,omitempty"`
	// Reality is hangs or completes.
	Reality string `json:"reality"`
	// Within bounds a deletion that completes, 60 s by default, and is the least time to watch a hang.
	Within scenario.Duration `json:"within,omitempty"`
	// Diagnosis are regular expressions for check's answer about the hanging object, which a hang needs:
	// "POLICY: MESSAGE [EVIDENCE; ...]", or "plan: STEP".
	Diagnosis []string `json:"diagnosis,omitempty"`
	// Copies of the objects: "$I" counts from 0.
	Copies int `json:"copies,omitempty"`
	// Symptoms are regular expressions for an event or a node's condition during the hang: "REASON MESSAGE"
	// or "TYPE=STATUS REASON MESSAGE".
	Symptoms []string `json:"symptoms,omitempty"`
	// Facts are regular expressions for a symptom in termguard's facts after the deletion, or during the
	// hang: "REASON MESSAGE".
	Facts []string `json:"facts,omitempty"`
	// Then are steps to succeed after the deletion, or during the hang.
	Then []Step `json:"then,omitempty"`
	Cure []Step `json:"cure,omitempty"`
	// Incurable is why only a restart of the node helps.
	Incurable string `json:"incurable,omitempty"`

	Objects   string `json:"-"`
	text      string
	namespace string
	again     bool
}

// Again has a new namespace.
func (s Scenario) Again() (Scenario, error) {
	again, err := parse(s.Name, "n-"+s.Name+"-again", s.text)
	again.again = true
	return again, err
}

// Step is one action, in exactly one field.
type Step struct {
	// Run is a shell script on the node. It has $DIR (of the node) and, after the first steps, $UID, $POD_DIR
	// (the kubelet's folder of the pod), $VOLUMES (its emptyDirs), $ROOT (of the first container), and $PID,
	// $SHIM and $FREEZER (its cgroup's folder) of its process.
	Run     string `json:"run,omitempty"`
	Kubectl string `json:"kubectl,omitempty"`
	// Kubelet and Containerd are signals: stop, cont or kill; or start.
	Kubelet    string `json:"kubelet,omitempty"`
	Containerd string `json:"containerd,omitempty"`
	// CSIDriver is the same for csi.lab.test.
	CSIDriver string `json:"csiDriver,omitempty"`
	// DRADriver is the same for dra.lab.test.
	DRADriver string `json:"draDriver,omitempty"`
	// Probe runs termguard-probe once.
	Probe bool `json:"probe,omitempty"`
	// Ready is the node's Ready condition to wait for.
	Ready string `json:"ready,omitempty"`
}

func Parse(name, text string) (Scenario, error) { return parse(name, "n-"+name, text) }

func parse(name, namespace, text string) (Scenario, error) {
	original := text
	text = strings.NewReplacer("$NS", namespace, "$IMAGE", lab.Image,
		"$ON", "nodeName: $NODE, hostNetwork: true, automountServiceAccountToken: false").Replace(text)
	head, objects, _ := strings.Cut(text, "\n---\n")
	s := Scenario{Name: name, Objects: objects, text: original, namespace: namespace, Pod: "p", Delete: "pod p"}
	if err := yaml.UnmarshalStrict([]byte(head), &s); err != nil {
		return s, err
	}
	if s.Within.Duration == 0 && s.Reality == scenario.Completes {
		s.Within.Duration = time.Minute
	}
	switch {
	case s.About == "" || len(s.Expect) == 0:
		return s, errors.New("about and expect are needed")
	case s.Reality != scenario.Hangs && s.Reality != scenario.Completes:
		return s, fmt.Errorf("reality is %q: want %s or %s", s.Reality, scenario.Hangs, scenario.Completes)
	case s.Reality == scenario.Hangs && len(s.Cure) == 0 && (s.Incurable == "" || !s.Own):
		return s, errors.New("a hang needs a cure")
	case s.Reality == scenario.Hangs && s.Unforeseen == "" && s.Says == "":
		return s, errors.New("a hang needs says, or unforeseen")
	case s.Reality == scenario.Hangs && len(s.Diagnosis) == 0:
		return s, errors.New("a hang needs a diagnosis")
	}
	if s.Copies > 0 {
		copies := make([]string, s.Copies)
		for i := range copies {
			copies[i] = strings.ReplaceAll(s.Objects, "$I", strconv.Itoa(i))
		}
		s.Objects = strings.Join(copies, "\n---\n")
	}
	for _, pattern := range slices.Concat([]string{s.Says}, s.Reports, s.ReportsNo, s.Diagnosis, s.Symptoms, s.Facts) {
		if _, err := regexp.Compile(pattern); err != nil {
			return s, err
		}
	}
	return s, nil
}

// hangsAfter begins with termguard's estimate, or the grace period.
const hangsAfter = 15 * time.Second

type Outcome struct {
	Scenario  Scenario
	Predicted string
	Estimate  int // seconds
	Real      string
	Took      time.Duration // until it completed
	Work      time.Duration // processor time of the node meanwhile, if there are copies
	Shows     []string      // events and conditions
	Diagnosis []string      // check during the hang
	Wrong     []string
	Err       error // the scenario could not be played
}

type answer struct {
	Verdict         string
	EstimateSeconds int // 0: none
	Findings        []struct {
		Policy, Message string
		Evidence        []string
	}
	Plan   []struct{ Do string }
	Unseen []string
}

func (r answer) lines() (lines []string) {
	for _, f := range r.Findings {
		lines = append(lines, f.Policy+": "+f.Message+" ["+strings.Join(f.Evidence, "; ")+"]")
	}
	for _, step := range r.Plan {
		lines = append(lines, "plan: "+step.Do)
	}
	for _, u := range r.Unseen {
		lines = append(lines, "unseen: "+u)
	}
	return lines
}

func (r answer) says(pattern string) bool {
	return slices.ContainsFunc(r.lines(), regexp.MustCompile(pattern).MatchString)
}

type player struct {
	*scenario.Guarded
	Scenario
	node   *lab.RealNode
	driver *lab.Process // the last one started
	env    []string     // of scripts
	// uid distinguishes the pod from a successor.
	grace time.Duration
	uid   types.UID
}

// Play calls ready once the scenario is set up.
func Play(ctx context.Context, g *scenario.Guarded, node *lab.RealNode, s Scenario, ready func()) (o Outcome) {
	p := &player{Guarded: g, Scenario: s, node: node}
	o.Scenario = s
	o.Err = p.play(ctx, &o, ready)
	return o
}

func (p *player) play(ctx context.Context, o *Outcome, ready func()) error {
	wrong := func(format string, args ...any) { o.Wrong = append(o.Wrong, fmt.Sprintf(format, args...)) }
	err := p.setUp(ctx)
	ready()
	if err != nil {
		return fmt.Errorf("set up: %w", err)
	}
	if err := p.do(ctx, p.Before); err != nil {
		return fmt.Errorf("break it: %w", err)
	}
	if err := p.checkReport(ctx, wrong); err != nil {
		return err
	}
	before, err := p.ask(ctx, time.Minute, func(r answer) bool {
		return p.fair(r) && (p.Says == "" || r.says(p.Says))
	})
	if err != nil {
		return err
	}
	o.Predicted, o.Estimate = before.Verdict, before.EstimateSeconds
	if !p.fair(before) {
		wrong("the verdict %s is not fair: want %v: %s", before.Verdict, p.Expect, strings.Join(before.lines(), "; "))
	}
	if p.Says != "" && !before.says(p.Says) {
		wrong("nothing says %q before the delete: %s", p.Says, strings.Join(before.lines(), "; "))
	}

	worked, err := p.work(ctx)
	if err != nil {
		return err
	}
	r, err := p.Kubectl(ctx, p.words("delete", "--wait=false", p.Delete)...)
	if err != nil || r.Code != 0 {
		return fmt.Errorf("delete: %w: %s", err, r.Stderr)
	}
	began := time.Now() // kubectl's time before is not the node's
	if verdict := scenario.Verdict(scenario.Warnings(r.Stderr)); verdict != before.Verdict && (p.Own || p.Reality == scenario.Completes) {
		wrong("check says %s, the webhook says %s: %s", before.Verdict, verdict, r.Stderr)
	}
	limit := p.Within.Duration
	if p.Reality == scenario.Hangs {
		limit = max(limit, p.grace+hangsAfter)
	}
	gone, err := p.gone(ctx, limit)
	if err != nil {
		return err
	}
	o.Real, o.Took = scenario.Completes, time.Since(began)
	if !gone {
		o.Real = scenario.Hangs
	}
	if o.Work, err = p.work(ctx); err != nil {
		return err
	}
	o.Work -= worked
	if o.Shows, err = p.shows(ctx); err != nil {
		return err
	}
	if o.Real != p.Reality {
		wrong("it %s, where the scenario says it %s", o.Real, p.Reality)
	}
	if o.Predicted == scenario.Hangs && o.Real == scenario.Completes {
		wrong("false alarm")
	}
	if o.Predicted == scenario.Completes && o.Real == scenario.Hangs && p.Unforeseen == "" {
		wrong("miss")
	}
	for _, pattern := range p.Symptoms {
		if !slices.ContainsFunc(o.Shows, regexp.MustCompile(pattern).MatchString) {
			wrong("no event or condition matches %q: %s", pattern, strings.Join(o.Shows, "; "))
		}
	}
	if len(p.Facts) > 0 {
		facts, err := p.symptoms(ctx)
		if err != nil {
			return err
		}
		for _, pattern := range p.Facts {
			if !slices.ContainsFunc(facts, regexp.MustCompile(pattern).MatchString) {
				wrong("no symptom among the facts matches %q: %s", pattern, strings.Join(facts, "; "))
			}
		}
	}
	if o.Real == scenario.Hangs {
		// Some causes are diagnosed at once, others a minute late: until then, each query takes half a second
		// of CPU time for the same answer.
		diagnosed := func(r answer) bool {
			return p.stuck(r) && !slices.ContainsFunc(p.Diagnosis, func(pattern string) bool { return !r.says(pattern) })
		}
		diagnosis, err := p.check(ctx)
		if err == nil && !diagnosed(diagnosis) {
			if _, err := p.gone(ctx, max(time.Second, time.Until(began.Add(p.grace+time.Minute)))); err != nil {
				return err
			}
			diagnosis, err = p.ask(ctx, 100*time.Second, diagnosed)
		}
		if err != nil {
			return err
		}
		o.Diagnosis = diagnosis.lines()
		if !p.stuck(diagnosis) {
			wrong("the diagnosis is that it %s: %s", diagnosis.Verdict, strings.Join(diagnosis.lines(), "; "))
		}
		for _, pattern := range p.Diagnosis {
			if !diagnosis.says(pattern) {
				wrong("the diagnosis does not say %q: %s", pattern, strings.Join(diagnosis.lines(), "; "))
			}
		}
	}
	if err := p.do(ctx, p.Then); err != nil {
		wrong("%v", err)
	}
	// A shared node must not stay broken.
	if err := p.do(ctx, p.Cure); err != nil {
		return fmt.Errorf("cure: %w", err)
	}
	if o.Real == scenario.Hangs && p.Incurable == "" {
		// The kubelet retries after up to 2 min 2 s (field notes: about 30 s).
		if gone, err = p.gone(ctx, 3*time.Minute); err != nil {
			return err
		}
		if !gone {
			wrong("the cure does not help")
		}
	}
	return nil
}

// fair accepts a stuck node on the shared node for hangs.
func (p *player) fair(r answer) bool {
	return slices.Contains(p.Expect, r.Verdict) ||
		!p.Own && p.Reality == scenario.Hangs && r.Verdict == scenario.AtRisk && r.says("^node-already-stuck: ")
}

// stuck accepts at-risk only if it was the answer before.
func (p *player) stuck(r answer) bool {
	return r.Verdict == scenario.Hangs || r.Verdict == scenario.AtRisk && slices.Contains(p.Expect, scenario.AtRisk)
}

func (p *player) words(verb, flag, rest string) []string {
	return append([]string{verb, flag, "-n", p.namespace}, scenario.Words(rest)...)
}

func (p *player) setUp(ctx context.Context) error {
	p.env = []string{"DIR=" + p.node.Dir}
	if err := p.do(ctx, p.First); err != nil {
		return err
	}
	objects := "{apiVersion: v1, kind: Namespace, metadata: {name: " + p.namespace + "}}\n---\n" + strings.NewReplacer("$NODE", p.node.Name, "$NETWORK", p.NodeNetwork()).Replace(p.Objects)
	if err := p.AwaitApplied(ctx, 30*time.Second, objects); err != nil {
		return err
	}
	if err := p.do(ctx, p.Placed); err != nil {
		return err
	}
	client, err := p.Client()
	if err != nil {
		return err
	}
	pods := client.CoreV1().Pods(p.namespace)
	if err := p.Await(ctx, 3*time.Minute, "pod "+p.Pod+" of "+p.Name, func(ctx context.Context) (bool, error) {
		pod, err := pods.Get(ctx, p.Pod, metav1.GetOptions{})
		if err != nil {
			return false, nil
		}
		if p.Unready {
			return true, nil
		}
		return slices.ContainsFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool {
			return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue
		}), nil
	}); err != nil {
		return err
	}
	pod, err := pods.Get(ctx, p.Pod, metav1.GetOptions{})
	if err != nil {
		return err
	}
	p.uid = pod.UID
	p.grace = time.Duration(*pod.Spec.TerminationGracePeriodSeconds) * time.Second
	dir := filepath.Join(p.node.Dir, "kubelet", "pods", string(pod.UID))
	p.env = append(p.env, "UID="+string(pod.UID), "POD_DIR="+dir, "VOLUMES="+filepath.Join(dir, "volumes", "kubernetes.io~empty-dir"))
	if p.Unready {
		return nil
	}
	_, id, _ := strings.Cut(pod.Status.ContainerStatuses[0].ContainerID, "://")
	out, err := p.run(ctx, `task=/run/containerd/io.containerd.runtime.v2.task/k8s.io/`+id+`
PID=$(cat $task/init.pid)
FREEZER=/sys/fs/cgroup/freezer$(sed -n 's/^[0-9]*:freezer://p' /proc/$PID/cgroup)
[ -e /sys/fs/cgroup/cgroup.controllers ] && FREEZER=/sys/fs/cgroup$(sed -n 's/^0:://p' /proc/$PID/cgroup)
echo PID=$PID SHIM=$(sed -n 's/^PPid:[^0-9]*//p' /proc/$PID/status) FREEZER=$FREEZER ROOT=$task/rootfs`)
	if err != nil {
		return err
	}
	p.env = append(p.env, strings.Fields(out)...)
	return nil
}

func (p *player) work(ctx context.Context) (time.Duration, error) {
	if p.Copies == 0 {
		return 0, nil
	}
	// utime, stime, cutime and cstime of proc(5), in 1/100 s.
	out, err := p.run(ctx, `cat /proc/[0-9]*/stat 2>/dev/null | awk '{sub(/^.*\) /, ""); all += $12 + $13 + $14 + $15} END {print all}'`)
	if err != nil {
		return 0, err
	}
	ticks, err := strconv.ParseFloat(strings.TrimSpace(out), 64)
	return time.Duration(ticks * float64(time.Second) / 100), err
}

func (p *player) run(ctx context.Context, script string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	out, err := p.node.Run(ctx, "env", append(slices.Clone(p.env), "sh", "-euc", script)...)
	if err != nil {
		return out, fmt.Errorf("run %q: %w: %s", script, err, out)
	}
	return out, nil
}

func (p *player) do(ctx context.Context, steps []Step) error {
	for _, s := range steps {
		var err error
		switch {
		case s.Run != "":
			_, err = p.run(ctx, s.Run)
		case s.Kubectl != "":
			var r lab.Result
			words := scenario.Words(s.Kubectl)
			if r, err = p.Kubectl(ctx, append(words, "-n", p.namespace)...); err == nil && r.Code != 0 {
				err = fmt.Errorf("kubectl %s: %s", s.Kubectl, r.Stderr)
			}
		case s.Kubelet == "start":
			err = p.node.StartKubelet(ctx)
		case s.Kubelet != "":
			err = signal(p.node.Kubelet, s.Kubelet)
		case s.Containerd == "start":
			err = p.node.StartContainerd(ctx)
		case s.Containerd != "":
			err = signal(p.node.Containerd, s.Containerd)
		case s.CSIDriver == "start":
			p.driver, err = p.node.StartCSIDriver("csi.lab.test")
		case s.CSIDriver != "":
			err = signal(p.driver, s.CSIDriver)
		case s.DRADriver == "start":
			p.driver, err = p.node.StartDRADriver("dra.lab.test")
		case s.DRADriver != "":
			err = signal(p.driver, s.DRADriver)
		case s.Probe:
			err = p.probe(ctx)
		case s.Ready != "":
			err = p.node.AwaitReady(ctx, corev1.ConditionStatus(s.Ready))
		default:
			err = errors.New("an empty step")
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (p *player) probe(ctx context.Context) error {
	binary, err := scenario.ProbeBinary()
	if err != nil {
		return err
	}
	if err := p.AwaitApplied(ctx, 30*time.Second, "{apiVersion: v1, kind: Namespace, metadata: {name: "+cluster.HomeNamespace+"}}"); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	out, err := p.node.Run(ctx, binary, "--every=0", "--node", p.node.Name, "--kubeconfig", p.Kubeconfig(),
		"--kubelet-dir", filepath.Join(p.node.Dir, "kubelet"), "--pod-logs-dir", filepath.Join(p.node.Dir, "kubelet", "logs"), "--runtime-dir", filepath.Join(p.node.Dir, "containerd"))
	if err != nil {
		return fmt.Errorf("termguard-probe: %w: %s", err, out)
	}
	return nil
}

func (p *player) checkReport(ctx context.Context, wrong func(format string, args ...any)) error {
	if len(p.Reports)+len(p.ReportsNo) == 0 {
		return nil
	}
	client, err := p.Client()
	if err != nil {
		return err
	}
	cm, err := client.CoreV1().ConfigMaps(cluster.HomeNamespace).Get(ctx, report.Prefix+p.node.Name, metav1.GetOptions{})
	if err != nil {
		return err
	}
	r, err := report.Read(cm)
	if err != nil {
		return err
	}
	var lines []string
	for _, f := range r.Findings {
		lines = append(lines, string(f.Certainty)+" "+f.Evidence)
	}
	for _, pattern := range p.Reports {
		if !slices.ContainsFunc(lines, regexp.MustCompile(pattern).MatchString) {
			wrong("the probe does not report %q: %q, and has not seen %q", pattern, lines, r.Unseen)
		}
	}
	for _, pattern := range p.ReportsNo {
		if slices.ContainsFunc(lines, regexp.MustCompile(pattern).MatchString) {
			wrong("the probe reports %q: %q", pattern, lines)
		}
	}
	return nil
}

func signal(process *lab.Process, name string) error {
	if process == nil {
		return fmt.Errorf("no process to %s: on a node with a kernel of its own they are out of reach", name)
	}
	switch name {
	case "stop":
		return process.Signal(syscall.SIGSTOP)
	case "cont":
		return process.Signal(syscall.SIGCONT)
	case "kill":
		process.Kill()
		return nil
	}
	return fmt.Errorf("unknown signal %q: want stop, cont or kill", name)
}

// Events on the node reach the API late.
func (p *player) ask(ctx context.Context, patience time.Duration, fair func(answer) bool) (r answer, err error) {
	err = p.Await(ctx, patience, "a fair verdict", func(ctx context.Context) (bool, error) {
		next, err := p.check(ctx)
		if err != nil {
			return false, err
		}
		r = next
		return fair(r), nil
	})
	if errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil {
		return r, nil
	}
	return r, err
}

func (p *player) check(ctx context.Context) (r answer, err error) {
	binary, err := scenario.Binary()
	if err != nil {
		return r, err
	}
	args := append([]string{"check", "--kubeconfig", p.Kubeconfig(), "-o", "json", "-n", p.namespace}, scenario.Words(p.Delete)...)
	cmd := exec.CommandContext(ctx, binary, args...)
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	var exit *exec.ExitError
	switch err := cmd.Run(); {
	case ctx.Err() != nil:
		return r, ctx.Err()
	case err != nil && (!errors.As(err, &exit) || exit.ExitCode() != 1):
		return r, fmt.Errorf("termguard check: %w: %s", err, stderr.String())
	}
	var all struct {
		Items []answer
		Plan  []struct{ Do string }
	}
	if err := json.Unmarshal(stdout.Bytes(), &all); err != nil || len(all.Items) != 1 {
		return r, fmt.Errorf("termguard check: %w: %s", err, stdout.String())
	}
	r, r.Plan = all.Items[0], all.Plan
	return r, nil
}

func (p *player) symptoms(ctx context.Context) (lines []string, err error) {
	world, err := live.Collect(ctx, p.Config(), cluster.Options{}, nil, "", slog.New(slog.DiscardHandler))
	if err != nil {
		return nil, err
	}
	var facts struct {
		KubeletEvents map[string]map[string]struct{ Reason, Message string }
	}
	world.View(func(doc map[string]any) {
		var text []byte
		if text, err = json.Marshal(map[string]any{"KubeletEvents": doc["kubeletEvents"]}); err == nil {
			err = json.Unmarshal(text, &facts)
		}
	})
	if err != nil {
		return nil, fmt.Errorf("read the facts: %w", err)
	}
	for _, s := range facts.KubeletEvents[p.node.Name] {
		lines = append(lines, s.Reason+" "+s.Message)
	}
	return lines, nil
}

func (p *player) gone(ctx context.Context, limit time.Duration) (bool, error) {
	var target []string
	for _, word := range scenario.Words(p.Delete) {
		if !strings.HasPrefix(word, "--") {
			target = append(target, word)
		}
	}
	if slices.Equal(target, []string{"pod", p.Pod}) {
		return p.podGone(ctx, limit)
	}
	return p.Lab.Gone(ctx, limit, append(target, "-n", p.namespace)...)
}

// podGone ignores successors: a static pod is recreated at once. It watches, because seconds are measured.
func (p *player) podGone(ctx context.Context, limit time.Duration) (bool, error) {
	client, err := p.Client()
	if err != nil {
		return false, err
	}
	limited, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	other := func(object any) bool { pod, ok := object.(*corev1.Pod); return ok && pod.UID != p.uid }
	pods := cache.NewListWatchFromClient(client.CoreV1().RESTClient(), "pods", p.namespace, fields.OneTermEqualSelector("metadata.name", p.Pod))
	_, err = watchtools.UntilWithSync(limited, pods, &corev1.Pod{},
		func(store cache.Store) (bool, error) {
			return !slices.ContainsFunc(store.List(), func(o any) bool { return !other(o) }), nil
		},
		func(e watch.Event) (bool, error) { return e.Type == watch.Deleted || other(e.Object), nil })
	if limited.Err() != nil && ctx.Err() == nil {
		return false, nil
	}
	return err == nil, err
}

func (p *player) shows(ctx context.Context) (lines []string, err error) {
	client, err := p.Client()
	if err != nil {
		return nil, err
	}
	if pod, err := client.CoreV1().Pods(p.namespace).Get(ctx, p.Pod, metav1.GetOptions{}); err == nil {
		state := []string{"pod phase " + string(pod.Status.Phase)}
		for _, c := range slices.Concat(pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses) {
			switch {
			case c.State.Terminated != nil:
				state = append(state, fmt.Sprintf("%s terminated %s exit %d", c.Name, c.State.Terminated.Reason, c.State.Terminated.ExitCode))
			case c.State.Running != nil:
				state = append(state, c.Name+" running")
			case c.State.Waiting != nil:
				state = append(state, c.Name+" waiting "+c.State.Waiting.Reason)
			}
		}
		for _, c := range pod.Status.Conditions {
			if c.Reason != "" {
				state = append(state, fmt.Sprintf("%s=%s %s", c.Type, c.Status, c.Reason))
			}
		}
		lines = append(lines, strings.Join(state, ", "))
	}
	events, err := client.CoreV1().Events(p.namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, err
	}
	for _, e := range events.Items {
		switch e.Reason {
		case "Pulled", "Created", "Started", "Scheduled":
		default:
			lines = append(lines, fmt.Sprintf("%s x%d %s", e.Reason, max(e.Count, 1), strings.Join(strings.Fields(e.Message), " ")))
		}
	}
	node, err := client.CoreV1().Nodes().Get(ctx, p.node.Name, metav1.GetOptions{})
	if err != nil {
		return nil, err
	}
	for _, c := range node.Status.Conditions {
		if (c.Type == corev1.NodeReady) != (c.Status == corev1.ConditionTrue) {
			lines = append(lines, fmt.Sprintf("node %s=%s %s %s", c.Type, c.Status, c.Reason, c.Message))
		}
	}
	for _, t := range node.Spec.Taints {
		lines = append(lines, fmt.Sprintf("node taint %s:%s", t.Key, t.Effect))
	}
	return lines, nil
}
