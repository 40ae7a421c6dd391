package answer

import (
	"cmp"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/termguard/termguard/internal/printable"
	"github.com/termguard/termguard/internal/shell"
	"github.com/termguard/termguard/page"
	"github.com/termguard/termguard/policies"
	"github.com/termguard/termguard/question"
)

type limits struct {
	names   int // objects per finding
	causes  int // causes per object, and objects with their own causes
	steps   int // of a plan; the last is always shown
	command int // bytes of a command beside its step; longer ones are at the end
}

// folded shows 300 objects on 24 lines of 80 columns.
var (
	folded     = limits{names: 3, causes: 3, steps: 10, command: 400}
	inDrawings = limits{names: 10, causes: math.MaxInt}
	whole      = limits{math.MaxInt, math.MaxInt, math.MaxInt, math.MaxInt}
)

const eachHint = "-o full has each"

var tones = map[policies.Verdict]page.Tone{
	policies.Refused: page.Bad, policies.Hangs: page.Bad, policies.AtRisk: page.Doubtful, policies.Unknown: page.Doubtful, policies.Completes: page.Good,
}

func ToneOf(v policies.Verdict) page.Tone { return tones[v] }

// Page is the answer for people, without limits if full is set.
func (a Answer) Page(full bool) *page.Page {
	l := folded
	if full {
		l = whole
	}
	switch a.form {
	case asOne:
		return a.single(l)
	case asList:
		return a.list(l)
	}
	return a.together(l)
}

func (a Answer) single(l limits) *page.Page {
	var p page.Page
	r := a.Items[0]
	target := r.Target.Ref()
	p.Verdict(target+": ", string(a.Verdict), ToneOf(a.Verdict), a.Because()+a.next())
	r.addGuard(&p)
	if len(r.Findings)+len(r.WaitsFor) > 0 {
		p.Blank()
		p.Line("%s", target)
	}
	r.addTree(&p, l)
	for _, note := range a.Notes {
		p.Line("%s", note)
	}
	long := addPlan(&p, a.Plan, l)
	addUnseen(&p, r.Unseen, r.asker.Username, l)
	p.Add(long)
	return &p
}

func (r Item) addTree(p *page.Page, l limits) {
	p.Tree(r.tree(l))
	if r.Omitted > 0 {
		p.Line("%s", page.More(r.Omitted, "finding"))
	}
}

func (r Item) addGuard(p *page.Page) {
	if line := r.Guard.line(); line != "" && (r.Verdict != policies.Completes || r.Guard.Answer != Unknown) {
		p.Line("%s", line)
	}
}

// block is one of several reports, whose cause is in the tree.
func (r Item) block(target string, l limits) *page.Page {
	var p page.Page
	why := r.because()
	why.message = ""
	p.Verdict(target+": ", string(r.Verdict), ToneOf(r.Verdict), why.String())
	r.addGuard(&p)
	r.addTree(&p, l)
	return &p
}

// addPlan returns the commands that are too long to be among the steps.
func addPlan(p *page.Page, plan []Step, l limits) *page.Page {
	var long page.Page
	if len(plan) == 0 {
		return &long
	}
	p.Blank()
	p.Line("what to do:")
	plan = byCause(plan)
	reasons := map[string]bool{"": true}
	for _, step := range plan {
		reasons[step.Why] = true
	}
	because := len(reasons) > 2 // otherwise the first line says it
	clear(reasons)
	groups := Groups(plan)
	for i, group := range groups {
		if beyond := len(groups) - l.steps; beyond > 1 && i >= l.steps-1 && i < len(groups)-1 {
			if i == l.steps-1 {
				p.Item("     ", "%s (%s)", page.More(beyond, "step"), eachHint)
			}
			continue
		}
		p.Item(fmt.Sprintf("%3d. ", i+1), "%s", group[0].Do)
		why := group[0].Why
		if more := len(group[0].Mends) - 1; more > 0 {
			why += fmt.Sprintf(" (and of %d others)", more)
		}
		if because && why != "" && !reasons[why] {
			p.Item("     because: ", "%s", why)
			reasons[why] = true
		}
		headed := false
		for _, command := range Commands(group) {
			if len(command) <= l.command {
				p.Command(5, command)
				continue
			}
			if !headed {
				p.Item("     ", "(its command is long, and stands last)")
				long.Blank()
				long.Line("the command of step %d:", i+1)
				headed = true
			}
			long.Command(5, command)
		}
	}
	return &long
}

