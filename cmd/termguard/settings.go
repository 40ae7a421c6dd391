package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"github.com/spf13/pflag"

	"github.com/termguard/termguard/cluster"
	"github.com/termguard/termguard/config"
	"github.com/termguard/termguard/policies"
)

type settingsFlags struct {
	config   string
	policies []string
	// optional uses the defaults while the file of config is missing.
	optional bool
}

func (f *settingsFlags) addConfig(flags *pflag.FlagSet) {
	flags.StringVar(&f.config, "config", "", "configuration `FILE`, kind Config (default: none)")
}

func (f *settingsFlags) addPolicies(flags *pflag.FlagSet) {
	flags.StringArrayVar(&f.policies, "policies", nil, "`FOLDER` with more policies than in the binary, each in a folder of its own (may be repeated)")
}

func (f *settingsFlags) load(others ...fs.FS) (*policies.Set, error) {
	from := []fs.FS{policies.Embedded()}
	for _, name := range f.policies {
		info, err := os.Stat(name)
		switch {
		case err != nil:
			return nil, fmt.Errorf("read policies: %w", err)
		case !info.IsDir():
			return nil, fmt.Errorf("read policies: %s is a file: name a folder with policies; only termguard webhook reads bundles, and tar -xzf unpacks one", name)
		}
		from = append(from, policies.Dir(name))
	}
	set, err := policies.Load(append(from, others...)...)
	if err == nil {
		err = holdSome(set, f.policies)
	}
	return set, err
}

// holdSome returns an error for a named place without a policy: silence would pass for a rule in force.
func holdSome(set *policies.Set, names []string) error {
	for _, name := range names {
		if slices.ContainsFunc(set.Policies(), func(p policies.Policy) bool { return comesFrom(p, name) }) {
			continue
		}
		return fmt.Errorf("no policy in %s: name a folder with a folder for each policy, POLICY/POLICY.rego", name)
	}
	return nil
}

func comesFrom(p policies.Policy, name string) bool {
	return filepath.Dir(filepath.Dir(p.File)) == filepath.Clean(name)
}

func (f *settingsFlags) read(ids []string) (config.Config, error) {
	if f.config == "" {
		return config.Config{}, nil
	}
	file, err := os.Open(f.config)
	if f.optional && errors.Is(err, fs.ErrNotExist) {
		if _, there := os.Stat(filepath.Dir(f.config)); there == nil {
			return config.Config{}, nil
		}
	}
	if err != nil {
		return config.Config{}, fmt.Errorf("read configuration: %w", err)
	}
	defer file.Close()
	config, err := config.Read(file, ids)
	if err != nil {
		return config, fmt.Errorf("configuration %s: %w", f.config, err)
	}
	return config, nil
}

func (f *settingsFlags) facts() (cluster.Options, error) {
	set, err := f.load()
	if err != nil {
		return cluster.Options{}, err
	}
	config, err := f.read(set.IDs())
	if err != nil {
		return cluster.Options{}, err
	}
	return config.FactsOptions()
}
