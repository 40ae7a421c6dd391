package serve

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"sync/atomic"
	"testing/fstest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/record"

	"github.com/termguard/termguard/config"
	"github.com/termguard/termguard/policies"
	"github.com/termguard/termguard/webhook"
)

const (
	// maxSource bounds the Rego of one folder, in bytes: that of a ConfigMap, 1 MiB.
	maxSource = 1 << 20
	// lookEvery is how often files are looked at: what changes is to be in force
	// within 2 s, and to compile the policies takes up to one.
	lookEvery = 500 * time.Millisecond
	// firstList bounds the wait for ConfigMaps at the start.
	firstList = 5 * time.Second
	resync    = 10 * time.Minute
)

// policySource is a folder, an OPA bundle or a ConfigMap with policies of people's own.
type policySource struct {
	name  string // the path of a file or folder, or "configmap termguard-system/team-a"
	files fstest.MapFS
	ids   []string // of its policies, once compiled
	err   error    // it cannot be read, or is not in force
	sum   [sha256.Size]byte
	about *corev1.ConfigMap // nil for a folder or bundle
}

// newSource takes its files as they are now, by path.
func newSource(name string, files map[string]string, err error) policySource {
	s := policySource{name: name, files: fstest.MapFS{}, err: err}
	size, sum := 0, sha256.New()
	for _, path := range slices.Sorted(maps.Keys(files)) {
		size += len(files[path])
		s.files[path] = &fstest.MapFile{Data: []byte(files[path])}
		fmt.Fprintf(sum, "%q %q\n", path, files[path])
	}
	if err == nil && size > maxSource {
		s.err, s.files = fmt.Errorf("its policies are larger than %d bytes together", maxSource), nil
	}
	if s.err != nil {
		fmt.Fprintf(sum, "error %v", s.err)
	}
	s.sum = [sha256.Size]byte(sum.Sum(nil))
	return s
}

// A reading is what was read of a folder, or of a bundle, and what its files were like then.
type reading struct {
	stamp  string
	source policySource
}

// settles is how long after the last change of a file its time tells of the next one: times
// may be as coarse as a second.
const settles = 2 * time.Second

// stampOf changes with the names, sizes and times of the files of a folder, or with those of
// a bundle. It cannot be trusted where settled is false.
func stampOf(path string, now time.Time) (stamp string, settled bool) {
	inside, err := filepath.Glob(filepath.Join(escapeGlob(path), "*", "*.rego"))
	if err != nil {
		return "", false
	}
	var text strings.Builder
	settled = true
	for _, file := range append(inside, path) {
		info, err := os.Stat(file)
		if err != nil {
			return "", false
		}
		settled = settled && now.Sub(info.ModTime()) > settles
		fmt.Fprintln(&text, file, info.Size(), info.ModTime().UnixNano())
	}
	return text.String(), settled
}

// folder is folderSource, which reads nothing again that has not changed.
func (r *rules) folder(name string) policySource {
	stamp, settled := stampOf(name, time.Now())
	if last, known := r.readings[name]; known && settled && last.stamp == stamp {
		return last.source
	}
	s := folderSource(name, r.options.Key)
	r.readings[name] = reading{stamp, s}
	return s
}

// folderSource reads the policies of a folder: FOLDER/POLICY/*.rego. A file is an OPA bundle.
func folderSource(folder string, key *policies.Key) policySource {
	if info, err := os.Stat(folder); err == nil && !info.IsDir() {
		unpacked, err := policies.ReadBundle(folder, key)
		files := map[string]string{}
		for path, file := range unpacked {
			files[path] = string(file.Data)
		}
		return newSource(folder, files, err)
	}
	if _, err := os.ReadDir(folder); err != nil {
		return newSource(folder, nil, err)
	}
	files := map[string]string{}
	paths, err := filepath.Glob(filepath.Join(escapeGlob(folder), "*", "*.rego"))
	size := 0
	for _, path := range paths {
		inside, relative := filepath.Rel(folder, path)
		info, stat := os.Stat(path)
		if err = errors.Join(err, relative, stat); err != nil {
			break
		}
		if size += int(info.Size()); size > maxSource {
			return newSource(folder, nil, fmt.Errorf("its policies are larger than %d bytes together", maxSource))
		}
		text, read := os.ReadFile(path)
		if err = errors.Join(err, read); err != nil {
			break
		}
		files[filepath.ToSlash(inside)] = string(text)
	}
	return newSource(folder, files, err)
}

