package catalog

import (
	"regexp"
	"slices"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"
)

// samples are finalizers that the regular expressions of the catalog match.
var samples = map[string][]string{
	`finalizer\.(.*)\.k8s\.elastic\.co/(.*)`:                   {"finalizer.elasticsearch.k8s.elastic.co/secure-settings"},
	`[a-z-]+\.finalizers\.[a-z]+\.k8s\.elastic\.co(/[a-z-]+)?`: {"observer.finalizers.elasticsearch.k8s.elastic.co", "dynamic-watches.finalizers.elasticsearch.k8s.elastic.co/http-certificates"},
	`finalizers\.[a-z0-9-]+\.services\.k8s\.aws/[A-Za-z0-9]+`:  {"finalizers.s3.services.k8s.aws/Bucket"},
	`deletion\.finalizers\.(queues|exchanges|bindings|users|vhosts|policies|permissions|federations|shovels|schemareplications|superstreams|topicpermissions|operatorpolicies)\.rabbitmq\.com`: {"deletion.finalizers.queues.rabbitmq.com"},
}

// shared are images that other software than the controller runs, too.
var shared = map[string]string{
	"argocd":                          "all of Argo CD runs it",
	"ceph":                            "the daemons of a Rook cluster run quay.io/ceph/ceph",
	"crossplane":                      "the RBAC manager runs it",
	"dynatrace-operator":              "the webhook and the CSI driver run it",
	"external-secrets":                "the webhook and the certificate controller run it",
	"gatekeeper":                      "audit runs it",
	"gha-runner-scale-set-controller": "the listeners run it",
	"kube-ovn":                        "its agents run it",
	"longhorn-manager":                "the driver deployer runs it",
	"mariadb-operator":                "the webhook and the agents beside databases run it",
	"percona-postgresql-operator":     "databases run it, in other tags",
	"percona-server-mongodb-operator": "backups run it, in other tags",
	"percona-xtradb-cluster-operator": "databases run it, in other tags",
	"rancher-agent":                   "node agents run it",
	"scylla-operator":                 "sidecars of databases and the webhook run it",
	"spark-operator":                  "the webhook runs it",
	"topolvm-with-sidecar":            "every part of TopoLVM runs it",
}

// sourcePattern matches the source of a fact: a file, github.com/owner/repository:path, with an
// optional @version before the colon, or a thread, github.com/owner/repository#number.
var sourcePattern = regexp.MustCompile(`^github\.com/[-.\w]+/[-.\w]+((@v[.\w]+)?:[-./\w]+|#\d+)$`)

// heldPattern matches the source of an entry: a line of a file at a release or a commit.
var heldPattern = regexp.MustCompile(`^github\.com/[-.\w]+/[-.\w]+@[-+./\w]+:[-+./\w]+#L[1-9]\d*$`)

// TestSources checks that each entry was read in the source of a project at a version, by file and
// line; make catalog-sources verifies the lines.
func TestSources(t *testing.T) {
	for _, e := range Default().Entries() {
		if !heldPattern.MatchString(e.Source) {
			t.Errorf("%s: source %q is no line of a file at a version, as in github.com/owner/repository@v1.2.3:path#L4: make catalog-sources CLONES=folder WRITE=1 finds it", e.Key(), e.Source)
		}
	}
}

// references returns the references of an entry, with nested ones.
func references(e Entry) []Reference {
	var list []Reference
	var below func(needs []Need)
	below = func(needs []Need) {
		for _, n := range needs {
			list = append(list, n.Reference)
			below(n.Needs)
		}
	}
	below(e.Needs)
	for _, r := range e.WaitsFor {
		list = append(list, r.Reference)
	}
	return list
}

