package cluster

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/fake"
	k8stesting "k8s.io/client-go/testing"
	"k8s.io/utils/ptr"

	"github.com/termguard/termguard/cluster/facts"
)

var gizmos = Resource{GroupVersionResource: schema.GroupVersionResource{Group: "x.io", Version: "v1", Resource: "gizmos"}, Namespaced: true}

// school is a Learner and a cluster to learn from.
type school struct {
	*Learner
	t      *testing.T
	client *fake.Clientset
	log    *bytes.Buffer
	ahead  *atomic.Int64 // how far the clock of the facts is ahead of the bubble's, in nanoseconds
}

// pass advances the clock of the bubble and waits for everything that wakes up at the end of it.
func pass(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

// newSchool must be called in a bubble: the clock is the bubble's.
func newSchool(t *testing.T, client *fake.Clientset) *school {
	var ahead atomic.Int64
	w := NewWorld(Options{Now: func() time.Time { return time.Now().Add(time.Duration(ahead.Load())) }})
	w.Begin(gizmos)
	w.End(gizmos)
	var log bytes.Buffer
	return &school{NewLearner(w, client.CoreV1(), "termguard-system", slog.New(slog.NewTextHandler(&log, nil))), t, client, &log, &ahead}
}

func (s *school) widget(name string, finalizers ...string) *metav1.PartialObjectMetadata {
	return &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: name, UID: types.UID(name), Finalizers: finalizers}}
}

// going returns a Terminating widget.
func (s *school) going(name string, finalizers ...string) *metav1.PartialObjectMetadata {
	w := s.widget(name, finalizers...)
	w.DeletionTimestamp = &metav1.Time{Time: time.Now().Truncate(time.Second)} // as the API server has it
	return w
}

// withGrace is an object with 30 seconds of its grace period left.
func withGrace(going *metav1.PartialObjectMetadata) *metav1.PartialObjectMetadata {
	w := going.DeepCopy()
	w.DeletionTimestamp.Time = w.DeletionTimestamp.Add(30 * time.Second)
	w.DeletionGracePeriodSeconds = ptr.To[int64](30)
	return w
}

// removal returns the request that removes finalizer x.io/f from a Terminating widget.
func removal(of *metav1.PartialObjectMetadata, user string) Removal {
	return Removal{
		Resource: gizmos.GroupResource(), Namespace: of.Namespace, Name: of.Name, UID: of.UID, Finalizers: []string{"x.io/f"}, User: user,
		Deleted: of.DeletionTimestamp.Time,
	}
}

func (s *school) apply(obj runtime.Object) {
	s.t.Helper()
	if err := s.world.Apply(gizmos, obj, true); err != nil {
		s.t.Fatal(err)
	}
}

// gizmosRole lets its subjects update gizmos; operatorSubjects has operatorUser only.
var (
	gizmosRole       = rbacv1.RoleRef{Kind: "ClusterRole", Name: "gizmos"}
	operatorSubjects = []rbacv1.Subject{{Kind: "ServiceAccount", Namespace: "ops", Name: "operator"}}
)

// grant binds gizmosRole.
func (s *school) grant(plural string, binding runtime.Object) {
	for plural, obj := range map[string]runtime.Object{
		"clusterroles": &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "gizmos"}, Rules: []rbacv1.PolicyRule{{APIGroups: []string{"x.io"}, Resources: []string{"gizmos"}, Verbs: []string{"update"}}}},
		plural:         binding,
	} {
		res := cluster(rbacv1.SchemeGroupVersion, plural)
		s.world.Begin(res)
		apply(s.t, s.world, res, obj, true)
		s.world.End(res)
	}
	s.world.Settle()
}

// removes removes finalizer x.io/f from a Terminating widget as user: the request, then the event
// of the watch.
func (s *school) removes(user, name string, change func(*Removal)) {
	going := s.going(name, "x.io/f")
	s.apply(going)
	r := removal(going, user)
	if change != nil {
		change(&r)
	}
	s.Saw(r)
	s.remove(name)
}

