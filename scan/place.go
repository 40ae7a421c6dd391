package scan

import (
	"cmp"
	"context"
	"fmt"
	"iter"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/rest"

	"github.com/termguard/termguard/answer"
	"github.com/termguard/termguard/cluster"
	"github.com/termguard/termguard/cluster/live"
	"github.com/termguard/termguard/page"
	"github.com/termguard/termguard/question"
)

// Place is a part of a cluster that was read at once: all, or a namespace.
type Place struct {
	World       *cluster.World
	arrivals    *arrivals
	owners      func() map[string]string // by finalizer, "" if unknown or if objects differ
	subjects    []candidate
	unseen      []string
	unlisted    []Kind // some of their objects could not be listed
	interrupted bool
}

// NotRead records an interruption before a namespace was read.
func (p *Place) NotRead(namespace string) {
	p.interrupted = true
	p.unseen = append(p.unseen, "namespace "+namespace+": not read yet")
}

// Subjects returns the objects that are evaluated as one each, by kind.
func (p *Place) Subjects() iter.Seq2[Kind, answer.Subject] {
	return func(yield func(Kind, answer.Subject) bool) {
		for _, a := range p.subjects {
			if a.kind != Releases && !yield(a.kind, a.subject()) {
				return
			}
		}
	}
}

func (p *Place) Unlisted(kind Kind) bool { return slices.Contains(p.unlisted, kind) }

// candidate makes its subject when it is needed: a cluster has many.
type candidate struct {
	place   *Place // set by Run
	kind    Kind
	subject func() answer.Subject
	since   time.Time // when one of Terminating was deleted
}

var resources = map[string]Kind{
	"namespaces": Namespaces, "nodes": Nodes, "persistentvolumes": Volumes, "persistentvolumeclaims": Claims,
	"customresourcedefinitions.apiextensions.k8s.io": Definitions,
}

// kindOf returns false if an object is evaluated only while Terminating.
func kindOf(resource string, group string, held bool) (Kind, bool) {
	if kind, ok := resources[resource]; ok {
		return kind, true
	}
	if !held || group == "" || slices.Contains(cluster.BuiltinGroups(), group) {
		return "", false
	}
	return Custom, true
}

// candidateOf returns false if an object is not evaluated.
func candidateOf(res cluster.Resource, m metav1.Object) (Kind, bool) {
	if kind, ok := kindOf(res.String(), res.Group, len(m.GetFinalizers()) > 0); ok {
		return kind, true
	}
	return Terminating, m.GetDeletionTimestamp() != nil
}

func (p *Place) hidden(f cluster.Facts, releases bool) {
	for _, u := range f.Unseen() {
		text := u.Resource + ": " + u.Reason
		switch u.Reason {
		case "elsewhere":
			continue
		case "syncing":
			text = u.Resource + ": not read yet"
		}
		_, group, _ := strings.Cut(u.Resource, ".")
		if kind, ok := kindOf(u.Resource, group, true); ok {
			p.unlisted = append(p.unlisted, kind)
		}
		if u.Namespace != "" {
			text += " in namespace " + u.Namespace
		}
		p.unseen = append(p.unseen, text)
		if releases && u.Resource == "secrets" {
			p.unlisted = append(p.unlisted, Releases)
			p.unseen = append(p.unseen, "Helm releases: their records are Secrets, which could not be listed: "+u.Reason)
		}
	}
}

const (
	// maxWhole bounds the objects kept whole, some KiB each, for their status and references.
	maxWhole = 10_000
	// maxLost bounds the named unreadable releases.
	maxLost = 5
)

// FromCluster reads a cluster, or one namespace, with the rights of config; selector chooses namespaces. Helm
// releases are read if only is nil or contains them. If ctx ends after discovery, it returns the objects so far.
func FromCluster(ctx context.Context, config *rest.Config, facts cluster.Options, namespace string, selector labels.Selector, only []Kind, log *slog.Logger) (*Place, error) {
	served, err := answer.Served(ctx, config)
	if err != nil {
		return nil, err
	}
	user, err := answer.Whoami(ctx, config)
	if err != nil {
		log.Debug("the user who would delete is unknown", "error", err)
	}
	arrived := &arrivals{objects: map[cluster.Resource][]metav1.Object{}}
	var releases answer.Releases
	facts.Arrived = func(res cluster.Resource, m metav1.Object) {
		arrived.add(res, m)
		releases.Arrived(res, m)
	}
	world, err := served.Collect(ctx, config, facts, namespace, log)
	if err != nil && (world == nil || ctx.Err() == nil) {
		return nil, err
	}
	if err := arrived.home(ctx, config, namespace); err != nil {
		return nil, err
	}
	p := &Place{World: world, arrivals: arrived, owners: sync.OnceValue(func() (owners map[string]string) {
		world.Read(func(f cluster.Facts) { owners = f.Owners() })
		return owners
	})}
	within := arrived.within(namespace, selector)
	releasesToo := only == nil || slices.Contains(only, Releases)
	world.Read(func(f cluster.Facts) { p.hidden(f, releasesToo && ctx.Err() == nil) })
	if err := live.ReadWarnings(ctx, config, world, namespace, log); err != nil {
		return nil, err
	}
	uncertified, err := answer.Session{Config: config}.Certificates(ctx, world, nil)
	if err != nil && ctx.Err() == nil {
		return nil, err
	}
	p.unseen = append(p.unseen, uncertified...)
	arrived.conditions(world)
	arrived.ask(p, served, user, within)
	if ctx.Err() == nil && releasesToo {
		read, lost, err := releases.Read(ctx, config, served, user, func(namespace string) bool { return within == nil || within[namespace] })
		if err != nil {
			return nil, err
		}
		for _, r := range read {
			p.subjects = append(p.subjects, candidate{kind: Releases, subject: func() answer.Subject { return r }})
		}
		for _, err := range lost[:min(len(lost), maxLost)] {
			p.unseen = append(p.unseen, err.Error())
		}
		if more := len(lost) - maxLost; more > 0 {
			p.unseen = append(p.unseen, page.More(more, "Helm release"))
		}
	}
	p.interrupted = ctx.Err() != nil
	return p, nil
}

