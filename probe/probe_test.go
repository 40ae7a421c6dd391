package probe

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/termguard/termguard/probe/report"
)

const (
	uidA = "6f1c2b1e-0f6e-4d56-8a6e-0123456789ab"
	uidB = "6f1c2b1e-0f6e-4d56-8a6e-ffffffffffff"
	pods = "/var/lib/kubelet/pods/"
)

// tree describes the files of a fake node by path: content "/" makes a directory, "->" a link.
type tree map[string]string

func (files tree) make(t *testing.T) string {
	t.Helper()
	root := t.TempDir()
	for name, content := range files {
		path := filepath.Join(root, name)
		if content == "/" {
			if err := os.MkdirAll(path, 0o755); err != nil {
				t.Fatal(err)
			}
			continue
		}
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if to, link := strings.CutPrefix(content, "->"); link {
			if err := os.Symlink(to, path); err != nil {
				t.Fatal(err)
			}
			continue
		}
		if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return root
}

// healthyNode returns a node with one pod and no problems, plus the given files.
func healthyNode(more tree) tree {
	files := tree{
		pods + uidA: "/", "/var/log/pods/demo_web-0_" + uidA: "/",
		"/proc/1/stat": stat(1, "init", "S", 0), "/proc/1/mountinfo": "1 0 8:1 / / rw - ext4 /dev/sda1 rw\n",
		"/sys/fs/cgroup/freezer/kubepods/pod" + uidA + "/c1/freezer.self_freezing": "0\n",
	}
	return merge(files, more)
}

// stat returns a line of /proc/PID/stat.
func stat(pid int, name, state string, parent int) string {
	return strings.Join([]string{strconv.Itoa(pid), "(" + name + ")", state, strconv.Itoa(parent), strings.Repeat("0 ", 17) + "77", "0 0\n"}, " ")
}

var aPod = &report.Pod{Namespace: "demo", Name: "web-0", UID: uidA}

// TestLook checks what an inspection finds, and near misses that it must not report.
func TestLook(t *testing.T) {
	const (
		volume = pods + uidA + "/volumes/kubernetes.io~empty-dir/v"
		group  = "/sys/fs/cgroup/freezer/kubepods/pod" + uidA
		cgroup = "5:freezer:/kubepods/pod" + uidA + "/c1\n"
	)
	tests := map[string]struct {
		reason string
		node   tree
		want   []report.Finding
	}{
		"calm": {"nothing is wrong", nil, nil},
		"immutable": {
			"the kubelet cannot remove it", tree{volume + "/d/immutable": ""},
			[]report.Finding{{Cause: report.Immutable, Certainty: report.Will, Pod: aPod, Evidence: volume + "/d/immutable is immutable (lsattr): it cannot be removed", Remedy: "chattr -i '" + volume + "/d/immutable'"}},
		},
		"append-only directory": {
			"nothing in it can be removed", tree{volume + "/append": "/"},
			[]report.Finding{{Cause: report.Immutable, Certainty: report.Will, Pod: aPod, Evidence: volume + "/append is append-only (lsattr): it cannot be removed", Remedy: "chattr -a '" + volume + "/append'"}},
		},
		"immutable elsewhere": {"it is not removed with the pod", tree{"/var/lib/immutable": "", pods + uidA + "/volumes/kubernetes.io~local-volume/v/immutable": ""}, nil},
		"immutable of no known pod": {"a pod without logs is no pod of the cluster", tree{pods + uidB + "/volumes/kubernetes.io~empty-dir/v/immutable": ""}, []report.Finding{{
			Cause: report.Immutable, Certainty: report.Note, Pod: &report.Pod{UID: uidB},
			Evidence: pods + uidB + "/volumes/kubernetes.io~empty-dir/v/immutable is immutable (lsattr): it cannot be removed",
			Remedy:   "chattr -i '" + pods + uidB + "/volumes/kubernetes.io~empty-dir/v/immutable'",
		}}},
		"a name that cannot be typed": {
			"the remedy uses the inode", tree{volume + "/\x1b[2Jimmutable": ""},
			[]report.Finding{{Cause: report.Immutable, Certainty: report.Will, Pod: aPod, Evidence: volume + "/\x1b[2Jimmutable is immutable (lsattr): it cannot be removed", Remedy: "find '" + volume + "' -inum 7 -exec chattr -i {} +"}},
		},
		"mount in a volume": {
			"the kubelet does not unmount it", tree{"/proc/1/mountinfo": "1 0 8:1 / / rw - ext4 /dev/sda1 rw\n2 1 0:5 / " + volume + "/it\\047s\\040mine rw shared:1 - tmpfs tmpfs rw\n"},
			[]report.Finding{{Cause: report.Busy, Certainty: report.Will, Pod: aPod, Evidence: "tmpfs is mounted at " + volume + "/it's mine, within a volume", Remedy: `umount '` + volume + `/it'\''s mine'`}},
		},
		"mounts that the kubelet made": {
			"it unmounts them", tree{"/proc/1/mountinfo": "1 0 8:1 / / rw - ext4 /dev/sda1 rw\n2 1 0:5 / " + volume + " rw - tmpfs tmpfs rw\n3 1 0:6 / " + pods + uidA + "/volumes/kubernetes.io~csi/pv/mount rw - ext4 /dev/sdb rw\n4 1 0:6 / " + pods + uidA + "/volume-subpaths/v/c/0 rw - ext4 /dev/sdb rw\n"}, nil,
		},
		"pod cgroup frozen": {
			"nothing in it can be killed", tree{group + "/freezer.self_freezing": "1\n", group + "/c1/freezer.self_freezing": "0\n"},
			[]report.Finding{{Cause: report.Stuck, Certainty: report.Will, Pod: aPod, Evidence: "cgroup " + group + " is frozen (freezer.state): nothing in it can be killed", Remedy: "echo THAWED > " + group + "/freezer.state"}},
		},
		"container frozen": {
			"runc thaws it", tree{group + "/c1/freezer.self_freezing": "1\n"},
			[]report.Finding{{Cause: report.Stuck, Certainty: report.Note, Pod: aPod, Evidence: "cgroup " + group + "/c1, of a container, is frozen (freezer.state): runc thaws it to kill what is in it"}},
		},
		"nested cgroup frozen": {
			"runc does not know it", tree{group + "/c1/x/freezer.self_freezing": "1\n"},
			[]report.Finding{{Cause: report.Stuck, Certainty: report.Will, Pod: aPod, Evidence: "cgroup " + group + "/c1/x is frozen (freezer.state): nothing in it can be killed", Remedy: "echo THAWED > " + group + "/c1/x/freezer.state"}},
		},
		"frozen from above": {
			"as if it were frozen itself", tree{group + "/freezer.self_freezing": "0\n", group + "/freezer.parent_freezing": "1\n"},
			[]report.Finding{{Cause: report.Stuck, Certainty: report.Will, Pod: aPod, Evidence: "a cgroup above " + group + " is frozen (freezer.state): nothing in it can be killed"}},
		},
		"frozen, version 2": {
			"it can be killed", tree{"/sys/fs/cgroup/cgroup.controllers": "", "/sys/fs/cgroup/kubepods.slice/kubepods-pod" + strings.ReplaceAll(uidA, "-", "_") + ".slice/cgroup.freeze": "1\n"},
			[]report.Finding{{Cause: report.Stuck, Certainty: report.Note, Pod: aPod, Evidence: "cgroup /sys/fs/cgroup/kubepods.slice/kubepods-pod" + strings.ReplaceAll(uidA, "-", "_") + ".slice is frozen (cgroup.freeze): its processes end when their grace period does, at the latest"}},
		},
		"state D": {
			"no signal reaches it", tree{"/proc/40/stat": stat(40, "a) D (b", "D", 1), "/proc/40/cgroup": cgroup, "/proc/40/wchan": "rpc_wait_bit_killable"},
			[]report.Finding{{Cause: report.Stuck, Certainty: report.May, Pod: aPod, Evidence: "process 40 (a) D (b) is in state D, in rpc_wait_bit_killable: no signal reaches it"}},
		},
		"a hostile name of a process": {
			"its line is read from the last parenthesis on, and shown in one line by who shows it", tree{"/proc/40/stat": stat(40, "a\n) Z 1 (\x1b[2J", "D", 1), "/proc/40/cgroup": cgroup},
			[]report.Finding{{Cause: report.Stuck, Certainty: report.May, Pod: aPod, Evidence: "process 40 (a\n) Z 1 (\x1b[2J) is in state D: no signal reaches it"}},
		},
		"state D in a frozen cgroup":        {"the cgroup blocks it, and belongs to a container", tree{"/proc/40/stat": stat(40, "sh", "D", 1), "/proc/40/cgroup": cgroup, group + "/c1/freezer.state": "FROZEN\n"}, nil},
		"state D of a process outside pods": {"a thread of the kernel", tree{"/proc/40/stat": stat(40, "kworker", "D", 2), "/proc/40/cgroup": "5:freezer:/\n"}, nil},
		"zombie of its parent":              {"it is reaped with its parent", tree{"/proc/40/stat": stat(40, "sh", "Z", 1), "/proc/40/cgroup": cgroup}, nil},
		"zombie of a shim": {
			"no other process reaps it", tree{"/proc/40/stat": stat(40, "sh", "Z", 41), "/proc/40/cgroup": cgroup, "/proc/41/stat": stat(41, "containerd-shim", "S", 1)},
			[]report.Finding{{Cause: report.Stuck, Certainty: report.May, Pod: aPod, Evidence: "process 40 (sh) is a zombie that its shim 41 does not reap"}},
		},
		"stopped shim": {
			"the runtime waits for it", tree{"/proc/40/stat": stat(40, "sh", "S", 41), "/proc/40/cgroup": cgroup, "/proc/41/stat": stat(41, "containerd-shim", "T", 1)},
			[]report.Finding{{Cause: report.Stuck, Certainty: report.Will, Pod: aPod, Evidence: "process 41 (containerd-shim), the shim of its containers, is stopped (state T)", Remedy: "kill -CONT 41"}},
		},
		"zombie of a shim, version 1": {
			"the kernel shows the cgroup of the sandbox, none for the zombie",
			tree{"/proc/40/stat": stat(40, "sh", "Z", 41), "/proc/40/cgroup": "5:freezer:/\n", "/proc/41/stat": stat(41, "containerd-shim", "S", 1), "/proc/42/stat": stat(42, "pause", "S", 41), "/proc/42/cgroup": cgroup},
			[]report.Finding{{Cause: report.Stuck, Certainty: report.May, Pod: aPod, Evidence: "process 40 (sh) is a zombie that its shim 41 does not reap"}},
		},
		"cgroup of a deleted pod": {"it blocks no pod", tree{"/sys/fs/cgroup/freezer/kubepods/pod" + uidB + "/freezer.self_freezing": "1\n"}, nil},
		"processes that vanish": {
			"while they are read", tree{"/proc/40/stat": "->gone", "/proc/41/cgroup": "->gone", "/proc/41/stat": stat(41, "dd", "D", 1), "/proc/42/stat": "", "/proc/43": "/"}, nil,
		},
		"a file name of 255 bytes": {
			"it is quoted in full", tree{volume + "/immutable" + strings.Repeat("x", 246): ""},
			[]report.Finding{{Cause: report.Immutable, Certainty: report.Will, Pod: aPod, Evidence: volume + "/immutable" + strings.Repeat("x", 246) + " is immutable (lsattr): it cannot be removed", Remedy: "chattr -i '" + volume + "/immutable" + strings.Repeat("x", 246) + "'"}},
		},
		"read-only": {
			"no directory can be removed", tree{"/proc/1/mountinfo": "1 0 8:1 / / rw - ext4 /dev/sda1 rw\n2 1 8:2 / /var/lib/kubelet rw - ext4 /dev/sdb ro\n"},
			[]report.Finding{{Cause: report.ReadOnly, Certainty: report.May, Evidence: "the file system of the kubelet, at /var/lib/kubelet, is read-only", Remedy: "mount -o remount,rw /var/lib/kubelet"}},
		},
		"full": {
			"and one at 89 % is not", tree{"/proc/1/mountinfo": "1 0 8:1 / / rw - ext4 /dev/sda1 rw\n2 1 8:2 / /var/lib/containerd rw - ext4 /dev/sdb rw\n", "/var/lib/containerd/full": ""},
			[]report.Finding{{Cause: report.Full, Certainty: report.May, Evidence: "the file system of the container runtime, at /var/lib/containerd, is 99 % full"}},
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			root := healthyNode(tc.node).make(t)
			if _, there := tc.node["/sys/fs/cgroup/cgroup.controllers"]; there {
				os.RemoveAll(filepath.Join(root, "sys/fs/cgroup/freezer"))
			}
			synctest.Test(t, func(t *testing.T) {
				got, err := Inspect(t.Context(), Options{Root: root, attributes: byName, space: byFile, callRuntime: healthyRuntime})
				if err != nil {
					t.Fatal(err)
				}
				if diff := cmp.Diff(tc.want, got.Findings, cmpopts.EquateEmpty()); diff != "" {
					t.Errorf("%s\n-want +got\n%s", tc.reason, diff)
				}
				if diff := cmp.Diff([]string{}, got.Unseen); diff != "" {
					t.Errorf("unseen: -want +got\n%s", diff)
				}
			})
		})
	}
}

