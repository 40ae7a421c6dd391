package serve

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/termguard/termguard/policies"
	"github.com/termguard/termguard/scan"
)

// held is a tally of what would hang.
func held(all map[scan.Held]int) scan.Tally {
	return scan.Tally{Held: all, Policies: map[string]scan.About{"orphaned-finalizer": {Title: "Finalizer that nobody removes", Severity: policies.High}}}
}

func of(kind scan.Kind, resource, namespace, name string) scan.Held {
	return scan.Held{By: scan.By{Policy: "orphaned-finalizer", Kind: kind}, Resource: resource, Namespace: namespace, Name: name}
}

// TestReport: a report in both groups, in the fields of each.
func TestReport(t *testing.T) {
	tally := held(map[scan.Held]int{of(scan.Namespaces, "namespaces", "", "shop"): 1, of(scan.Custom, "kialis.kiali.io", "shop", ""): 3})
	for group, want := range map[string][]string{
		"wgpolicyk8s.io": {
			`{"apiVersion":"wgpolicyk8s.io/v1alpha2","kind":"ClusterPolicyReport","metadata":{"labels":{"app.kubernetes.io/managed-by":"termguard"},"name":"termguard"},"results":[{"source":"termguard","policy":"orphaned-finalizer","rule":"namespaces","category":"Deletion","severity":"high","result":"fail","message":"If deleted now, it would hang: Finalizer that nobody removes","resources":[{"apiVersion":"v1","kind":"Namespace","name":"shop"}]}],"summary":{"error":0,"fail":1,"pass":0,"skip":0,"warn":0}}`,
			`{"apiVersion":"wgpolicyk8s.io/v1alpha2","kind":"PolicyReport","metadata":{"labels":{"app.kubernetes.io/managed-by":"termguard"},"name":"termguard"},"results":[{"source":"termguard","policy":"orphaned-finalizer","rule":"custom","category":"Deletion","severity":"high","result":"fail","message":"If deleted now, 3 of kialis.kiali.io would hang: Finalizer that nobody removes","properties":{"count":"3","resource":"kialis.kiali.io"}}],"scope":{"apiVersion":"v1","kind":"Namespace","name":"shop"},"summary":{"error":0,"fail":1,"pass":0,"skip":0,"warn":0}}`,
		},
		"openreports.io": {
			`{"apiVersion":"openreports.io/v1alpha1","kind":"ClusterReport","metadata":{"labels":{"app.kubernetes.io/managed-by":"termguard"},"name":"termguard"},"results":[{"source":"termguard","policy":"orphaned-finalizer","rule":"namespaces","category":"Deletion","severity":"high","result":"fail","message":"If deleted now, it would hang: Finalizer that nobody removes","resources":[{"apiVersion":"v1","kind":"Namespace","name":"shop"}]}],"source":"termguard","summary":{"error":0,"fail":1,"pass":0,"skip":0,"warn":0}}`,
			`{"apiVersion":"openreports.io/v1alpha1","kind":"Report","metadata":{"labels":{"app.kubernetes.io/managed-by":"termguard"},"name":"termguard"},"results":[{"source":"termguard","policy":"orphaned-finalizer","rule":"custom","category":"Deletion","severity":"high","result":"fail","message":"If deleted now, 3 of kialis.kiali.io would hang: Finalizer that nobody removes","properties":{"count":"3","resource":"kialis.kiali.io"}}],"scope":{"apiVersion":"v1","kind":"Namespace","name":"shop"},"source":"termguard","summary":{"error":0,"fail":1,"pass":0,"skip":0,"warn":0}}`,
		},
	} {
		got, left, err := reportsOf(tally, reportAPIs[group])
		if err != nil || left != 0 {
			t.Fatal(left, err)
		}
		if diff := cmp.Diff(want, []string{string(got[""]), string(got["shop"])}); diff != "" || len(got) != 2 {
			t.Errorf("%s: %d reports: -want, +got:\n%s", group, len(got), diff)
		}
	}
}

// TestReportBounds: neither many objects, nor many namespaces, nor long words make much of it.
func TestReportBounds(t *testing.T) {
	all := map[scan.Held]int{}
	for i := range 2000 {
		all[of(scan.Namespaces, "namespaces", "", fmt.Sprintf("%063d", i))] = 1
		all[of(scan.Custom, fmt.Sprintf("%0253d", i), "a", "")] = 1
		all[of(scan.Claims, "persistentvolumeclaims", fmt.Sprintf("%063d", i), "")] = 1
	}
	tally := held(all)
	tally.Policies["orphaned-finalizer"] = scan.About{Title: strings.Repeat("word\u202e ", 1000), Severity: policies.High}
	got, left, err := reportsOf(tally, reportAPIs["wgpolicyk8s.io"])
	if err != nil {
		t.Fatal(err)
	}
	if len(got) != maxReports || left != 2002-maxReports {
		t.Errorf("%d reports, %d namespaces without", len(got), left)
	}
	for namespace, text := range got {
		var report struct{ Results []reportResult }
		if err := json.Unmarshal(text, &report); err != nil {
			t.Fatal(err)
		}
		most, size := maxOfNamespace, 100_000
		if namespace == "" {
			most, size = maxOfCluster, 1<<20
		}
		if len(report.Results) > most || len(text) > size || strings.Contains(string(text), "\u202e") {
			t.Errorf("%.20s: %d results, %d bytes", namespace, len(report.Results), len(text))
		}
		if last := report.Results[len(report.Results)-1].Message; len(report.Results) == most && !strings.HasPrefix(last, fmt.Sprint(2001-most)+" more") {
			t.Errorf("%.20s: the last line is %q", namespace, last)
		}
	}
}

