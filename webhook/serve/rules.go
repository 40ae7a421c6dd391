package serve

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
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
	"github.com/termguard/termguard/internal/printable"
	"github.com/termguard/termguard/policies"
	"github.com/termguard/termguard/webhook"
)

const (
	// maxSource is the limit of a ConfigMap, in bytes.
	maxSource = 1 << 20
	// Changes of files must take effect within 2 s, and compiling takes up to one.
	pollInterval = 500 * time.Millisecond
	listTimeout  = 5 * time.Second
	// maxNote is in characters; an Event has 1024 bytes.
	maxNote = 900
	resync  = 10 * time.Minute
)

// policySource is a folder, an OPA bundle or a ConfigMap with custom policies.
type policySource struct {
	name      string            // a path, or "configmap termguard-system/team-a"
	files     map[string]string // by path, "" for a bundle
	sum       [sha256.Size]byte // of files and err
	configMap *corev1.ConfigMap

	policies fs.FS // once compiled
	ids      []string
	err      error // why it is not in force
}

func newSource(name string, files map[string]string, err error) policySource {
	sum := sha256.New()
	for _, path := range slices.Sorted(maps.Keys(files)) {
		fmt.Fprintf(sum, "%s %d\n%s", path, len(files[path]), files[path])
	}
	fmt.Fprint(sum, err)
	return policySource{name: name, files: files, err: err, sum: [sha256.Size]byte(sum.Sum(nil))}
}

// readSource reads FOLDER/POLICY/*.rego, or an OPA bundle if name is a file.
func readSource(name string) policySource {
	paths := []string{""}
	info, err := os.Stat(name)
	if err == nil && info.IsDir() {
		paths, _ = fs.Glob(os.DirFS(name), "*/*.rego") // valid
		_, err = os.ReadDir(name)                      // an error that Glob hides
	}
	if err != nil {
		return newSource(name, nil, err)
	}
	most := maxSource
	if !info.IsDir() {
		most = policies.MaxBundle
	}
	files, size := map[string]string{}, 0
	for _, path := range paths {
		text, err := readFile(filepath.Join(name, path), most-size)
		if err != nil {
			return newSource(name, nil, err)
		}
		if size += len(text); size > most {
			return newSource(name, nil, fmt.Errorf("its policies are larger than %d bytes together", most))
		}
		files[path] = string(text)
	}
	return newSource(name, files, nil)
}

// readFile reads one byte more than most, if there is one.
func readFile(name string, most int) ([]byte, error) {
	file, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	return io.ReadAll(io.LimitReader(file, int64(most)+1))
}

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
	s.configMap = cm
	return s
}

func (s *policySource) compile(key *policies.Key) {
	if s.err == nil {
		s.policies, s.err = s.unpack(key)
	}
	if s.err != nil {
		return
	}
	var set *policies.Set
	if set, s.err = policies.Load(s.policies); s.err == nil {
		s.ids = set.IDs()
	}
}

func (s *policySource) unpack(key *policies.Key) (fs.FS, error) {
	files := fstest.MapFS{}
	for path, text := range s.files {
		files[path] = &fstest.MapFile{Data: []byte(text)}
	}
	if archive, packed := files[""]; packed {
		var err error
		if files, err = policies.UnpackBundle(archive.Data, key); err != nil {
			return nil, err
		}
	}
	size := 0
	for _, file := range files {
		size += len(file.Data)
	}
	if size > maxSource {
		return nil, fmt.Errorf("its policies are larger than %d bytes together", maxSource)
	}
	return policies.Named(files, s.name), nil
}

// A mount may still fill the folder: no error.
const noPolicies = "it holds no policies: name a folder with a folder for each policy, POLICY/POLICY.rego"

func (s policySource) isEmpty() bool { return s.err == nil && s.configMap == nil && len(s.ids) == 0 }

