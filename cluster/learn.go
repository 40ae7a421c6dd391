package cluster

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/util/retry"

	"github.com/termguard/termguard/cluster/learned"
	"github.com/termguard/termguard/cluster/ownership"
)

// HomeNamespace is where termguard usually runs.
const HomeNamespace = "termguard-system"

// LearnedConfigMap has the memory under LearnedKey.
const (
	LearnedConfigMap = "termguard-learned"
	LearnedKey       = "learned.json"
)

const (
	// confirmWithin is how long a removal may take.
	confirmInterval = time.Second
	confirmWithin   = 30 * time.Second
	// mergeInterval is the time between reads of the ConfigMap, and the least between writes.
	mergeInterval = time.Minute
	maxRemovals   = 1000
)

// Removal is a request that removes finalizers from a Terminating object.
type Removal struct {
	Resource   schema.GroupResource
	Namespace  string // "" if cluster-scoped
	Name       string
	UID        types.UID
	Finalizers []string
	// Deleted is in whole seconds.
	Deleted time.Time
	// Pod says that the token of User is bound to a pod.
	User    string
	Groups  []string
	Pod     bool
	Manager string
}

// ByHand reports whether a user forces the removal, with kubectl ("kubectl-edit", or "kubectl" of a
// server-side apply; k8s.io/kubectl, pkg/cmd) or as an administrator: it shows no owner.
func (r Removal) ByHand() bool {
	return r.User == "" || slices.Contains(r.Groups, "system:masters") || r.Manager == "kubectl" || strings.HasPrefix(r.Manager, "kubectl-")
}

// Learner learns who removes which finalizers, and merges it into a ConfigMap that all replicas share. It is
// safe for concurrent use.
type Learner struct {
	world      *World
	configMaps typedcorev1.ConfigMapInterface
	log        *slog.Logger

	mu      sync.Mutex
	waiting map[ownership.Ending]sighting
	news    learned.Memory // not written yet
	memory  learned.Memory // as written
}

type sighting struct {
	Removal
	at time.Time
	// outside and everywhere are as in learned.Owner.
	outside    bool
	everywhere bool
	// void says that several users requested it: which of them succeeded is unknown.
	void bool
}

// NewLearner returns a Learner that stores its memory in namespace.
func NewLearner(world *World, client typedcorev1.ConfigMapsGetter, namespace string, log *slog.Logger) *Learner {
	return &Learner{world: world, configMaps: client.ConfigMaps(namespace), log: log, waiting: map[ownership.Ending]sighting{}}
}

// Saw records an allowed removal, without blocking. It counts once the watch shows it: other webhooks may
// refuse it.
func (l *Learner) Saw(r Removal) {
	key := types.NamespacedName{Namespace: r.Namespace, Name: r.Name}
	account := learned.Account(r.User)
	now := l.world.options.Now()
	l.mu.Lock()
	defer l.mu.Unlock()
	l.world.mu.RLock()
	defer l.world.mu.RUnlock()
	owners := l.world.ownership
	outside := account != "" && !r.Pod && !owners.RunsPods(account)
	everywhere := r.Namespace == "" || owners.UpdatesEverywhere(r.User, r.Groups, r.Resource.String())
	for _, finalizer := range r.Finalizers {
		at := ownership.Ending{UID: r.UID, Finalizer: finalizer, Deletion: r.Deleted.Unix()}
		before, again := l.waiting[at]
		if !again && (len(l.waiting) >= maxRemovals || !owners.Carries(r.Resource.String(), key, r.UID, finalizer)) {
			continue // there will be others, or its end could not be observed
		}
		l.waiting[at] = sighting{
			Removal: r, at: now, outside: outside, everywhere: everywhere,
			void: r.ByHand() || again && (before.void || before.User != r.User),
		}
	}
}

// Run learns until ctx ends, and then writes the rest.
func (l *Learner) Run(ctx context.Context) {
	confirm := time.NewTicker(confirmInterval)
	defer confirm.Stop()
	merge := time.NewTimer(0)
	defer merge.Stop()
	var wrote time.Time
	write := func() {
		before, err := l.merge(ctx)
		if err != nil && ctx.Err() == nil {
			l.log.Warn("learned owners are kept in memory only", "configMap", LearnedConfigMap, "error", err)
		}
		if before || err != nil {
			wrote = l.world.options.Now()
		}
		merge.Reset(mergeInterval + rand.N(mergeInterval/10)) // replicas that start together drift apart
	}
	for {
		select {
		case <-ctx.Done():
			l.leave(ctx)
			return
		case <-confirm.C:
			l.confirm()
			if l.world.options.Now().Sub(wrote) >= mergeInterval && l.curious() {
				write()
			}
		case <-merge.C:
			write()
		}
	}
}

func (l *Learner) leave(ctx context.Context) {
	const limit = 3 * time.Second
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), limit)
	defer cancel()
	l.confirm()
	if !l.curious() {
		return
	}
	if _, err := l.merge(ctx); err != nil {
		l.log.Warn("owners learned in the last minute are lost", "configMap", LearnedConfigMap, "error", err)
	}
}

func (l *Learner) curious() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return !l.memory.Knows(l.news)
}

