package report

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/url"
	"path/filepath"
	"strings"

	"github.com/owenrumney/go-sarif/v3/pkg/report/v210/sarif"

	"github.com/termguard/termguard/lint"
	"github.com/termguard/termguard/policies"
)

const home = "https://github.com/termguard/termguard"

// fingerprint names ours among the partial fingerprints of a result. GitHub
// goes by its own, primaryLocationLineHash, which its upload action adds.
const fingerprint = "termguardFinding/v1"

// writeSARIF writes SARIF 2.1.0, with what GitHub code scanning reads of it:
// https://docs.github.com/en/code-security/code-scanning/integrating-with-code-scanning/sarif-support-for-code-scanning
func writeSARIF(r Report, out io.Writer) error {
	run := sarif.NewRunWithInformationURI("termguard", home)
	run.Tool.Driver.WithVersion(r.Version)
	run.WithColumnKind("unicodeCodePoints")
	index := map[string]int{}
	for i, p := range r.Policies {
		index[p.ID] = i
		run.Tool.Driver.AddRule(rule(p))
	}
	for i, f := range r.Findings {
		result := sarif.NewRuleResult(f.Policy).
			WithLevel(level(f)).
			WithMessage(sarif.NewTextMessage(sarifMessage(f))).
			AddLocation(r.location(f.Place, f.Object)).
			WithPartialFingerprints(map[string]string{fingerprint: r.Fingerprints[i]}).
			WithProperties(sarif.NewPropertyBag().Add("severity", f.Severity).Add("certainty", f.Certainty).Add("question", f.Question))
		if at, known := index[f.Policy]; known {
			result.WithRuleIndex(at)
		}
		run.AddResult(result)
	}
	invocation := sarif.NewInvocation().WithExecutionSuccessful(len(r.Problems) == 0).WithExitCode(r.ExitCode)
	for _, p := range r.Problems {
		notification := sarif.NewNotification().WithLevel("error").WithMessage(sarif.NewTextMessage(p.Message))
		invocation.AddToolExecutionNotification(notification.AddLocation(r.location(p.Place, policies.Object{})))
	}
	for _, note := range r.Notes {
		invocation.AddToolExecutionNotification(sarif.NewNotification().WithLevel("note").WithMessage(sarif.NewTextMessage(note)))
	}
	run.AddInvocation(invocation)
	var text bytes.Buffer
	if err := sarif.NewReport().AddRun(run).Write(&text); err != nil {
		return err
	}
	return writeLean(text.Bytes(), out)
}

func sarifMessage(f lint.Finding) string {
	text := says(f)
	if moment := when(f); moment != "" {
		text += " (" + moment + ")"
	}
	for _, e := range f.Evidence {
		text += "\nBecause: " + e
	}
	if f.Remedy != "" {
		text += "\nWay out: " + f.Remedy
	}
	return text
}

// rule is what the METADATA of a policy says.
func rule(p policies.Policy) *sarif.ReportingDescriptor {
	var plain, markdown strings.Builder
	section := func(title, text string) {
		if text == "" {
			return
		}
		fmt.Fprintf(&plain, "%s\n%s\n\n", title, text)
		fmt.Fprintf(&markdown, "## %s\n\n%s\n\n", title, text)
	}
	section("What it means", p.Description)
	section("The way out", p.Remedy)
	section("What it cannot see", p.Limits)
	if len(p.RelatedResources) > 0 {
		plain.WriteString("Sources\n")
		markdown.WriteString("## Sources\n\n")
		for _, r := range p.RelatedResources {
			fmt.Fprintf(&plain, "%s %s\n", r.Ref, r.Description)
			fmt.Fprintf(&markdown, "- <%s> %s\n", r.Ref, r.Description)
		}
	}
	text := func(s string) *sarif.MultiformatMessageString {
		return sarif.NewMultiformatMessageString().WithText(strings.TrimSpace(s))
	}
	grade := map[policies.Severity]string{policies.High: "error", policies.Medium: "warning"}[p.Severity]
	if grade == "" {
		grade = "recommendation"
	}
	descriptor := sarif.NewRule(p.ID).
		WithShortDescription(text(p.Title)).
		WithFullDescription(text(p.Description)).
		WithHelp(text(plain.String()).WithMarkdown(strings.TrimSpace(markdown.String()))).
		WithDefaultConfiguration(sarif.NewReportingConfiguration().WithEnabled(true).
			WithLevel(level(lint.Finding{Finding: policies.Finding{Severity: p.Severity, Certainty: policies.Will}}))).
		WithProperties(sarif.NewPropertyBag().Add("problem.severity", grade).WithTags([]string{"kubernetes", "deletion"}))
	if len(p.RelatedResources) > 0 {
		descriptor.WithHelpURI(p.RelatedResources[0].Ref)
	}
	return descriptor
}

func (r Report) location(p lint.Place, o policies.Object) *sarif.Location {
	physical := sarif.NewPhysicalLocation().WithArtifactLocation(sarif.NewSimpleArtifactLocation(r.uri(p.File)))
	region := sarif.NewRegion().WithStartLine(max(p.Line, 1)) // GitHub refuses results without
	if p.Line > 0 && p.Column > 0 {
		region.WithStartColumn(p.Column)
		if p.EndColumn > p.Column {
			region.WithEndColumn(p.EndColumn)
		}
	}
	if p.Source != "" {
		region.WithSnippet(sarif.NewArtifactContent().WithText(p.Source))
	}
	location := sarif.NewLocationWithPhysicalLocation(physical.WithRegion(region))
	if o.Resource != "" {
		location.AddLogicalLocation(sarif.NewLogicalLocation().WithFullyQualifiedName(name(o)).WithKind("resource"))
	}
	return location
}

// uri of a file: relative where its name is, for viewers to find it in their
// own copy of the repository.
func (r Report) uri(file string) string {
	file = r.path(file)
	drive := len(file) > 2 && file[1] == ':' && file[2] == '/' // of Windows
	switch {
	case drive:
		return (&url.URL{Scheme: "file", Path: "/" + file}).String()
	case strings.HasPrefix(file, "//"): // a share of Windows: //HOST/…
		host, path, _ := strings.Cut(file[2:], "/")
		return (&url.URL{Scheme: "file", Host: host, Path: "/" + path}).String()
	case filepath.IsAbs(filepath.FromSlash(file)):
		return (&url.URL{Scheme: "file", Path: file}).String()
	default:
		return (&url.URL{Path: file}).String()
	}
}

// writeLean leaves out what the library writes and the schema has as default:
// empty lists, and -1. Most of a result is that. "results" and "rules" stay:
// without them nothing was looked for.
func writeLean(text []byte, out io.Writer) error {
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.UseNumber()
	var document any
	if err := decoder.Decode(&document); err != nil {
		return err
	}
	encoder := json.NewEncoder(out)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", "  ")
	return encoder.Encode(lean(document))
}

func lean(value any) any {
	switch v := value.(type) {
	case []any:
		for i := range v {
			v[i] = lean(v[i])
		}
	case map[string]any:
		for key, item := range v {
			item = lean(item)
			v[key] = item
			list, isList := item.([]any)
			fields, isMap := item.(map[string]any)
			switch {
			case key == "results" || key == "rules":
			case isList && len(list) == 0, isMap && len(fields) == 0 && key == "properties", item == json.Number("-1"):
				delete(v, key)
			}
		}
	}
	return value
}