// TestShipped checks the catalog in the binary against its own rules.
func TestShipped(t *testing.T) {
	c := Default()
	needing, waiting := map[string]bool{}, map[string]bool{}
	for _, e := range c.Entries() {
		for _, n := range e.Needs {
			for _, res := range append(n.Of, e.On...) {
				needing[res] = needing[res] || len(e.NeedsOf(res)) > 0
			}
		}
		for _, r := range e.WaitsFor {
			for _, res := range append(r.Of, e.On...) {
				waiting[res] = waiting[res] || len(e.WaitsForOf(res)) > 0
			}
		}
	}
	if len(c.Entries()) < 500 || len(needing) < 100 || len(waiting) < 20 {
		t.Errorf("only %d entries, %d kinds that need something and %d that wait: some were lost", len(c.Entries()), len(needing), len(waiting))
	}
	for _, e := range c.Entries() {
		// One finalizer that the entry matches, or several for a regular expression.
		matches := []string{e.Finalizer}
		switch {
		case e.Prefix != "":
			matches = []string{e.Prefix + "x"}
		case e.Suffix != "":
			matches = []string{"x" + e.Suffix}
		case e.Regex != "":
			matches = samples[e.Regex]
			if len(matches) == 0 {
				t.Errorf("%s: add a finalizer that it matches to samples", e.Key())
			}
		}
		for _, finalizer := range matches {
			for _, res := range e.On {
				got, ok := c.Lookup(finalizer, res)
				if !ok || got.Key() != e.Key() || !slices.Equal(got.On, e.On) {
					t.Errorf("%s on %s is shadowed: %q finds %s on %v", e.Key(), res, finalizer, got.Key(), got.On)
				}
			}
		}
		for _, w := range e.Workloads {
			if why := shared[w.Image]; why != "" {
				t.Errorf("%s: image %s belongs to a controller that was removed: %s", e.Key(), w.Image, why)
			}
		}
		for _, o := range e.Obstacles {
			if !sourcePattern.MatchString(o.Source) {
				t.Errorf("%s: obstacle %s: source %q is no file of a repository and no thread", e.Key(), o.ID, o.Source)
			}
		}
		for _, r := range references(e) {
			if !sourcePattern.MatchString(r.Source) {
				t.Errorf("%s: %s: source %q is no file of a repository and no thread", e.Key(), r.Resource, r.Source)
			}
		}
	}
}

func TestLookup(t *testing.T) {
	const text = `
- {finalizer: a.io/f, resources: [widgets.a.io], owner: exact, component: in-cluster, source: x}
- {finalizer: a.io/f, resources: [pods], owner: exact on pods, component: in-cluster, source: x}
- {prefix: a.io/, resources: ["*"], owner: prefix, component: in-cluster, source: x}
- {prefix: a.io/long-, resources: ["*"], owner: longer prefix, component: in-cluster, source: x}
- {suffix: .b.io, resources: ["*"], owner: suffix, component: in-cluster, source: x}
- {regex: 'c[0-9]+', resources: ["*"], owner: regex, component: in-cluster, source: x}
- {finalizer: d.io/f, resources: [widgets.a.io], owner: listed, component: in-cluster, source: x}
- {finalizer: d.io/f, resources: ["*"], owner: any, component: in-cluster, source: x}
- {finalizer: server, resources: [widgets.a.io], crdGroup: a.io, owner: unqualified, component: in-cluster, source: x}
- {finalizer: user.cleanup, resources: [users.a.io], owner: unqualified, component: in-cluster, source: x}
`
	c, err := Parse([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	tests := map[string]struct{ reason, finalizer, resource, owner string }{
		"exact":             {"the exact string wins over its prefix", "a.io/f", "widgets.a.io", "exact"},
		"by resource":       {"of two exact ones, that for the resource", "a.io/f", "pods", "exact on pods"},
		"exact elsewhere":   {"on an unlisted resource, the first", "a.io/f", "secrets", "exact"},
		"prefix":            {"no exact entry", "a.io/other", "pods", "prefix"},
		"longest prefix":    {"the longer prefix says more", "a.io/long-x", "pods", "longer prefix"},
		"suffix":            {"by its end", "x.b.io", "pods", "suffix"},
		"regex":             {"the whole string", "c12", "pods", "regex"},
		"listed":            {"an entry for the resource, rather than one for any", "d.io/f", "widgets.a.io", "listed"},
		"any":               {"one for any, rather than one for others", "d.io/f", "pods", "any"},
		"unqualified":       {"a name without a domain, on its resource", "server", "widgets.a.io", "unqualified"},
		"same group":        {"and on kinds of the same API group", "server", "gadgets.a.io", "unqualified"},
		"group below":       {"or of one below it", "server", "gadgets.x.a.io", "unqualified"},
		"alike group":       {"not of one that ends alike", "server", "gadgets.aa.io", ""},
		"somebody else's":   {"anybody may call a finalizer that", "server", "pods", ""},
		"no domain":         {"a dot makes no domain", "user.cleanup", "pods", ""},
		"regex is anchored": {"a part of the string is not enough", "xc12", "pods", ""},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			if got, _ := c.Lookup(tc.finalizer, tc.resource); got.Owner != tc.owner {
				t.Errorf("%s: got %q, want %q", tc.reason, got.Owner, tc.owner)
			}
		})
	}
}