// rules keeps policies and configuration current, and the last valid version in force.
type rules struct {
	options Options
	use     func(webhook.Rules)
	events  record.EventRecorder
	log     *slog.Logger

	informer cache.SharedIndexInformer // ConfigMaps
	changes  chan struct{}

	set        *policies.Set                // in force
	active     map[string]policySource      // by name
	lastSums   map[string][sha256.Size]byte // last checked
	rejections map[string]string            // reasons

	config          config.Config // in force
	configSum       [sha256.Size]byte
	activeConfigSum [sha256.Size]byte              // in force
	status          atomic.Pointer[webhook.Status] // without the part that serve adds

	reloads *prometheus.CounterVec
	sources *prometheus.GaugeVec
}

const configuration = "configuration" // in rejections

func newRules(options Options, client kubernetes.Interface, events record.EventRecorder, registry prometheus.Registerer) *rules {
	factory := promauto.With(registry)
	r := &rules{
		options: options, events: events, log: options.Log, changes: make(chan struct{}, 1),
		active: map[string]policySource{}, lastSums: map[string][sha256.Size]byte{}, rejections: map[string]string{},
		reloads: factory.NewCounterVec(prometheus.CounterOpts{
			Name: "termguard_reloads_total",
			Help: "Reloads of policies or the configuration, by result (accepted or refused).",
		}, []string{"result"}),
		sources: factory.NewGaugeVec(prometheus.GaugeOpts{
			Name: "termguard_refused_sources",
			Help: "Folders, bundles and ConfigMaps of policies, and configurations, whose newest version is rejected and not in force.",
		}, []string{"kind"}),
	}
	for _, result := range []string{"accepted", "refused"} {
		r.reloads.WithLabelValues(result)
	}
	r.informer = informers.NewSharedInformerFactoryWithOptions(client, resync, informers.WithNamespace(options.Certs.Namespace),
		informers.WithTweakListOptions(func(o *metav1.ListOptions) { o.LabelSelector = config.PolicyLabel })).Core().V1().ConfigMaps().Informer()
	notify := func() {
		select {
		case r.changes <- struct{}{}:
		default:
		}
	}
	// It fails only on a stopped informer; this one has not started.
	_, _ = r.informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc: func(any) { notify() }, UpdateFunc: func(any, any) { notify() }, DeleteFunc: func(any) { notify() },
	})
	return r
}

// start returns errors of sources on the command line; invalid ConfigMaps are left out, as later.
func (r *rules) start(ctx context.Context, client kubernetes.Interface) (*policies.Engine, error) {
	var sources []policySource
	for _, folder := range r.options.Folders {
		s := readSource(folder)
		if s.compile(r.options.Key); s.err != nil {
			return nil, fmt.Errorf("%s: %w", s.name, s.err)
		}
		sources = append(sources, s)
	}
	ctx, cancel := context.WithTimeout(ctx, listTimeout)
	defer cancel()
	list, err := client.CoreV1().ConfigMaps(r.options.Certs.Namespace).List(ctx, metav1.ListOptions{LabelSelector: config.PolicyLabel})
	if err != nil {
		r.log.Warn("ConfigMaps with policies cannot be listed; going on without, and trying again", "namespace", r.options.Certs.Namespace, "error", err)
		list = &corev1.ConfigMapList{}
	}
	for i := range list.Items {
		sources = append(sources, configMapSource(&list.Items[i]))
	}
	set, err := r.loadSources(sources)
	if err != nil {
		return nil, err
	}
	// A policy may be missing because its ConfigMap was deleted: unlike a typo, that must not prevent the
	// start.
	if r.config, err = r.options.ReadConfig(set.IDs()); err != nil && (!config.OnlyUnknownPolicies(err) || config.MisspellsPolicy(err, policies.EmbeddedIDs())) {
		return nil, err
	}
	if err != nil {
		r.reject(configuration, nil, err)
	}
	r.configSum, _ = r.fileSum()
	r.recordConfig()
	r.updateStatus()
	return r.engine(context.WithoutCancel(ctx), set)
}

func (r *rules) run(ctx context.Context) {
	ticker := time.NewTicker(pollInterval)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		case <-r.changes:
		}
		r.reload(ctx)
	}
}

