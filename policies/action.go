package policies

import (
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/termguard/termguard/internal/shell"
)

type Verb string

const (
	VerbDelete Verb = "delete"
	VerbPatch  Verb = "patch"
	VerbScale  Verb = "scale"
	// VerbFinalize removes finalizers from a namespace's spec, by its subresource finalize.
	VerbFinalize Verb = "finalize"
)

// Action is an operation on objects, which termguard delete executes, and Command writes for a shell.
type Action struct {
	Verb Verb `json:"verb"`
	// Objects are RESOURCE/NAME, all of one namespace.
	Objects   []string `json:"objects"`
	Namespace string   `json:"namespace,omitempty"`

	// Type of the Patch, json or merge.
	Type  string          `json:"type,omitempty"`
	Patch json.RawMessage `json:"patch,omitempty"`
	// Replicas to scale to.
	Replicas *int32 `json:"replicas,omitempty"`
	// Finalizers that finalize removes.
	Finalizers []string `json:"finalizers,omitempty"`
	// As in kubectl delete: Cascade is background (the default), foreground or orphan.
	NoWait       bool   `json:"noWait,omitempty"`
	Cascade      string `json:"cascade,omitempty"`
	Force        bool   `json:"force,omitempty"`
	GraceSeconds *int64 `json:"graceSeconds,omitempty"`
}

func (a *Action) valid() error {
	if len(a.Objects) == 0 {
		return errors.New("objects are missing")
	}
	for _, object := range a.Objects {
		if resource, name, ok := strings.Cut(object, "/"); !ok || resource == "" || name == "" {
			return fmt.Errorf("object %q: want RESOURCE/NAME", object)
		}
	}
	switch {
	case a.Verb == VerbDelete && (a.Cascade == "" || slices.Contains([]string{"background", "foreground", "orphan"}, a.Cascade)):
	case a.Verb == VerbPatch && (a.Type == "json" || a.Type == "merge") && len(a.Patch) > 0:
	case a.Verb == VerbScale && a.Replicas != nil:
	case a.Verb == VerbFinalize && len(a.Objects) == 1 && len(a.Finalizers) > 0:
	default:
		return fmt.Errorf("verb %q: want delete, patch with type and patch, scale with replicas, or finalize with one object and finalizers", a.Verb)
	}
	return nil
}

// dnsName matches names of resources and namespaces (RFC 1123).
var dnsName = regexp.MustCompile(`^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$`)

// sound rejects names that no API server has, which a shell, kubectl or a request's path may misread: an
// untrusted snapshot may have any.
func (a *Action) sound() bool {
	return (a.Namespace == "" || dnsName.MatchString(a.Namespace)) && !slices.ContainsFunc(a.Objects, func(object string) bool {
		resource, name, _ := strings.Cut(object, "/")
		return !dnsName.MatchString(resource) || strings.ContainsAny(name, "/%") || name == "." || name == ".." || a.Verb == VerbFinalize && !dnsName.MatchString(name)
	})
}

func Deletion(o Object) *Action {
	return &Action{Verb: VerbDelete, Objects: []string{o.In(o.Namespace)}, Namespace: o.Namespace}
}

// Targets returns the objects, none without an action.
func (a *Action) Targets() (objects []Object) {
	if a == nil {
		return nil
	}
	for _, object := range a.Objects {
		resource, name, _ := strings.Cut(object, "/")
		objects = append(objects, Object{Resource: resource, Namespace: a.Namespace, Name: name})
	}
	return objects
}

// Forces reports whether it removes an object without the usual cleanup.
func (a *Action) Forces() bool {
	return a.Verb == VerbFinalize || a.Force || a.GraceSeconds != nil && *a.GraceSeconds == 0
}

// Command returns a line for a POSIX shell.
func (a *Action) Command() string {
	if a.Verb == VerbFinalize {
		_, name, _ := strings.Cut(a.Objects[0], "/")
		finalizers, _ := json.Marshal(a.Finalizers)
		return "kubectl get namespace " + shell.Quote(name) + " -o json | jq " + shell.Quote(".spec.finalizers -= "+string(finalizers)) +
			" | kubectl replace --raw " + shell.Quote("/api/v1/namespaces/"+name+"/finalize") + " -f -"
	}
	words := append([]string{"kubectl", string(a.Verb)}, a.Objects...)
	if a.Namespace != "" {
		words = append(words, "-n", a.Namespace)
	}
	return shell.Join(append(words, a.options()...))
}

// CommandFor returns a line for several NAMESPACE/NAME.
func (a *Action) CommandFor(resource string, places []string) string {
	return "for at in " + shell.Join(places) + "; do kubectl " + string(a.Verb) + " " + shell.Quote(resource) + `/"${at#*/}" -n "${at%%/*}" ` + shell.Join(a.options()) + "; done"
}

func (a *Action) options() (words []string) {
	if a.Verb == VerbPatch {
		words = append(words, "--type="+a.Type, "-p", string(a.Patch))
	}
	if a.Replicas != nil {
		words = append(words, fmt.Sprintf("--replicas=%d", *a.Replicas))
	}
	if a.NoWait {
		words = append(words, "--wait=false")
	}
	if a.Cascade != "" {
		words = append(words, "--cascade="+a.Cascade)
	}
	if a.Force {
		words = append(words, "--force")
	}
	if a.GraceSeconds != nil {
		words = append(words, fmt.Sprintf("--grace-period=%d", *a.GraceSeconds))
	}
	return words
}