func TestMatches(t *testing.T) {
	kiali := Workload{Kind: "Deployment", Namespace: "kiali-operator", Name: "kiali-operator", Image: "kiali-operator"}
	generic := Workload{Kind: "Deployment", Namespace: "argo-events", Name: "controller-manager"}
	glob := Workload{Name: "*cloud-controller-manager*"}
	operator := Workload{Kind: "Deployment", Namespace: "hypershift", Name: "operator", Image: "hypershift-operator"}
	certManager := Workload{Kind: "Deployment", Namespace: "cert-manager", Name: "cert-manager"}
	velero := Workload{Kind: "Deployment", Name: "velero"}
	tests := map[string]struct {
		reason                string
		w                     Workload
		kind, namespace, name string
		images                []string
		want                  bool
	}{
		"name":                      {"as installed by default", kiali, "Deployment", "kiali-operator", "kiali-operator", nil, true},
		"other namespace":           {"a specific name counts anywhere", kiali, "Deployment", "ops", "kiali-operator", nil, true},
		"release":                   {"behind a Helm release's name", kiali, "Deployment", "ops", "mesh-kiali-operator", nil, true},
		"image":                     {"under any name, by its image", kiali, "StatefulSet", "ops", "x", []string{"kiali-operator"}, true},
		"something else":            {"a name that merely begins alike", kiali, "Deployment", "ops", "kiali-operator-tests", nil, false},
		"other kind":                {"a name counts for its kind", kiali, "DaemonSet", "ops", "kiali-operator", nil, false},
		"generic, its namespace":    {"a shared name in the usual namespace", generic, "Deployment", "argo-events", "controller-manager", nil, true},
		"generic, another":          {"a shared name elsewhere belongs to other software", generic, "Deployment", "cert-manager", "controller-manager", nil, false},
		"generic, behind a release": {"a shared name says nothing behind a release either", generic, "Deployment", "argo-events", "x-controller-manager", nil, false},
		"generic, by image":         {"a shared name elsewhere, with the image", operator, "Deployment", "ops", "operator", []string{"quay.io/x/hypershift-operator@sha256:0123"}, true},
		"generic, other image":      {"a shared name elsewhere, with another image", operator, "Deployment", "ops", "operator", []string{"operator"}, false},
		"image reference":           {"by the last path element, without port, tag and digest", kiali, "Deployment", "ops", "x", []string{"reg.io:5000/mirror/kiali-operator:v2.1@sha256:0123"}, true},
		"image begins alike":        {"another image", kiali, "Deployment", "ops", "x", []string{"quay.io/kiali/kiali-operator-bundle:v2"}, false},
		"revision":                  {"a version behind the name", kiali, "Deployment", "ops", "kiali-operator-v2-4", nil, true},
		"another part":              {"cert-manager-webhook does not stand for its controller", certManager, "Deployment", "cert-manager", "cert-manager-webhook", nil, false},
		"one word":                  {"one word before a version is not specific", velero, "Deployment", "velero", "velero-2", nil, false},
		"one word, release":         {"behind a release it is", velero, "Deployment", "backup", "my-velero", nil, true},
		"release, image":            {"a release of it, by its own image", velero, "Deployment", "backup", "my-velero", []string{"velero/velero:v1"}, true},
		"another program":           {"the words before are its own", velero, "Deployment", "backup", "my-velero", []string{"example.com/my-velero:v1"}, false},
		"another program, released": {"so they are behind a release", velero, "Deployment", "backup", "prod-my-velero", []string{"my-velero"}, false},
		"vendor's image":            {"the image has words of its vendor, and the name of the release", velero, "Deployment", "backup", "my-velero", []string{"vendor-velero"}, true},
		"glob, release":             {"a pattern behind a release", Workload{Name: "percona-*-operator"}, "Deployment", "db", "prod-percona-x-operator", nil, true},
		"glob, generic":             {"characters matched by '*' make no name specific", Workload{Namespace: "a", Name: "*-operator"}, "Deployment", "b", "x-operator", nil, false},
		"empty":                     {"the entry has no fields", Workload{}, "Deployment", "ops", "x", []string{""}, false},
		"glob":                      {"vendors put their name around it", glob, "DaemonSet", "kube-system", "aws-cloud-controller-manager", nil, true},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			if got := tc.w.Matches(tc.kind, tc.namespace, tc.name, tc.images); got != tc.want {
				t.Errorf("%s: got %v", tc.reason, got)
			}
		})
	}
}

