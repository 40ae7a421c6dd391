package answer

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"

	"github.com/termguard/termguard/cluster"
	"github.com/termguard/termguard/page"
	"github.com/termguard/termguard/policies"
	"github.com/termguard/termguard/question"
)

// Wait is a group of objects with a finalizer that its live owner has to remove.
type Wait struct {
	Finalizer string `json:"finalizer"`
	Resource  string `json:"resource"`
	Namespace string `json:"namespace,omitempty"`
	// Names are the first few of Count objects.
	Names []string `json:"names"`
	Count int      `json:"count"`
	// Owner is "" if unknown.
	Owner string `json:"owner,omitempty"`
	// Clears is what the owner cleans up first.
	Clears   string   `json:"clears,omitempty"`
	Evidence []string `json:"evidence"` // that the owner is alive
	// Took is nil if unknown.
	Took *Took `json:"took,omitempty"`
	// Unproven are reasons to doubt that the owner removes it.
	Unproven []string `json:"unproven,omitempty"`

	runs []policies.Object // workloads of the owner
	seen bool              // to remove it here
}

// waitsFor lists finalizers with a live owner.
func waitsFor(f cluster.Facts, s Subject, owners cluster.Verdicts, options map[string]any) []Wait {
	type key struct{ finalizer, resource, namespace, owner string }
	waits, index := []Wait{}, map[key]int{}
	add := func(w Wait, owner cluster.Verdict) {
		if owner.State != cluster.Alive || w.Count == 0 {
			return
		}
		w.Owner, w.Clears, w.Evidence = owner.Owner, owner.Clears, owner.Evidence
		w.seen = owner.Seen
		for _, workload := range owner.Runs {
			w.runs = append(w.runs, policies.Object(workload))
		}
		k := key{w.Finalizer, w.Resource, w.Namespace, w.Owner}
		at, again := index[k]
		if !again {
			index[k] = len(waits)
			waits = append(waits, w)
			return
		}
		have := &waits[at]
		have.Count += w.Count
		have.seen = have.seen && w.seen
		have.runs = append(have.runs, w.runs...)
		have.Names = slices.Sorted(slices.Values(append(have.Names, w.Names...)))
		have.Evidence = slices.Compact(slices.Sorted(slices.Values(append(have.Evidence, w.Evidence...))))
	}
	resource := s.Type.GroupResource()
	for finalizer, owner := range owners.All() {
		add(Wait{Finalizer: finalizer, Resource: resource.String(), Namespace: s.Namespace, Names: []string{s.Name}, Count: 1}, owner)
	}
	all := func(held []cluster.Holding) {
		for _, h := range held {
			add(Wait{Finalizer: h.Finalizer, Resource: h.Resource, Namespace: h.Namespace, Names: h.Names, Count: h.Count}, h.Owner)
		}
	}
	switch {
	case resource == question.Namespaces:
		all(f.Held(s.Name, ""))
	case resource == question.Definitions:
		for _, namespace := range f.Holding() {
			all(f.Held(namespace, s.Name))
		}
	case options["propagationPolicy"] == "Foreground":
		all(f.Blocking(s.UID()))
	}
	for i, w := range waits {
		took, observed := f.Took(w.Finalizer, w.Resource, w.Namespace)
		if observed {
			waits[i].Took = &Took{took.Objects, took.Usual, took.Longest}
		}
		if !w.seen && !observed {
			waits[i].Unproven = append(waits[i].Unproven, "it was never seen to remove this finalizer here")
		}
		if n := unread(f, w); n > 0 {
			waits[i].Unproven = append(waits[i].Unproven, fmt.Sprintf("the status of %d of them was not read", n))
		}
	}
	slices.SortFunc(waits, func(a, b Wait) int {
		return cmp.Or(cmp.Compare(a.Owner, b.Owner), cmp.Compare(a.Resource, b.Resource), cmp.Compare(a.Finalizer, b.Finalizer),
			cmp.Compare(a.Namespace, b.Namespace))
	})
	return waits
}

// maxWords bounds the quotes of a status, and maxQuote each quote, in bytes.
const maxWords, maxQuote = 3, 300