// Until the ConfigMaps are listed, the ones in force count as present.
func (r *rules) gather() (sources []policySource) {
	for _, folder := range r.options.Folders {
		sources = append(sources, readSource(folder))
	}
	if !r.informer.HasSynced() {
		for _, name := range slices.Sorted(maps.Keys(r.active)) {
			if s := r.active[name]; s.configMap != nil {
				sources = append(sources, s)
			}
		}
		return sources
	}
	for _, object := range r.informer.GetStore().List() {
		if cm, ok := object.(*corev1.ConfigMap); ok {
			sources = append(sources, configMapSource(cm))
		}
	}
	return sources
}

func (r *rules) reload(ctx context.Context) {
	sources := r.gather()
	sums := map[string][sha256.Size]byte{}
	for _, s := range sources {
		sums[s.name] = s.sum
	}
	file, err := r.fileSum()
	if err != nil {
		return // being replaced
	}
	if maps.Equal(sums, r.lastSums) && file == r.configSum {
		return
	}
	oldSet, oldConfig := r.set, r.config
	set, err := r.loadSources(sources)
	if err != nil {
		r.log.Error("the policies in force stay: the new ones conflict", "error", err)
		return
	}
	if file != r.configSum || set != oldSet {
		r.configSum = file
		r.reloadConfig(set)
	}
	r.updateStatus()
	if set == oldSet && reflect.DeepEqual(r.config, oldConfig) {
		return
	}
	engine, err := r.engine(ctx, set)
	if err != nil {
		r.log.Error("the policies in force stay: the new ones cannot be prepared", "error", err)
		r.reloads.WithLabelValues("refused").Inc()
		return
	}
	r.use(r.webhookRules(engine))
	r.log.Info("reloaded policies and configuration", "policies", len(set.Policies()), "refused", len(r.rejections))
}

// An invalid configuration leaves the old one in force, which may name policies that were removed since.
func (r *rules) reloadConfig(set *policies.Set) {
	read, err := r.options.ReadConfig(set.IDs())
	if err == nil && restartSettings(read) != restartSettings(r.config) {
		err = errors.New("finalizerOwners, catalog and trustAnnotations take effect at a restart only: restart termguard, or revert their change")
	}
	if err != nil {
		r.reject(configuration, nil, err)
		return
	}
	r.config = read
	if r.activeConfigSum != r.configSum || r.rejections[configuration] != "" {
		r.accept(configuration, nil)
	}
	r.recordConfig()
}

func (r *rules) recordConfig() {
	r.activeConfigSum = r.configSum
	if r.options.ConfigFile != "" && r.activeConfigSum == noFile {
		r.log.Info("there is no configuration; the defaults are in force until there is one", "file", r.options.ConfigFile)
	}
}

// restartSettings need a restart. Empty ones equal absent ones.
func restartSettings(c config.Config) string {
	c.Shared.Params = nil
	text, err := json.Marshal([]any{c.Shared, c.Trust()})
	if err != nil {
		return err.Error() // cannot happen: read from JSON
	}
	return string(text)
}

// loadSources loads each source whole, or its last valid version.
func (r *rules) loadSources(sources []policySource) (*policies.Set, error) {
	slices.SortFunc(sources, func(a, b policySource) int { return cmp.Compare(a.name, b.name) })
	owner := map[string]string{} // by policy id
	for _, id := range policies.EmbeddedIDs() {
		owner[id] = "termguard itself"
	}
	r.lastSums = map[string][sha256.Size]byte{}
	for i := range sources {
		s, last := &sources[i], r.active[sources[i].name]
		r.lastSums[s.name] = s.sum
		if s.sum == last.sum {
			*s = last
		} else {
			s.compile(r.options.Key)
		}
		// A source keeps its policies from others until it gives them up.
		for _, id := range last.ids {
			if s.err != nil || slices.Contains(s.ids, id) {
				owner[id] = s.name
			}
		}
	}
	active := map[string]policySource{}
	for _, s := range sources {
		for _, id := range s.ids {
			if other, taken := owner[id]; taken && other != s.name {
				s.err = cmp.Or(s.err, fmt.Errorf("policy %q is already that of %s: rename it", id, other))
			}
		}
		last, exists := r.active[s.name]
		switch {
		case s.err != nil:
			r.reject(s.name, s.configMap, s.err)
			if !exists {
				continue
			}
			s = last
		case s.sum == last.sum:
			delete(r.rejections, s.name)
		default:
			r.accept(s.name, s.configMap)
			if s.isEmpty() {
				r.log.Warn("a source of policies is empty", "source", s.name, "error", noPolicies)
			}
		}
		active[s.name] = s
		for _, id := range s.ids {
			owner[id] = s.name
		}
	}
	maps.DeleteFunc(r.rejections, func(name, _ string) bool {
		_, exists := r.lastSums[name]
		return !exists && name != configuration
	})
	sameSum := func(a, b policySource) bool { return a.sum == b.sum }
	if r.set != nil && maps.EqualFunc(active, r.active, sameSum) {
		return r.set, nil
	}
	from := []fs.FS{policies.Embedded()}
	for _, name := range slices.Sorted(maps.Keys(active)) {
		from = append(from, active[name].policies)
	}
	set, err := policies.Load(from...)
	if err != nil {
		return nil, err
	}
	r.active, r.set = active, set
	return set, nil
}