// remove sends the watch event of a deleted widget.
func (s *school) remove(name string) {
	s.t.Helper()
	if err := s.world.Remove(gizmos, s.widget(name)); err != nil {
		s.t.Fatal(err)
	}
}

// owners returns the learned owners in the widgets' namespace, each with its number of objects.
func (s *school) owners() map[string]int { return s.ownersIn("a") }

func (s *school) ownersIn(namespace string) map[string]int {
	s.world.mu.RLock()
	defer s.world.mu.RUnlock()
	owners := map[string]int{}
	for _, o := range s.world.ownership.Learned("x.io/f", "gizmos.x.io", namespace) {
		owners[o.Identity] = o.Objects
	}
	return owners
}

func (s *school) written() string {
	cm, err := s.client.CoreV1().ConfigMaps("termguard-system").Get(context.Background(), LearnedConfigMap, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return ""
	}
	if err != nil {
		s.t.Fatal(err)
	}
	return cm.Data[LearnedKey]
}

// run runs the Learner until stop is called.
func (s *school) run() (stop func()) {
	ctx, cancel := context.WithCancel(s.t.Context())
	done := make(chan struct{})
	go func() { s.Run(ctx); close(done) }()
	return func() { cancel(); <-done }
}

const operatorUser = "system:serviceaccount:ops:operator"

