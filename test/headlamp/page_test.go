// Package headlamp tests the plugin of deploy/headlamp in Headlamp itself, in a browser with a lab behind it.
package headlamp

import (
	"context"
	_ "embed"
	"fmt"
	"html"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"k8s.io/client-go/rest"

	"github.com/termguard/termguard/test/lab"
	"github.com/termguard/termguard/test/scenario"
)

//go:embed world.yaml
var world string

// headlamp returns a built checkout of Headlamp, which is not available as a Go module or npm package, and the
// path of chromium.
func headlamp(t *testing.T) (folder, chromium string) {
	t.Helper()
	folder = os.Getenv("HEADLAMP")
	if folder == "" {
		t.Skip("HEADLAMP names no built checkout of Headlamp: make headlamp HEADLAMP=folder")
	}
	chromium, err := exec.LookPath("chromium")
	if err != nil {
		t.Skip("no chromium on this machine: apt-get install chromium")
	}
	return folder, chromium
}

func plugin(t *testing.T) string {
	t.Helper()
	all := t.TempDir()
	from, to := filepath.Join(lab.Root(), "deploy", "headlamp"), filepath.Join(all, "termguard")
	if err := os.Mkdir(to, 0o755); err != nil {
		t.Fatal(err)
	}
	for _, file := range []string{"dist/main.js", "package.json"} {
		text, err := os.ReadFile(filepath.Join(from, file))
		if err != nil {
			t.Fatalf("the plugin is not built, run make headlamp: %v", err)
		}
		if err := os.WriteFile(filepath.Join(to, filepath.Base(file)), text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return all
}

func serve(t *testing.T, l *lab.Lab, folder, plugins, who string, config *rest.Config) string {
	t.Helper()
	kubeconfig, err := l.WriteKubeconfig(who, config)
	if err != nil {
		t.Fatal(err)
	}
	listener, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	port := listener.Addr().(*net.TCPAddr).Port
	if err := listener.Close(); err != nil {
		t.Fatal(err)
	}
	home := t.TempDir()
	program := filepath.Join(folder, "backend", "headlamp-server")
	cmd := exec.Command(program, "--kubeconfig", kubeconfig, "--html-static-dir", filepath.Join(folder, "frontend", "build"),
		"--plugins-dir", plugins, "--user-plugins-dir", filepath.Join(home, "none"), "--listen-addr", "127.0.0.1", "--port", fmt.Sprint(port))
	cmd.Env = []string{"HOME=" + home, "PATH=" + os.Getenv("PATH")}
	log, err := os.Create(filepath.Join(home, "log"))
	if err != nil {
		t.Fatal(err)
	}
	cmd.Stdout, cmd.Stderr = log, log
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		_ = log.Close()
		if t.Failed() {
			text, _ := os.ReadFile(log.Name())
			t.Logf("Headlamp for %s:\n%.4000s", who, text)
		}
	})
	at := fmt.Sprintf("http://127.0.0.1:%d", port)
	if err := l.Await(t.Context(), time.Minute, "Headlamp", func(ctx context.Context) (bool, error) {
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, at+"/plugins", nil)
		if err != nil {
			return false, err
		}
		response, err := http.DefaultClient.Do(request)
		if err != nil {
			return false, nil
		}
		return response.StatusCode == http.StatusOK, response.Body.Close()
	}); err != nil {
		t.Fatal(err)
	}
	return at
}

// open returns the page's DOM after 30 s of the browser's virtual time, which passes only while no request is
// pending.
func open(t *testing.T, chromium, url string, args ...string) string {
	t.Helper()
	args = append([]string{"--headless", "--disable-gpu", "--hide-scrollbars", "--no-sandbox", "--no-proxy-server", "--user-data-dir=" + t.TempDir(), "--virtual-time-budget=30000"}, append(args, url)...)
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	out, err := exec.CommandContext(ctx, chromium, args...).Output()
	if err != nil {
		t.Fatalf("chromium: %v", err)
	}
	return string(out)
}

var tag = regexp.MustCompile(`<[^>]*>`)

