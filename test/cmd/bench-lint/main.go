// Command bench-lint compares time, processor time and memory of termguard lint with peers that have similar
// rules, and with parsing alone, in turns: a busy machine affects all.
package main

import (
	"cmp"
	"context"
	_ "embed"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"text/tabwriter"
	"time"

	"go.yaml.in/yaml/v3"
)

func main() {
	var b bench
	flag.StringVar(&b.corpus, "corpus", "", "folder, or archive that tar can read, of manifests; without it, ordinary shapes are made")
	flag.StringVar(&b.termguard, "termguard", "../bin/termguard", "binary that is measured")
	flag.StringVar(&b.tools, "tools", "tools", "folder with the modules of the peers")
	flag.IntVar(&b.rounds, "rounds", 5, "rounds, in each of which everything runs once; the median counts")
	flag.StringVar(&b.kubeLinter, "kube-linter", "", "binary of kube-linter; defaults to the one in PATH, and is left out where there is none")
	floor := flag.String("floor", "", "only parse the files below this folder, as the floor is measured")
	flag.Parse()
	if *floor != "" {
		fmt.Println(parse(*floor))
		return
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := b.run(ctx)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench-lint:", err)
		os.Exit(1)
	}
}

type bench struct {
	corpus, termguard, tools string
	kubeLinter               string
	rounds                   int
	dir                      string
	table                    *tabwriter.Writer
}

func (b *bench) run(ctx context.Context) error {
	var err error
	if b.dir, err = os.MkdirTemp("", "bench-lint-"); err != nil {
		return err
	}
	defer os.RemoveAll(b.dir)
	if b.termguard, err = filepath.Abs(b.termguard); err != nil {
		return err
	}
	files := filepath.Join(b.dir, "files")
	if err := b.collect(ctx, files); err != nil {
		return err
	}
	peers, err := b.peers(ctx)
	if err != nil {
		return err
	}
	if err := b.drop(ctx, peers["kube-score"], files); err != nil {
		return err
	}
	all, size, documents := census(files)
	self, err := os.Executable()
	if err != nil {
		return err
	}
	commands := []command{
		{"termguard lint", []string{b.termguard, "lint", "--render=false", "-o", "json", files}},
		{"floor: parse with yaml/v3, one thread", []string{self, "-floor", files}},
		{"conftest", append([]string{peers["conftest"], "test", "--parser", "yaml", "-o", "json", "-p", filepath.Join(b.dir, "rego")}, files)},
		{"kube-score", append([]string{peers["kube-score"], "score", "-o", "json"}, all...)},
		{"gator", []string{peers["gator"], "test", "-o", "json", "-f", filepath.Join(b.dir, "gator"), "-f", files}},
	}
	if kubeLinter := peers["kube-linter"]; kubeLinter != "" {
		commands = append(commands, command{"kube-linter", []string{kubeLinter, "lint", "--format", "json", files}})
	}
	fmt.Printf("%d files, %d documents, %.1f MB; the median of %d runs each, and the spread of their times\n\n", len(all), documents, float64(size)/1e6, b.rounds)
	b.table = tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintln(b.table, "what\ttime\tfrom … to\tprocessor\tmemory\tdocuments/s\ttime and processor beside termguard")
	used, err := b.measure(ctx, commands)
	if err != nil {
		return err
	}
	for i, c := range commands {
		b.print(c.name, used[i], documents, fmt.Sprintf("%.1f ×, %.1f ×", used[i].wall.Seconds()/used[0].wall.Seconds(), used[i].cpu.Seconds()/used[0].cpu.Seconds()))
	}
	if err := b.growth(ctx, files); err != nil {
		return err
	}
	return b.table.Flush()
}

func (b *bench) growth(ctx context.Context, files string) error {
	fmt.Fprintln(b.table, "\t\t\t\t\t\t")
	one := filepath.Join(b.dir, "one")
	if err := write(filepath.Join(one, "a.yaml"), deployment("a")); err != nil {
		return err
	}
	four := filepath.Join(b.dir, "four")
	for i := range 4 {
		if err := os.CopyFS(filepath.Join(four, fmt.Sprint(i)), os.DirFS(files)); err != nil {
			return err
		}
	}
	crds := filepath.Join(b.dir, "crds.yaml")
	if err := repeat(crds, 100e6, func(i int) string { return definition(fmt.Sprintf("thing%d", i), 4000) }); err != nil {
		return err
	}
	maps := filepath.Join(b.dir, "maps.yaml")
	if err := repeat(maps, 20e6, func(i int) string {
		name := fmt.Sprintf("map%d", i)
		return strings.Replace(configMap(name), "namespace: "+name, "namespace: maps", 1)
	}); err != nil {
		return err
	}
	commands := []command{
		{"termguard lint, one Deployment", []string{b.termguard, "lint", "-o", "json", one}},
		{"termguard lint, the files four times", []string{b.termguard, "lint", "--render=false", "-o", "json", four}},
		{"termguard lint, 100 MB of CRDs in one file", []string{b.termguard, "lint", "-o", "json", crds}},
		{"termguard lint, 20 MB of ConfigMaps in one file", []string{b.termguard, "lint", "-o", "json", maps}},
	}
	used, err := b.measure(ctx, commands)
	if err != nil {
		return err
	}
	for i, c := range commands {
		b.print(c.name, used[i], 0, "")
	}
	return nil
}