// fakeReports keeps reports as a cluster does.
type fakeReports struct {
	there           map[string]metav1.ObjectMeta
	n               int
	did             []string
	absent          bool
	leaving, denied string // namespaces
}

func (f *fakeReports) list(context.Context) (map[string]metav1.ObjectMeta, error) {
	if f.absent {
		return nil, apierrors.NewNotFound(schema.GroupResource{Resource: "policyreports"}, "")
	}
	return f.there, nil
}

func (f *fakeReports) apply(_ context.Context, namespace string, _ []byte) (metav1.ObjectMeta, error) {
	switch namespace {
	case f.leaving:
		err := apierrors.NewForbidden(schema.GroupResource{Resource: "policyreports"}, "termguard", errors.New("it is being terminated"))
		err.ErrStatus.Details.Causes = append(err.ErrStatus.Details.Causes, metav1.StatusCause{Type: "NamespaceTerminating"})
		return metav1.ObjectMeta{}, err
	case f.denied:
		return metav1.ObjectMeta{}, apierrors.NewForbidden(schema.GroupResource{Resource: "policyreports"}, "termguard", errors.New("no"))
	}
	f.n++
	f.did = append(f.did, "apply "+namespace)
	f.there[namespace] = metav1.ObjectMeta{UID: types.UID(fmt.Sprint("uid", namespace)), ResourceVersion: fmt.Sprint(f.n)}
	return f.there[namespace], nil
}

func (f *fakeReports) remove(_ context.Context, namespace string, uid types.UID) error {
	f.did = append(f.did, fmt.Sprintf("delete %s %s", namespace, uid))
	delete(f.there, namespace)
	return nil
}

// TestReportsWrite: what changed is written, and nothing else; from whoever leads.
func TestReportsWrite(t *testing.T) {
	store := &fakeReports{there: map[string]metav1.ObjectMeta{"old": {UID: "of another time"}}, leaving: "leaving", denied: "-"}
	leads, said := true, &strings.Builder{}
	r := &reports{api: reportAPIs["wgpolicyk8s.io"], store: store, leads: func() bool { return leads }, log: slog.New(slog.NewTextHandler(said, nil))}
	claims := func(namespaces ...string) scan.Tally {
		all := map[scan.Held]int{of(scan.Namespaces, "namespaces", "", "shop"): 1}
		for _, n := range namespaces {
			all[of(scan.Claims, "persistentvolumeclaims", n, "")] = 1
		}
		return held(all)
	}
	more := claims("a", "b")
	more.Held[of(scan.Claims, "persistentvolumeclaims", "a", "")] = 2
	for _, step := range []struct {
		reason string
		before func()
		tally  scan.Tally
		want   []string
		logged int // lines
	}{
		{"the first time all is written, and what another time left is deleted", func() {}, claims("a", "b", "leaving"), []string{"delete old of another time", "apply ", "apply a", "apply b"}, 0},
		{"nothing changed", func() {}, claims("a", "b"), nil, 0},
		{"one number changed", func() {}, more, []string{"apply a"}, 0},
		{"somebody edited one, and deleted one", func() {
			store.there["b"] = metav1.ObjectMeta{UID: "uidb", ResourceVersion: "edited"}
			delete(store.there, "")
		}, more, []string{"apply ", "apply b"}, 0},
		{"another replica leads", func() { leads = false }, claims(), nil, 0},
		{"this one leads again: who knows what is written", func() { leads = true }, claims("a"), []string{"delete b uidb", "apply ", "apply a"}, 0},
		{"nothing hangs", func() {}, held(nil), []string{"delete  uid", "delete a uida"}, 0},
		{"the kinds are not installed: it is said", func() { store.absent = true }, claims("a"), nil, 1},
		{"and said once", func() {}, claims("a"), nil, 0},
		{"they are", func() { store.absent = false }, claims("a"), []string{"apply ", "apply a"}, 0},
		{"refused: it is said", func() { store.denied = "a" }, more, nil, 1},
	} {
		step.before()
		store.did = nil
		said.Reset()
		r.write(t.Context(), step.tally)
		slices.Sort(store.did)
		slices.Sort(step.want)
		if diff := cmp.Diff(step.want, store.did); diff != "" {
			t.Errorf("%s: -want, +got:\n%s", step.reason, diff)
		}
		if n := strings.Count(said.String(), "\n"); n != step.logged {
			t.Errorf("%s: logged %s", step.reason, said)
		}
	}
}