func (l *Learner) confirm() {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := l.world.options.Now()
	changed := false
	l.world.mu.Lock()
	stops, endings := l.world.nodes.Stops(), l.world.ownership.Endings()
	l.world.mu.Unlock()
	for _, stop := range stops {
		l.news.AddStop(learned.Stop{
			Namespace: stop.Namespace, Workload: stop.Workload, Took: learned.NewHistogram(stop.Finished.Sub(stop.Requested), "", stop.Finished), Last: stop.Finished,
		})
		changed = true
	}
	for _, at := range endings {
		s, awaited := l.waiting[at]
		if !awaited {
			continue
		}
		delete(l.waiting, at)
		o := learned.Owner{Finalizer: at.Finalizer, Resource: s.Resource.String(), Identity: s.User, Everywhere: s.everywhere, Objects: 1, Outside: s.outside, First: s.at, Last: s.at}
		only := s.Namespace
		if !s.everywhere {
			o.Namespace, only = s.Namespace, ""
		}
		o.Took = learned.NewHistogram(s.at.Sub(s.Deleted), only, s.at)
		if s.void || !o.Storable() {
			continue
		}
		l.news.Add(o)
		changed = true
	}
	maps.DeleteFunc(l.waiting, func(_ ownership.Ending, s sighting) bool { // another webhook refused it
		return now.Sub(s.at) > confirmWithin
	})
	if changed {
		l.publish()
	}
}

// publish updates the facts. l.mu is held.
func (l *Learner) publish() {
	all := l.memory.Clone()
	all.Merge(l.news)
	all.Prune(l.world.options.Now())
	l.world.SetLearned(all)
}

func (l *Learner) merge(ctx context.Context) (wrote bool, err error) {
	l.mu.Lock()
	news := l.news
	l.news = learned.Memory{}
	l.mu.Unlock()
	var merged learned.Memory
	err = retry.OnError(retry.DefaultBackoff, func(err error) bool {
		return apierrors.IsConflict(err) || apierrors.IsAlreadyExists(err)
	}, func() (err error) {
		merged, wrote, err = l.mergeOnce(ctx, news)
		return err
	})
	l.mu.Lock()
	defer l.mu.Unlock()
	if err == nil {
		l.memory = merged
	} else {
		l.news.Merge(news)
	}
	l.publish()
	return wrote, err
}

func (l *Learner) mergeOnce(ctx context.Context, news learned.Memory) (memory learned.Memory, wrote bool, err error) {
	now := l.world.options.Now()
	cm, err := l.configMaps.Get(ctx, LearnedConfigMap, metav1.GetOptions{})
	missing := apierrors.IsNotFound(err)
	if err != nil && !missing {
		return learned.Memory{}, false, fmt.Errorf("read ConfigMap %s: %w", LearnedConfigMap, err)
	}
	broken := false
	if !missing { // a user who deletes it wants it to be forgotten
		if memory, broken, err = l.read(cm, now); err != nil {
			return learned.Memory{}, false, fmt.Errorf("read ConfigMap %s, and leave it alone: %w", LearnedConfigMap, err)
		}
	}
	if !broken && memory.Knows(news) {
		return memory, false, nil
	}
	memory.Merge(news)
	memory.Prune(now)
	if missing {
		cm = &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: LearnedConfigMap, Labels: map[string]string{"app.kubernetes.io/name": "termguard"}}}
	}
	cm.Data, cm.BinaryData = map[string]string{LearnedKey: string(memory.Encode())}, nil
	if missing {
		_, err = l.configMaps.Create(ctx, cm, metav1.CreateOptions{})
	} else {
		_, err = l.configMaps.Update(ctx, cm, metav1.UpdateOptions{})
	}
	if err != nil {
		return learned.Memory{}, false, fmt.Errorf("write ConfigMap %s: %w", LearnedConfigMap, err)
	}
	return memory, true, nil
}

// read returns the known memory if nothing in the ConfigMap is valid; broken says that it must be rewritten.
// An error means that another version wrote it, as during an upgrade.
func (l *Learner) read(cm *corev1.ConfigMap, now time.Time) (m learned.Memory, broken bool, err error) {
	if len(cm.Data)+len(cm.BinaryData) == 0 {
		l.mu.Lock()
		defer l.mu.Unlock()
		return l.memory.Clone(), true, nil
	}
	m, wrong, err := learned.Decode([]byte(cm.Data[LearnedKey]), now)
	switch {
	case errors.Is(err, learned.ErrOtherVersion):
		return m, false, err
	case err != nil:
		l.mu.Lock()
		defer l.mu.Unlock()
		m, wrong = l.memory.Clone(), err
	case wrong == nil:
		return m, false, nil
	}
	l.log.Warn("invalid entries of the ConfigMap are ignored, and the ConfigMap is rewritten", "configMap", LearnedConfigMap, "error", wrong)
	return m, true, nil
}

// recall accepts a ConfigMap without memory, as installed.
func (w *World) recall(cm *corev1.ConfigMap) error {
	text, some := cm.Data[LearnedKey]
	if !some {
		return nil
	}
	m, wrong, err := learned.Decode([]byte(text), w.options.Now())
	w.SetLearned(m)
	return cmp.Or(err, wrong)
}

// Recall reads the memory of a termguard in namespace, if possible.
func (w *World) Recall(ctx context.Context, client typedcorev1.ConfigMapsGetter, namespace string, log *slog.Logger) {
	cm, err := client.ConfigMaps(namespace).Get(ctx, LearnedConfigMap, metav1.GetOptions{})
	if err != nil {
		log.Debug("no learned owners are known", "configMap", namespace+"/"+LearnedConfigMap, "error", err)
		return
	}
	if err := w.recall(cm); err != nil {
		log.Warn("invalid entries of the ConfigMap are ignored", "configMap", namespace+"/"+LearnedConfigMap, "error", err)
	}
}