// maxRun bounds a command in the first line, in bytes.
const maxRun = 120

func lowered(sentence string) string {
	first, size := utf8.DecodeRuneInString(sentence)
	return string(unicode.ToLower(first)) + sentence[size:]
}

func next(plan []Step) string {
	if len(plan) == 0 {
		return ""
	}
	do := lowered(plan[0].Do)
	switch certain, all := causesOf(plan); {
	case certain > 1:
		return fmt.Sprintf("; %d blockers; first: %s", certain, do)
	case certain == 1 && all > 1:
		return fmt.Sprintf("; 1 blocker, %d possible; first: %s", all-1, do)
	case all > 1:
		return fmt.Sprintf("; %d possible blockers; first: %s", all, do)
	case plan[0].Command != "" && len(plan[0].Command) <= maxRun && (len(plan) < 2 || plan[1].Do != plan[0].Do):
		return "; run: " + plan[0].Command
	}
	return "; next: " + do
}

func addUnseen(p *page.Page, unseen []policies.Unseen, user string, l limits) {
	if len(unseen) == 0 {
		return
	}
	p.Blank()
	p.Line("unseen:")
	byReason := map[string][]string{}
	for _, u := range unseen {
		if u.Resource != "" {
			byReason[u.Reason] = append(byReason[u.Reason], u.Resource)
		}
	}
	for _, u := range unseen {
		all := byReason[u.Reason]
		switch {
		case u.Resource == "":
			p.Item("  ", "%s", u)
			continue
		case len(all) == 0: // among those of the first
			continue
		case len(all)-l.names > 2:
			p.Item("  "+u.Reason+": ", "%s (%s)", page.List(all, l.names), eachHint)
		default:
			p.Item("  "+u.Reason+": ", "%s", strings.Join(all, ", "))
		}
		delete(byReason, u.Reason)
	}
	if forbidden(unseen) {
		p.Item("  ", "to see it, ask an administrator for the verbs get and list of these for %s", cmp.Or(user, "your user"))
	}
}

func forbidden(unseen []policies.Unseen) bool {
	return slices.ContainsFunc(unseen, func(u policies.Unseen) bool {
		return (u.Reason == "forbidden" || u.Reason == "elsewhere") && u.Resource != "" && !strings.HasPrefix(u.Resource, "*") // otherwise a group
	})
}