// byName fakes attributes from file names, since only root can set real ones.
func byName(dir *os.File, name string) (attributes, error) {
	info, err := os.Lstat(filepath.Join(dir.Name(), name))
	if err != nil { // the kernel knows dir by its path on the node
		return attributes{supported: true, dir: !strings.Contains(name, "immutable"), inode: 7, immutable: strings.Contains(name, "immutable"), appendOnly: name == "append"}, nil
	}
	return attributes{supported: true, dir: info.IsDir()}, nil
}

// byFile fakes a file system that is 99 % full if it has a file "full", and 89 % otherwise.
func byFile(name string) (space, error) {
	if _, err := os.Stat(filepath.Join(name, "full")); err == nil {
		return space{blocks: 99, inodes: 10}, nil
	}
	return space{blocks: 89, inodes: 89}, nil
}

func healthyRuntime(context.Context, string) error { return nil }

func merge(a, b tree) tree {
	both := maps.Clone(a)
	maps.Copy(both, b)
	return both
}

// TestPasses checks that a state that has passed by the second look is not reported.
func TestPasses(t *testing.T) {
	group := "0::/kubepods/pod" + uidA + "\n"
	for name, tc := range map[string]struct {
		node tree
		pass func(process string) error // gets the directory of process 40
	}{
		"a read that takes a second": {
			tree{"/proc/40/stat": stat(40, "dd", "D", 1), "/proc/40/cgroup": group},
			func(process string) error {
				return os.WriteFile(filepath.Join(process, "stat"), []byte(stat(40, "dd", "S", 1)), 0o644)
			},
		},
		"a zombie that its shim reaps": {
			tree{"/proc/40/stat": stat(40, "sh", "Z", 41), "/proc/41/stat": stat(41, "containerd-shim", "S", 1), "/proc/42/stat": stat(42, "pause", "S", 41), "/proc/42/cgroup": group},
			os.RemoveAll,
		},
		"a zombie, and then another of its number": {
			tree{"/proc/40/stat": stat(40, "sh", "Z", 41), "/proc/41/stat": stat(41, "containerd-shim", "S", 1), "/proc/42/stat": stat(42, "pause", "S", 41), "/proc/42/cgroup": group},
			func(process string) error {
				return os.WriteFile(filepath.Join(process, "stat"), []byte(strings.Replace(stat(40, "sh", "Z", 41), " 77", " 78", 1)), 0o644)
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			root := healthyNode(tc.node).make(t)
			synctest.Test(t, func(t *testing.T) {
				time.AfterFunc(time.Second, func() {
					if err := tc.pass(filepath.Join(root, "proc/40")); err != nil {
						t.Error(err)
					}
				})
				got, err := Inspect(t.Context(), Options{Root: root, attributes: byName, space: byFile, callRuntime: healthyRuntime})
				if err != nil || len(got.Findings) > 0 {
					t.Errorf("%v, and found %v", err, got.Findings)
				}
			})
		})
	}
}

