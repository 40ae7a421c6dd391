package main

import (
	"context"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"testing/fstest"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/termguard/termguard/check"
	"github.com/termguard/termguard/cluster"
	"github.com/termguard/termguard/config"
	"github.com/termguard/termguard/policies"
	"github.com/termguard/termguard/webhook"
)

// Where deploy/ puts the configuration of the webhook.
const installedConfig, installedKey = "termguard-config", "config.yaml"

// installedTime bounds reading it; a cluster that does not answer says so elsewhere.
const installedTime = 5 * time.Second

// installed is what the webhook of a cluster goes by, so that check agrees with it.
type installed struct {
	config   string // its text, "" for none
	policies []fs.FS
	// accepted is config as it was read, and unread why it is not known what the webhook goes
	// by; "" where it is.
	accepted config.Config
	unread   string
	// others are policies that it does not have: those of flags.
	others []string
	// notes tell where that came from, or why it is not known.
	notes []string
}

// readInstalled reads the ConfigMaps of the webhook, where that is allowed.
func readInstalled(ctx context.Context, rest *rest.Config) (found installed) {
	ctx, cancel := context.WithTimeout(ctx, installedTime)
	defer cancel()
	client, err := kubernetes.NewForConfig(rest)
	if err != nil {
		return found
	}
	maps, err := client.CoreV1().ConfigMaps(cluster.HomeNamespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		found.unread = fmt.Sprintf("its configuration in namespace %s cannot be read: %v", cluster.HomeNamespace, err)
	}
	if apierrors.IsForbidden(err) {
		found.unread = fmt.Sprintf("you may not read its configuration (get and list configmaps -n %s)", cluster.HomeNamespace)
		found.notes = []string{fmt.Sprintf("the configuration of the webhook may not be read (get and list configmaps -n %s): if there is one, its answer may differ", cluster.HomeNamespace)}
	}
	if err != nil {
		return found
	}
	for _, cm := range maps.Items {
		name := fmt.Sprintf("ConfigMap %s/%s", cm.Namespace, cm.Name)
		if text, set := cm.Data[installedKey]; set && cm.Name == installedConfig {
			found.config = text
			found.notes = append(found.notes, "asked with the configuration of the webhook, "+name)
		}
		if _, labelled := cm.Labels[config.PolicyLabel]; !labelled {
			continue
		}
		files := fstest.MapFS{}
		for key, text := range cm.Data {
			if folder, rego := strings.CutSuffix(key, ".rego"); rego {
				files[folder+"/"+key] = &fstest.MapFile{Data: []byte(text)}
			}
		}
		named := policies.Named(files, name)
		set, err := policies.Load(named)
		if err == nil {
			err = set.CheckFindings()
		}
		if err != nil {
			found.notes = append(found.notes, fmt.Sprintf("the policies of %s are left out: %v", name, err))
			continue
		}
		found.policies = append(found.policies, named)
		found.notes = append(found.notes, "asked with the policies of "+name)
	}
	return found
}

// read is the configuration, checked against the ids of policies. One that the webhook
// would not take is left out, with a note.
func (i *installed) read(ids []string) config.Config {
	if i.config == "" {
		return config.Config{}
	}
	read, err := config.Read(strings.NewReader(i.config), ids)
	if err != nil {
		i.notes = append(i.notes, fmt.Sprintf("it is left out, as it is not accepted: %v", err))
		i.unread = "its configuration is not accepted, and what it goes by in its place cannot be seen"
		return config.Config{}
	}
	i.accepted = read
	return read
}

// rules are the policies and the configuration that a question is asked with: those of the
// flags, and without --config those of the webhook in the cluster.
func (f *checking) rules(ctx context.Context) (*policies.Set, config.Config, []string, error) {
	var here installed
	if f.snapshot == "" && f.settings.config == "" {
		if rest, err := f.config(); err == nil { // else it is told when the cluster is asked
			here = readInstalled(ctx, rest)
		}
	}
	set, err := f.settings.load(ctx, here.policies...)
	if err != nil && len(here.policies) > 0 {
		here.notes = append(here.notes, fmt.Sprintf("the policies of the cluster do not go with those here: %v", err))
		set, err = f.settings.load(ctx)
	}
	if err != nil {
		return nil, config.Config{}, nil, err
	}
	read, err := f.settings.read(set.IDs())
	if here.config != "" {
		read = here.read(set.IDs())
		// Where termguard is not installed, anybody may have made its namespace.
		if len(read.FinalizerOwners)+len(read.Catalog)+len(read.Params)+len(read.Enforcement.Off(set.IDs())) > 0 {
			f.told = fmt.Sprintf("ConfigMap %s/%s", cluster.HomeNamespace, installedConfig)
		}
	}
	for _, p := range set.Policies() {
		if slices.ContainsFunc(f.settings.policies, func(name string) bool { return comesFrom(p, name) }) {
			here.others = append(here.others, p.ID)
		}
	}
	f.here = here
	return set, read, here.notes, err
}

