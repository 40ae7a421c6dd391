package answer

import (
	"fmt"
	"io"
	"strings"

	"github.com/termguard/termguard/internal/printable"
	"github.com/termguard/termguard/page"
	"github.com/termguard/termguard/policies"
)

var colors = map[policies.Verdict]string{
	policies.Refused: "red", policies.Hangs: "red", policies.AtRisk: "orange", policies.Unknown: "gray", policies.Completes: "green",
}

// DOT writes the trees of blockers for Graphviz.
func (a Answer) DOT(w io.Writer) error {
	var out strings.Builder
	out.WriteString("digraph termguard {\n\trankdir=LR;\n\tnode [shape=box];\n")
	nodes := 0
	add := func(label, attributes string) int {
		nodes++
		fmt.Fprintf(&out, "\tn%d [label=%s%s];\n", nodes, quoted(label), attributes)
		return nodes
	}
	var below func(parent int, n *page.Node)
	below = func(parent int, n *page.Node) {
		for _, child := range n.Below {
			id := add(child.Word+child.Text, "")
			fmt.Fprintf(&out, "\tn%d -> n%d;\n", parent, id)
			below(id, child)
		}
	}
	for _, r := range a.Items {
		below(add(r.Target.Ref()+"\n"+string(r.Verdict), ", color="+colors[r.Verdict]), r.tree(inDrawings))
	}
	out.WriteString("}\n")
	_, err := io.WriteString(w, out.String())
	return err
}

// quoted returns a DOT string: backslashes begin escapes of labels (graphviz.org/doc/info/lang.html).
func quoted(label string) string {
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`).Replace(printable.Lines(label)) + `"`
}
