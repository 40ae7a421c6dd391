// Package learned is the memory of the identities that remove finalizers, which replicas merge.
package learned

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"k8s.io/apiserver/pkg/authentication/serviceaccount"
)

const (
	// MaxAge is how long an entry is kept after it was last seen.
	MaxAge = 30 * 24 * time.Hour
	// MaxOwners bounds the memory, MaxIdentities a Scope's identities, and MaxLocal the entries without
	// Everywhere from one namespace's service accounts, or from one other user. The least proven are dropped
	// first.
	MaxOwners, MaxIdentities, MaxLocal = 2000, 8, 64
	// MaxSize bounds the stored text, in bytes: a ConfigMap holds 1 MiB (k8s.io/api/core/v1, MaxSecretSize).
	MaxSize = 512 << 10

	maxErrors  = 5    // reported of a stored memory
	maxObjects = 1000 // more are not counted
	maxString  = 512
	// maxAhead is how far the clock of another replica may be ahead.
	maxAhead = time.Hour
	// A user who is no service account counts only after this many objects over this long: a person who forces
	// a deletion does not keep doing so.
	strangerObjects = 3
	strangerTime    = 24 * time.Hour
)

// Owner is an identity that was seen to remove a finalizer from Terminating objects.
type Owner struct {
	Finalizer string `json:"finalizer"`
	Resource  string `json:"resource"` // plural.group
	Identity  string `json:"identity"` // user name, as in an admission request
	// Namespace is the only one in which the entry counts; "" for cluster-scoped objects, and with Everywhere.
	Namespace string `json:"namespace,omitempty"`
	// Everywhere says that the identity may update the resource in all namespaces.
	Everywhere bool `json:"everywhere,omitempty"`
	Objects    int  `json:"objects"` // how many it removed the finalizer from
	// Outside says that no pod ran under the service account when last seen.
	Outside bool `json:"outside,omitempty"`
	// Took is the time from the object's deletion.
	Took  Histogram `json:"took,omitempty"`
	First time.Time `json:"first"`
	Last  time.Time `json:"last"`
}

func (o Owner) Account() string { return Account(o.Identity) }

// Account returns the service account behind a user name as "namespace/name", or "".
func Account(user string) string {
	namespace, name, err := serviceaccount.SplitUsername(user)
	if err != nil {
		return ""
	}
	return namespace + "/" + name
}

// Trusted reports whether an owner was seen often enough to count.
func (o Owner) Trusted() bool {
	return o.Account() != "" || o.Objects >= strangerObjects && o.Last.Sub(o.First) >= strangerTime
}

type key struct {
	finalizer, resource, identity, namespace string
	everywhere                               bool
}

func (o Owner) key() key {
	return key{o.Finalizer, o.Resource, o.Identity, o.Namespace, o.Everywhere}
}

// Memory holds the observations. The zero value is ready to use; it is not safe for concurrent use.
type Memory struct {
	owners map[key]Owner
	stops  map[stopKey]Stop
}

// Add adds an owner as seen, or as another replica stored it.
func (m *Memory) Add(o Owner) {
	if m.owners == nil {
		m.owners = map[key]Owner{}
	}
	if before, ok := m.owners[o.key()]; ok {
		if before.Last.After(o.Last) {
			o.Outside = before.Outside
		}
		o.Objects += before.Objects
		o.Took = before.Took.with(o.Took)
		if o.Last = latest(before.Last, o.Last); before.First.Before(o.First) {
			o.First = before.First
		}
	}
	o.Objects = min(o.Objects, maxObjects)
	m.owners[o.key()] = o
}

// Merge adds what another replica learned since both had the same memory.
func (m *Memory) Merge(news Memory) {
	for _, o := range news.owners {
		m.Add(o)
	}
	for _, s := range news.stops {
		m.AddStop(s)
	}
}

func (m *Memory) Clone() Memory {
	return Memory{owners: maps.Clone(m.owners), stops: maps.Clone(m.stops)}
}

func (m *Memory) Empty() bool { return len(m.owners)+len(m.stops) == 0 }

