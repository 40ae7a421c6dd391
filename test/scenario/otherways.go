package scenario

import (
	"context"
	"fmt"
	"strings"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/pflag"

	"github.com/termguard/termguard/check"
	"github.com/termguard/termguard/cluster"
	"github.com/termguard/termguard/policies"
	"github.com/termguard/termguard/question"
	"github.com/termguard/termguard/scan"
)

// named is what a kubectl delete names and the options that it sends; no names where it
// selects.
func (s Scenario) named() (names []check.Name, options map[string]any, err error) {
	flags := pflag.NewFlagSet("delete", pflag.ContinueOnError)
	namespace := flags.StringP("namespace", "n", "", "")
	cascade := flags.String("cascade", "background", "")
	grace := flags.Int64("grace-period", -1, "")
	force := flags.Bool("force", false, "")
	if err := flags.Parse(strings.Fields(s.Delete)); err != nil {
		return nil, nil, fmt.Errorf("delete %s: %w", s.Delete, err)
	}
	if options, err = check.DeleteOptions(*cascade, *grace, *force); err != nil {
		return nil, nil, err
	}
	if names, err = check.ParseNames(flags.Args()); err != nil {
		return nil, nil, err
	}
	for i := range names {
		names[i].Namespace = *namespace
	}
	return names, options, nil
}

// otherWays asks about the deletion as check and scan do over a snapshot, where they know of an
// object no more than that tells. It tells what is wrong: an answer that is not fair, or does not
// name what holds the object, or two that differ.
func otherWays(ctx context.Context, o Outcome, world *cluster.World) (wrong []string, err error) {
	s := o.Scenario
	if s.Delete == "" || s.Asks != "" {
		return nil, nil
	}
	names, options, err := s.named()
	if err != nil || len(names) != 1 {
		return nil, err
	}
	engine, err := without("")
	if err != nil {
		return nil, err
	}
	subject, err := check.FromFacts(world, names[0])
	if err != nil {
		return []string{fmt.Sprintf("check over a snapshot: %v", err)}, nil
	}
	checked, err := check.Ask(ctx, engine, world, subject, options)
	if err != nil {
		return nil, fmt.Errorf("check over a snapshot: %w", err)
	}
	if checked.Verdict != policies.Unknown { // which claims nothing
		wrong = o.over("check", checked)
	}
	var within []string // all of a cluster takes long to go through for each scenario
	switch {
	case subject.Type.Namespaced:
		within = []string{subject.Namespace}
	case subject.Type.GroupResource() == question.Namespaces:
		within = []string{subject.Name}
	}
	place, err := scan.FromFacts(world, within...)
	if err != nil {
		return nil, fmt.Errorf("scan of a snapshot: %w", err)
	}
	for kind, at := range place.Subjects() {
		if kind == scan.Nodes || at.String() != subject.String() { // of a node it asks about the drain
			continue
		}
		scanned, err := check.Ask(ctx, engine, world, at, options)
		if err != nil {
			return nil, fmt.Errorf("scan of a snapshot: %w", err)
		}
		if diff := cmp.Diff(checked.Findings, scanned.Findings); diff != "" || checked.Verdict != scanned.Verdict {
			wrong = append(wrong, fmt.Sprintf("over a snapshot, check says %s and scan %s: -check +scan\n%s", checked.Verdict, scanned.Verdict, diff))
		}
	}
	return wrong, nil
}

// over is what is wrong about an answer by another way than the webhook.
func (o Outcome) over(way string, report check.Report) (wrong []string) {
	o.Predicted, o.Warnings, o.Wrong = string(report.Verdict), nil, nil
	for _, f := range report.Findings {
		o.Warnings = append(o.Warnings, f.Message)
	}
	o.judge()
	for _, text := range o.Wrong {
		wrong = append(wrong, fmt.Sprintf("%s over a snapshot: %s; it says %s, %q; unseen: %q", way, text, o.Predicted, o.Warnings, report.Unseen))
	}
	return wrong
}
