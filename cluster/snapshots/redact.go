package snapshots

import (
	"cmp"
	"crypto/ed25519"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"maps"
	"math/big"
	"net/http"
	"net/netip"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/google/uuid"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/termguard/termguard/cluster"
	"github.com/termguard/termguard/cluster/catalog"
	"github.com/termguard/termguard/cluster/refusals"
)

// Redaction replaces each word of a name, between separators, under a key of its own: names that are made of
// others still are. So is a word in a field that is not listed here; a text is left out.

var (
	// wordFields hold words of Kubernetes, programs and definitions, which stay.
	wordFields = []string{
		"accessModes", "add", "addressType", "architecture", "containerRuntimeVersion", "kernelVersion", "kubeletVersion", "operatingSystem", "osImage", "apiGroup", "apiGroups", "apiVersion", "apiVersions", "attacher", "component", "controller", "conversionReviewVersions",
		"deletionPolicy", "driver", "driverName", "effect", "failurePolicy", "fieldPath", "fieldsType", "finalizers", "group", "image", "images", "kind", "listKind",
		"matchPolicy", "medium", "mountOptions", "mountPropagation", "nonResourceURLs", "operation", "operations", "operator", "parameterNotFoundAction", "persistentVolumeReclaimPolicy", "phase", "plural",
		"policyTypes", "protocol", "provisioner", "reason", "resource", "resources", "restartPolicy", "rule", "scope", "served", "shortNames", "sideEffects", "singular",
		"state", "status", "storedVersions", "strategy", "subresource", "type", "unhealthyPodEvictionPolicy", "validationActions", "verbs", "version", "volumeMode", "whenUnsatisfiable",
	}
	// nameFields hold names that users chose, as do fields that end as nameEnds.
	nameFields = []string{
		"address", "addresses", "args", "clusterIP", "command", "generateName", "groups", "holderIdentity", "host", "hostIP", "hostname", "key", "kubernetes.io/hostname", "labelSelector",
		"manager", "path", "podIP", "pool", "server", "share", "portals", "targetPortal", "endpoints", "resourceNames", "service", "user", "username", "value", "values", "volumeHandle",
	}
	nameEnds = []string{"name", "names", "namespace", "namespaces", "ref", "refs", "uid", "uuid", "id", "ids", "node", "nodes"}
	// mapFields hold names as keys, too.
	mapFields = []string{"labels", "matchLabels", "annotations", "nodeSelector", "selector", "fieldsV1"}
	// codeFields hold CEL: its strings are replaced.
	codeFields = []string{"expression", "messageExpression"}

	// word also matches a UUID, quoted a CEL string, amount a quantity.
	word    = regexp.MustCompile(`[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}|[A-Za-z0-9]+`)
	quoted  = regexp.MustCompile(`"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*'`)
	address = regexp.MustCompile(`[0-9]+(\.[0-9]+){3}`)
	amount  = regexp.MustCompile(`^[0-9.]+[a-zA-Z%]{0,2}$`)
)

// publicWords say nothing about a cluster: words of Kubernetes, and of programs that the catalog knows.
var publicWords = sync.OnceValue(func() map[string]bool {
	public := map[string]bool{}
	add := func(texts ...string) {
		for _, text := range texts {
			for _, w := range word.FindAllString(text, -1) {
				public[w] = true
			}
		}
	}
	add("external http https default kube system public node lease kubernetes kubelet termguard dev probe learned serviceaccount serviceaccounts masters authenticated unauthenticated",
		"svc cluster local alpha beta apps app name instance component managed by part of version io k8s x cni csi scheduler proxy apiserver etcd coredns dns controller manager",
		"opt etc net d var lib run plugins registry sock chattr sh bash ash bin usr sbin exec c i R operator webhook webhooks admin edit view leader election namespace namespaces metadata finalizer owner declared true false All", "CREATE UPDATE DELETE CONNECT WATCH NAMESPACE POD NODE NAME")
	for _, k := range cluster.Builtin() {
		add(k.Resource.Resource, k.Group, k.Version, k.Kind)
	}
	for _, e := range catalog.Default().Entries() {
		add(e.Finalizer, e.Prefix, e.Suffix, e.ServiceAccount, e.CRDGroup)
		add(e.On...)
		for _, c := range e.CreatesWhen {
			add(c.In...)
		}
		for _, w := range e.Workloads {
			add(w.Namespace, w.Name, w.Image)
		}
	}
	return public
})