// quote adds the status since the deletion began, unless a finding has it.
func (r *Item) quote(s Subject) {
	var words []string
	for _, item := range question.Conditions(s.Object) {
		said, _ := item.(map[string]any)
		text := func(key string) string {
			text, _ := said[key].(string)
			return strings.ToValidUTF8(text[:min(len(text), maxQuote)], "")
		}
		deleted, because := text("deleted"), cmp.Or(text("message"), text("reason"))
		if deleted != "" && text("lastTransitionTime") >= deleted && because != "" && len(words) < maxWords { // both in UTC (metav1.Time)
			words = append(words, fmt.Sprintf("its status says: %s is %s: %s", text("type"), text("status"), because))
		}
	}
	for i := range r.WaitsFor {
		if r.Verdict == policies.Completes && s.guarded() {
			r.WaitsFor[i].Evidence = slices.Concat(words, r.WaitsFor[i].Evidence)
		}
	}
}

// unread counts objects whose unread status may report a failure of their owner, if others of their namespace
// were read.
func unread(f cluster.Facts, w Wait) int {
	if _, defined := f.Definition(w.Resource); !defined || !f.ConditionsRead(w.Namespace) {
		return 0
	}
	n := w.Count
	for _, name := range w.Names {
		if f.Conditioned(w.Namespace, w.Resource, name) {
			n--
		}
	}
	return n
}

// maxSiblings bounds the objects whose finalizers are compared.
const maxSiblings = 500

// compare doubts finalizers that no younger object of the kind has beside this one: their owner may have stopped
// using them. Objects without finalizers are not compared: theirs may be added yet.
func (r *Item) compare(ctx context.Context, config *rest.Config, s Subject) error {
	if r.Verdict != policies.Completes || len(r.WaitsFor) == 0 || !s.guarded() {
		return nil
	}
	client, err := metadata.NewForConfig(config)
	if err != nil {
		return fmt.Errorf("connect: %w", err)
	}
	list, err := client.Resource(s.Type.GroupVersionResource).Namespace(s.Namespace).List(ctx, metav1.ListOptions{Limit: maxSiblings})
	if err != nil {
		return ctx.Err() // only doubts are unseen
	}
	created := (&unstructured.Unstructured{Object: s.Object}).GetCreationTimestamp()
	younger, has := 0, map[string]bool{}
	for _, o := range list.Items {
		if len(o.Finalizers) == 0 || !o.CreationTimestamp.After(created.Time) {
			continue
		}
		younger++
		for _, finalizer := range o.Finalizers {
			has[finalizer] = true
		}
	}
	for i, w := range r.WaitsFor {
		if younger > 0 && w.Resource == s.Type.GroupResource().String() && !has[w.Finalizer] {
			r.WaitsFor[i].Unproven = append(w.Unproven, fmt.Sprintf("of %s with finalizers, none has it", page.Count(younger, "younger object")))
		}
	}
	return nil
}

// Unproven reports whether the deletion depends on an owner with such doubts.
func (r Item) Unproven() bool {
	return slices.ContainsFunc(r.WaitsFor, func(w Wait) bool { return len(w.Unproven) > 0 })
}

func (a Answer) Unproven() bool { return slices.ContainsFunc(a.Items, Item.Unproven) }

func (w Wait) String() string {
	what, holds := w.Resource, "hold"
	if w.Count == 1 {
		if holds = "holds"; !strings.Contains(what, ".") { // as lib/wording counts
			what = strings.TrimSuffix(what, "s")
		}
	}
	return fmt.Sprintf("%d %s %s %s", w.Count, what, holds, w.Finalizer)
}

func (w Wait) owner() string { return cmp.Or(w.Owner, "the owner of "+w.Finalizer) }

const maxOwners = 3