func escapeGlob(path string) string {
	return strings.NewReplacer(`\`, `\\`, `*`, `\*`, `?`, `\?`, `[`, `\[`).Replace(path)
}

// configMapSource has the policies of a ConfigMap: key POLICY.rego is
// POLICY/POLICY.rego.
func configMapSource(cm *corev1.ConfigMap) policySource {
	files := map[string]string{}
	for key, text := range cm.Data {
		if folder, rego := strings.CutSuffix(key, ".rego"); rego {
			files[folder+"/"+key] = text
		}
	}
	var err error
	if len(files) == 0 {
		err = errors.New("it has no key POLICY.rego")
	}
	s := newSource("configmap "+cm.Namespace+"/"+cm.Name, files, err)
	s.about = cm
	return s
}

// compile finds the policies of a source, by itself, or what is wrong with them.
func (s *policySource) compile() {
	if s.err != nil {
		return
	}
	set, err := policies.Load(s.fsys())
	if err == nil {
		err = set.CheckFindings()
	}
	if s.err = err; err == nil {
		s.ids = set.IDs()
	}
}

// noPolicies tells of a folder without any. Whoever named it takes its rules to be in force;
// but it may also be filled later, by what is mounted there.
const noPolicies = "it holds no policies: name the folder that holds a folder for each policy, with POLICY/POLICY.rego in it"

// empty tells whether a folder holds no policies.
func (s policySource) empty() bool { return s.err == nil && s.about == nil && len(s.ids) == 0 }

func (s policySource) fsys() fs.FS { return policies.Named(s.files, s.name) }

// rules keep what reviews go by current: policies and configuration are read again
// when they change. What is wrong with a new one is told, and the last good one
// stays in force.
type rules struct {
	options Options
	use     func(webhook.Rules)
	events  record.EventRecorder
	log     *slog.Logger

	informer cache.SharedIndexInformer // of ConfigMaps with config.PolicyLabel
	changed  chan struct{}

	set      *policies.Set                // in force
	inForce  map[string]policySource      // by name
	tried    map[string][sha256.Size]byte // what was looked at last, by name
	refused  map[string]string            // why, by name
	readings map[string]reading           // of folders and bundles, by name

	read   config.Config // in force
	file   [sha256.Size]byte
	taken  [sha256.Size]byte              // the file that is in force
	status atomic.Pointer[webhook.Status] // what of it these rules know

	reloads *prometheus.CounterVec
	sources *prometheus.GaugeVec
}

const configuration = "configuration" // in refused

func newRules(options Options, client kubernetes.Interface, events record.EventRecorder, registry prometheus.Registerer) *rules {
	factory := promauto.With(registry)
	r := &rules{
		options: options, events: events, log: options.Log, changed: make(chan struct{}, 1),
		inForce: map[string]policySource{}, tried: map[string][sha256.Size]byte{}, refused: map[string]string{}, readings: map[string]reading{},
		reloads: factory.NewCounterVec(prometheus.CounterOpts{
			Name: "termguard_reloads_total",
			Help: "Times that policies or the configuration were read again, by what became of them (accepted or refused).",
		}, []string{"result"}),
		sources: factory.NewGaugeVec(prometheus.GaugeOpts{
			Name: "termguard_refused_sources",
			Help: "Folders, bundles and ConfigMaps of policies, and configurations, whose newest version is refused and not in force.",
		}, []string{"kind"}),
	}
	for _, result := range []string{"accepted", "refused"} {
		r.reloads.WithLabelValues(result)
	}
	r.informer = informers.NewSharedInformerFactoryWithOptions(client, resync, informers.WithNamespace(options.Certs.Namespace),
		informers.WithTweakListOptions(func(o *metav1.ListOptions) { o.LabelSelector = config.PolicyLabel })).Core().V1().ConfigMaps().Informer()
	kick := func() {
		select {
		case r.changed <- struct{}{}:
		default:
		}
	}
	// Adding a handler fails on an informer that has stopped; this one has not started.
	_, _ = r.informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc: func(any) { kick() }, UpdateFunc: func(any, any) { kick() }, DeleteFunc: func(any) { kick() },
	})
	return r
}

// start loads what is there. An error is for what an operator wrote on the command
// line; a ConfigMap that is wrong is left out, as later.
func (r *rules) start(ctx context.Context, client kubernetes.Interface) (*policies.Engine, error) {
	var found []policySource
	for _, folder := range r.options.Folders {
		s := folderSource(folder, r.options.Key)
		if s.compile(); s.err != nil {
			return nil, fmt.Errorf("%s: %w", s.name, s.err)
		}
		found = append(found, s)
	}
	ctx, cancel := context.WithTimeout(ctx, firstList)
	defer cancel()
	list, err := client.CoreV1().ConfigMaps(r.options.Certs.Namespace).List(ctx, metav1.ListOptions{LabelSelector: config.PolicyLabel})
	if err != nil {
		r.log.Warn("ConfigMaps with policies cannot be listed; going on without, and trying again", "namespace", r.options.Certs.Namespace, "error", err)
		list = &corev1.ConfigMapList{}
	}
	for i := range list.Items {
		found = append(found, configMapSource(&list.Items[i]))
	}
	set, err := r.take(found)
	if err != nil {
		return nil, err
	}
	// A policy may be gone whose ConfigMap somebody deleted: that must not keep
	// termguard from starting, as a typing error must.
	if r.read, err = r.options.ReadConfig(set.IDs()); err != nil && (!config.OnlyNoPolicy(err) || config.MeansAnother(err, policies.EmbeddedIDs())) {
		return nil, err
	}
	if err != nil {
		r.refuse(configuration, nil, err)
	}
	r.file, _ = r.fileSum()
	r.took()
	r.count()
	return r.engine(context.WithoutCancel(ctx), set)
}

// run reads again what changes, until ctx ends.
func (r *rules) run(ctx context.Context) {
	ticker := time.NewTicker(lookEvery)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		case <-r.changed:
		}
		r.look(ctx)
	}
}

// gather is what there is now. Until the ConfigMaps are listed, those in force are
// taken as still there.
func (r *rules) gather() (found []policySource) {
	for _, folder := range r.options.Folders {
		found = append(found, r.folder(folder))
	}
	if !r.informer.HasSynced() {
		for _, name := range slices.Sorted(maps.Keys(r.inForce)) {
			if s := r.inForce[name]; s.about != nil {
				found = append(found, s)
			}
		}
		return found
	}
	for _, object := range r.informer.GetStore().List() {
		if cm, ok := object.(*corev1.ConfigMap); ok {
			found = append(found, configMapSource(cm))
		}
	}
	return found
}

// look takes what has changed into use.
func (r *rules) look(ctx context.Context) {
	found := r.gather()
	now := map[string][sha256.Size]byte{}
	for _, s := range found {
		now[s.name] = s.sum
	}
	file, err := r.fileSum()
	if err != nil {
		return // it is being replaced; what was read stands
	}
	if maps.Equal(now, r.tried) && file == r.file {
		return
	}
	before, enforced := r.set, r.read
	set, err := r.take(found)
	if err != nil {
		r.log.Error("the policies in force stay: those that are there now do not go together", "error", err)
		return
	}
	if file != r.file || set != before {
		r.file = file
		r.readAgain(set)
	}
	r.count()
	if set == before && reflect.DeepEqual(r.read, enforced) {
		return
	}
	engine, err := r.engine(ctx, set)
	if err != nil {
		r.log.Error("the policies in force stay: those that are there now cannot be prepared", "error", err)
		r.reloads.WithLabelValues("refused").Inc()
		return
	}
	r.use(r.with(engine))
	r.log.Info("read policies and configuration again", "policies", len(set.Policies()), "refused", len(r.refused))
}

// readAgain reads the configuration; what is in force stays where it is wrong. The
// one in force may name policies that have gone since.
func (r *rules) readAgain(set *policies.Set) {
	read, err := r.options.ReadConfig(set.IDs())
	if err == nil && fixed(read) != fixed(r.read) {
		err = errors.New("finalizerOwners, catalog and trustAnnotations take effect at a restart only: restart termguard, or take back their change")
	}
	if err != nil {
		r.refuse(configuration, nil, err)
		return
	}
	r.read = read
	if r.taken != r.file || r.refused[configuration] != "" {
		r.accept(configuration, nil)
	}
	r.took()
}

// took notes that what the file says is in force.
func (r *rules) took() {
	r.taken = r.file
	if r.options.ConfigFile != "" && r.taken == noFile {
		r.log.Info("there is no configuration; the defaults are in force until there is one", "file", r.options.ConfigFile)
	}
}

// fixed is what the facts rest on, which are gathered once. What is empty is as what is
// not there.
func fixed(c config.Config) string {
	c.Shared.Params = nil
	text, err := json.Marshal([]any{c.Shared, c.Trust()})
	if err != nil {
		return err.Error() // it was read from JSON
	}
	return string(text)
}

// take decides which version of each source is to be in force, and loads them
// together, unless they are loaded already. A source counts whole, or not at
// all: its last good version then.
func (r *rules) take(found []policySource) (*policies.Set, error) {
	slices.SortFunc(found, func(a, b policySource) int { return cmp.Compare(a.name, b.name) })
	binary, err := policies.Load(policies.Embedded())
	if err != nil {
		return nil, err
	}
	owner := map[string]string{} // of policies, by id
	for _, id := range binary.IDs() {
		owner[id] = "termguard itself"
	}
	r.tried = map[string][sha256.Size]byte{}
	for i := range found {
		s, last := &found[i], r.inForce[found[i].name]
		r.tried[s.name] = s.sum
		if s.sum == last.sum {
			*s = last
		} else {
			s.compile()
		}
		// Who had a policy keeps it from others, unless it gives it up.
		for _, id := range last.ids {
			if s.err != nil || slices.Contains(s.ids, id) {
				owner[id] = s.name
			}
		}
	}
	inForce := map[string]policySource{}
	for _, s := range found {
		for _, id := range s.ids {
			if other, taken := owner[id]; taken && other != s.name && s.err == nil {
				s.err = fmt.Errorf("policy %q is already that of %s: rename it", id, other)
			}
		}
		last, had := r.inForce[s.name]
		switch {
		case s.err == nil:
			if had && last.sum == s.sum {
				delete(r.refused, s.name)
			} else {
				r.accept(s.name, s.about)
			}
			if s.empty() && last.sum != s.sum {
				r.log.Warn("a source of policies is empty", "source", s.name, "error", noPolicies)
			}
		case had:
			r.refuse(s.name, s.about, s.err)
			s = last
		default:
			r.refuse(s.name, s.about, s.err)
			continue
		}
		inForce[s.name] = s
		for _, id := range s.ids {
			owner[id] = s.name
		}
	}
	for name := range r.refused {
		if _, there := r.tried[name]; !there && name != configuration {
			delete(r.refused, name)
		}
	}
	same := func(a, b policySource) bool { return a.sum == b.sum }
	if r.set != nil && maps.EqualFunc(inForce, r.inForce, same) {
		return r.set, nil
	}
	set := binary
	if len(inForce) > 0 {
		from := []fs.FS{policies.Embedded()}
		for _, name := range slices.Sorted(maps.Keys(inForce)) {
			from = append(from, inForce[name].fsys())
		}
		if set, err = policies.Load(from...); err != nil {
			return nil, err
		}
	}
	r.inForce, r.set = inForce, set
	return set, nil
}

// engine asks the policies of a set.
func (r *rules) engine(ctx context.Context, set *policies.Set) (*policies.Engine, error) {
	return policies.NewEngine(ctx, set, policies.EngineOptions{
		Brief:    true,
		Params:   r.read.Params,
		Off:      r.read.Enforcement.Off(set.IDs()),
		Deadline: r.options.Deadline * 2 / 3,
	})
}

// with is what reviews go by with an engine.
func (r *rules) with(engine *policies.Engine) webhook.Rules {
	return webhook.Rules{Evaluator: engine, Enforcement: r.read.Enforcement, IDs: r.set.IDs()}
}

// refuse tells of a version that is not taken, once.
func (r *rules) refuse(name string, about *corev1.ConfigMap, err error) {
	if r.refused[name] == err.Error() {
		return
	}
	r.refused[name] = err.Error()
	r.reloads.WithLabelValues("refused").Inc()
	if name == configuration && config.OnlyNoPolicy(err) {
		r.log.Error("the configuration names policies that are not there; the rest of it is in force, or what was before", "error", err)
	} else {
		r.log.Error("refused; what was in force before stays", "source", name, "error", err)
	}
	if about != nil {
		r.events.Eventf(about, corev1.EventTypeWarning, "PolicyRefused", "Not in force; what was before stays: %s", cut(err.Error()))
	}
}

func (r *rules) accept(name string, about *corev1.ConfigMap) {
	delete(r.refused, name)
	r.reloads.WithLabelValues("accepted").Inc()
	r.log.Info("in force", "source", name)
	if about != nil {
		r.events.Event(about, corev1.EventTypeNormal, "PolicyInForce", "Its policies are in force")
	}
}

// cut keeps a message within the 1024 bytes of an Event.
func cut(text string) string {
	const limit = 900
	if len(text) > limit {
		return strings.ToValidUTF8(text[:limit], "") + "…"
	}
	return text
}

// count tells metrics and status what is in force, and what is not.
func (r *rules) count() {
	kinds := map[string]float64{"policies": 0, configuration: 0}
	for name := range r.refused {
		if name == configuration {
			kinds[configuration]++
		} else {
			kinds["policies"]++
		}
	}
	for kind, n := range kinds {
		r.sources.WithLabelValues(kind).Set(n)
	}
	status := webhook.Status{Policies: len(r.set.IDs())}
	for _, name := range slices.Sorted(maps.Keys(r.inForce)) {
		if r.inForce[name].empty() {
			status.Refused = append(status.Refused, name+": "+noPolicies)
		}
		status.Own = append(status.Own, r.inForce[name].ids...)
	}
	if r.taken != noFile {
		status.Configuration = webhook.Fingerprint(r.taken)
	}
	for _, name := range slices.Sorted(maps.Keys(r.refused)) {
		status.Refused = append(status.Refused, name+": "+r.refused[name])
	}
	r.status.Store(&status)
}

// notInForce names what is refused, without the reasons: whoever reaches the health
// port may read it.
func (r *rules) notInForce() string {
	report := ""
	for _, refused := range r.status.Load().Refused {
		name, why, _ := strings.Cut(refused, ": ")
		outcome := "refused, and what was before stays"
		if why == noPolicies {
			outcome = "none there"
		}
		report += fmt.Sprintf("[!]policies: %s (see the log): %s\n", outcome, name)
	}
	return report
}

// noFile is the sum of a configuration that is not there.
var noFile [sha256.Size]byte

func (r *rules) fileSum() ([sha256.Size]byte, error) {
	if r.options.ConfigFile == "" {
		return noFile, nil
	}
	text, err := os.ReadFile(r.options.ConfigFile)
	if errors.Is(err, fs.ErrNotExist) {
		return noFile, nil
	}
	return sha256.Sum256(text), err
}