func TestSection(t *testing.T) {
	folder, chromium := headlamp(t)
	plugins := plugin(t)
	g, err := scenario.PatientGuard(t.Context(), lab.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(g.Stop)
	if _, err := g.StartNode(t.Context(), "worker-7"); err != nil {
		t.Fatal(err)
	}
	if err := g.AwaitApplied(t.Context(), 30*time.Second, world); err != nil {
		t.Fatal(err)
	}
	if _, err := g.Kubectl(t.Context(), "delete", "namespace", "leaving", "--wait=false"); err != nil {
		t.Fatal(err)
	}
	if err := g.Await(t.Context(), time.Minute, "a condition that tells what is left", func(ctx context.Context) (bool, error) {
		r, err := g.Kubectl(ctx, "get", "namespace", "leaving", "-o", "jsonpath={.status.conditions[?(@.type=='NamespaceFinalizersRemaining')].status}")
		return r.Stdout == "True", err
	}); err != nil {
		t.Fatal(err)
	}
	const everything = "namespaces,nodes,customresourcedefinitions,kialis.kiali.io"
	state := func() string {
		r, err := g.Kubectl(t.Context(), "get", everything, "-A", "-o", `jsonpath={range .items[*]}{.kind}/{.metadata.name} {.metadata.uid} {.metadata.deletionTimestamp}{"\n"}{end}`)
		if err != nil || r.Code != 0 {
			t.Fatalf("%v %s", err, r.Stderr)
		}
		return r.Stdout
	}
	before := state()

	as := map[string]string{"admin": serve(t, g.Lab, folder, plugins, "admin", g.Config())}
	for _, who := range []string{"visitor", "cleaner"} {
		config, err := g.ConfigFor(who)
		if err != nil {
			t.Fatal(err)
		}
		as[who] = serve(t, g.Lab, folder, plugins, who, config)
	}
	held := `termguard: will hang: .*kiali.* \[orphaned-finalizer\]`
	for name, tc := range map[string]struct {
		who, page string
		want      []string
		never     string
	}{
		"Namespace":    {who: "admin", page: "namespaces/istio-system", want: []string{`It would hang\.`, held, `kubectl termguard check namespaces/istio-system`}},
		"NothingHolds": {who: "admin", page: "namespaces/plain", want: []string{`No warning\.`, `does not promise that the deletion completes`}},
		"Refused":      {who: "admin", page: "namespaces/guarded", want: []string{`The API server refuses it:`, `delete\.termguard\.dev.*denied the request`}},
		"Terminating":  {who: "admin", page: "namespaces/leaving", want: []string{`It is Terminating\.`, `Terminating since 2`, `NamespaceFinalizersRemaining: .*kiali\.io/finalizer in 1`}, never: "It would hang"},
		"Definition":   {who: "admin", page: "crds/kialis.kiali.io", want: []string{`It would hang\.`, `termguard: will hang`}},
		"Custom":       {who: "admin", page: "customresources/kialis.kiali.io/istio-system/kiali", want: []string{`If deleted now: It would hang\.`}},
		"Node":         {who: "admin", page: "nodes/worker-7", want: []string{`If deleted now`, `No warning\.|may hang|would hang`}},
		"NoRight":      {who: "visitor", page: "namespaces/istio-system", want: []string{`Not checked: you may not delete it\.`}, never: "termguard: will hang"},
		"GuardHidden":  {who: "cleaner", page: "namespaces/plain", want: []string{`You may not see whether termguard is registered in this cluster`}},
		"MayDelete":    {who: "cleaner", page: "namespaces/istio-system", want: []string{`It would hang\.`, held}},
	} {
		t.Run(name, func(t *testing.T) {
			var text string
			for range 3 { // on a busy machine Headlamp's own page may be late
				dom := open(t, chromium, as[tc.who]+"/c/lab/"+tc.page, "--dump-dom")
				if text = html.UnescapeString(tag.ReplaceAllString(dom, "\n")); strings.Contains(text, "If deleted now") {
					break
				}
			}
			for _, want := range append(tc.want, "If deleted now") {
				if !regexp.MustCompile(want).MatchString(text) {
					t.Errorf("the page does not say %q", want)
				}
			}
			if n := strings.Count(text, "If deleted now") - strings.Count(text, "If deleted now, "); n > 1 {
				t.Errorf("the page has the section %d times", n)
			}
			if tc.never != "" && strings.Contains(text, tc.never) {
				t.Errorf("the page says %q", tc.never)
			}
			if t.Failed() {
				t.Logf("%.6000s", regexp.MustCompile(`\s*\n\s*`).ReplaceAllString(text[max(0, strings.LastIndex(text, "</style>")):], "\n"))
			}
		})
	}
	if picture := os.Getenv("SCREENSHOT"); picture != "" {
		open(t, chromium, as["admin"]+"/c/lab/namespaces/istio-system", "--window-size=1300,800", "--screenshot="+picture)
	}
	if after := state(); after != before {
		t.Errorf("looking has changed the cluster: before\n%s\nafter\n%s", before, after)
	}
}