// condition returns, for example, "Kubernetes removes 2 finalizers and cert-manager removes 1".
func condition(waits []Wait) string {
	counts := map[string]int{}
	var owners []string
	for _, w := range waits {
		if counts[w.owner()] == 0 {
			owners = append(owners, w.owner())
		}
		counts[w.owner()] += w.Count
	}
	var parts []string
	for _, owner := range owners[:min(maxOwners, len(owners))] {
		parts = append(parts, owner+" removes "+page.Count(counts[owner], "finalizer"))
	}
	if more := len(owners) - maxOwners; more > 0 {
		parts = append(parts, fmt.Sprintf("%d more owners remove theirs", more))
	}
	if len(parts) == 1 {
		return parts[0]
	}
	return strings.Join(parts[:len(parts)-1], ", ") + " and " + parts[len(parts)-1]
}

// Took is how long owners took to remove a finalizer of other deleted objects.
type Took struct {
	Objects int `json:"objects"` // how many
	// UsualSeconds is the median, and LongestSeconds the maximum, rounded up.
	UsualSeconds   int `json:"usualSeconds"`
	LongestSeconds int `json:"longestSeconds"`
}

// enough is the least number of objects for an estimate.
const enough = 3

func (t Took) String() string {
	if t.Objects == 1 {
		return fmt.Sprintf("it did so for 1 object before, within %s", seconds(t.LongestSeconds))
	}
	return fmt.Sprintf("it did so for the last %d objects, usually within %s, within %s at most", t.Objects, seconds(t.UsualSeconds), seconds(t.LongestSeconds))
}

func seconds(n int) string {
	switch {
	case n < 120:
		return fmt.Sprintf("%d s", n)
	case n < 7200:
		return fmt.Sprintf("%d min", n/60)
	}
	return fmt.Sprintf("%d h", n/3600)
}

// estimate needs the observed durations of all pods and owners of finalizers.
func (r *Item) estimate(stops int) {
	if r.Verdict != policies.Completes {
		return
	}
	usual, longest := 0, 0
	for _, w := range r.WaitsFor {
		if w.Took == nil || w.Took.Objects < enough {
			return
		}
		usual, longest = max(usual, w.Took.UsualSeconds), max(longest, w.Took.LongestSeconds)
	}
	if r.Target.Resource == question.Namespaces.Resource && len(r.WaitsFor) > 0 {
		usual, longest = passes(usual), passes(longest)
	}
	if bound := r.EstimateSeconds; bound != nil { // pods are deleted first
		if stops == 0 && len(r.WaitsFor) == 0 {
			return
		}
		usual, longest = usual+min(cmp.Or(stops, *bound), *bound), longest+*bound
	}
	if longest > 0 {
		r.UsualSeconds, r.EstimateSeconds = &usual, &longest
	}
}

// stopsOf returns how long awaited pods usually take to stop, in seconds; 0 unless observed for all.
func stopsOf(f cluster.Facts, s Subject) int {
	var waiting []cluster.Pod
	switch s.Type.GroupResource() {
	case question.Pods:
		waiting = []cluster.Pod{f.Pod(s.Namespace, s.Name)}
	case question.Namespaces:
		waiting = slices.Collect(f.Pods(s.Name))
	}
	usual := 0
	for _, pod := range waiting {
		if pod.Node == "" || pod.Phase == "Succeeded" || pod.Phase == "Failed" {
			continue // the API server removes it at once
		}
		seen := f.Stops(pod.Namespace, pod.Workload)
		if seen.Objects < enough {
			return 0
		}
		usual = max(usual, seen.Usual)
	}
	if usual > 0 && s.Type.GroupResource() == question.Namespaces {
		// The namespace controller checks again after half the longest grace period and a second (see passes).
		return noticeAfter(usual, f.LongestGrace(s.Name)/2+1)
	}
	return usual
}

// passes returns when the namespace controller notices removed finalizers, in seconds: it begins after 5 s,
// and checks again every 8 s (pkg/controller/namespace/namespace_controller.go, namespaceDeletionGracePeriod,
// and deletion/namespaced_resources_deleter.go, finalizerEstimateSeconds / 2 + 1).
func passes(seconds int) int { return noticeAfter(seconds, 8) }

// noticeAfter is for a controller that checks every again seconds.
func noticeAfter(seconds, again int) int {
	const begins = 5
	return begins + (seconds+again-1)/again*again
}
