package policies

import (
	"slices"
	"strings"

	"github.com/open-policy-agent/opa/v1/ast"
)

// builtins are OPA's functions for policies, and why each ends soon: facts limit its input, and OPA checks
// the deadline only between expressions.
var builtins = []struct{ why, names string }{
	{"it compares or computes, and OPA reads no number of more than some digits", `
		abs and ceil div eq equal assign floor format_int gt gte lt lte max min minus mul neq or plus product rem round sum
		bits.and bits.negate bits.or bits.rsh bits.xor to_number units.parse units.parse_bytes semver.compare semver.is_valid
		cast_array cast_boolean cast_null cast_object cast_set cast_string
		is_array is_boolean is_null is_number is_object is_set is_string type_name`},
	{"it passes once over its arguments", `
		all any array.concat array.flatten array.reverse array.slice count intersection internal.member_2 internal.member_3
		object.filter object.get object.keys object.remove object.subset object.union object.union_n set_diff sort union
		json.filter json.patch json.remove json.is_valid json.marshal json.marshal_with_options json.unmarshal
		yaml.is_valid yaml.marshal yaml.unmarshal
		concat contains endswith indexof indexof_n lower replace split sprintf startswith substring trim trim_left trim_prefix
		trim_right trim_space trim_suffix upper strings.any_prefix_match strings.any_suffix_match strings.count
		strings.replace_n strings.reverse strings.split_n internal.template_string
		base64.decode base64.encode base64.is_valid base64url.decode base64url.encode base64url.encode_no_pad hex.decode hex.encode
		uri.is_valid uri.parse urlquery.decode urlquery.decode_object urlquery.encode urlquery.encode_object uuid.parse
		crypto.hmac.equal crypto.hmac.md5 crypto.hmac.sha1 crypto.hmac.sha256 crypto.hmac.sha512 crypto.md5 crypto.sha1 crypto.sha256
		time.add_date time.clock time.date time.diff time.format time.parse_duration_ns time.parse_ns time.parse_rfc3339_ns time.weekday
		graph.reachable print trace internal.print internal.test_case rego.metadata.chain rego.metadata.rule`},
	{"its patterns are of RE2, which is linear, or globs, which are bounded by the names that they match", `
		re_match regex.find_all_string_submatch_n regex.find_n regex.is_valid regex.match regex.replace regex.split
		regex.template_match glob.match glob.quote_meta`},
	{"it looks at the deadline itself", "numbers.range numbers.range_step walk"},
}

// refused are the others; "." at the end includes everything below.
var refused = []struct{ why, names string }{
	{"a review may not call out; facts of the cluster are in data.cluster, and your own settings in data.params", "http.send net."},
	{"policies see no environment; settings go into data.params", "opa.runtime"},
	{"the same facts must always have the same answer: the time is data.cluster.now, and settings are in data.params", "time.now_ns rand.intn uuid.rfc4122"},
	{"its cost grows exponentially with the graph; use graph.reachable", "graph.reachable_paths"},
	{"its cost grows exponentially with its patterns; use regex.match", "regex.globs_match"},
	{"its result is as long as its argument says; multiply instead", "bits.lsh"},
	{"its templates may loop, and no deadline ends them; use sprintf", "strings.render_template"},
	{"it reads programs, keys, tokens or certificates, of which the facts hold none", "rego.parse_module crypto.parse_private_keys crypto.x509. graphql. io.jwt. providers. json.match_schema json.verify_schema"},
}

func whyRefused(name string) string {
	for _, group := range refused {
		for _, one := range strings.Fields(group.names) {
			if name == one || strings.HasSuffix(one, ".") && strings.HasPrefix(name, one) {
				return group.why
			}
		}
	}
	return ""
}

// Capabilities returns the functions that read no network, environment, clock or randomness, and heed the
// deadline.
func Capabilities() *ast.Capabilities {
	c := ast.CapabilitiesForThisVersion()
	c.AllowNet = []string{} // for $ref in schemas, too
	allowed := map[string]bool{}
	for _, group := range builtins {
		for _, name := range strings.Fields(group.names) {
			allowed[name] = true
		}
	}
	c.Builtins = slices.DeleteFunc(c.Builtins, func(b *ast.Builtin) bool { return !allowed[b.Name] })
	return c
}