func TestMerge(t *testing.T) {
	shipped, err := Parse([]byte(`
- {finalizer: a.io/f, resources: [widgets.a.io], owner: shipped, component: in-cluster, source: x}
- {finalizer: b.io/f, resources: [widgets.b.io], owner: shipped, component: in-cluster, source: x}
`))
	if err != nil {
		t.Fatal(err)
	}
	user, err := Parse([]byte("- {finalizer: a.io/f, resources: [widgets.a.io], owner: user, component: in-cluster, source: us}"))
	if err != nil {
		t.Fatal(err)
	}
	both := shipped.Merge(user)
	for finalizer, want := range map[string]string{"a.io/f": "user", "b.io/f": "shipped"} {
		if got, _ := both.Lookup(finalizer, "widgets."+finalizer[:4]); got.Owner != want {
			t.Errorf("%s: the entry of the %s wins, want that of the %s", finalizer, got.Owner, want)
		}
	}
	if got, ok := (*Catalog)(nil).Merge(nil).Lookup("a.io/f", "pods"); ok {
		t.Errorf("an empty catalog knows %v", got)
	}
}

func TestParseErrors(t *testing.T) {
	tests := map[string]struct{ reason, text, want string }{
		"no key":        {"nothing to match by", "- {resources: [pods], owner: x, component: in-cluster, source: x}", "exactly one of"},
		"two keys":      {"it matches nothing", "- {finalizer: a, prefix: b, resources: [pods], owner: x, component: in-cluster, source: x}", "exactly one of"},
		"creates":       {"a kind is no resource", "- {finalizer: a, resources: [pods], owner: x, component: in-cluster, source: x, creates: Job}", `creates: "Job" is not plural.group`},
		"creates when":  {"what", "- {finalizer: a, resources: [pods], owner: x, component: in-cluster, source: x, createsWhen: [{path: spec.a, in: [b]}]}", "createsWhen: creates is needed"},
		"no condition":  {"in what", "- {finalizer: a, resources: [pods], owner: x, component: in-cluster, source: x, creates: pods, createsWhen: [{path: spec.a}]}", "createsWhen 1: a path and one of in and notIn are needed"},
		"sure":          {"no software is named", "- {finalizer: a, resources: [pods], owner: x, component: in-cluster, source: x, sure: {since: 1.0.0}}", "sure: an image is needed"},
		"sure version":  {"since when", "- {finalizer: a, resources: [pods], owner: x, component: in-cluster, source: x, sure: {image: x, since: one}}", `sure: "one" is no version`},
		"component":     {"a typo", "- {finalizer: a, resources: [pods], owner: x, component: incluster, source: x}", `unknown component "incluster"`},
		"unknown field": {"a typo", "- {finalizer: a, resources: [pods], owner: x, component: in-cluster, source: x}\n- {finalizer: b, ownr: x}", `catalog entry 2 (b): `},
		"wrong type":    {"a list is needed", "- {finalizer: a, resources: pods}", "catalog entry 1 "},
		"no list":       {"one entry is not a catalog", "finalizer: a", "a list of entries is needed"},
		"no owner":      {"it would explain nothing", "- {finalizer: a, resources: [pods], component: in-cluster, source: x}", "entry 1 (a): resources, owner and source"},
		"no resource":   {"it would never count", "- {finalizer: a, resources: [], owner: x, component: in-cluster, source: x}", "resources, owner and source"},
		"resource":      {"a kind is no resource", "- {finalizer: a, resources: [Pod], owner: x, component: in-cluster, source: x}", `"Pod" is neither`},
		"overlap":       {"the second would never be found for pods", "- {prefix: a, resources: [pods], owner: x, component: in-cluster, source: x}\n- {prefix: a, resources: [nodes, pods], owner: x, component: in-cluster, source: x}", "entry 2 (prefix a): entry 1 says it of pods"},
		"generic name":  {"it would match half of all clusters", "- {finalizer: a, resources: [pods], owner: x, component: in-cluster, source: x, workloads: [{name: controller-manager}]}", "add the namespace"},
		"generic glob":  {"so would this", "- {finalizer: a, resources: [pods], owner: x, component: in-cluster, source: x, workloads: [{name: '*-operator'}]}", "add the namespace"},
		"generic image": {"and this", "- {finalizer: a, resources: [pods], owner: x, component: in-cluster, source: x, workloads: [{name: x, image: controller}]}", `image name "controller"`},
		"image":         {"a reference is never equal to its last path element", "- {finalizer: a, resources: [pods], owner: x, component: in-cluster, source: x, workloads: [{image: 'a/b:c'}]}", "last path element"},
		"kind":          {"a typo", "- {finalizer: a, resources: [pods], owner: x, component: in-cluster, source: x, workloads: [{kind: deployment, name: x}]}", `unknown kind "deployment"`},
		"regex":         {"does not compile", "- {regex: '(', resources: [pods], owner: x, component: in-cluster, source: x}", "entry 1"},
		"twice":         {"the second would never be found", "- &e {finalizer: a, resources: [pods], owner: x, component: in-cluster, source: x}\n- *e", "entry 2 (a): entry 1 says it of pods already"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			if _, err := Parse([]byte(tc.text)); err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("%s: got %v, want an error with %q", tc.reason, err, tc.want)
			}
		})
	}
}