func TestLearn(t *testing.T) {
	tests := map[string]struct {
		reason string
		play   func(s *school)
		want   map[string]int
	}{
		"service account": {
			"a controller removes its finalizer",
			func(s *school) { s.removes(operatorUser, "one", nil); s.removes(operatorUser, "two", nil) },
			map[string]int{operatorUser: 2},
		},
		"kubectl": {
			"a person who forces it off with kubectl is not its owner, whatever the identity",
			func(s *school) {
				s.removes(operatorUser, "one", func(r *Removal) { r.Manager = "kubectl-patch" })
				s.removes(operatorUser, "two", func(r *Removal) { r.Manager = "kubectl" })
			},
			map[string]int{},
		},
		"administrator": {
			"nor one who may do anything",
			func(s *school) {
				s.removes(operatorUser, "one", func(r *Removal) { r.Groups = []string{"system:masters", "system:authenticated"} })
			},
			map[string]int{},
		},
		"refused by another webhook": {
			"the object keeps its finalizer: nothing was removed",
			func(s *school) {
				going := s.going("one", "x.io/f")
				s.apply(going)
				s.Saw(removal(going, operatorUser))
				pass(time.Minute) // of the bubble
				s.remove("one")
			},
			map[string]int{},
		},
		"a person is quicker": {
			"the controller and a person send the request, and the watch does not show whose succeeded",
			func(s *school) {
				going := s.going("one", "x.io/f")
				s.apply(going)
				s.Saw(removal(going, operatorUser))
				s.removes("alice", "one", func(r *Removal) { r.Manager = "kubectl-edit" })
			},
			map[string]int{},
		},
		"a stranger, in one afternoon": {
			"a person with a script is no owner",
			func(s *school) {
				for i := range 20 {
					s.removes("alice", fmt.Sprint(i), nil)
					pass(10 * time.Minute)
				}
			},
			map[string]int{},
		},
		"a stranger, over days": {
			"a controller outside the cluster",
			func(s *school) {
				for i := range 3 {
					s.removes("controller", fmt.Sprint(i), nil)
					pass(13 * time.Hour)
				}
			},
			map[string]int{"controller": 3},
		},
		"forgotten": {
			"after 30 days the owner is forgotten",
			func(s *school) {
				s.removes(operatorUser, "one", nil)
				pass(2 * time.Minute)
				s.ahead.Store(int64(31 * 24 * time.Hour))
			},
			map[string]int{},
		},
		"not in the inventory": {
			"the object is unseen, so the result is unknown",
			func(s *school) {
				s.Saw(removal(s.going("one", "x.io/f"), operatorUser))
			},
			map[string]int{},
		},
		"unseen meanwhile": {
			"the watch broke and missed the deletion",
			func(s *school) {
				going := s.going("one", "x.io/f")
				s.apply(going)
				s.Saw(removal(going, operatorUser))
				s.world.SetUnseen(gizmos, facts.UnseenError, "broken")
			},
			map[string]int{},
		},
		"quicker than the watch": {
			"the request comes before the watch shows the deletion, which it then does",
			func(s *school) {
				s.apply(s.widget("one", "x.io/f"))
				going := s.going("one", "x.io/f")
				s.Saw(removal(going, operatorUser))
				s.apply(going)
				s.remove("one")
			},
			map[string]int{operatorUser: 1},
		},
		"with grace": {
			"the API server sets the timestamp to the end of the grace period",
			func(s *school) {
				going := s.going("one", "x.io/f")
				s.apply(withGrace(going))
				s.Saw(removal(going, operatorUser))
				s.remove("one")
			},
			map[string]int{operatorUser: 1},
		},
		"rights change meanwhile": {
			"which has objects put elsewhere in the facts",
			func(s *school) {
				going := s.going("one", "x.io/f")
				s.apply(going)
				s.grant("rolebindings", &rbacv1.RoleBinding{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: "b"}, RoleRef: gizmosRole, Subjects: operatorSubjects})
				s.Saw(removal(going, operatorUser))
				s.remove("one")
			},
			map[string]int{operatorUser: 1},
		},
		"one finalizer of two": {
			"the object stays",
			func(s *school) {
				going := s.going("one", "x.io/f", "x.io/other")
				s.apply(going)
				s.Saw(removal(going, operatorUser))
				s.apply(s.going("one", "x.io/other"))
			},
			map[string]int{operatorUser: 1},
		},
		"made up: it is not being deleted": {
			"its own owner takes the finalizer off, as it may at any time",
			func(s *school) {
				s.apply(s.widget("one", "x.io/f"))
				s.Saw(removal(s.going("one", "x.io/f"), "system:serviceaccount:kube-system:generic-garbage-collector"))
				s.apply(s.widget("one"))
			},
			map[string]int{},
		},
		"made up: another object": {
			"the uid is of none that the watch shows under that name",
			func(s *school) {
				going := s.going("one", "x.io/f")
				s.apply(going)
				r := removal(going, operatorUser)
				r.UID = "two"
				s.Saw(r)
				s.remove("one")
			},
			map[string]int{},
		},
		"made up: another deletion": {
			"the deletion timestamp is not the object's",
			func(s *school) {
				going := s.going("one", "x.io/f")
				s.apply(going)
				r := removal(going, operatorUser)
				r.Deleted = r.Deleted.Add(-time.Hour)
				s.Saw(r)
				s.remove("one")
			},
			map[string]int{},
		},
		"made up: another finalizer": {
			"the object never had it",
			func(s *school) {
				going := s.going("one", "x.io/other")
				s.apply(going)
				s.Saw(removal(going, operatorUser))
				s.remove("one")
			},
			map[string]int{},
		},
		"no longer served": {
			"the removal of a kind proves no deletion of its objects",
			func(s *school) {
				going := s.going("one", "x.io/f")
				s.apply(going)
				s.Saw(removal(going, operatorUser))
				s.world.Drop(gizmos)
			},
			map[string]int{},
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newSchool(t, fake.NewClientset())
				stop := s.run()
				tc.play(s)
				pass(2 * time.Minute)
				if diff := cmp.Diff(tc.want, s.owners()); diff != "" {
					t.Errorf("%s: -want +got\n%s", tc.reason, diff)
				}
				stop()
				// The next Learner reads the same.
				next := newSchool(t, s.client)
				next.ahead.Store(s.ahead.Load())
				stop = next.run()
				pass(time.Second)
				if diff := cmp.Diff(tc.want, next.owners()); diff != "" {
					t.Errorf("%s: after a restart: -want +got\n%s", tc.reason, diff)
				}
				stop()
			})
		})
	}
}

