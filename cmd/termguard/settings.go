package main

import (
	"fmt"
	"io/fs"
	"os"

	"github.com/spf13/pflag"

	"github.com/termguard/termguard/cluster"
	"github.com/termguard/termguard/config"
	"github.com/termguard/termguard/policies"
)

// settingsFlags are the policies and the configuration that a command goes by.
type settingsFlags struct {
	config   string
	policies []string
}

func (f *settingsFlags) addConfig(flags *pflag.FlagSet) {
	flags.StringVar(&f.config, "config", "", "configuration `FILE`, kind Config (default: none)")
}

func (f *settingsFlags) addPolicies(flags *pflag.FlagSet) {
	flags.StringArrayVar(&f.policies, "policies", nil, "`FOLDER` with policies beyond those in the binary, one in each of its folders (may be repeated)")
}

// load returns the policies, in the binary and in the folders.
func (f *settingsFlags) load() (*policies.Set, error) { return loadPolicies(f.policies) }

func loadPolicies(folders []string) (*policies.Set, error) { return loadWith(folders) }

// loadWith loads others, too.
func loadWith(folders []string, others ...fs.FS) (*policies.Set, error) {
	from := []fs.FS{policies.Embedded()}
	for _, folder := range folders {
		if _, err := os.ReadDir(folder); err != nil {
			return nil, fmt.Errorf("read policies: %w", err)
		}
		from = append(from, policies.Dir(folder))
	}
	set, err := policies.Load(append(from, others...)...)
	if err == nil && len(folders)+len(others) > 0 {
		err = set.CheckFindings()
	}
	return set, err
}

// read returns the configuration, checked against the ids of policies.
func (f *settingsFlags) read(ids []string) (config.Config, error) {
	if f.config == "" {
		return config.Config{}, nil
	}
	file, err := os.Open(f.config)
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

// facts are the options of facts that the configuration gives.
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
