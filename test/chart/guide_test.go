package chart

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/termguard/termguard/test/lab"
)

func TestGuide(t *testing.T) {
	lab.Long(t)
	t.Parallel()
	ctx := t.Context()
	text, err := os.ReadFile(filepath.Join(lab.Root(), "docs", "install.md"))
	if err != nil {
		t.Fatal(err)
	}
	blocks := commandBlock.FindAllSubmatch(text, -1)
	if len(blocks) < 10 {
		t.Fatalf("docs/install.md has %d blocks of commands: are they written in another way now?", len(blocks))
	}
	path, err := program()
	if err != nil {
		t.Fatal(err)
	}
	l, err := lab.Start(ctx, lab.Options{Progress: t.Output()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(l.Stop)
	// cert-manager's definitions are enough, because no certificate is needed here.
	crds := exec.Command("go", "list", "-m", "-f", "{{.Dir}}/deploy/crds", "github.com/cert-manager/cert-manager")
	crds.Dir = lab.Root()
	folder, err := crds.Output()
	if err != nil {
		t.Fatal(err)
	}
	if r, err := l.Kubectl(ctx, "create", "-f", strings.TrimSpace(string(folder))); err != nil || r.Code != 0 {
		t.Fatalf("create cert-manager's definitions: %v %s", err, r.Stderr)
	}
	clone := t.TempDir()
	if err := os.CopyFS(filepath.Join(clone, "deploy"), os.DirFS(deploy)); err != nil {
		t.Fatal(err)
	}
	for _, block := range blocks {
		r, err := l.Shell(ctx, "set -e; cd "+clone+"; PATH="+filepath.Dir(path)+":$PATH\n"+string(block[1]))
		if err != nil || r.Code != 0 {
			t.Fatalf("docs/install.md:\n%s\nexits with %d: %v\n%s%s", block[1], r.Code, err, r.Stdout, r.Stderr)
		}
	}
	newSite(t, l).nothingLeft()
}