var configMaps = schema.GroupResource{Resource: "configmaps"}

type redactor struct {
	key    []byte
	public map[string]bool // words of what stays
	names  map[string]bool // words of what is replaced
}

func newRedactor() *redactor {
	r := &redactor{make([]byte, 32), maps.Clone(publicWords()), map[string]bool{}}
	_, _ = rand.Read(r.key) // never fails
	return r
}

func (r *redactor) hash(text string) []byte {
	h := hmac.New(sha256.New, r.key)
	_, _ = h.Write([]byte(text))
	return h.Sum(nil)
}

func (r *redactor) name(text string) string {
	if at, err := netip.ParseAddr(text); err == nil {
		return netip.AddrFrom4([4]byte(append([]byte{10}, r.hash(at.String())[:3]...))).String()
	}
	return word.ReplaceAllStringFunc(text, func(w string) string {
		if id, err := uuid.Parse(w); err == nil {
			copy(id[:], r.hash(id.String()))
			return id.String()
		}
		if r.public[w] || r.public[strings.ToLower(w)] || len(w) < 3 && strings.Trim(w, "0123456789") == "" {
			return w
		}
		return "x" + hex.EncodeToString(r.hash(w)[:4])
	})
}

// label replaces the name of a label or an annotation, unless its prefix is a program's.
func (r *redactor) label(name string) string {
	if prefix, _, qualified := strings.Cut(name, "/"); qualified && r.name(prefix) == prefix {
		return name
	}
	return r.name(name)
}

// sentence replaces words of names, or with digits, in a message.
func (r *redactor) sentence(text string) string {
	text = address.ReplaceAllStringFunc(text, r.name)
	return word.ReplaceAllStringFunc(text, func(w string) string {
		if r.names[w] || strings.ContainsAny(w, "0123456789") {
			return r.name(w)
		}
		return w
	})
}

func (r *redactor) learn(key string, value any) {
	switch value := value.(type) {
	case map[string]any:
		for below := range value {
			r.learn(below, value[below])
			if slices.Contains(mapFields, key) {
				r.learn("name", below)
			}
		}
	case []any:
		for _, item := range value {
			r.learn(key, item)
		}
	case string:
		words := word.FindAllString(value, -1)
		switch {
		case slices.Contains([]string{"apiVersion", "driver", "driverName", "provisioner", "attacher", "finalizers", "group", "kind", "plural"}, key):
			for _, w := range words {
				r.public[w] = true
			}
		case isName(key):
			for _, w := range words {
				r.names[w] = true
			}
		}
	}
}

func isName(key string) bool {
	return slices.Contains(nameFields, key) || slices.ContainsFunc(nameEnds, func(end string) bool { return strings.HasSuffix(strings.ToLower(key), end) })
}

func (r *redactor) argument(text string) string {
	option, value, assigns := strings.Cut(text, "=")
	switch {
	case strings.HasPrefix(text, "-") && assigns:
		return option + "=" + r.name(value)
	case strings.HasPrefix(text, "-"):
		return text
	}
	return r.name(text)
}

func (r *redactor) object(o *unstructured.Unstructured, resource schema.GroupResource) {
	name, memory := o.GetName(), ""
	if resource == configMaps {
		if name == cluster.LearnedConfigMap {
			memory, _, _ = unstructured.NestedString(o.Object, "data", cluster.LearnedKey)
		}
		o.Object = map[string]any{"apiVersion": o.GetAPIVersion(), "kind": o.GetKind(), "metadata": o.Object["metadata"]}
	}
	for key, value := range o.Object {
		o.Object[key] = r.value(key, value)
	}
	var owners map[string]any
	if json.Unmarshal([]byte(memory), &owners) == nil {
		text, _ := json.Marshal(r.value("", owners)) // it was JSON
		o.Object["data"] = map[string]any{cluster.LearnedKey: string(text)}
	}
	if strings.HasPrefix(resource.Group, "api") { // definitions and APIServices are named after groups
		o.SetName(name)
	}
}