// Knows reports whether news change no verdict: all is remembered, trusted, and seen within the last hour.
func (m *Memory) Knows(news Memory) bool {
	for k, o := range news.owners {
		owner, ok := m.owners[k]
		if !ok || owner.Objects < strangerObjects || !owner.Trusted() || owner.Outside != o.Outside || !owner.Took.covers(o.Took) || o.Last.Sub(owner.Last) > time.Hour {
			return false
		}
	}
	return m.knowsStops(news)
}

type Scope struct{ Finalizer, Resource, Namespace string }

// Local returns the scopes that count in one namespace only.
func (m *Memory) Local() map[Scope]bool {
	local := map[Scope]bool{}
	for k := range m.owners {
		if !k.everywhere && k.namespace != "" {
			local[Scope{k.finalizer, k.resource, k.namespace}] = true
		}
	}
	return local
}

// Owners returns the trusted owners, the newest first.
func (m *Memory) Owners(finalizer, resource, namespace string) []Owner {
	var owners []Owner
	for k, o := range m.owners {
		if k.finalizer == finalizer && k.resource == resource && (k.everywhere || k.namespace == namespace) && o.Trusted() {
			owners = append(owners, o)
		}
	}
	slices.SortFunc(owners, newestFirst)
	return owners
}

// Prune forgets entries that are old, or beyond the bounds.
func (m *Memory) Prune(now time.Time) {
	identities, taught := map[[3]string]int{}, map[string]int{}
	kept := 0
	for _, o := range m.all() {
		on := [3]string{o.Finalizer, o.Resource, o.Namespace}
		if now.Sub(o.Last) > MaxAge || kept == MaxOwners || identities[on] == MaxIdentities || !o.Everywhere && taught[o.teacher()] == MaxLocal {
			delete(m.owners, o.key())
			continue
		}
		o.Took = o.Took.since(now.Add(-MaxAge))
		m.owners[o.key()] = o
		kept++
		identities[on]++
		if !o.Everywhere {
			taught[o.teacher()]++
		}
	}
	m.pruneStops(now)
}

// teacher returns the name that a quota counts: who may create one service account may create many.
func (o Owner) teacher() string {
	if namespace, _, ok := strings.Cut(o.Account(), "/"); ok {
		return "serviceaccounts of " + namespace
	}
	return o.Identity
}

// all returns the best proven owners first, so that a flood of new identities displaces none.
func (m *Memory) all() []Owner {
	proof := func(o Owner) (rank int) {
		if o.Trusted() {
			rank = 2
		}
		if o.Everywhere {
			rank++
		}
		return rank
	}
	return slices.SortedFunc(maps.Values(m.owners), func(a, b Owner) int {
		return cmp.Or(cmp.Compare(proof(b), proof(a)), cmp.Compare(b.Objects, a.Objects), newestFirst(a, b))
	})
}

func newestFirst(a, b Owner) int {
	return cmp.Or(b.Last.Compare(a.Last), cmp.Compare(a.Finalizer, b.Finalizer), cmp.Compare(a.Resource, b.Resource),
		cmp.Compare(a.Identity, b.Identity), cmp.Compare(a.Namespace, b.Namespace))
}

type document struct {
	APIVersion string            `json:"apiVersion"`
	Owners     []json.RawMessage `json:"owners"`
	Stops      []json.RawMessage `json:"stops,omitempty"`
}

// apiVersion separates incompatible versions of termguard: a new field needs a new one.
const (
	group      = "termguard.dev/"
	apiVersion = group + "v1"
)

// Encode returns the stored form, an entry per line, as many as fit into MaxSize.
func (m *Memory) Encode() []byte {
	var out bytes.Buffer
	fmt.Fprintf(&out, "{\"apiVersion\": %q", apiVersion)
	encode(&out, "owners", m.all(), func(o *Owner) {
		o.Took, o.First, o.Last = o.Took.inSeconds(), second(o.First), second(o.Last)
	})
	if len(m.stops) > 0 {
		encode(&out, "stops", m.allStops(), func(s *Stop) { s.Took, s.Last = s.Took.inSeconds(), second(s.Last) })
	}
	out.WriteString("}\n")
	return out.Bytes()
}

func encode[T any](out *bytes.Buffer, name string, entries []T, round func(*T)) {
	fmt.Fprintf(out, ",\n%q: [", name)
	separator := "\n  "
	for _, entry := range entries {
		round(&entry)
		line, err := json.Marshal(entry)
		if err != nil || out.Len()+len(line) > MaxSize-100 {
			continue // an error is impossible: these are strings, numbers and times
		}
		out.WriteString(separator + string(line))
		separator = ",\n  "
	}
	out.WriteString("]")
}