// repeat streams documents, because this process's peak memory counts for its children (getrusage(2):
// ru_maxrss is kept across exec).
func repeat(path string, size int, document func(i int) string) error {
	out, err := os.Create(path)
	if err != nil {
		return err
	}
	defer out.Close()
	for i, written := 0, 0; written < size; i++ {
		n, err := out.WriteString("---\n" + document(i))
		if err != nil {
			return err
		}
		written += n
	}
	return out.Close()
}

// Bisection finds the files at which kube-score fails.
func (b *bench) drop(ctx context.Context, kubeScore, dir string) error {
	all, _, _ := census(dir)
	var try func(files []string) error
	try = func(files []string) error {
		out, _ := exec.CommandContext(ctx, kubeScore, append([]string{"score", "-o", "json"}, files...)...).Output()
		switch {
		case len(out) > 0 || len(files) == 0:
			return ctx.Err()
		case len(files) == 1:
			return os.Remove(files[0])
		}
		half := len(files) / 2
		return errors.Join(try(files[:half]), try(files[half:]))
	}
	return try(all)
}

type command struct {
	name string
	args []string
}

type usage struct {
	wall, cpu        time.Duration
	fastest, slowest time.Duration // of several runs
	memory           int64         // peak, in bytes
}

// measure returns the run of median time, with the peak memory of all.
func (b *bench) measure(ctx context.Context, commands []command) ([]usage, error) {
	runs := make([][]usage, len(commands))
	for range b.rounds {
		for i, c := range commands {
			used, err := run(ctx, c)
			if err != nil {
				return nil, err
			}
			runs[i] = append(runs[i], used)
		}
	}
	medians := make([]usage, len(commands))
	for i, all := range runs {
		slices.SortFunc(all, func(a, b usage) int { return cmp.Compare(a.cpu, b.cpu) })
		medians[i].cpu = all[len(all)/2].cpu
		slices.SortFunc(all, func(a, b usage) int { return cmp.Compare(a.wall, b.wall) })
		medians[i].wall, medians[i].fastest, medians[i].slowest = all[len(all)/2].wall, all[0].wall, all[len(all)-1].wall
		for _, used := range all {
			medians[i].memory = max(medians[i].memory, used.memory)
		}
	}
	return medians, nil
}

// Exit codes for findings are no error.
func run(ctx context.Context, c command) (usage, error) {
	cmd := exec.CommandContext(ctx, c.args[0], c.args[1:]...)
	var stderr strings.Builder
	var printed counter
	cmd.Stdout, cmd.Stderr = &printed, &stderr
	start := time.Now()
	err := cmd.Run()
	wall := time.Since(start)
	if code := cmd.ProcessState.ExitCode(); err != nil && code != 1 && !(code == 2 && strings.HasSuffix(c.args[0], "termguard")) {
		return usage{}, fmt.Errorf("%s: %w: %.500s", c.name, err, stderr.String())
	}
	if printed == 0 {
		return usage{}, fmt.Errorf("%s found nothing to print, so it did not do its work: %.500s", c.name, stderr.String())
	}
	rusage, ok := cmd.ProcessState.SysUsage().(*syscall.Rusage)
	if !ok {
		return usage{}, fmt.Errorf("%s: this system does not tell what a process used", c.name)
	}
	return usage{wall: wall, cpu: cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime(), memory: rusage.Maxrss * 1024}, nil
}

type counter int

func (c *counter) Write(p []byte) (int, error) {
	*c += counter(len(p))
	return len(p), nil
}