func FuzzParse(f *testing.F) {
	f.Add([]byte("- {finalizer: a, resources: [pods], owner: x, component: in-cluster, source: x, workloads: [{kind: Pod, name: 'a*'}]}"))
	f.Add([]byte("- {finaliser: a}"))
	f.Add([]byte("- {regex: 'c[0-9]+', resources: [\"*\"], owner: x, component: in-cluster, source: x}"))
	f.Add([]byte("- {finalizer: a, resources: [\"*\"], owner: x, component: in-cluster, source: x, needs: [{of: ['*.a.io'], resource: secrets, path: 'finalizer', namespacePath: owner, when: [{path: source, notIn: ['']}], without: may, source: x}]}"))
	f.Add([]byte("- {finalizer: a, resources: [pods], owner: x, component: in-cluster, source: x, waitsFor: [{resource: nodes, path: 'resources[*]', within: 'workloads[*][\"name\"]', source: x}], needs: [{resource: a, name: b, without: completes, source: x}]}"))
	f.Fuzz(func(t *testing.T, data []byte) {
		var objects []map[string]any // what is read as an entry is an object to look into, too
		_ = yaml.Unmarshal(data, &objects)
		c, err := Parse(data)
		if err != nil {
			return
		}
		for _, e := range c.Entries() {
			for _, res := range e.On {
				if _, ok := c.Lookup(e.Finalizer, res); e.Finalizer != "" && !ok {
					t.Errorf("%q on %q is in the catalog and not found", e.Finalizer, res)
				}
			}
			for _, w := range e.Workloads {
				w.Matches(w.Kind, w.Namespace, w.Name, []string{w.Image})
			}
			for _, o := range objects {
				for _, n := range e.Needs {
					n.Names(o)
				}
				for _, r := range e.WaitsFor {
					r.Names(o)
					r.Counts(o)
					r.Ranges(o)
				}
			}
		}
	})
}

