package refusals

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/termguard/termguard/cluster/facts"
)

// TestStatementsAreBounded checks that the newest events of a flood are kept, and that the caller
// learns of the dropped ones.
func TestStatementsAreBounded(t *testing.T) {
	listed := map[types.NamespacedName]bool{}
	p := New(facts.Document{}, Options{Now: time.Now, Dropped: func(event types.NamespacedName) { delete(listed, event) }})
	for i := range 10 * MaxStatements {
		key := types.NamespacedName{Namespace: fmt.Sprint("demo", i%100), Name: fmt.Sprint("e", i)}
		if p.KeepEvent(&corev1.Event{
			ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name},
			Message:    `failed calling webhook "w.x.io": EOF`, LastTimestamp: metav1.NewTime(time.Unix(int64(i), 0)),
		}) {
			listed[key] = true
		}
	}
	if len(p.statements) != MaxStatements || len(listed) != MaxStatements {
		t.Errorf("%d are kept and %d listed, want %d", len(p.statements), len(listed), MaxStatements)
	}
}

// TestStatementsOfATenant checks that a tenant's events count in his namespace only, and displace
// none of others, however many they are.
func TestStatementsOfATenant(t *testing.T) {
	p := New(facts.Document{}, Options{Now: time.Now, Dropped: func(types.NamespacedName) {}})
	p.hooks["validating/c/w.x.io"] = &hook{ValidatingWebhook: admissionv1.ValidatingWebhook{Name: "w.x.io"}}
	tell := func(namespace, name, webhook string, at int) {
		p.KeepEvent(&corev1.Event{
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
			Message:    fmt.Sprintf(`failed calling webhook %q: EOF`, webhook), LastTimestamp: metav1.NewTime(time.Unix(int64(at), 0)),
		})
	}
	counts := func(namespace string) bool {
		return newest(p.statements.byWebhook()["w.x.io"], "", namespace).webhook != ""
	}
	tell("other", "genuine", "w.x.io", 0)
	clear(p.touched)
	for i := range 1000 {
		tell("tenant", fmt.Sprint("e", i), "w.x.io", i)
	}
	if !counts("other") || len(p.statements) != 1+MaxStatementsOf {
		t.Errorf("%d statements are kept, the one of others: %v", len(p.statements), counts("other"))
	}
	if counts("third") {
		t.Error("an event of a tenant counts elsewhere")
	}
	if diff := cmp.Diff(map[string]bool{"tenant": true}, p.touched); diff != "" || len(p.changed) > 0 {
		t.Errorf("work for others, all: %v: -want +got\n%s", p.changed, diff)
	}
	clear(p.touched)
	tell("fresh", "unknown", "nobody.x.io", 2000)
	if len(p.touched)+len(p.changed) > 0 {
		t.Errorf("words about no webhook at all make work: %v, all: %v", p.touched, p.changed)
	}
	tell(home, "genuine", "w.x.io", 0)
	if !counts("third") || len(p.changed) != 1 {
		t.Error("events in the administrators' namespaces count everywhere")
	}
}