// guardKey is the webhook that deletes are sent to, as deploy/ names it, among the facts.
const guardKey, guardKind = "validating/termguard/delete.termguard.dev", "validatingwebhookconfigurations.admissionregistration.k8s.io"

// guard tells what the webhook of the cluster would do about a deletion of which findings
// tell, as far as that can be read. What it would find and was not seen here is unseen.
func (f *checking) guard(world *cluster.World, s check.Subject, options map[string]any, report check.Report) (guard *check.Guard) {
	if f.snapshot != "" || f.settings.config != "" {
		return nil // the question is another one
	}
	request := s.Deletion(options)
	world.Ask(request, func(m cluster.Moment) {
		unknown := func(why string) *check.Guard { return &check.Guard{Answer: check.Unknown, Why: why} }
		call, found := m.Call(guardKey)
		home, _, _ := strings.Cut(call.Service, "/")
		within := request.Within()
		switch {
		case !found && m.Hides(guardKind):
			guard = unknown("you may not read its webhook configuration (list " + guardKind + ")")
		case !found:
			guard = &check.Guard{Answer: check.Absent}
		case call.Sure == "no" && s.Terminating():
			guard = &check.Guard{Answer: check.Unasked, Why: "it is being deleted already"}
		case call.Sure == "no":
			guard = &check.Guard{Answer: check.Unasked, Why: "its webhook configuration leaves such a request out"}
		case call.Sure != "will":
			guard = unknown("who you are, or what the object is, could not be read, and its webhook configuration depends on it")
		case call.Down != "" && call.FailsClosed:
			guard = &check.Guard{Answer: check.Refuses, Why: "nobody answers for it, and its failurePolicy is Fail: " + call.Down}
		case call.Down != "":
			guard = &check.Guard{Answer: check.Allows, Why: "nobody answers for it: " + call.Down}
		case home != cluster.HomeNamespace:
			guard = unknown(fmt.Sprintf("it runs in namespace %q, and its configuration is read from %s only", home, cluster.HomeNamespace))
		case f.here.unread != "":
			guard = unknown(f.here.unread)
		case within != "" && !m.Exists(within):
			guard = unknown("you may not read namespace " + within + ", whose labels decide it")
		default:
			guard = f.foresee(webhook.Foresee(f.here.accepted, request, m, f.known(report.Findings)), report.Unseen)
		}
	})
	return guard
}

// known are those findings that the webhook has a policy for, too.
func (f *checking) known(findings []policies.Finding) []policies.Finding {
	return slices.DeleteFunc(slices.Clone(findings), func(finding policies.Finding) bool {
		return slices.Contains(f.here.others, finding.Policy)
	})
}

// foresee puts into words what would follow.
func (f *checking) foresee(seen webhook.Foresight, unseen []string) *check.Guard {
	by := fmt.Sprintf("ConfigMap %s/%s", cluster.HomeNamespace, installedConfig)
	if seen.Labels != "" {
		by = "label " + seen.Labels + " of its namespace"
	}
	refuse, say := idsOf(seen.Refuse), idsOf(seen.Say)
	switch {
	case seen.Excuse != "":
		return &check.Guard{Answer: check.Warns, Policies: say, Why: fmt.Sprintf("annotation %s says %q", webhook.AllowAnnotation, seen.Excuse)}
	case len(refuse) > 0 && f.here.accepted.SelfGrading == config.Demote:
		return &check.Guard{Answer: check.Refuses, Policies: refuse, Why: fmt.Sprintf("%s is set to deny by %s, unless it was wrong here (selfGrading: demote)", strings.Join(refuse, ", "), by)}
	case len(refuse) > 0:
		return &check.Guard{Answer: check.Refuses, Policies: refuse, Why: fmt.Sprintf("%s is set to deny by %s", strings.Join(refuse, ", "), by)}
	case seen.MayRefuse && len(unseen) > 0:
		return &check.Guard{Answer: check.Unknown, Why: "policies are set to deny by " + by + ", and it may see what you may not"}
	case len(say) > 0 && seen.MayRefuse && !slices.ContainsFunc(seen.Say, func(f policies.Finding) bool { return f.Certainty == policies.Will }):
		return &check.Guard{Answer: check.Warns, Policies: say, Why: "it refuses only what is certain"}
	case len(say) > 0:
		return &check.Guard{Answer: check.Warns, Policies: say, Why: seen.Labels}
	}
	return &check.Guard{Answer: check.Allows, Why: seen.Labels}
}

// idsOf are the policies of findings that are more than good to know, each once.
func idsOf(findings []policies.Finding) (ids []string) {
	for _, finding := range findings {
		if finding.Severity != policies.Info && !slices.Contains(ids, finding.Policy) {
			ids = append(ids, finding.Policy)
		}
	}
	return ids
}
