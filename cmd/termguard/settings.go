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

// settingsFlags name the policies and the configuration of a command.
type settingsFlags struct {
	config         string
	policies       []string
	key, algorithm string // of bundles, of which there are none where algorithm is ""
	// optional uses the defaults while the file of config is missing.
	optional bool
}

func (f *settingsFlags) addConfig(flags *pflag.FlagSet) {
	flags.StringVar(&f.config, "config", "", "configuration `FILE`, kind Config (default: none)")
}

func (f *settingsFlags) addPolicies(flags *pflag.FlagSet) {
	flags.StringArrayVar(&f.policies, "policies", nil, "`FOLDER` with more policies than in the binary, each in a folder of its own (may be repeated)")
}

// addBundles adds the flags for policies and OPA bundles.
func (f *settingsFlags) addBundles(flags *pflag.FlagSet) {
	flags.StringArrayVar(&f.policies, "policies", nil, "`FOLDER` with more policies than in the binary, each in a folder of its own, or the file of an OPA bundle (may be repeated)")
	flags.StringVar(&f.key, "verification-key", "", "`FILE` with the public key, or the secret, of the signatures of bundles (default: they must not be signed)")
	flags.StringVar(&f.algorithm, "signing-alg", "RS256", "algorithm of the signatures, as opa sign names it")
}

// load returns the policies in the binary and those that the flags name.
func (f *settingsFlags) load(others ...fs.FS) (*policies.Set, error) {
	return f.loadFrom(f.policies, others...)
}

// loadFrom loads folders, bundles, and others.
func (f *settingsFlags) loadFrom(names []string, others ...fs.FS) (*policies.Set, error) {
	key, err := f.readKey()
	if err != nil {
		return nil, err
	}
	from := []fs.FS{policies.Embedded()}
	for _, name := range names {
		fsys, err := f.open(name, key)
		if err != nil {
			return nil, fmt.Errorf("read policies: %w", err)
		}
		from = append(from, fsys)
	}
	set, err := policies.Load(append(from, others...)...)
	if err == nil && len(names)+len(others) > 0 {
		err = holdSome(set, names)
	}
	return set, err
}

// open returns the policies of a folder, or of a bundle if the command takes bundles.
func (f *settingsFlags) open(name string, key *policies.Key) (fs.FS, error) {
	info, err := os.Stat(name)
	switch {
	case err != nil:
		return nil, err
	case info.IsDir():
		return policies.Dir(name), nil
	case f.algorithm == "":
		return nil, fmt.Errorf("%s is a file: name a folder with policies; only termguard webhook reads bundles, and tar -xzf unpacks one", name)
	}
	archive, err := os.ReadFile(name)
	if err != nil {
		return nil, err
	}
	files, err := policies.UnpackBundle(archive, key)
	if err != nil {
		return nil, fmt.Errorf("bundle %s: %w", name, err)
	}
	return policies.Named(files, name), nil
}

// holdSome returns an error for a named place without a policy: silence would be taken for a rule in force.
func holdSome(set *policies.Set, names []string) error {
	for _, name := range names {
		if slices.ContainsFunc(set.Policies(), func(p policies.Policy) bool { return comesFrom(p, name) }) {
			continue
		}
		return fmt.Errorf("no policy in %s: name a folder with a folder for each policy, POLICY/POLICY.rego", name)
	}
	return nil
}

// comesFrom reports whether a policy comes from a folder or bundle.
func comesFrom(p policies.Policy, name string) bool {
	return filepath.Dir(filepath.Dir(p.File)) == filepath.Clean(name)
}

// readKey reads the key of bundles, nil without one.
func (f *settingsFlags) readKey() (*policies.Key, error) {
	if f.key == "" {
		return nil, nil
	}
	return policies.ReadKey(f.key, f.algorithm)
}

// read returns the configuration, checked against the ids of policies.
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

// facts returns the options of facts of the configuration.
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
