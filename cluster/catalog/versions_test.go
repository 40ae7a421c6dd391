package catalog

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestBugs(t *testing.T) {
	collector := []string{"garbage-collector-unlistable-crd"} // every version before 1.32 has it
	daemonset := append([]string{"daemonset-node-affinity"}, collector...)
	tests := map[string]struct {
		reason, component, version string
		want                       []string
	}{
		"first affected":     {"the defect begins in 1.8.0", "kubernetes", "v1.8.0", daemonset},
		"before":             {"1.7 does not sort in place", "kubernetes", "v1.7.16", collector},
		"last of 1.8":        {"1.8 never got the fix", "kubernetes", "v1.8.15", daemonset},
		"last of 1.9":        {"1.9 never got the fix", "kubernetes", "v1.9.11", daemonset},
		"last of 1.10":       {"1.10 never got the fix", "kubernetes", "v1.10.13", daemonset},
		"last affected":      {"1.11.2 has it", "kubernetes", "v1.11.2", daemonset},
		"fixed":              {"1.11.3 has not", "kubernetes", "v1.11.3", collector},
		"vendor suffix":      {"a vendor's build of 1.11.9 is fixed", "kubernetes", "v1.11.9-gke.1", collector},
		"vendor, affected":   {"and one of 1.11.2 is not", "kubernetes", "v1.11.2-gke.18", daemonset},
		"build metadata":     {"build metadata after a plus does not count", "kubernetes", "v1.11.3+coreos.0", collector},
		"affected build":     {"nor for an affected one", "kubernetes", "v1.11.2+coreos.0", daemonset},
		"fixed minor":        {"1.12.0 never had it", "kubernetes", "v1.12.0", collector},
		"current":            {"no bug is known of a current version", "kubernetes", "v1.36.3", nil},
		"older pre-release":  {"a pre-release of the first affected comes before it", "kubernetes", "v1.8.0-beta.1", collector},
		"vendor's candidate": {"a vendor's build of a release candidate is still one", "kubernetes", "v1.11.3-rc.1-gke.3", daemonset},
		"vendor named alike": {"a vendor whose name begins with rc has a release", "kubernetes", "v1.11.3-rcloud.1", collector},
		"pre-release":        {"a release candidate comes before its release", "kubernetes", "v1.11.3-rc.1", daemonset},
		"runtime":            {"as a node reports its runtime", "docker", "docker://17.3.2", []string{"docker-device-busy"}},
		"docker's months":    {"17.03 is 17.3", "docker", "docker://17.03.2-ce", []string{"docker-device-busy"}},
		"18.09":              {"hangs for another reason", "docker", "docker://18.9.7", []string{"docker-runc-hang"}},
		"other runtime":      {"CRI-O is not containerd", "containerd", "cri-o://1.2.0", nil},
		"distribution":       {"a distribution's package of a release", "containerd", "containerd://1.2.12~ds1-0ubuntu1", []string{"containerd-container-does-not-exist", "containerd-shim-pid-race"}},
		"newer runtime":      {"a current containerd", "containerd", "containerd://1.6.8", nil},
		"not this component": {"a kubelet has no DaemonSet controller", "kubelet", "v1.11.2", nil},
		"nonsense":           {"a version that does not parse has no known bugs", "kubernetes", "banana", nil},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			var got []string
			for id := range Bugs(tc.component, tc.version) {
				got = append(got, id)
			}
			slices.Sort(got)
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("%s: -want +got\n%s", tc.reason, diff)
			}
		})
	}
}

func TestParseVersionsErrors(t *testing.T) {
	tests := map[string]struct{ reason, text, want string }{
		"range":     {"not a range of versions", `- {id: a, component: kubelet, affected: "1.8 or so", fixedIn: x, symptom: x, source: x}`, `entry 1 (a): affected "1.8 or so"`},
		"component": {"no range has it", `- {id: a, component: etcd, affected: "<1.0.0", fixedIn: x, symptom: x, source: x}`, `unknown component "etcd"`},
		"no source": {"it cannot be verified", `- {id: a, component: kubelet, affected: "<1.0.0", fixedIn: x, symptom: x}`, "source"},
		"field":     {"a typo", `- {id: a, effected: "<1.0.0"}`, "effected"},
		"twice":     {"one would hide the other", "- &b {id: a, component: kubelet, affected: \"<1.0.0\", fixedIn: x, symptom: x, source: x}\n- *b", "the id is taken"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			if _, err := parseVersions([]byte(tc.text)); err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("%s: got %v, want an error with %q", tc.reason, err, tc.want)
			}
		})
	}
}

func FuzzBugs(f *testing.F) {
	f.Add("v1.11.9-gke.1")
	f.Fuzz(func(t *testing.T, version string) { Bugs("kubernetes", version) })
}
