package teardown

import (
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/termguard/termguard/cluster"
	"github.com/termguard/termguard/policies"
)

// Rank is what kind of things go together where nothing says otherwise: the smallest first.
type Rank int

// The ranks, in their order.
const (
	custom Rank = iota
	workloads
	operators
	apiservices
	webhooks
	others
	definitions
	namespaces
	homes // of operators
	volumes
	nodes
	byCommand
)

// ranks are what people call them, one and several.
var ranks = [][2]string{
	custom:      {"object that a controller cleans up after", "objects that controllers clean up after"},
	workloads:   {"workload", "workloads"},
	operators:   {"operator", "operators"},
	apiservices: {"APIService", "APIServices"},
	webhooks:    {"webhook configuration", "webhook configurations"},
	others:      {"other object", "other objects"},
	definitions: {"definition", "definitions"},
	namespaces:  {"namespace", "namespaces"},
	homes:       {"namespace of an operator", "namespaces of operators"},
	volumes:     {"volume or claim", "volumes and claims"},
	nodes:       {"node", "nodes"},
	byCommand:   {"object, by one command", "objects, by one command"},
}

// words name the ranks for programs.
var words = []string{"custom", "workloads", "operators", "apiservices", "webhooks", "others", "definitions", "namespaces", "operatorNamespaces", "volumes", "nodes", "command"}

// Ranks are the words for all of them.
func Ranks() []string { return slices.Clone(words) }

// String is the word for it.
func (r Rank) String() string { return words[r] }

// MarshalText writes the word for it.
func (r Rank) MarshalText() ([]byte, error) { return []byte(words[r]), nil }

// UnmarshalText reads the word for it.
func (r *Rank) UnmarshalText(text []byte) error {
	at := slices.Index(words, string(text))
	if at < 0 {
		return fmt.Errorf("rank %q: want one of %s", text, strings.Join(words, ", "))
	}
	*r = Rank(at)
	return nil
}

func (r Rank) noun(n int) string {
	if n == 1 {
		return ranks[r][0]
	}
	return ranks[r][1]
}

const (
	resourceAPIService = "apiservices.apiregistration.k8s.io"
	resourceDefinition = "customresourcedefinitions.apiextensions.k8s.io"
)

// byResource are the ranks of what Kubernetes itself defines; what is not in it is custom
// where its group is not one of Kubernetes', or among the others.
var byResource = map[string]Rank{
	"pods": workloads, "replicationcontrollers": workloads,
	"deployments.apps": workloads, "statefulsets.apps": workloads, "daemonsets.apps": workloads, "replicasets.apps": workloads,
	"jobs.batch": workloads, "cronjobs.batch": workloads,
	resourceAPIService: apiservices,
	"validatingwebhookconfigurations.admissionregistration.k8s.io": webhooks,
	"mutatingwebhookconfigurations.admissionregistration.k8s.io":   webhooks,
	resourceDefinition:  definitions,
	"namespaces":        namespaces,
	"persistentvolumes": volumes, "persistentvolumeclaims": volumes,
	"nodes": nodes,
}

func rankOf(o policies.Object) Rank {
	if rank, known := byResource[o.Resource]; known {
		return rank
	}
	if group := schema.ParseGroupResource(o.Resource).Group; group != "" && !slices.Contains(cluster.BuiltinGroups(), group) {
		return custom
	}
	return others
}