// TestClockJumps checks that jumps of the node's clock change neither the wait before the second look nor the
// timeouts. The clock only dates the report, and report.Read prefers the API server's time.
func TestClockJumps(t *testing.T) {
	for name, jump := range map[string]time.Duration{"forward": 365 * 24 * time.Hour, "backward": -365 * 24 * time.Hour} {
		t.Run(name, func(t *testing.T) {
			root := healthyNode(tree{"/proc/40/stat": stat(40, "dd", "D", 1), "/proc/40/cgroup": "0::/kubepods/pod" + uidA + "\n"}).make(t)
			synctest.Test(t, func(t *testing.T) {
				began, calls := time.Now(), 0
				now := func() time.Time {
					calls++
					return time.Now().Add(time.Duration(calls) * jump).Round(0)
				}
				got, err := Inspect(t.Context(), Options{Root: root, Now: now, attributes: byName, callRuntime: healthyRuntime, space: func(path string) (space, error) {
					if strings.HasSuffix(path, "containerd") {
						time.Sleep(time.Minute)
					}
					return byFile(path)
				}})
				took := time.Since(began)
				if err != nil || len(got.Findings) != 1 || len(got.Unseen) != 1 {
					t.Errorf("%v: found %v, and did not see %q", err, got.Findings, got.Unseen)
				}
				if want := 2*time.Second + 5*time.Second; took < want || took > want+time.Second {
					t.Errorf("it took %s, want the pause between two looks and the patience, %s", took, want)
				}
				if want := began.Add(took + jump); !got.Time.Equal(want) {
					t.Errorf("the report is of %s, want %s", got.Time, want)
				}
				time.Sleep(time.Minute) // let late answers arrive, in the bubble's time
			})
		})
	}
}

