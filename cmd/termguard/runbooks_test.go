package main

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	"github.com/termguard/termguard/policies"
)

const runbooksHead = `# You saw this warning. Now what?

<!-- Generated from the METADATA of the policies: run "make docs". -->

Reference: what do I do about a warning or a denial of termguard?

Find the policy in brackets, such as ` + "`[orphaned-finalizer]`" + `, below. First:

1. After a warning, the deletion has started and waits. After a denial, nothing has happened.
2. Run ` + "`termguard check TYPE/NAME -n NAMESPACE`" + `. It prints the evidence, and numbered steps with commands for this object. It needs
   only your kubeconfig: [how to install it](install.md#the-command-line-alone).
3. Without termguard, follow the section of the policy below.
4. Use force as a last resort, and only as described. After a finalizer is removed by hand, anything not cleaned up is leaked.

` + "`termguard delete TYPE/NAME`" + ` runs the steps, and asks before each. In a script, use ` + "`--yes`" + ` alone: steps that change other
objects, or lose something, are then not run, and the exit code is 3. ` + "`-o json`" + ` lists them for a person, with the flags that allow
them: [delete](delete.md#in-a-script). If the webhook itself seems wrong, run [termguard doctor](doctor.md).
`

const runbooksHeadChinese = `# 看到了这条警告，怎么办？

<!-- Generated from the METADATA of the policies and runbooks.zh-CN.yaml: run "make docs". -->

参考：看到 termguard 的警告，或请求被拒绝之后，现在做什么？

在下面查找方括号里的词，例如 ` + "`[orphaned-finalizer]`" + `：它是策略的名字。无论哪种情况，先做这些：

1. 警告不阻止任何事：删除已经开始，正在等待。请求被拒绝之后，什么也没有发生。
2. 运行 ` + "`termguard check TYPE/NAME -n NAMESPACE`" + `。它打印依据，以及针对这个对象、带命令的编号步骤。只需要
   kubeconfig：[如何获取](install.md#the-command-line-alone)（英文）。
3. 没有 termguard 时，按下文该策略一节的顺序操作。
4. 强制放在最后，而且只对文中写明可以强制的对象强制。手工移除 finalizer 会留下它所保护的东西。

` + "`termguard delete TYPE/NAME`" + ` 执行这些步骤，每一步之前都先询问。在脚本里只写 ` + "`--yes`" + `：凡是要改动别的对象或放弃任何东西的步骤都不会执行，命令以退出码
3 结束。` + "`-o json`" + ` 给出待回答的问题，供人阅读，并附上回答它的参数：[delete](delete.md#in-a-script)（英文）。如果觉得 Webhook 本身有问题，
[termguard doctor](doctor.md)（英文）会检查它。
`

// runbook is the text of a page about a policy. Of is the checksum of the English that was
// translated.
type runbook struct{ Of, Title, Remedy string }

// checksum identifies an English text.
func (r runbook) checksum() string {
	sum := sha256.Sum256([]byte(strings.Join([]string{r.Title, r.Remedy}, "\n")))
	return hex.EncodeToString(sum[:4])
}

const (
	runbookEnglish = "\n## %s\n\n**%s.** %s\n\n[Why, evidence and limits](../policies/%s/README.md)\n"
	runbookChinese = "\n## %s\n\n**%s。** %s\n\n[原因、依据和局限](../policies/%s/README.md)（英文）\n"
	// runbookUntranslated replaces a section whose METADATA changed since its translation.
	runbookUntranslated = "\n## %s\n\n（尚未翻译。）\n\n**%s.** %s\n\n[原因、依据和局限](../policies/%s/README.md)（英文）\n"
)

// TestRunbooks compares docs/runbooks.md with the policies: each has its section, in English, and
// in Chinese if the translation in docs/runbooks.zh-CN.yaml is current.
func TestRunbooks(t *testing.T) {
	set, err := policies.Load(policies.Embedded())
	if err != nil {
		t.Fatal(err)
	}
	translations := map[string]runbook{}
	if err := yaml.UnmarshalStrict([]byte(read(t, "docs/runbooks.zh-CN.yaml")), &translations); err != nil {
		t.Fatal(err)
	}
	page, chinese := runbooksHead, runbooksHeadChinese
	var waiting []string
	for _, p := range set.Policies() {
		r := runbook{Title: flat(p.Title), Remedy: flat(p.Remedy)}
		page += fmt.Sprintf(runbookEnglish, p.ID, r.Title, r.Remedy, p.Folder)
		form := runbookChinese
		if c, ok := translations[p.ID]; ok && c.Of == r.checksum() {
			r = c
		} else {
			form = runbookUntranslated
			waiting = append(waiting, p.ID+", of: \""+r.checksum()+"\"")
		}
		chinese += fmt.Sprintf(form, p.ID, r.Title, r.Remedy, p.Folder)
		delete(translations, p.ID)
	}
	current(t, "docs/runbooks.md", page)
	current(t, "docs/runbooks.zh-CN.md", chinese)
	if most := len(set.Policies()) / 4; len(waiting) > most { // who changes a policy need not know Chinese
		t.Errorf("docs/runbooks.zh-CN.yaml lacks %d translations, which is more than %d: %q", len(waiting), most, waiting)
	}
	if len(translations) > 0 {
		t.Errorf("docs/runbooks.zh-CN.yaml has sections that are not policies: %q", slices.Sorted(maps.Keys(translations)))
	}
}