// ErrMalformed is returned for text that is no memory.
var ErrMalformed = errors.New("malformed")

// ErrOtherVersion is returned for text of another version of termguard.
var ErrOtherVersion = errors.New("another version of termguard wrote it")

// Decode reads the stored form, which people edit: wrong reports invalid entries, which are left out. With
// ErrMalformed and ErrOtherVersion nothing could be read.
func Decode(text []byte, now time.Time) (m Memory, wrong error, err error) {
	if len(text) > 2*MaxSize {
		return m, nil, fmt.Errorf("%w: %d bytes", ErrMalformed, len(text))
	}
	var written struct {
		APIVersion string `json:"apiVersion"`
	}
	if json.Unmarshal(text, &written) == nil && written.APIVersion != apiVersion {
		kind := ErrMalformed
		if strings.HasPrefix(written.APIVersion, group) {
			kind = ErrOtherVersion
		}
		return m, nil, fmt.Errorf("%w: apiVersion is %q, want %s", kind, written.APIVersion, apiVersion)
	}
	var doc document
	if err := decode(text, &doc); err != nil {
		return m, nil, fmt.Errorf("%w: %w", ErrMalformed, err)
	}
	errs := slices.Concat(
		take("owners", doc.Owners, now, func(o Owner) bool { _, twice := m.owners[o.key()]; return twice }, m.Add),
		take("stops", doc.Stops, now, func(s Stop) bool { _, twice := m.stops[stopKey{s.Namespace, s.Workload}]; return twice }, m.AddStop),
	)
	m.Prune(now)
	return m, errors.Join(errs[:min(maxErrors, len(errs))]...), nil
}

func take[T interface{ check(now time.Time) error }](list string, entries []json.RawMessage, now time.Time, has func(T) bool, add func(T)) (errs []error) {
	for i, raw := range entries {
		var entry T
		err := decode(raw, &entry)
		if err == nil {
			err = entry.check(now)
		}
		if err == nil && has(entry) {
			err = errors.New("it is listed twice")
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("%s[%d] is ignored: %w", list, i, err))
			continue
		}
		add(entry)
	}
	return errs
}

func decode(text []byte, into any) error {
	d := json.NewDecoder(bytes.NewReader(text))
	d.DisallowUnknownFields()
	if err := d.Decode(into); err != nil {
		return err
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return errors.New("text after the end")
	}
	return nil
}

func (o Owner) check(now time.Time) error {
	if o.Everywhere && o.Namespace != "" {
		return errors.New("it counts everywhere and in one namespace")
	}
	return cmp.Or(
		plain("finalizer", o.Finalizer), plain("resource", o.Resource), plain("identity", o.Identity),
		plain("namespace", cmp.Or(o.Namespace, "any")),
		o.Took.check(now),
		seen(o.Objects, o.First, o.Last, now),
	)
}

func seen(count int, first, last, now time.Time) error {
	switch {
	case count < 1 || count > maxObjects:
		return fmt.Errorf("a count of %d", count)
	case first.IsZero() || last.Before(first):
		return errors.New("it was seen last before it was seen first")
	case last.Sub(now) > maxAhead:
		return fmt.Errorf("it was seen in the future, at %s", last.UTC().Format(time.RFC3339))
	}
	return nil
}

func plain(field, s string) error {
	switch {
	case s == "":
		return fmt.Errorf("%s: is empty", field)
	case len(s) > maxString:
		return fmt.Errorf("%s: is longer than %d bytes", field, maxString)
	case !utf8.ValidString(s) || strings.ContainsFunc(s, func(r rune) bool { return !unicode.IsPrint(r) }):
		return fmt.Errorf("%s: has unprintable characters", field)
	}
	return nil
}

// Storable reports whether Decode accepts an owner.
func (o Owner) Storable() bool { return o.check(o.Last) == nil }

func second(t time.Time) time.Time { return t.UTC().Truncate(time.Second) }

func latest(a, b time.Time) time.Time { return slices.MaxFunc([]time.Time{a, b}, time.Time.Compare) }