// TestBounds checks that the report lists whatever was not inspected.
func TestBounds(t *testing.T) {
	files := tree{}
	for i := range 50 {
		files[fmt.Sprintf("%s%s/volumes/kubernetes.io~empty-dir/v/%02d", pods, uidA, i)] = ""
	}
	deep := pods + uidA + "/volumes/kubernetes.io~empty-dir/deep" + strings.Repeat("/d", maxDepth+1)
	tests := map[string]struct {
		reason, want string
		node         tree
		options      Options
	}{
		"many files":          {"a million are not read in one look", "files in volumes of pod " + uidA + ": partial, because it has more than its share of 20", files, Options{MaxFiles: 20}},
		"deep":                {"each level keeps a directory open", "it is too deep", tree{deep: "/"}, Options{}},
		"no mounts":           {"a mount namespace that may not be read", "mounts: ", nil, Options{}},
		"silent file system":  {"a goroutine waits for it, the look does not", "free space of /var/lib/containerd: no answer within 5s", nil, Options{space: func(string) (space, error) { time.Sleep(10 * time.Second); return space{}, nil }}},
		"attributes not told": {"a file system without them", "attributes of files in volumes of 1 pods: their file system does not report them", files, Options{attributes: func(*os.File, string) (attributes, error) { return attributes{}, nil }}},
		"remote": {"it is not queried", "free space of /var/lib/containerd: it is on nfs4, which might not answer", tree{"/proc/1/mountinfo": "1 0 8:1 / / rw - ext4 /dev/sda1 rw\n2 1 0:9 / /var/lib/containerd rw - nfs4 server:/ rw\n"}, Options{space: func(name string) (space, error) {
			if strings.HasSuffix(name, "containerd") {
				panic("it is asked")
			}
			return byFile(name)
		}}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			root := healthyNode(tc.node).make(t)
			if name == "no mounts" {
				os.Remove(filepath.Join(root, "proc/1/mountinfo"))
			}
			synctest.Test(t, func(t *testing.T) {
				o := tc.options
				o.Root, o.callRuntime = root, healthyRuntime
				if o.attributes == nil {
					o.attributes = func(_ *os.File, name string) (attributes, error) {
						_, err := strconv.Atoi(name)
						return attributes{supported: true, dir: err != nil}, nil
					}
				}
				if o.space == nil {
					o.space = byFile
				}
				got, err := Inspect(t.Context(), o)
				if err != nil {
					t.Fatal(err)
				}
				time.Sleep(time.Minute) // let late answers arrive, in the bubble's time
				if !slices.ContainsFunc(got.Unseen, func(u string) bool { return strings.Contains(u, tc.want) }) {
					t.Errorf("%s\nunseen: got %q, want %q", tc.reason, got.Unseen, tc.want)
				}
			})
		})
	}
}

