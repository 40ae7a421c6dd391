// Package config reads the configuration that the commands share.
package config

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	yamlv4 "go.yaml.in/yaml/v4"
	kjson "sigs.k8s.io/json"
	"sigs.k8s.io/yaml"

	"github.com/termguard/termguard/cluster"
	"github.com/termguard/termguard/cluster/catalog"
	"github.com/termguard/termguard/internal/nearest"
)

// maxConfig is the limit of a ConfigMap, in bytes.
const maxConfig = 1 << 20

// Config is the configuration file: apiVersion termguard.dev/v1, kind Config.
type Config struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	// Enforcement sets the mode of each policy.
	Enforcement Enforcement `json:"enforcement,omitempty"`
	// TrustAnnotations says which annotations count. Defaults to all.
	TrustAnnotations *Trust `json:"trustAnnotations,omitempty"`
	Shared
}

// Shared is the part that every kind of configuration has.
type Shared struct {
	// FinalizerOwners maps a finalizer to the workload that removes it, "KIND/NAMESPACE/NAME", or "external".
	FinalizerOwners map[string]string `json:"finalizerOwners,omitempty" yaml:"finalizerOwners"`
	// Params are data.params, by policy id.
	Params map[string]any `json:"params,omitempty"`
	// Catalog takes precedence over cluster/catalog/finalizers.yaml.
	Catalog []any `json:"catalog,omitempty"`
}

type noPolicy struct{ where, id, hint string }

func (e *noPolicy) Error() string {
	return fmt.Sprintf("%s: policy %q not found%s", e.where, e.id, e.hint)
}

// OnlyUnknownPolicies reports whether all errors are names of policies that are not loaded: the rest can be used.
func OnlyUnknownPolicies(err error) bool {
	return err != nil && allOf(err, func(err error) bool { _, is := err.(*noPolicy); return is })
}

// MisspellsPolicy reports whether a configuration misspells one of these ids.
func MisspellsPolicy(err error, ids []string) bool {
	return err != nil && !allOf(err, func(err error) bool {
		e, is := err.(*noPolicy)
		return !is || !nearest.IsTypo(e.id, ids)
	})
}

func allOf(err error, is func(error) bool) bool {
	switch e := err.(type) {
	case interface{ Unwrap() []error }:
		return !slices.ContainsFunc(e.Unwrap(), func(err error) bool { return !allOf(err, is) })
	case interface{ Unwrap() error }:
		return allOf(e.Unwrap(), is)
	default:
		return is(err)
	}
}

// Read checks a configuration against the ids of policies, and joins all errors.
func Read(in io.Reader, policyIDs []string) (Config, error) {
	text, err := io.ReadAll(io.LimitReader(in, maxConfig+1))
	if err != nil {
		return Config{}, err
	}
	if len(text) > maxConfig {
		return Config{}, fmt.Errorf("larger than %d bytes", maxConfig)
	}
	var c Config
	if err := unmarshal(text, &c); err != nil {
		return Config{}, fmt.Errorf("not a Config: %w", err)
	}
	return c, c.check(policyIDs)
}

// unmarshal rejects a second document, and unknown, duplicate or differently capitalized keys.
func unmarshal(text []byte, into any) error {
	asJSON, err := yaml.YAMLToJSONStrict(text)
	if err != nil {
		return err
	}
	strict, err := kjson.UnmarshalStrict(asJSON, into)
	if err := errors.Join(append(strict, err)...); err != nil {
		return err
	}
	documents := yamlv4.NewDecoder(bytes.NewReader(text))
	for n := 1; ; n++ {
		var document any
		switch err := documents.Decode(&document); {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return err
		case n > 1 && document != nil:
			return fmt.Errorf("it has a second document: move its content into the first, or into another file")
		}
	}
}

func (c Config) check(policyIDs []string) error {
	const apiVersion, kind = "termguard.dev/v1", "Config"
	if c.APIVersion != apiVersion || c.Kind != kind {
		return fmt.Errorf("want apiVersion: %s, kind: %s; got apiVersion: %s, kind: %s", apiVersion, kind, c.APIVersion, c.Kind)
	}
	var errs []error
	mode := func(where string, m Mode) {
		if !m.Valid() {
			errs = append(errs, fmt.Errorf("%s: %q is not deny, warn, dryrun or off", where, m))
		}
	}
	loaded := func(where, id string) {
		if !slices.Contains(policyIDs, id) {
			errs = append(errs, &noPolicy{where, id, nearest.Hint(id, policyIDs)})
		}
	}
	if c.Enforcement.Default != "" {
		mode("enforcement.default", c.Enforcement.Default)
	}
	if err := c.Trust().check(); err != nil {
		errs = append(errs, err)
	}
	for _, id := range slices.Sorted(maps.Keys(c.Enforcement.Policies)) {
		loaded("enforcement.policies", id)
		mode("enforcement.policies."+id, c.Enforcement.Policies[id])
	}
	for _, id := range slices.Sorted(maps.Keys(c.Params)) {
		loaded("params", id)
	}
	for _, finalizer := range slices.Sorted(maps.Keys(c.FinalizerOwners)) {
		if err := CheckOwner(finalizer, c.FinalizerOwners[finalizer]); err != nil {
			errs = append(errs, err)
		}
	}
	if _, err := c.FactsOptions(); err != nil {
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// CheckOwner returns an error for a malformed owner in FinalizerOwners.
func CheckOwner(finalizer, owner string) error {
	parts := strings.Split(owner, "/")
	if owner != "external" && (len(parts) != 3 || slices.Contains(parts, "")) {
		return fmt.Errorf("finalizerOwners: owner of %q is %q; want KIND/NAMESPACE/NAME of a workload, or external", finalizer, owner)
	}
	return nil
}

// Trust says which annotations count.
func (c Config) Trust() Trust {
	if c.TrustAnnotations == nil {
		return TrustAll
	}
	return *c.TrustAnnotations
}

// FactsOptions also says whose annotations count.
func (c Config) FactsOptions() (cluster.Options, error) {
	options, err := c.Shared.FactsOptions()
	options.Trusts = c.Trust().TrustsNamespace
	return options, err
}

// FactsOptions returns the options for the facts.
func (s Shared) FactsOptions() (cluster.Options, error) {
	options := cluster.Options{Owners: s.FinalizerOwners}
	if len(s.Catalog) == 0 {
		return options, nil
	}
	text, err := json.Marshal(s.Catalog)
	if err != nil {
		return options, fmt.Errorf("catalog: %w", err)
	}
	own, err := catalog.Parse(text)
	if err != nil {
		return options, err
	}
	options.Catalog = catalog.Default().Merge(own)
	return options, nil
}