// TestLearnLocally checks that an account with rights in one namespace only teaches about that
// namespace only.
func TestLearnLocally(t *testing.T) {
	role, subjects := gizmosRole, operatorSubjects
	for name, tc := range map[string]struct {
		plural  string
		binding runtime.Object
		want    map[string]int
	}{
		"a RoleBinding":         {"rolebindings", &rbacv1.RoleBinding{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: "b"}, RoleRef: role, Subjects: subjects}, map[string]int{}},
		"a ClusterRoleBinding":  {"clusterrolebindings", &rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: "b"}, RoleRef: role, Subjects: subjects}, map[string]int{operatorUser: 1}},
		"one of all its groups": {"clusterrolebindings", &rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: "b"}, RoleRef: role, Subjects: []rbacv1.Subject{{Kind: "Group", Name: "operators"}}}, map[string]int{operatorUser: 1}},
		"one of another":        {"clusterrolebindings", &rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: "b"}, RoleRef: role, Subjects: []rbacv1.Subject{{Kind: "User", Name: "operators"}}}, map[string]int{}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newSchool(t, fake.NewClientset())
				s.grant(tc.plural, tc.binding)
				stop := s.run()
				s.removes(operatorUser, "one", func(r *Removal) { r.Groups = []string{"operators"} })
				pass(2 * time.Minute)
				if diff := cmp.Diff(map[string]int{operatorUser: 1}, s.ownersIn("a")); diff != "" {
					t.Errorf("in its namespace: -want +got\n%s", diff)
				}
				if diff := cmp.Diff(tc.want, s.ownersIn("elsewhere")); diff != "" {
					t.Errorf("elsewhere: -want +got\n%s", diff)
				}
				stop()
			})
		})
	}
}

func TestLearnersShare(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client := fake.NewClientset()
		conflicts := 0
		client.PrependReactor("update", "configmaps", func(k8stesting.Action) (bool, runtime.Object, error) {
			if conflicts++; conflicts == 1 {
				return true, nil, apierrors.NewConflict(schema.GroupResource{Resource: "configmaps"}, LearnedConfigMap, nil)
			}
			return false, nil, nil
		})
		one, other := newSchool(t, client), newSchool(t, client)
		stopOne, stopOther := one.run(), other.run()
		pass(10 * time.Second) // both have read that there is nothing
		one.removes(operatorUser, "a", nil)
		other.removes(operatorUser, "b", nil)
		other.removes("system:serviceaccount:ops:second", "c", nil)
		pass(4 * time.Minute)
		want := map[string]int{operatorUser: 2, "system:serviceaccount:ops:second": 1}
		for _, s := range []*school{one, other} {
			if diff := cmp.Diff(want, s.owners()); diff != "" {
				t.Errorf("-want +got\n%s", diff)
			}
		}
		if conflicts == 0 {
			t.Error("no write was ever in conflict")
		}
		stopOne()
		stopOther()
	})
}

