package refusals

import (
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/termguard/termguard/cluster/facts"
)

// TestStatementsAreBounded holds that of a flood of events the newest stay, and
// that who lists them is told of the others.
func TestStatementsAreBounded(t *testing.T) {
	listed := map[types.NamespacedName]bool{}
	p := New(facts.Document{}, Options{Now: time.Now, Dropped: func(event types.NamespacedName) { delete(listed, event) }})
	for i := range 10 * MaxStatements {
		key := types.NamespacedName{Namespace: "demo", Name: fmt.Sprint("e", i)}
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
