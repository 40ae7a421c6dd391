package report

import (
	"cmp"
	"fmt"
	"io"
	"net/url"
	"path/filepath"
	"strings"

	"github.com/termguard/termguard/lint"
	"github.com/termguard/termguard/lint/files"
	"github.com/termguard/termguard/policies"
)

const home = "https://github.com/termguard/termguard"

// fingerprint is our key in partialFingerprints, beside the one of GitHub's upload action.
const fingerprint = "termguardFinding/v2"

// fields are an object of SARIF: the usual library has a schema validator that makes the linker keep every
// method, a third of the binary.
type fields = map[string]any

// writeSARIF writes SARIF 2.1.0 for GitHub (docs.github.com, "SARIF support for code scanning").
func writeSARIF(r Report, out io.Writer) error {
	rules, results, notifications := []fields{}, []fields{}, []fields{}
	index := map[string]int{}
	for i, p := range r.Policies {
		index[p.ID] = i
		rules = append(rules, rule(p))
	}
	for _, f := range r.Findings {
		result := fields{
			"ruleId": f.Policy, "level": level(f), "message": sarifText(sarifMessage(f)),
			"locations":           []fields{r.location(f.Place, f.Object)},
			"partialFingerprints": fields{fingerprint: f.Fingerprint},
			"properties":          fields{"severity": f.Severity, "certainty": f.Certainty, "question": f.Question},
		}
		if at, ok := index[f.Policy]; ok {
			result["ruleIndex"] = at
		}
		results = append(results, result)
	}
	for _, p := range r.Problems {
		notifications = append(notifications, fields{
			"level": "error", "message": sarifText(p.Message), "locations": []fields{r.location(p.Place, policies.Object{})},
		})
	}
	for _, note := range r.Notes {
		notifications = append(notifications, fields{"level": "note", "message": sarifText(note)})
	}
	return encode(fields{
		"$schema": "https://raw.githubusercontent.com/oasis-tcs/sarif-spec/main/sarif-2.1/schema/sarif-schema-2.1.0.json",
		"version": "2.1.0",
		"runs": []fields{{
			"tool":       fields{"driver": fields{"name": "termguard", "informationUri": home, "version": r.Version, "rules": rules}},
			"columnKind": "unicodeCodePoints",
			"invocations": []fields{{
				"executionSuccessful": len(r.Problems) == 0, "exitCode": r.ExitCode, "toolExecutionNotifications": notifications,
			}},
			"results": results,
		}},
	}, out)
}

var sarifLinks = strings.NewReplacer(`\`, `\\`, `[`, `\[`, `]`, `\]`)

// sarifText prevents links, "[text](where)", which manifests may contain (SARIF 2.1.0, section 3.11.6).
func sarifText(text string) fields {
	if strings.Contains(text, "](") {
		text = sarifLinks.Replace(text)
	}
	return fields{"text": text}
}

func sarifMessage(f lint.Finding) string {
	text := headline(f)
	if moment := occasion(f); moment != "" {
		text += " (" + moment + ")"
	}
	return strings.Join(append([]string{text}, details(f, "", "Because: ", "Way out: ")...), "\n")
}

func rule(p policies.Policy) fields {
	var plain, markdown strings.Builder
	section := func(title, text string) {
		if text == "" {
			return
		}
		fmt.Fprintf(&plain, "%s\n%s\n\n", title, text)
		fmt.Fprintf(&markdown, "## %s\n\n%s\n\n", title, text)
	}
	section("What it means", p.Description)
	section("The way out", cmp.Or(p.Manifest.Remedy, p.Remedy))
	section("What it cannot see", p.Limits)
	if len(p.RelatedResources) > 0 {
		plain.WriteString("Sources\n")
		markdown.WriteString("## Sources\n\n")
		for _, r := range p.RelatedResources {
			fmt.Fprintf(&plain, "%s %s\n", r.Ref, r.Description)
			fmt.Fprintf(&markdown, "- <%s> %s\n", r.Ref, r.Description)
		}
	}
	severity := level(lint.Finding{Finding: policies.Finding{Severity: cmp.Or(p.Manifest.Severity, p.Severity), Certainty: policies.Will}})
	problem := severity
	if severity == "note" {
		problem = "recommendation"
	}
	descriptor := fields{
		"id":                   p.ID,
		"shortDescription":     fields{"text": p.Title},
		"fullDescription":      fields{"text": p.Description},
		"help":                 fields{"text": strings.TrimSpace(plain.String()), "markdown": strings.TrimSpace(markdown.String())},
		"defaultConfiguration": fields{"enabled": true, "level": severity},
		"properties":           fields{"problem.severity": problem, "tags": []string{"kubernetes", "deletion"}},
	}
	if len(p.RelatedResources) > 0 {
		descriptor["helpUri"] = p.RelatedResources[0].Ref
	}
	return descriptor
}

func (r Report) location(p files.Place, o policies.Object) fields {
	region := fields{"startLine": max(p.Line, 1)} // GitHub rejects results without
	if p.Line > 0 && p.Column > 0 {
		region["startColumn"] = p.Column
		if p.EndColumn > p.Column {
			region["endColumn"] = p.EndColumn
		}
	}
	if p.Source != "" {
		region["snippet"] = fields{"text": p.Source}
	}
	location := fields{"physicalLocation": fields{"artifactLocation": fields{"uri": r.uri(p.File)}, "region": region}}
	if o.Resource != "" {
		location["logicalLocations"] = []fields{{"fullyQualifiedName": o.Ref(), "kind": "resource"}}
	}
	return location
}

// uri returns a relative URI if the name is, so that viewers find the file in their own copy.
func (r Report) uri(file string) string {
	file = r.path(file)
	drive := len(file) > 2 && file[1] == ':' && file[2] == '/' // of Windows
	u := url.URL{Scheme: "file", Path: file}
	switch {
	case drive:
		u.Path = "/" + file
	case strings.HasPrefix(file, "//"): // a share: //HOST/…
		host, path, _ := strings.Cut(file[2:], "/")
		u.Host, u.Path = host, "/"+path
	case !filepath.IsAbs(filepath.FromSlash(file)):
		u.Scheme = ""
	}
	return u.String()
}