// TestLearnersOfTwoVersions checks that, during an upgrade, an older replica does not overwrite a
// newer one's facts, and continues to learn.
func TestLearnersOfTwoVersions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client := fake.NewClientset()
		old := newSchool(t, client)
		stop := old.run()
		old.removes(operatorUser, "a", nil)
		pass(2 * time.Minute)
		ours := old.written()
		edit := func(text string) {
			t.Helper()
			cm, err := client.CoreV1().ConfigMaps("termguard-system").Get(t.Context(), LearnedConfigMap, metav1.GetOptions{})
			if err != nil {
				t.Fatal(err)
			}
			cm.Data[LearnedKey] = text
			if _, err := client.CoreV1().ConfigMaps("termguard-system").Update(t.Context(), cm, metav1.UpdateOptions{}); err != nil {
				t.Fatal(err)
			}
		}
		theirs := `{"apiVersion": "termguard.dev/v9", "owners": [{"by": "newer"}], "further": []}`
		edit(theirs)
		old.removes(operatorUser, "b", nil)
		pass(5 * time.Minute)
		if got := old.written(); got != theirs {
			t.Errorf("the older replica overwrote what the newer one wrote: %s", got)
		}
		if diff := cmp.Diff(map[string]int{operatorUser: 2}, old.owners()); diff != "" {
			t.Errorf("learned meanwhile: -want +got\n%s", diff)
		}
		if !strings.Contains(old.log.String(), "another version of termguard wrote it") {
			t.Errorf("the log lacks the reason: %s", old.log)
		}
		edit(ours) // as after a rollback
		pass(5 * time.Minute)
		if got := old.written(); !strings.Contains(got, `"objects":2`) {
			t.Errorf("lost what was learned meanwhile: %s", got)
		}
		stop()
	})
}

func TestLearnWritesSparingly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client := fake.NewClientset()
		s := newSchool(t, client)
		stop := s.run()
		for i := range 2000 { // for over half an hour, a removal each second
			s.removes(operatorUser, fmt.Sprint(i), nil)
			pass(time.Second)
		}
		stop()
		writes := 0
		for _, a := range client.Actions() {
			if a.GetVerb() == "create" || a.GetVerb() == "update" {
				writes++
			}
		}
		if writes < 1 || writes > 3 {
			t.Errorf("%d writes without a change", writes)
		}
	})
}

func TestLearnRebuilds(t *testing.T) {
	tests := map[string]struct {
		reason string
		edit   func(*corev1.ConfigMap)
		delete bool
		want   map[string]int
		warns  bool
	}{
		"nonsense": {"ignored and rewritten from memory", func(cm *corev1.ConfigMap) { cm.Data[LearnedKey] = "hello" }, false, map[string]int{operatorUser: 1}, true},
		"emptied":  {"as installed: rewritten from memory", func(cm *corev1.ConfigMap) { cm.Data = nil }, false, map[string]int{operatorUser: 1}, false},
		"one line": {"an invalid line is left out", func(cm *corev1.ConfigMap) {
			cm.Data[LearnedKey] = strings.Replace(cm.Data[LearnedKey], `"objects":1`, `"objects":-1`, 1)
		}, false, map[string]int{}, true},
		"deleted":     {"a user wants it to be forgotten", nil, true, map[string]int{}, false},
		"not touched": {"it stays", func(*corev1.ConfigMap) {}, false, map[string]int{operatorUser: 1}, false},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				client := fake.NewClientset()
				s := newSchool(t, client)
				stop := s.run()
				defer stop()
				s.removes(operatorUser, "one", nil)
				pass(2 * time.Minute)
				before := s.written()
				maps := client.CoreV1().ConfigMaps("termguard-system")
				if tc.delete {
					if err := maps.Delete(t.Context(), LearnedConfigMap, metav1.DeleteOptions{}); err != nil {
						t.Fatal(err)
					}
				} else {
					cm, err := maps.Get(t.Context(), LearnedConfigMap, metav1.GetOptions{})
					if err != nil {
						t.Fatal(err)
					}
					tc.edit(cm)
					if _, err := maps.Update(t.Context(), cm, metav1.UpdateOptions{}); err != nil {
						t.Fatal(err)
					}
				}
				pass(2 * time.Minute)
				if diff := cmp.Diff(tc.want, s.owners()); diff != "" {
					t.Errorf("%s: -want +got\n%s", tc.reason, diff)
				}
				if got := strings.Contains(s.log.String(), "invalid entries"); got != tc.warns {
					t.Errorf("%s: warned: %v: %s", tc.reason, got, s.log)
				}
				if len(tc.want) > 0 {
					if diff := cmp.Diff(before, s.written()); diff != "" {
						t.Errorf("%s: not rewritten: %s", tc.reason, diff)
					}
				}
			})
		})
	}
}