func (a Answer) together(l limits) *page.Page {
	var p page.Page
	together := page.Count(len(a.Items), "object") + " together"
	if a.By != "" {
		together = a.By + " deletes " + page.Count(len(a.Items), "object")
	}
	if a.Of != "" {
		together += " (" + a.Of + ")"
	}
	p.Verdict(together+": ", string(a.Verdict), ToneOf(a.Verdict), a.Because()+a.next())
	for _, note := range a.Notes {
		p.Item("  ", "%s", note)
	}
	unseen := slices.Clone(a.Unseen)
	var free []policies.Object
	user := ""
	var blocks []*alike
	groups := map[string]*alike{}
	for _, r := range a.Items {
		user = cmp.Or(user, r.asker.Username)
		if !r.drained && r.Verdict == policies.Completes && len(r.Findings)+len(r.WaitsFor) == 0 {
			free = append(free, r.Target)
			continue
		}
		unseen = append(unseen, r.Unseen...)
		block := &alike{page: r.block(r.Target.Ref(), l)}
		key := strings.ReplaceAll(block.page.String(), r.Target.Ref(), "")
		if len(blocks) >= l.causes && groups[key] == nil {
			key = string(r.Verdict)
			if of := r.policies(); len(of) > 0 {
				key += fmt.Sprintf(" [%s]", strings.Join(of, ", "))
			}
			block = &alike{apart: key, more: []policies.Object{r.Target}}
		}
		if first := groups[key]; first != nil && l != whole {
			first.more = append(first.more, r.Target)
			continue
		}
		groups[key] = block
		blocks = append(blocks, block)
	}
	for _, block := range blocks {
		p.Blank()
		switch n := len(block.more); {
		case block.apart != "":
			p.Line("%s more, each for a cause of its own (%s): %s: %s", page.Count(n, "object"), eachHint, block.apart, names(block.more, "", l))
		case n > 0:
			p.Add(block.page)
			p.Line("%d more like it (%s): %s", n, eachHint, names(block.more, "", l))
		default:
			p.Add(block.page)
		}
	}
	if len(free) > 0 {
		p.Blank()
		p.Line("nothing blocks %s", names(free, "", l))
	}
	if len(a.Missing) > 0 {
		p.Blank()
	}
	for _, missing := range a.Missing {
		p.Line("%s", missing)
	}
	a.addOrder(&p, l, len(unseen) > 0)
	long := addPlan(&p, a.Plan, l)
	addUnseen(&p, unique(unseen), user, l)
	p.Add(long)
	return &p
}

func (a Answer) addOrder(p *page.Page, l limits, unseen bool) {
	if len(a.Order) == 0 {
		return
	}
	if len(a.Order) == 1 && len(a.Circle) == 0 {
		if !unseen { // hidden objects may need an order
			p.Blank()
			p.Line("they may be deleted in parallel")
		}
		return
	}
	p.Blank()
	p.Line("delete in this order, each line after the previous one is deleted:")
	for i, wave := range a.Order {
		p.Item(fmt.Sprintf("%3d. ", i+1), "%s", names(wave.Objects, "", l))
		for n, why := range wave.Why {
			if n == l.causes && len(wave.Why)-n > 1 {
				p.Item("     ", "%s (%s)", page.More(len(wave.Why)-n, "reason"), eachHint)
				break
			}
			p.Item("     ", "%s", why)
		}
	}
	for _, why := range a.Circle {
		p.Item("  ", "in no order: %s", why)
	}
}

// alike are objects with the same text except their names.
type alike struct {
	page  *page.Page // of the first
	more  []policies.Object
	apart string // their common part, if each has its own cause
}

func unique[T comparable](list []T) []T {
	seen := make(map[T]bool, len(list))
	return slices.DeleteFunc(list, func(item T) bool {
		again := seen[item]
		seen[item] = true
		return again
	})
}

// Because returns the reason for the verdict.
func (r Item) Because() string { return r.because().String() }

// Reason is Because in words that stand alone.
func (r Item) Reason() string { return r.because().text() }

// because is the reason in parts: elapsed is how long the target has been Terminating, unless the message says
// it, and start separates the rest from the verdict.
type because struct{ elapsed, start, lead, message, tail string }

func (b because) text() string {
	if b.lead != "" && b.message != "" {
		return b.lead + ": " + b.message + b.tail
	}
	return b.lead + b.message + b.tail
}

func (b because) String() string {
	if b.lead+b.message == "" {
		return b.elapsed + b.tail
	}
	return b.elapsed + b.start + b.text()
}

func (a Answer) next() string {
	switch {
	case a.Verdict == policies.Completes:
		return ""
	case a.form == asOne && len(a.Plan) == 0 && forbidden(a.Items[0].Unseen):
		return "; next: ask for the right to see it, as below"
	}
	return next(a.Plan)
}

// Why returns the worst verdict, its reason, and its object if there are several.
func (a Answer) Why() string {
	return string(a.Verdict) + a.Because()
}

