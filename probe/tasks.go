package probe

import (
	"context"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"time"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/termguard/termguard/probe/report"
)

// maxTasks bounds the findings about containers that the runtime and the kernel do not
// agree on: a runtime that keeps its containers in virtual machines has no processes here.
const maxTasks = 20

// task is what the runtime tells of a container, or of a pod's sandbox.
type task struct {
	pod   string // UID
	state taskState
}

type taskState string

const (
	taskCreated taskState = "created"
	taskRuns    taskState = "running"
	taskEnded   taskState = "ended"
	taskUnknown taskState = "unknown"
)

// listing is a method of runtime.v1.RuntimeService that lists tasks, and where they have
// what (k8s.io/cri-api/pkg/apis/runtime/v1/api.proto): id is field 1 of each.
type listing struct {
	method        string
	state, labels protowire.Number
	states        []taskState // by number
}

var listings = []listing{
	{"ListPodSandbox", 3, 5, []taskState{taskRuns, taskEnded}},
	{"ListContainers", 6, 8, []taskState{taskCreated, taskRuns, taskEnded, taskUnknown}},
}

// uidLabel is on all that the kubelet makes (pkg/kubelet/types/labels.go).
const uidLabel = "io.kubernetes.pod.uid"

// fields calls for each field of a message, with its bytes or its number.
func fields(message []byte, each func(number protowire.Number, bytes []byte, value uint64) error) error {
	for len(message) > 0 {
		number, kind, n := protowire.ConsumeTag(message)
		if n < 0 {
			return protowire.ParseError(n)
		}
		message = message[n:]
		var bytes []byte
		var value uint64
		switch kind {
		case protowire.BytesType:
			bytes, n = protowire.ConsumeBytes(message)
		case protowire.VarintType:
			value, n = protowire.ConsumeVarint(message)
		default:
			n = protowire.ConsumeFieldValue(number, kind, message)
		}
		if n < 0 {
			return protowire.ParseError(n)
		}
		message = message[n:]
		if err := each(number, bytes, value); err != nil {
			return err
		}
	}
	return nil
}

// tasks reads an answer.
func (from listing) tasks(answer []byte, into map[string]task) error {
	return fields(answer, func(number protowire.Number, item []byte, _ uint64) error {
		if number != 1 {
			return nil
		}
		var id string
		t := task{state: from.states[0]}
		err := fields(item, func(number protowire.Number, bytes []byte, value uint64) error {
			switch number {
			case 1:
				id = string(bytes)
			case from.state:
				if t.state = taskUnknown; value < uint64(len(from.states)) {
					t.state = from.states[value]
				}
			case from.labels:
				var key, label string
				if err := fields(bytes, func(number protowire.Number, bytes []byte, _ uint64) error {
					switch number {
					case 1:
						key = string(bytes)
					case 2:
						label = string(bytes)
					}
					return nil
				}); err != nil {
					return err
				}
				if key == uidLabel {
					t.pod = label
				}
			}
			return nil
		})
		into[id] = t
		return err
	})
}

// containerID finds it in what stands below a pod's cgroup: the ID itself, or, of
// systemd, cri-containerd-ID.scope and crio-ID.scope.
var containerID = regexp.MustCompile(`^(?:[a-z-]+-)?([0-9a-f]{64})(?:\.scope)?(?:/|$)`)

// lookAtTasks finds containers of which the runtime says one thing, and the processes of
// the node another. None of it held a pod that was tried (test/results/node.md), and a runtime with
// virtual machines looks like it: it is noted.
func (l *look) lookAtTasks(ctx context.Context, answers func(context.Context, string) ([]byte, error)) error {
	first, err := l.oddTasks(ctx, answers)
	if err != nil || len(first) == 0 {
		return err
	}
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(l.Again): // what starts or ends just now keeps nobody
	}
	again, err := l.oddTasks(ctx, answers)
	if err != nil {
		return err
	}
	maps.DeleteFunc(again, func(key string, _ oddTask) bool { _, before := first[key]; return !before })
	for i, key := range slices.Sorted(maps.Keys(again)) {
		if i == maxTasks {
			l.report.Miss("%d more containers of which runtime and processes tell different things", len(again)-i)
			break
		}
		l.add(again[key].pod, report.Finding{Cause: report.Stuck, Certainty: report.Note, Evidence: again[key].evidence})
	}
	return nil
}

// oddTask is one that runtime and processes do not agree on.
type oddTask struct{ pod, evidence string }

// oddTasks are all of them, by what is odd.
func (l *look) oddTasks(ctx context.Context, answers func(context.Context, string) ([]byte, error)) (map[string]oddTask, error) {
	tasks := map[string]task{}
	for _, from := range listings {
		answer, err := answers(ctx, from.method)
		if err != nil {
			return nil, err
		}
		if err := from.tasks(answer, tasks); err != nil {
			return nil, err
		}
	}
	all := l.processes()
	members := map[string][]process{}
	pods := map[string]string{}
	for _, pid := range sorted(all) {
		for _, cgroup := range l.cgroups(pid) {
			if id, rest, ok := podOf(cgroup); ok {
				if of := containerID.FindStringSubmatch(rest); of != nil {
					members[of[1]], pods[of[1]] = append(members[of[1]], all[pid]), id
				}
				break
			}
		}
	}
	found := map[string]oddTask{}
	for id, t := range tasks {
		switch {
		case t.state == taskUnknown:
			found["unknown "+id] = oddTask{t.pod, fmt.Sprintf("the runtime does not know the state of container %s (crictl inspect)", id)}
		case t.state == taskRuns && len(members[id]) == 0:
			found["gone "+id] = oddTask{t.pod, fmt.Sprintf("the runtime says that container %s runs, and no process is in its cgroup", id)}
		case t.state == taskRuns && !slices.ContainsFunc(members[id], func(p process) bool { return all[p.parent].isShim() }):
			p := members[id][0]
			found["no shim "+id] = oddTask{t.pod, fmt.Sprintf("process %d (%s) of container %s has no shim (ps -o ppid)", p.pid, p.name, id)}
		}
	}
	for id, processes := range members {
		if t, known := tasks[id]; !known || t.state == taskEnded {
			says := map[bool]string{true: "says has ended", false: "does not know"}[known]
			p := processes[0]
			found["left "+id] = oddTask{pods[id], fmt.Sprintf("process %d (%s) is in the cgroup of container %s, which the runtime %s", p.pid, p.name, id, says)}
		}
	}
	return found, nil
}
