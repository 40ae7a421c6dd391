package policies

// LineOf is the line of a field in its file.
var LineOf = lineOf

// MatchSchema tells where a document does not fit one of the schemas.
func MatchSchema(name string, document any) ([]string, error) {
	var schema any
	if err := readSchema(name, &schema); err != nil {
		return nil, err
	}
	violations, err := matchSchema(document, schema)
	found := make([]string, len(violations))
	for i, v := range violations {
		found[i] = v.field + ": " + v.description
	}
	return found, err
}

// LoadEverything compiles and checks the policies in the binary as those of users.
func LoadEverything() (*Set, error) { return load(true, Embedded()) }