// arrivals are the objects to evaluate, and those that a repair may change.
type arrivals struct {
	mu      sync.Mutex
	objects map[cluster.Resource][]metav1.Object
	whole   int
}

func (a *arrivals) add(res cluster.Resource, m metav1.Object) {
	if _, ok := candidateOf(res, m); !ok && !repairable(res, m) {
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if _, whole := m.(*unstructured.Unstructured); whole {
		if a.whole++; a.whole > maxWhole {
			m = meta.AsPartialObjectMetadata(m)
		}
	}
	a.objects[res] = append(a.objects[res], m)
}

// home reads the namespace itself: rights in one namespace allow that, but no list of namespaces. A missing
// or forbidden one is left out.
func (a *arrivals) home(ctx context.Context, config *rest.Config, name string) error {
	res := cluster.Resource{GroupVersionResource: corev1.SchemeGroupVersion.WithResource("namespaces")}
	if name == "" || slices.ContainsFunc(a.objects[res], func(m metav1.Object) bool { return m.GetName() == name }) {
		return nil
	}
	client, err := corev1client.NewForConfig(config)
	if err != nil {
		return fmt.Errorf("connect: %w", err)
	}
	if namespace, err := client.Namespaces().Get(ctx, name, metav1.GetOptions{}); err == nil {
		a.add(res, namespace)
	}
	return nil
}

// conditions gives the facts the conditions of custom resources that arrived whole.
func (a *arrivals) conditions(world *cluster.World) {
	whole, within := map[string]*unstructured.Unstructured{}, map[string]bool{} // by RESOURCE/NAMESPACE/NAME, and by namespace
	for res, objects := range a.objects {
		for _, m := range objects {
			if object, is := m.(*unstructured.Unstructured); is && m.GetNamespace() != "" {
				whole[res.String()+"/"+m.GetNamespace()+"/"+m.GetName()], within[m.GetNamespace()] = object, true
			}
		}
	}
	for namespace := range within {
		world.TakeConditions(namespace, func(o cluster.Conditioned) *unstructured.Unstructured {
			return whole[o.GroupResource().String()+"/"+namespace+"/"+o.Name]
		})
	}
}

// within returns the namespaces to evaluate, nil for all.
func (a *arrivals) within(namespace string, selector labels.Selector) map[string]bool {
	if namespace != "" {
		return map[string]bool{namespace: true}
	}
	if selector == nil {
		return nil
	}
	chosen := map[string]bool{}
	for res, objects := range a.objects {
		for _, m := range objects {
			if res.String() == string(Namespaces) && selector.Matches(labels.Set(m.GetLabels())) {
				chosen[m.GetName()] = true
			}
		}
	}
	return chosen
}

func (a *arrivals) ask(p *Place, served answer.Types, user authenticationv1.UserInfo, within map[string]bool) {
	terminating := 0
	for _, res := range slices.SortedFunc(maps.Keys(a.objects), func(a, b cluster.Resource) int { return cmp.Compare(a.String(), b.String()) }) {
		typ, err := served.Find(res.String())
		if err != nil { // ambiguous: the resource is known all the same
			typ = answer.Type{Namespaced: res.Namespaced}
		}
		typ.GroupVersionResource = res.GroupVersionResource
		objects := a.objects[res]
		slices.SortFunc(objects, func(a, b metav1.Object) int {
			return cmp.Or(cmp.Compare(a.GetNamespace(), b.GetNamespace()), cmp.Compare(a.GetName(), b.GetName()))
		})
		for _, m := range objects {
			kind, ok := candidateOf(res, m)
			home := m.GetNamespace()
			if kind == Namespaces {
				home = m.GetName()
				ok = !question.Immortal(home) // never deleted: its blockers say nothing
			}
			if !ok || within != nil && !within[home] {
				continue
			}
			one := candidate{kind: kind, subject: func() answer.Subject { return subjectOf(typ, m, user, kind) }}
			if kind == Terminating {
				one.since = m.GetDeletionTimestamp().Time
				terminating++
			}
			p.subjects = append(p.subjects, one)
		}
	}
	slices.SortStableFunc(p.subjects, func(a, b candidate) int { return a.since.Compare(b.since) })
	if more := terminating - maxTerminating; more > 0 {
		p.subjects = p.subjects[:len(p.subjects)-more]
		p.unseen = append(p.unseen, fmt.Sprintf("%s that are Terminating: the first %d were checked", page.Count(more, "more object"), maxTerminating))
	}
}

func subjectOf(typ answer.Type, m metav1.Object, user authenticationv1.UserInfo, kind Kind) answer.Subject {
	s := answer.Subject{Type: typ, Namespace: m.GetNamespace(), Name: m.GetName(), User: user}
	if kind == Custom {
		if _, metadata := m.(*metav1.PartialObjectMetadata); metadata {
			s.Hide("its status was not read")
		}
	}
	object, err := runtime.DefaultUnstructuredConverter.ToUnstructured(m)
	if err != nil { // built-in types of the API server always convert
		object = map[string]any{"metadata": map[string]any{"name": m.GetName(), "namespace": m.GetNamespace()}}
		s.Hide(err.Error())
	}
	object = maps.Clone(object) // other goroutines read an object that arrived whole
	object["apiVersion"], object["kind"] = typ.GroupVersion().String(), typ.Kind
	s.Object = object
	return s
}