func (r *rules) engine(ctx context.Context, set *policies.Set) (*policies.Engine, error) {
	return policies.NewEngine(ctx, set, policies.EngineOptions{
		Brief:    true,
		Params:   r.config.Params,
		Off:      r.config.Enforcement.Off(set.IDs()),
		Deadline: r.options.Deadline * 2 / 3,
	})
}

func (r *rules) webhookRules(engine *policies.Engine) webhook.Rules {
	return webhook.Rules{Evaluator: engine, Enforcement: r.config.Enforcement, IDs: r.set.IDs()}
}

func (r *rules) reject(name string, configMap *corev1.ConfigMap, err error) {
	if r.rejections[name] == err.Error() {
		return
	}
	r.rejections[name] = err.Error()
	r.reloads.WithLabelValues("refused").Inc()
	if name == configuration && config.OnlyUnknownPolicies(err) {
		r.log.Error("the configuration names policies that do not exist; the rest is in force, or the previous version", "error", err)
	} else {
		r.log.Error("rejected; the previous version stays in force", "source", name, "error", err)
	}
	if configMap != nil {
		r.events.Eventf(configMap, corev1.EventTypeWarning, "PolicyRefused", "Rejected; the previous version stays in force: %s", printable.Cut(err.Error(), maxNote))
	}
}

func (r *rules) accept(name string, configMap *corev1.ConfigMap) {
	delete(r.rejections, name)
	r.reloads.WithLabelValues("accepted").Inc()
	r.log.Info("in force", "source", name)
	if configMap != nil {
		r.events.Event(configMap, corev1.EventTypeNormal, "PolicyInForce", "Its policies are in force")
	}
}

func (r *rules) updateStatus() {
	configurations := 0
	if r.rejections[configuration] != "" {
		configurations = 1
	}
	r.sources.WithLabelValues(configuration).Set(float64(configurations))
	r.sources.WithLabelValues("policies").Set(float64(len(r.rejections) - configurations))
	status := webhook.Status{Policies: len(r.set.IDs())}
	for _, name := range slices.Sorted(maps.Keys(r.active)) {
		if r.active[name].isEmpty() {
			status.Rejections = append(status.Rejections, name+": "+noPolicies)
		}
		status.CustomPolicies = append(status.CustomPolicies, r.active[name].ids...)
	}
	if r.activeConfigSum != noFile {
		status.Configuration = webhook.Fingerprint(r.activeConfigSum)
	}
	for _, name := range slices.Sorted(maps.Keys(r.rejections)) {
		status.Rejections = append(status.Rejections, name+": "+r.rejections[name])
	}
	r.status.Store(&status)
}

// The health port is not authenticated: no reasons.
func (r *rules) rejectionNotes() string {
	report := ""
	for _, rejection := range r.status.Load().Rejections {
		name, why, _ := strings.Cut(rejection, ": ")
		outcome := "rejected; the previous version stays in force"
		if why == noPolicies {
			outcome = "none there"
		}
		report += fmt.Sprintf("[!]policies: %s (see the log): %s\n", outcome, name)
	}
	return report
}

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
