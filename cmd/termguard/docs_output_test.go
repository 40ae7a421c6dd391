package main

import (
	"bytes"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	batchv1 "k8s.io/api/batch/v1"
	"sigs.k8s.io/yaml"

	"github.com/termguard/termguard/internal/race"
)

// A page that shows a single "termguard check …" shows its output about the cluster in
// testdata/docs.yaml. UPDATE_GOLDEN=1 writes it anew.
func TestDocsOutput(t *testing.T) {
	race.Skip(t)
	snapshot := filepath.Join("testdata", "docs.yaml")
	count := 0
	for _, page := range pages(t) {
		var before []string // the words of a block that is one command
		rewrite(t, page, func(language, text string) string {
			command, output, _ := strings.Cut(text, "\n")
			words, head := shown(command), command+"\n"
			switch {
			case language == "sh":
				before = shown("$ " + strings.TrimSuffix(text, " || true\n"))
				return text
			case language == "text":
				words, head, before = before, "", nil
			case language != "console" || output == "" || strings.Contains(text, "\n$ "):
				words = nil
			}
			if len(words) < 2 || words[0] != "check" || strings.HasPrefix(words[1], "-") {
				return text
			}
			count++
			var out, errs bytes.Buffer
			run(t.Context(), slices.Concat([]string{"termguard"}, words, []string{"--snapshot", snapshot}), nil, &out, &errs)
			if errs.Len() > 0 {
				t.Errorf("%s: %s: %s", page, words, &errs)
			}
			return head + out.String()
		})
	}
	if count < 2 {
		t.Errorf("found only %d blocks with output", count)
	}
}

// docs/scan.md shows the golden file of the scan.
func TestDocsScan(t *testing.T) {
	race.Skip(t)
	want := strings.ReplaceAll(read(t, "scan/testdata/scan.txt"), "testdata/cluster.yaml: ", "prod: ")
	if !strings.Contains(read(t, "docs/scan.md"), "$ termguard scan --context prod\n"+want+"```") {
		t.Errorf("docs/scan.md lacks this output:\n%s", want)
	}
}

// The CronJob in docs/scan.md is valid, runs the image that is installed, and its arguments are
// those of a command.
func TestDocsCronJob(t *testing.T) {
	race.Skip(t)
	_, text, _ := strings.Cut(read(t, "docs/scan.md"), "```yaml\napiVersion: batch/v1\n")
	text, _, _ = strings.Cut(text, "```")
	var job batchv1.CronJob
	if err := yaml.UnmarshalStrict([]byte(text), &job); err != nil {
		t.Fatal(err)
	}
	pod := job.Spec.JobTemplate.Spec.Template.Spec
	container := pod.Containers[0]
	if installed := read(t, "deploy/install.yaml"); !strings.Contains(installed, "image: "+container.Image+"\n") || !strings.Contains(installed, "serviceAccountName: "+pod.ServiceAccountName+"\n") {
		t.Errorf("runs %s as %s, unlike deploy/install.yaml", container.Image, pod.ServiceAccountName)
	}
	root := newRoot("termguard")
	command, rest, err := root.Find(container.Args)
	if err != nil || command == root {
		t.Fatalf("%q is not a command: %v", container.Args, err)
	}
	if err := command.ParseFlags(rest); err != nil {
		t.Error(err)
	}
}

var elsewhere = regexp.MustCompile(`\]\(([^)\s#][^)\s]*)\)`)

// The Chinese pages match the English ones: the same commands and output, except for comments,
// sections and rows in the same order, and the same links.
func TestDocsChinese(t *testing.T) {
	race.Skip(t)
	translated := 0
	for _, page := range pages(t) {
		original, ok := strings.CutSuffix(page, ".zh-CN.md")
		if !ok {
			continue
		}
		translated++
		english, chinese := read(t, original+".md"), read(t, page)
		for what, of := range map[string]func(string) []string{
			"blocks": func(text string) (all []string) {
				for _, block := range fenced.FindAllStringSubmatch(text, -1) {
					all = append(all, strings.TrimSpace(comment.ReplaceAllString(block[2], "")))
				}
				return all
			},
			"sections and rows": func(text string) []string {
				return regexp.MustCompile(`(?m)^(#+|\|)`).FindAllString(fenced.ReplaceAllString(text, ""), -1)
			},
			"links": func(text string) (all []string) {
				for _, l := range elsewhere.FindAllStringSubmatch(text, -1) {
					to := l[1]
					if file, _, ok := strings.Cut(to, ".zh-CN.md"); ok { // whose sections have other names
						to = file + ".md"
					} else if file, _, ok := strings.Cut(to, ".md#"); ok {
						to = file + ".md"
					}
					all = append(all, to)
				}
				slices.Sort(all)
				return slices.Compact(all)
			},
		} {
			if a, b := of(english), of(chinese); !slices.Equal(a, b) {
				t.Errorf("%s: the %s differ from the English page: %s", page, what, cmp.Diff(a, b))
			}
		}
		prose := inline.ReplaceAllString(fenced.ReplaceAllString(chinese, ""), "")
		for _, character := range halfWidth.FindAllString(prose, -1) {
			t.Errorf("%s: %q: Chinese text has full-width punctuation", page, character)
		}
		for wrong, term := range terms {
			if strings.Contains(prose, wrong) {
				t.Errorf("%s: %q: use the term %q", page, wrong, term)
			}
		}
	}
	if translated < 4 {
		t.Errorf("found only %d Chinese pages", translated)
	}
}

// inline matches code and targets of links, and halfWidth matches punctuation of Latin text beside
// a Chinese character.
var (
	inline    = regexp.MustCompile("`[^`\n]*`|\\]\\([^)\n]*\\)")
	halfWidth = regexp.MustCompile(`.?\p{Han} ?[,:;?!()]|[,;?!()] ?\p{Han}.?`)
)

// terms maps terms that people use to the terms of
// https://kubernetes.io/zh-cn/docs/reference/glossary/.
var terms = map[string]string{
	"命名空间": "名字空间", "终结器": "finalizer", "资源清单": "清单", "清单文件": "清单", "自定义资源": "定制资源", "所有者引用": "属主引用",
	"证据": "依据", "中断预算": "干扰预算", "优雅终止": "体面终止", "验证型": "验证性质的", "服务账户": "服务账号", "清空操作": "腾空操作", "清空节点": "腾空节点", "成为孤儿": "遗弃",
}
