package facts

import (
	"iter"
	"time"
)

// Verdict says who removes a finalizer, and whether that owner runs.
type Verdict struct {
	State    string // as in package ownership
	Owner    string // "" if unknown
	Clears   string // cleaned up first
	Evidence []string
	Runs     []Object // its workload, as far as known
	Seen     bool     // to remove it here, or Kubernetes itself does
}

type Object struct{ Resource, Namespace, Name string }

// Verdicts are an object's verdicts, by finalizer, as policies read them.
type Verdicts map[string]any

func (v Verdicts) All() iter.Seq2[string, Verdict] {
	return func(yield func(string, Verdict) bool) {
		for finalizer, verdict := range v {
			if !yield(finalizer, verdictOf(verdict)) {
				return
			}
		}
	}
}

func verdictOf(value any) Verdict {
	record, _ := value.(map[string]any)
	v := Verdict{State: text(record, "state"), Owner: text(record, "owner"), Clears: text(record, "clears"), Evidence: []string{}, Seen: record["seen"] == true}
	evidence, _ := record["evidence"].([]any)
	for _, item := range evidence {
		if s, is := item.(string); is {
			v.Evidence = append(v.Evidence, s)
		}
	}
	workloads, _ := record["workloads"].([]any)
	for _, item := range workloads {
		workload, _ := item.(map[string]any)
		v.Runs = append(v.Runs, Object{text(workload, "resource"), text(workload, "namespace"), text(workload, "name")})
	}
	return v
}

func text(record map[string]any, key string) string {
	s, _ := record[key].(string)
	return s
}

// Holding are objects of one resource in one namespace with the same finalizer and owner.
type Holding struct {
	Finalizer, Resource, Namespace string
	Names                          []string // the first few
	Count                          int
	Owner                          Verdict
	Ending                         map[string]int64 // deletion times of Terminating objects, in Unix time
}

// Since returns the deletionTimestamp of an object; false if it is not Terminating.
func (h Holding) Since(name string) (string, bool) {
	at, ending := h.Ending[name]
	return time.Unix(at, 0).UTC().Format(time.RFC3339), ending
}

type Namespace struct {
	Labels      map[string]string
	Terminating bool
}

type Definition struct {
	Kind, Singular string
	Short          []string
	Namespaced     bool
	Served         []string // in its order
}

type Pod struct {
	Namespace, Name string
	Node            string // "" for none
	Phase           string
	Kind            string // of its owner, "" for none
	Workload        string // as in Stops
	Terminating     bool
}