// TestShares checks that a pod with many files leaves budget for the others.
func TestShares(t *testing.T) {
	uidB := strings.Replace(uidA, uidA[:1], "f", 1)
	files := tree{pods + uidB + "/volumes/kubernetes.io~empty-dir/v/held": ""}
	for i := range 50 {
		files[fmt.Sprintf("%s%s/volumes/kubernetes.io~empty-dir/v/%02d", pods, uidA, i)] = ""
	}
	got, err := Inspect(t.Context(), Options{Root: healthyNode(files).make(t), space: byFile, callRuntime: healthyRuntime, MaxFiles: 20, attributes: func(_ *os.File, name string) (attributes, error) {
		return attributes{supported: true, immutable: name == "held", dir: name == "v"}, nil
	}})
	if err != nil || !slices.ContainsFunc(got.Findings, func(f report.Finding) bool { return strings.Contains(f.Evidence, "/held is immutable") }) {
		t.Errorf("%v: %+v", err, got)
	}
}

// TestManyFiles checks that a large directory is read in batches, up to the limit, and that the report says
// so. docs/probe.md has the cost of a million files.
func TestManyFiles(t *testing.T) {
	const files = 20_000
	volume := pods + uidA + "/volumes/kubernetes.io~empty-dir/v"
	root := healthyNode(tree{volume: "/"}).make(t)
	for i := range files {
		if err := os.WriteFile(filepath.Join(root, volume, strconv.Itoa(i)), nil, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	heap := func() uint64 {
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	before, most, entries := heap(), uint64(0), 0
	got, err := Inspect(t.Context(), Options{Root: root, space: byFile, callRuntime: healthyRuntime, MaxFiles: files / 2, FilesPerSecond: 1 << 30, attributes: func(dir *os.File, name string) (attributes, error) {
		if entries++; entries%(files/4) == 0 {
			most = max(most, heap())
		}
		return attributes{supported: true, dir: name == "v"}, nil
	}})
	if err != nil {
		t.Fatal(err)
	}
	if want := fmt.Sprintf("files in volumes of pod %s: partial, because it has more than its share of %d", uidA, files/2); !slices.Contains(got.Unseen, want) || entries != files/2 {
		t.Errorf("inspected %d files of %d, but not %q", entries, files, got.Unseen)
	}
	if most > before+256<<10 { // the names alone would take more
		t.Errorf("it took %d KiB", (most-before)>>10)
	}
}

// TestLinks checks that links out of a volume and circular links are not followed.
func TestLinks(t *testing.T) {
	volume := pods + uidA + "/volumes/kubernetes.io~empty-dir/v"
	root := healthyNode(tree{"/elsewhere/immutable": "", volume: "/"}).make(t)
	for name, to := range map[string]string{"out": filepath.Join(root, "elsewhere"), "circle": "."} {
		if err := os.Symlink(to, filepath.Join(root, volume, name)); err != nil {
			t.Fatal(err)
		}
	}
	seen := []string{}
	got, err := Inspect(t.Context(), Options{Root: root, space: byFile, callRuntime: healthyRuntime, attributes: func(_ *os.File, name string) (attributes, error) {
		seen = append(seen, name)
		return attributes{supported: true, dir: true}, nil // even if it claims to be a directory
	}})
	slices.Sort(seen)
	if diff := cmp.Diff([]string{"circle", "out", "v"}, seen); err != nil || diff != "" {
		t.Errorf("%v, inspected: -want +got\n%s", err, diff)
	}
	if len(got.Findings) > 0 {
		t.Errorf("found %v", got.Findings)
	}
}

// TestRuntime checks which responses count as an answer.
func TestRuntime(t *testing.T) {
	message := func(body string) []byte {
		return append(binary.BigEndian.AppendUint32([]byte{0}, uint32(len(body))), body...)
	}
	tests := map[string]struct {
		reason string
		answer func(w http.ResponseWriter)
		want   string
	}{
		"answers": {"as containerd does", func(w http.ResponseWriter) {
			w.Write(message("\x0a\x050.1.0"))
			w.Header().Set(http.TrailerPrefix+"Grpc-Status", "0")
		}, ""},
		"refuses": {"without a body", func(w http.ResponseWriter) {
			w.Header().Set("Grpc-Status", "12")
			w.Header().Set("Grpc-Message", "unknown service")
		}, "gRPC status 12: unknown service"},
		"is no CRI": {"another server has the socket", func(w http.ResponseWriter) { w.WriteHeader(http.StatusNotFound) }, "404 Not Found"},
		"cut off": {"less than it announces", func(w http.ResponseWriter) {
			w.Write(message("abc")[:6])
			w.Header().Set(http.TrailerPrefix+"Grpc-Status", "0")
		}, "its answer is cut off"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			socket := filepath.Join(t.TempDir(), "s")
			listener, err := net.Listen("unix", socket)
			if err != nil {
				t.Fatal(err)
			}
			var protocols http.Protocols
			protocols.SetUnencryptedHTTP2(true)
			server := &http.Server{Protocols: &protocols, Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Content-Type", "application/grpc")
				tc.answer(w)
			})}
			go server.Serve(listener)
			defer server.Close()
			c := newCRI(socket)
			defer c.client.CloseIdleConnections()
			err = c.call(t.Context(), "Version")
			if got := fmt.Sprint(err); err != nil != (tc.want != "") || !strings.Contains(got, tc.want) {
				t.Errorf("%s\ngot %s, want %q", tc.reason, got, tc.want)
			}
		})
	}
}