// Because is Why without the verdict.
func (a Answer) Because() string {
	if a.form == asOne {
		return a.Items[0].Because()
	}
	for _, r := range a.Items {
		if r.Verdict == a.Verdict && (r.Verdict != policies.Completes || slices.Contains(r.policies(), staying)) {
			return ": " + r.Target.Ref() + ": " + r.Reason()
		}
	}
	return ""
}

func (r Item) because() (why because) {
	why.start = ": "
	if r.terminating != "" {
		why.elapsed = " (" + r.terminating + ")"
	}
	of := func(f policies.Finding, otherwise string) {
		why.message = f.Message
		if f.Message == "" {
			why.lead = otherwise
		} else if f.Cause.Elapsed {
			why.elapsed = ""
		}
	}
	within := ""
	switch {
	case r.EstimateSeconds != nil && r.UsualSeconds != nil && *r.UsualSeconds < *r.EstimateSeconds:
		within = fmt.Sprintf(", usually within %d s, within %d s at most", *r.UsualSeconds, *r.EstimateSeconds)
	case r.EstimateSeconds != nil:
		within = fmt.Sprintf(", within %d s", *r.EstimateSeconds)
	}
	what := "deletion"
	if r.drained {
		what = "drain"
	}
	switch r.Verdict {
	case policies.Refused:
		f := r.cause(policies.Will, true)
		if of(f, ""); f.Kind == policies.KindForbidden {
			why.lead = "denied by policy " + f.Policy
		}
	case policies.Hangs:
		of(r.holds(), "its "+what+" will not finish by itself")
	case policies.AtRisk:
		f := r.cause(policies.May, false)
		of(f, "its "+what+" may not finish, or may take long")
		if f.EstimateSeconds != nil { // otherwise it may never end
			why.tail = within
		}
	case policies.Completes:
		first := func(policy string) int {
			return slices.IndexFunc(r.Findings, func(f policies.Finding) bool { return f.Policy == policy })
		}
		why.tail = within
		if at := first(staying); at >= 0 {
			what, why.tail = what+" itself", within+"; "+r.Findings[at].Message
		}
		var conditions []string
		if at := first(dryRuns); at >= 0 {
			conditions = append(conditions, "webhook configuration "+r.Findings[at].Objects[0].Name+", which was not tried, allows it")
		}
		if len(r.WaitsFor) > 0 {
			conditions = append(conditions, condition(r.WaitsFor))
		}
		if why.lead = "nothing blocks its " + what; len(conditions) > 0 {
			why.start, why.lead = " ", "if "+strings.Join(conditions, ", and ")
		}
	default:
		why.lead = "no blocker found, but relevant facts are unseen"
	}
	return why
}

const staying = "dependents-stay"

// cause returns the first finding of a certainty, of a refusal if refused is set.
func (r Item) cause(certainty policies.Certainty, refused bool) (cause policies.Finding) {
	for _, f := range r.Findings {
		switch {
		case f.Certainty != certainty, f.Severity == policies.Info, refused && f.Kind == policies.KindHang:
		case !f.Symptom:
			return f
		case cause.Message == "":
			cause = f
		}
	}
	return cause
}

// holds explains a hang. Content left in a namespace is certain, but no cause: its possible blockers are.
func (r Item) holds() policies.Finding {
	lead := r.cause(policies.Will, false)
	if !lead.Cause.Consequence {
		return lead
	}
	for _, f := range r.Findings {
		switch {
		case f.Symptom && f.Certainty == policies.Will && !f.Cause.Consequence:
			return f // such as an API that does not answer
		case lead.Cause.Consequence && !f.Symptom && f.Certainty == policies.May && f.Kind == policies.KindHang && blocks(f):
			lead = f
		}
	}
	return lead
}