// TestSet reads the fields of a container.
func TestSet(t *testing.T) {
	versions := Set{Image: "operator", Since: "0.100.0", Before: "0.142.0"}
	option := Set{Image: "operator", Option: "Status=true"}
	cases := map[string]struct {
		reason string
		set    Set
		image  string
		args   []string
		want   bool
	}{
		"Within":  {"The first version that does.", versions, "ghcr.io/a/operator:v0.100.0", nil, true},
		"Older":   {"It did not yet.", versions, "ghcr.io/a/operator:0.99.1", nil, false},
		"Newer":   {"It does no longer.", versions, "operator:v0.142.0", nil, false},
		"Build":   {"A version with something behind it.", versions, "operator:0.141.0-rc.1", nil, true},
		"Digest":  {"A tag says it before a digest.", versions, "operator:0.141.0@sha256:ab", nil, true},
		"NoTag":   {"Nobody knows which version.", versions, "localhost:5000/operator", nil, false},
		"Latest":  {"Nor here.", versions, "operator:latest", nil, false},
		"Other":   {"Another image.", versions, "webhook:0.141.0", nil, false},
		"Option":  {"Its arguments enable that, among others.", option, "operator", []string{"--x", "--feature-gates=A=false,Status=true"}, true},
		"Without": {"It is not.", option, "operator", []string{"--x"}, false},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if got := tc.set.By(tc.image, tc.args); got != tc.want {
				t.Errorf("%s\n%s %v: got %t", tc.reason, tc.image, tc.args, got)
			}
		})
	}
	for _, broken := range []Set{{}, {Image: "a", Since: "v1"}, {Image: "a", Before: "1.2"}} {
		if broken.check("set") == nil {
			t.Errorf("%+v passes", broken)
		}
	}
}

// TestCarried checks which finalizers custom resources get from their controllers.
func TestCarried(t *testing.T) {
	for _, tc := range []struct {
		reason, resource, kind string
		want                   []string
	}{
		{"one finalizer", "kialis.kiali.io", "Kiali", []string{"kiali.io/finalizer"}},
		{"a pattern", "cephclusters.ceph.rook.io", "CephCluster", []string{"cephcluster.ceph.rook.io"}},
		{"of a version that sets it", "clusterserviceversions.operators.coreos.com", "ClusterServiceVersion", []string{"operators.coreos.com/csv-cleanup"}},
		{"of software that is not there", "opentelemetrycollectors.opentelemetry.io", "OpenTelemetryCollector", nil},
		{"written by people", "applications.argoproj.io", "Application", nil},
		{"only if enabled", "postgresqls.acid.zalan.do", "postgresql", nil},
		{"of another project, where both may be", "objectbucketclaims.objectbucket.io", "ObjectBucketClaim", nil},
		{"of Kubernetes", "ingresses.networking.k8s.io", "Ingress", nil},
		{"unknown", "things.example.com", "Thing", nil},
	} {
		if got := Default().Carried(tc.resource, tc.kind, func(s Set) bool { return s.By("quay.io/operator-framework/olm:v0.27.0", nil) }); !slices.Equal(got, tc.want) {
			t.Errorf("%s: %s carries %v, want %v", tc.reason, tc.resource, got, tc.want)
		}
	}
}