func (b *bench) print(name string, used usage, documents int, beside string) {
	rate := ""
	if documents > 0 {
		rate = fmt.Sprintf("%.0f", float64(documents)/used.wall.Seconds())
	}
	fmt.Fprintf(b.table, "%s\t%v\t%v … %v\t%v\t%d MB\t%s\t%s\n", name, used.wall.Round(time.Millisecond), used.fastest.Round(time.Millisecond), used.slowest.Round(time.Millisecond), used.cpu.Round(time.Millisecond), used.memory>>20, rate, beside)
}

var (
	//go:embed rules.rego
	conftestRules string
	//go:embed gator.yaml
	gatorRules string
)

// kube-linter must be installed: not every module proxy has it. It has its own checks for pods.
func (b *bench) peers(ctx context.Context) (map[string]string, error) {
	if err := write(filepath.Join(b.dir, "rego", "rules.rego"), conftestRules); err != nil {
		return nil, err
	}
	if err := write(filepath.Join(b.dir, "gator", "rules.yaml"), gatorRules); err != nil {
		return nil, err
	}
	built := map[string]string{}
	for name, pkg := range map[string]string{
		"conftest":   "github.com/open-policy-agent/conftest",
		"kube-score": "github.com/zegl/kube-score/cmd/kube-score",
		"gator":      "github.com/open-policy-agent/gatekeeper/v3/cmd/gator",
	} {
		built[name] = filepath.Join(b.dir, "bin", name)
		fmt.Fprintf(os.Stderr, "building %s …\n", name)
		cmd := exec.CommandContext(ctx, "go", "build", "-o", built[name], pkg)
		cmd.Dir = filepath.Join(b.tools, name)
		if out, err := cmd.CombinedOutput(); err != nil {
			return nil, fmt.Errorf("build %s: %w: %s", name, err, out)
		}
	}
	built["kube-linter"] = b.kubeLinter
	if b.kubeLinter == "" {
		installed, err := exec.LookPath("kube-linter")
		if err != nil {
			fmt.Fprintln(os.Stderr, "kube-linter is left out: it is not in PATH, and -kube-linter names none (golang.stackrox.io/kube-linter)")
		}
		built["kube-linter"] = installed
	}
	return built, nil
}

// collect copies manifests that all peers read: most stop at others.
func (b *bench) collect(ctx context.Context, into string) error {
	if b.corpus == "" {
		return generate(into)
	}
	from := b.corpus
	info, err := os.Stat(from)
	if err != nil {
		return err
	}
	if !info.IsDir() {
		from = filepath.Join(b.dir, "archive")
		if err := os.Mkdir(from, 0o755); err != nil {
			return err
		}
		if out, err := exec.CommandContext(ctx, "tar", "-xf", b.corpus, "-C", from).CombinedOutput(); err != nil {
			return fmt.Errorf("unpack %s: %w: %s", b.corpus, err, out)
		}
	}
	return filepath.WalkDir(from, func(path string, d os.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() || !slices.Contains([]string{".yaml", ".yml"}, filepath.Ext(path)) {
			return err
		}
		text, err := os.ReadFile(path)
		if err != nil || !readable(string(text)) {
			return err
		}
		relative, err := filepath.Rel(from, path)
		if err != nil {
			return err
		}
		return write(filepath.Join(into, relative), string(text))
	})
}

func readable(text string) bool {
	decoder := yaml.NewDecoder(strings.NewReader(text))
	nonEmpty := false
	for {
		var object struct {
			APIVersion, Kind string
			Metadata         struct{ Name string }
		}
		var any map[string]any
		var node yaml.Node
		if err := decoder.Decode(&node); err != nil {
			return nonEmpty && err.Error() == "EOF"
		}
		if node.Decode(&any) != nil || node.Decode(&object) != nil {
			return false
		}
		if version, _ := any["apiVersion"].(string); version == "" || object.Kind == "" || object.Metadata.Name == "" {
			return false
		}
		nonEmpty = true
	}
}

func census(dir string) (files []string, size int64, documents int) {
	_ = filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		if err == nil && d.Type().IsRegular() {
			files = append(files, path)
			if text, err := os.ReadFile(path); err == nil {
				size += int64(len(text))
				documents += strings.Count("\n"+string(text), "\napiVersion:")
			}
		}
		return nil
	})
	return files, size, documents
}

func parse(dir string) (documents int) {
	files, _, _ := census(dir)
	for _, path := range files {
		in, err := os.Open(path)
		if err != nil {
			continue
		}
		decoder := yaml.NewDecoder(in)
		for {
			var node yaml.Node
			if decoder.Decode(&node) != nil {
				break
			}
			documents++
		}
		in.Close()
	}
	return documents
}

func write(path, text string) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	return os.WriteFile(path, []byte(text), 0o600)
}
