package main

import (
	"context"
	"fmt"
	"io/fs"
	"strings"
	"testing/fstest"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/termguard/termguard/cluster"
	"github.com/termguard/termguard/config"
	"github.com/termguard/termguard/policies"
)

// deploy/ installs the configuration of the webhook here.
const installedConfig, installedKey = "termguard-config", "config.yaml"

// installedTime bounds the read; later requests report a cluster that does not answer.
const installedTime = 5 * time.Second

// installed is the webhook's configuration in a cluster, so that check agrees with it.
type installed struct {
	config   string
	policies []fs.FS
	notes    []string
}

func readInstalled(ctx context.Context, rest *rest.Config) (here installed) {
	ctx, cancel := context.WithTimeout(ctx, installedTime)
	defer cancel()
	client, err := kubernetes.NewForConfig(rest)
	if err != nil {
		return here
	}
	maps, err := client.CoreV1().ConfigMaps(cluster.HomeNamespace).List(ctx, metav1.ListOptions{})
	if apierrors.IsForbidden(err) {
		here.notes = []string{fmt.Sprintf("unseen: the configuration of the webhook (forbidden: get and list configmaps -n %s); if it has one, its answer may differ", cluster.HomeNamespace)}
	}
	if err != nil {
		return here
	}
	for _, cm := range maps.Items {
		name := fmt.Sprintf("ConfigMap %s/%s", cm.Namespace, cm.Name)
		if text, set := cm.Data[installedKey]; set && cm.Name == installedConfig {
			here.config = text
			here.notes = append(here.notes, "using the configuration of the webhook, "+name)
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
		if _, err := policies.Load(named); err != nil {
			here.notes = append(here.notes, fmt.Sprintf("the policies of %s are ignored: %v", name, err))
			continue
		}
		here.policies = append(here.policies, named)
		here.notes = append(here.notes, "using the policies of "+name)
	}
	return here
}

// read leaves out a configuration that the webhook would reject, with a note.
func (i *installed) read(ids []string) config.Config {
	if i.config == "" {
		return config.Config{}
	}
	read, err := config.Read(strings.NewReader(i.config), ids)
	if err != nil {
		i.notes = append(i.notes, fmt.Sprintf("it is ignored, because it is invalid: %v", err))
		return config.Config{}
	}
	return read
}

// rules come from the flags, or without --config from the webhook in the cluster.
func (f *checkFlags) rules(ctx context.Context, s *session) (*policies.Set, config.Config, []string, error) {
	var here installed
	if f.target.snapshot == "" && f.settings.config == "" {
		here = readInstalled(ctx, s.Config)
	}
	set, err := f.settings.load(here.policies...)
	if err != nil && len(here.policies) > 0 {
		here.notes = append(here.notes, fmt.Sprintf("the policies of the cluster are ignored, because they conflict with those of --policies: %v", err))
		set, err = f.settings.load()
	}
	if err != nil {
		return nil, config.Config{}, nil, err
	}
	if here.config == "" {
		read, err := f.settings.read(set.IDs())
		return set, read, here.notes, err
	}
	read := here.read(set.IDs())
	// Without termguard installed, any user may have created its namespace.
	if len(read.FinalizerOwners)+len(read.Catalog)+len(read.Params)+len(read.Enforcement.Off(set.IDs())) > 0 {
		s.hearsay = fmt.Sprintf("ConfigMap %s/%s", cluster.HomeNamespace, installedConfig)
	}
	return set, read, here.notes, nil
}
