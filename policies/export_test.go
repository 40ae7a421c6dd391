package policies

import (
	"bytes"
	"encoding/json"
	"sync"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// MatchSchema reports where a document does not match one of the schemas. Unlike OPA, it
// distinguishes a list from null.
func MatchSchema(name string, document any) error {
	text, err := json.Marshal(document)
	if err != nil {
		return err
	}
	plain, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
	if err != nil {
		return err
	}
	schema, ok := schemas.Load(name)
	if !ok {
		compiler := jsonschema.NewCompiler()
		var definition any
		if err := readSchema(name, &definition); err != nil {
			return err
		}
		if err := compiler.AddResource(name, definition); err != nil {
			return err
		}
		if schema, err = compiler.Compile(name); err != nil {
			return err
		}
		schemas.Store(name, schema)
	}
	return schema.(*jsonschema.Schema).Validate(plain)
}

// schemas are compiled once: there are hundreds of fixtures.
var schemas sync.Map

// LoadEverything compiles and checks the policies in the binary as if users had written them.
func LoadEverything() (*Set, error) { return load(true, Embedded()) }

// WithoutNeeds removes the needs of all policies of a set: each is evaluated for all that its
// resources name.
func WithoutNeeds(set *Set) *Set {
	all := *set
	all.policies = set.Policies()
	for i := range all.policies {
		all.policies[i].Needs = nil
	}
	return &all
}

// WithNeeds replaces the needs of one policy of a set.
func WithNeeds(set *Set, id string, needs []string) *Set {
	changed := *set
	changed.policies = set.Policies()
	for i := range changed.policies {
		if changed.policies[i].ID == id {
			changed.policies[i].Needs = needs
		}
	}
	return &changed
}