// tree has findings below objects, evidence below findings, and finalizers below their owners.
func (r Item) tree(l limits) *page.Node {
	root := &page.Node{}
	for _, f := range causes(r.Findings) {
		at := root
		if blockers := r.blockers(f.Objects, l); blockers != "" {
			at = root.Child(blockers)
		}
		says := fmt.Sprintf("%s [%s]", f.Message, f.Policy)
		switch {
		case f.Severity == policies.Info:
			at = at.Child(says)
		case f.Certainty == policies.Will:
			at = at.Verdict(f.Says(), page.Bad, ": "+says)
		default:
			at = at.Verdict(f.Says(), page.Doubtful, ": "+says)
		}
		for _, evidence := range f.Evidence {
			at.Child(evidence)
		}
	}
	for _, wait := range r.WaitsFor {
		at := root.Child("waits for " + wait.owner())
		line := wait.String()
		if wait.Namespace != "" && wait.Namespace != home(r.Target) {
			line += " -n " + wait.Namespace
		}
		at = at.Child(line)
		for _, evidence := range wait.Evidence {
			at.Child(evidence)
		}
		if wait.Took != nil {
			at.Child(wait.Took.String())
		}
		for _, reason := range wait.Unproven {
			at.Child("unproven: " + reason)
		}
	}
	if beyond := len(root.Below) - l.causes; beyond > 1 {
		root.Below = append(root.Below[:l.causes], &page.Node{Text: page.More(beyond, "") + " (" + eachHint + ")"})
	}
	return root
}

func (r Item) blockers(objects []policies.Object, l limits) string {
	return names(slices.DeleteFunc(slices.Clone(objects), func(o policies.Object) bool { return o == r.Target }), home(r.Target), l)
}

func (r Item) policies() (ids []string) {
	for _, f := range r.Findings {
		ids = append(ids, f.Policy)
	}
	slices.Sort(ids)
	return slices.Compact(ids)
}

// names writes a common resource and namespace once.
func names(objects []policies.Object, within string, l limits) string {
	var all []string
	most := l.names
	if most < math.MaxInt-2 && len(objects) <= most+2 { // a few more are named, too
		most = len(objects)
	}
	for _, o := range objects[:min(len(objects), most)] {
		all = append(all, o.In(within))
	}
	beyond := len(objects) - len(all)
	if beyond == 0 {
		return strings.Join(all, ", ")
	}
	common := ""
	if !slices.ContainsFunc(objects, func(o policies.Object) bool {
		return o.Resource != objects[0].Resource || o.Namespace != objects[0].Namespace
	}) {
		all[0], common, _ = strings.Cut(all[0], " ")
		for i := range all[1:] {
			all[i+1] = objects[i+1].Name
		}
	}
	return strings.TrimSuffix(strings.Join(all, ", ")+" "+page.More(beyond, "")+" "+common, " ")
}

func home(o policies.Object) string {
	if o.Resource == question.Namespaces.Resource {
		return o.Name
	}
	return o.Namespace
}

func typed(o policies.Object) string {
	words := []string{o.Resource + "/" + o.Name}
	if o.Namespace != "" {
		words = append(words, "-n", o.Namespace)
	}
	return printable.Line(shell.Join(words))
}

// Wide has a line per object.
func (a Answer) Wide() *page.Page {
	if a.form == asList {
		return a.list(whole)
	}
	var rows [][]page.Cell
	for _, r := range a.Items {
		most := "-"
		if r.EstimateSeconds != nil {
			most = seconds(*r.EstimateSeconds)
		}
		because := r.because()
		why := because.text()
		if because.elapsed != "" {
			why = strings.TrimSpace(because.String())
		}
		rows = append(rows, []page.Cell{{Text: r.Target.Ref()}, {Text: string(r.Verdict)}, {Text: most}, {Text: why}})
	}
	var p page.Page
	p.Table([]string{"OBJECT", "VERDICT", "AT MOST", "WHY"}, rows)
	for _, missing := range a.Missing {
		p.Line("%s", missing)
	}
	return &p
}

// Blocked writes the objects whose deletion does not complete.
func (a Answer) Blocked(w io.Writer) error {
	for _, r := range a.Items {
		if r.Verdict == policies.Completes {
			continue
		}
		if _, err := fmt.Fprintln(w, printable.Line(r.Target.In(r.Target.Namespace))); err != nil {
			return err
		}
	}
	return nil
}
