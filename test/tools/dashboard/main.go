// Command dashboard renders docs/dashboard.png: it plays deletions in a lab, has Prometheus scrape two
// replicas of termguard and the API server, and photographs the dashboard with headless Chromium and
// Grafana's libraries (page.jsx).
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/termguard/termguard/test/lab"
)

const (
	width  = 1600
	scrape = "5s" // the chart's ServiceMonitor has 30 s: this shows more in less time
	home   = "termguard-system"
)

func main() {
	prometheus := flag.String("prometheus", "", "program of Prometheus")
	out := flag.String("out", "", "PNG to write")
	data := flag.String("data", "", "folder to keep what is scraped in; if it holds some already, that is shown and nothing is played")
	length := flag.Duration("for", 15*time.Minute, "how long to play: more than ten minutes, after which a deletion counts as hung")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, *prometheus, *out, *data, *length)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "dashboard:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, prometheus, out, data string, length time.Duration) error {
	if data == "" {
		var err error
		if data, err = os.MkdirTemp("", "dashboard"); err != nil {
			return err
		}
		defer os.RemoveAll(data)
	}
	if err := os.MkdirAll(data, 0o755); err != nil {
		return err
	}
	db := &store{program: prometheus, dir: data}
	var period window
	switch text, err := os.ReadFile(filepath.Join(data, "played.json")); {
	case err == nil:
		if err := json.Unmarshal(text, &period); err != nil {
			return fmt.Errorf("read what was played: %w", err)
		}
		if err := db.start(ctx, nil, 0); err != nil {
			return err
		}
		defer db.stop()
	case errors.Is(err, os.ErrNotExist):
		stage, err := open(ctx)
		if err != nil {
			return err
		}
		defer stage.Stop()
		if err := db.start(ctx, stage.targets(), 3); err != nil {
			return err
		}
		defer db.stop()
		period.From = time.Now()
		if err := stage.play(ctx, length); err != nil {
			return err
		}
		period.To = time.Now()
		text, err := json.Marshal(period)
		if err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(data, "played.json"), text, 0o644); err != nil {
			return err
		}
	default:
		return err
	}
	return photograph(ctx, db.address, period, out)
}

type window struct{ From, To time.Time }

type store struct {
	program, dir, address string
	stop                  func()
}

func (s *store) start(ctx context.Context, scraped []any, targets int) error {
	config, err := json.Marshal(map[string]any{ // JSON is YAML
		"global":         map[string]any{"scrape_interval": scrape, "scrape_timeout": scrape},
		"scrape_configs": scraped,
	})
	if err != nil {
		return err
	}
	file := filepath.Join(s.dir, "prometheus.json")
	if err := os.WriteFile(file, config, 0o600); err != nil {
		return err
	}
	if s.address, err = free(ctx); err != nil {
		return err
	}
	log, err := os.Create(filepath.Join(s.dir, "prometheus.log"))
	if err != nil {
		return err
	}
	defer log.Close()
	cmd := exec.Command(s.program, "--config.file", file, "--storage.tsdb.path", filepath.Join(s.dir, "tsdb"), "--web.listen-address", s.address)
	cmd.Stdout, cmd.Stderr = log, log
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // our interrupt must not reach it: stop ends it, so that it writes its blocks
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("start Prometheus: %w", err)
	}
	s.stop = func() {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		_ = cmd.Wait()
	}
	query := "http://" + s.address + "/api/v1/query?" + url.Values{"query": {fmt.Sprintf("count(up == 1) == %d", targets)}}.Encode()
	if targets == 0 {
		query = "http://" + s.address + "/-/ready"
	}
	err = wait.PollUntilContextTimeout(ctx, 200*time.Millisecond, time.Minute, true, func(ctx context.Context) (bool, error) {
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, query, nil)
		if err != nil {
			return false, err
		}
		response, err := http.DefaultClient.Do(request)
		if err != nil {
			return false, nil
		}
		defer response.Body.Close()
		body, err := io.ReadAll(response.Body)
		return err == nil && response.StatusCode == http.StatusOK && (targets == 0 || strings.Contains(string(body), `"value"`)), nil
	})
	if err != nil {
		s.stop()
		return fmt.Errorf("wait for Prometheus, whose log is %s: %w", log.Name(), err)
	}
	return nil
}

func free(ctx context.Context) (string, error) {
	l, err := new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	return l.Addr().String(), l.Close()
}

func photograph(ctx context.Context, prometheus string, period window, out string) error {
	rows, err := rows()
	if err != nil {
		return err
	}
	l, err := new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	mux := http.NewServeMux()
	here := filepath.Join(lab.Root(), "test", "tools", "dashboard")
	mux.Handle("/", http.FileServer(http.Dir(filepath.Join(here, "dist"))))
	mux.Handle("/public/build/", http.StripPrefix("/public/build/", http.FileServer(http.Dir(filepath.Join(here, "node_modules", "@grafana", "ui", "dist", "public"))))) // icons
	mux.Handle("/api/", httputil.NewSingleHostReverseProxy(&url.URL{Scheme: "http", Host: prometheus}))
	server := &http.Server{Handler: mux, ReadHeaderTimeout: time.Minute}
	go func() { _ = server.Serve(l) }()
	defer server.Close()
	profile, err := os.MkdirTemp("", "chromium")
	if err != nil {
		return err
	}
	defer os.RemoveAll(profile)
	if out, err = filepath.Abs(out); err != nil {
		return err
	}
	query := url.Values{"from": {period.From.UTC().Format(time.RFC3339)}, "to": {period.To.UTC().Format(time.RFC3339)}}
	args := []string{
		"--headless", "--disable-gpu", "--hide-scrollbars", "--user-data-dir=" + profile, "--enable-logging=stderr",
		fmt.Sprintf("--window-size=%d,%d", width, 64+rows*38), // of the grid: a row has 30 pixels and a gap of 8
		"--virtual-time-budget=20000", "--run-all-compositor-stages-before-draw", "--screenshot=" + out, "http://" + l.Addr().String() + "/?" + query.Encode(),
	}
	if os.Geteuid() == 0 {
		args = append(args, "--no-sandbox") // required for root
	}
	ctx, cancel := context.WithTimeout(ctx, 2*time.Minute)
	defer cancel()
	output, err := exec.CommandContext(ctx, "chromium", args...).CombinedOutput()
	if err != nil {
		return fmt.Errorf("chromium: %w\n%s", err, output)
	}
	for line := range strings.Lines(string(output)) {
		if strings.Contains(line, "CONSOLE") && strings.Contains(line, "Uncaught") {
			return fmt.Errorf("the page failed: %s", line)
		}
	}
	info, err := os.Stat(out)
	if err != nil {
		return fmt.Errorf("chromium took no picture: %w\n%s", err, output)
	}
	fmt.Println("wrote", out, strconv.FormatInt(info.Size()/1000, 10), "kB")
	return nil
}

func rows() (n int, err error) {
	text, err := os.ReadFile(filepath.Join(lab.Root(), "deploy", "chart", "dashboard.json"))
	if err != nil {
		return 0, err
	}
	var dashboard struct {
		Panels []struct{ GridPos struct{ Y, H int } }
	}
	if err := json.Unmarshal(text, &dashboard); err != nil {
		return 0, err
	}
	for _, p := range dashboard.Panels {
		n = max(n, p.GridPos.Y+p.GridPos.H)
	}
	return n, nil
}
