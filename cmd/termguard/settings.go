package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"github.com/spf13/pflag"

	"github.com/termguard/termguard/cluster"
	"github.com/termguard/termguard/config"
	"github.com/termguard/termguard/internal/download"
	"github.com/termguard/termguard/policies"
)

// settingsFlags are the policies and the configuration that a command goes by.
type settingsFlags struct {
	config         string
	policies       []string
	key, algorithm string // of bundles
	download       download.Options
	downloaded     map[string][]byte // bundles from elsewhere, by name: a command asks once
	// optional has the defaults hold as long as config is missing.
	optional bool
}

func (f *settingsFlags) addConfig(flags *pflag.FlagSet) {
	flags.StringVar(&f.config, "config", "", "configuration `FILE`, kind Config (default: none)")
}

func (f *settingsFlags) addPolicies(flags *pflag.FlagSet) {
	flags.StringArrayVar(&f.policies, "policies", nil, "`FOLDER` with policies beyond those in the binary, one in each of its folders, or an OPA bundle: a file, https://… or oci://REGISTRY/REPOSITORY:TAG (may be repeated)")
	flags.StringVar(&f.key, "verification-key", "", "`FILE` with the public key, or the secret, that bundles must be signed with (default: they must not be signed)")
	flags.StringVar(&f.algorithm, "signing-alg", "RS256", "algorithm of the signatures, as opa sign names it")
	flags.StringVar(&f.download.Credentials, "registry-config", "", "`FILE` with credentials for bundles from elsewhere, as docker login writes it (default: none)")
	flags.StringArrayVar(&f.download.PlainHTTP, "plain-http", nil, "`HOST:PORT` that bundles may come from without TLS, as loopback (may be repeated)")
}

// load returns the policies, in the binary and where the flags say.
func (f *settingsFlags) load(ctx context.Context, others ...fs.FS) (*policies.Set, error) {
	return f.loadFrom(ctx, f.policies, others...)
}

// loadFrom loads folders and bundles, and others.
func (f *settingsFlags) loadFrom(ctx context.Context, names []string, others ...fs.FS) (*policies.Set, error) {
	key, err := f.readKey()
	if err != nil {
		return nil, err
	}
	from := []fs.FS{policies.Embedded()}
	for _, name := range names {
		fsys, err := f.open(ctx, name, key)
		if err != nil {
			return nil, fmt.Errorf("read policies: %w", err)
		}
		from = append(from, fsys)
	}
	set, err := policies.Load(append(from, others...)...)
	if err == nil && len(names)+len(others) > 0 {
		err = cmp.Or(holdSome(set, names), set.CheckFindings())
	}
	return set, err
}

// open has the policies in a folder or a bundle, which it downloads if it is elsewhere.
func (f *settingsFlags) open(ctx context.Context, name string, key *policies.Key) (fs.FS, error) {
	if !download.Is(name) {
		return policies.Open(name, key)
	}
	bundle, err := f.elsewhere(name)
	if err != nil {
		return nil, err
	}
	archive, asked := f.downloaded[name]
	if !asked {
		if archive, err = bundle.Fetch(ctx); err != nil {
			return nil, fmt.Errorf("bundle %s: %w", name, err)
		}
		if f.downloaded == nil {
			f.downloaded = map[string][]byte{}
		}
		f.downloaded[name] = archive
	}
	files, err := policies.Bundle(archive, key)
	if err != nil {
		return nil, fmt.Errorf("bundle %s: %w", name, err)
	}
	return policies.Named(files, name), nil
}

// elsewhere is a bundle to be downloaded. What comes over a network must be signed.
func (f *settingsFlags) elsewhere(name string) (*download.Bundle, error) {
	bundle, err := download.New(name, f.download)
	if err == nil && f.key == "" {
		err = fmt.Errorf("%s comes over a network, so it must be signed: name the key by --verification-key", name)
	}
	return bundle, err
}

// split has the folders and bundles of this machine, and the bundles from elsewhere.
func (f *settingsFlags) split() (here []string, elsewhere []*download.Bundle, err error) {
	for _, name := range f.policies {
		if !download.Is(name) {
			here = append(here, name)
			continue
		}
		bundle, err := f.elsewhere(name)
		if err != nil {
			return nil, nil, err
		}
		elsewhere = append(elsewhere, bundle)
	}
	return here, elsewhere, nil
}

// holdSome is an error where a place that was named holds no policy: it may be a folder too
// deep, or too high, and silence would be taken for a rule that is in force.
func holdSome(set *policies.Set, names []string) error {
	for _, name := range names {
		if slices.ContainsFunc(set.Policies(), func(p policies.Policy) bool { return comesFrom(p, name) }) {
			continue
		}
		hint := ""
		for _, near := range append([]string{filepath.Join(name, "..")}, foldersOf(name)...) {
			if near, err := policies.Load(policies.Dir(near)); err == nil && len(near.Policies()) > 0 {
				hint = fmt.Sprintf("; did you mean %q?", filepath.Dir(filepath.Dir(near.Policies()[0].File)))
				break
			}
		}
		return fmt.Errorf("no policy in %s: name the folder that holds a folder for each policy, with POLICY/POLICY.rego in it%s", name, hint)
	}
	return nil
}

// comesFrom tells whether a policy comes from a folder or bundle.
func comesFrom(p policies.Policy, name string) bool {
	return filepath.Dir(filepath.Dir(p.File)) == filepath.Clean(name)
}

// foldersOf are the folders in a folder, at most as many as anybody keeps policies in.
func foldersOf(name string) (folders []string) {
	const most = 20
	entries, _ := os.ReadDir(name) // a bundle has none
	for _, entry := range entries {
		if entry.IsDir() && len(folders) < most {
			folders = append(folders, filepath.Join(name, entry.Name()))
		}
	}
	return folders
}

// readKey is that of bundles, nil where none is named.
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

// facts are the options of facts that the configuration gives.
func (f *settingsFlags) facts(ctx context.Context) (cluster.Options, error) {
	set, err := f.load(ctx)
	if err != nil {
		return cluster.Options{}, err
	}
	config, err := f.read(set.IDs())
	if err != nil {
		return cluster.Options{}, err
	}
	return config.FactsOptions()
}