func (r *redactor) value(key string, value any) any {
	switch value := value.(type) {
	case map[string]any:
		if named := slices.Contains(mapFields, key); named {
			return r.mapped(key, value)
		}
		for below := range value {
			value[below] = r.value(below, value[below])
		}
	case []any:
		sorted := slices.IsSortedFunc(value, compare)
		for i := range value {
			value[i] = r.value(key, value[i])
		}
		if key == "values" { // of a selector: whether they are sorted stays
			if slices.SortFunc(value, compare); !sorted {
				slices.Reverse(value)
			}
		}
	case string:
		return r.text(key, value)
	}
	return value
}

func (r *redactor) text(key, value string) string {
	_, atErr := time.Parse(time.RFC3339, value)
	_, durationErr := time.ParseDuration(value)
	switch {
	case value == "", slices.Contains(wordFields, key), atErr == nil, durationErr == nil, amount.MatchString(value) && strings.Count(value, ".") < 2:
		return value
	case key == "caBundle":
		return r.bundle(value)
	case key == "args", key == "command":
		return r.argument(value)
	case slices.Contains(codeFields, key):
		return quoted.ReplaceAllStringFunc(value, r.name)
	case key == "message", key == "note":
		return r.sentence(value)
	case key == "key":
		return r.label(value)
	case isName(key), isWord(value):
		return r.name(value)
	}
	return ""
}

// bundle returns a CA bundle of the same validity, without names.
func (r *redactor) bundle(value string) string {
	text, _ := base64.StdEncoding.DecodeString(value)
	var bundle []byte
	for block, rest := pem.Decode(text); block != nil; block, rest = pem.Decode(rest) {
		if of, err := x509.ParseCertificate(block.Bytes); err == nil {
			key := ed25519.NewKeyFromSeed(r.hash(string(of.Raw)))
			nameless := &x509.Certificate{SerialNumber: big.NewInt(1), NotBefore: of.NotBefore, NotAfter: of.NotAfter, IsCA: of.IsCA, BasicConstraintsValid: true}
			if block.Bytes, err = x509.CreateCertificate(rand.Reader, nameless, nameless, key.Public(), key); err == nil {
				bundle = append(bundle, pem.EncodeToMemory(block)...)
			}
		}
	}
	return base64.StdEncoding.EncodeToString(bundle)
}

func (r *redactor) mapped(key string, of map[string]any) map[string]any {
	if key == "fieldsV1" {
		return of // its finalizers
	}
	result := make(map[string]any, len(of))
	for name, value := range of {
		switch value := value.(type) {
		case string:
			result[r.label(name)] = r.name(value)
		default:
			result[name] = r.value(name, value) // a selector with matchLabels
		}
	}
	return result
}

func compare(a, b any) int { return cmp.Compare(fmt.Sprint(a), fmt.Sprint(b)) }

// status replaces names in an error's message, and leaves out its details.
func (r *redactor) status(body []byte) []byte {
	var status metav1.Status
	if json.Unmarshal(body, &status) != nil {
		return []byte(`""`)
	}
	message := r.sentence(status.Message)
	if refusals.ConversionFails(errors.New(status.Message)) && !refusals.ConversionFails(errors.New(message)) {
		message = refusals.ConversionFailure
	}
	text, err := json.Marshal(metav1.Status{TypeMeta: status.TypeMeta, Status: status.Status, Code: status.Code, Reason: status.Reason, Message: message})
	if err != nil {
		return []byte(`""`)
	}
	return text
}

func (r *redactor) line(l *line) {
	if l.Answer != nil && l.Code != http.StatusOK {
		l.Body = r.status(l.Body)
	}
	l.LabelSelector, l.Address = r.name(l.LabelSelector), r.name(l.Address)
	if key, value, one := strings.Cut(l.FieldSelector, "="); one && !strings.HasPrefix(value, "=") && strings.HasPrefix(key, "metadata.name") {
		l.FieldSelector = key + "=" + r.name(value)
	}
	if l.Why != "" {
		l.Why = "its certificate is not trusted"
	}
	if p, is := placeOf(l.Path); is {
		p.namespace, p.name = r.name(p.namespace), r.name(p.name)
		l.Path = p.path()
	}
}