// TestLearnWithoutPermission checks that what cannot be written is remembered.
func TestLearnWithoutPermission(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client := fake.NewClientset()
		client.PrependReactor("*", "configmaps", func(k8stesting.Action) (bool, runtime.Object, error) {
			return true, nil, apierrors.NewForbidden(schema.GroupResource{Resource: "configmaps"}, LearnedConfigMap, nil)
		})
		s := newSchool(t, client)
		stop := s.run()
		s.removes(operatorUser, "one", nil)
		pass(5 * time.Minute)
		if diff := cmp.Diff(map[string]int{operatorUser: 1}, s.owners()); diff != "" {
			t.Errorf("-want +got\n%s", diff)
		}
		if !strings.Contains(s.log.String(), "kept in memory only") {
			t.Errorf("no warning in the log: %s", s.log)
		}
		stop()
	})
}

// TestLearnDurations checks how long a controller takes to remove its finalizer, as the watch shows
// it.
func TestLearnDurations(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSchool(t, fake.NewClientset())
		defer s.run()()
		for name, took := range map[string]time.Duration{"quick": 2 * time.Second, "slow": 40 * time.Second} {
			pass(time.Until(time.Now().Truncate(time.Second).Add(time.Second))) // the API server's times are whole seconds
			going := s.going(name, "x.io/f")
			s.apply(going)
			pass(took)
			s.Saw(removal(going, operatorUser))
			s.remove(name)
			pass(2 * confirmInterval)
		}
		got := at(s.world, "durations", "x.io/f", "gizmos.x.io", "a").(map[string]any)
		delete(got, "last")
		want := map[string]any{"count": 2, "usualSeconds": 2, "longestSeconds": 40}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("-want, +got:\n%s", diff)
		}
		if elsewhere := at(s.world, "durations", "x.io/f", "gizmos.x.io", ""); elsewhere != nil {
			t.Errorf("durations of one namespace count elsewhere: %v", elsewhere)
		}
	})
}

// TestLearnStops checks how long pods of a workload take to stop, as the watch shows it.
func TestLearnStops(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSchool(t, fake.NewClientset())
		defer s.run()()
		pods := namespaced(corev1.SchemeGroupVersion, "pods")
		s.world.Begin(pods)
		s.world.End(pods)
		for i, took := range []time.Duration{time.Second, 2 * time.Second, 11 * time.Second} {
			deadline, yes, grace := metav1.NewTime(time.Now().Add(30*time.Second)), true, int64(30)
			pod := &corev1.Pod{
				ObjectMeta: metav1.ObjectMeta{
					Namespace: "a", Name: fmt.Sprint("db-", i), DeletionTimestamp: &deadline, DeletionGracePeriodSeconds: &grace,
					OwnerReferences: []metav1.OwnerReference{{Kind: "StatefulSet", Name: "db", Controller: &yes}},
				},
				Spec:   corev1.PodSpec{NodeName: "n1", Containers: []corev1.Container{{Name: "c"}}},
				Status: corev1.PodStatus{ContainerStatuses: []corev1.ContainerStatus{{State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{}}}}},
			}
			if err := s.world.Apply(pods, pod, true); err != nil {
				t.Fatal(err)
			}
			pass(took)
			if err := s.world.Remove(pods, pod); err != nil {
				t.Fatal(err)
			}
		}
		pass(2 * time.Minute)
		got, _ := at(s.world, "stops", "a", "StatefulSet/db").(map[string]any)
		delete(got, "last")
		if diff := cmp.Diff(map[string]any{"count": 3, "usualSeconds": 2, "longestSeconds": 12}, got); diff != "" {
			t.Errorf("-want, +got:\n%s", diff)
		}
		if !strings.Contains(s.written(), `"workload":"StatefulSet/db"`) {
			t.Errorf("not persisted: %s", s.written())
		}
	})
}