// TestSilentRuntime checks that a socket that accepts and never answers is a finding and does not block the
// inspection.
func TestSilentRuntime(t *testing.T) {
	listener, err := net.Listen("unix", filepath.Join(t.TempDir(), "s"))
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	root := healthyNode(nil).make(t)
	if err := os.Symlink(listener.Addr().String(), filepath.Join(root, "socket")); err != nil {
		t.Fatal(err)
	}
	got, err := Inspect(t.Context(), Options{Root: root, Runtime: "/socket", Timeout: 50 * time.Millisecond, attributes: byName, space: byFile})
	if err != nil {
		t.Fatal(err)
	}
	want := []report.Finding{{
		Cause: report.Runtime, Certainty: report.May,
		Evidence: "the container runtime at /socket does not answer Version: no answer", Remedy: "systemctl restart containerd",
	}}
	if diff := cmp.Diff(want, got.Findings); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
}

// TestKubeletOnServer checks that a kubelet directory on a network file system is not read.
func TestKubeletOnServer(t *testing.T) {
	root := healthyNode(tree{"/proc/1/mountinfo": "1 0 8:1 / / rw - ext4 /dev/sda1 rw\n2 1 0:9 / /var/lib/kubelet rw - fuse.stuck stuck rw\n"}).make(t)
	if _, err := Inspect(t.Context(), Options{Root: root}); err == nil || !strings.Contains(err.Error(), "which might not answer") {
		t.Errorf("got %v", err)
	}
}

func TestNoNode(t *testing.T) {
	if _, err := Inspect(t.Context(), Options{Root: t.TempDir()}); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("got %v", err)
	}
}

// FuzzStat and FuzzMount guard the parsers: these lines contain names that any user can choose.
func FuzzStat(f *testing.F) {
	f.Add(stat(40, "a) D (b", "D", 1))
	f.Add("40 ((((")
	f.Fuzz(func(t *testing.T, line string) {
		if p, err := parseStat(line); err == nil && !strings.Contains(line, "("+p.name+")") {
			t.Errorf("%q has no name %q", line, p.name)
		}
	})
}

func FuzzMount(f *testing.F) {
	f.Add("2 1 0:5 / /a\\040b rw shared:1 - tmpfs tmpfs rw")
	f.Add("- - - - - - -")
	f.Fuzz(func(_ *testing.T, line string) {
		if m, err := parseMount(line); err == nil {
			l := inspection{Options: Options{Kubelet: "/var/lib/kubelet"}}
			l.splitVolume(m.point)
			podOf(m.point)
		}
	})
}
