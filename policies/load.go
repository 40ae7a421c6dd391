package policies

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path"
	"slices"
	"strings"
	"sync"

	"github.com/open-policy-agent/opa/v1/ast"

	"github.com/termguard/termguard/internal/nearest"
)

const (
	libFolder    = "lib" // lib/pods is package termguard.lib.pods
	schemaFolder = "schema"
)

// sharedFile applies to all policies.
const sharedFile = "termguard.rego"

type namedFS struct {
	fs.FS
	name string
}

// Dir returns the policies below a folder, for Load.
func Dir(name string) fs.FS { return Named(os.DirFS(name), name) }

// Named names a file system for errors.
func Named(fsys fs.FS, name string) fs.FS { return namedFS{fsys, name} }

// Set is an immutable set of policies.
type Set struct {
	policies []Policy // sorted by ID
	// checked is a compiler of all, with types; nil if all are built in.
	checked *ast.Compiler
	// compile has at least these policies, with or without steps.
	compile func(of []Policy, steps bool) (*ast.Compiler, error)
}

// Policies are sorted by ID.
func (s *Set) Policies() []Policy { return slices.Clone(s.policies) }

// IDs are sorted.
func (s *Set) IDs() []string {
	ids := make([]string, len(s.policies))
	for i, p := range s.policies {
		ids[i] = p.ID
	}
	return ids
}

// Load compiles policies in folders, which may import data.termguard.lib.NAME, and joins errors, which name
// file and line. Without policies that are not built in, it reads only METADATA, and an Engine compiles on
// use; TestEmbedded checks built-in policies.
func Load(fsyses ...fs.FS) (*Set, error) {
	if len(fsyses) == 1 && fsyses[0] == Embedded() {
		return loadEmbedded()
	}
	set, err := load(false, fsyses...)
	if err == nil {
		err = set.checkFindings()
	}
	if err != nil {
		return nil, err
	}
	return set, nil
}

func load(everything bool, fsyses ...fs.FS) (*Set, error) {
	l := newLoader(everything)
	l.parse(Embedded(), sharedFile, libFolder+"/*/*.rego")
	for _, fsys := range fsyses {
		l.load(fsys)
	}
	compiler, err := l.compile(slices.ContainsFunc(fsyses, l.checks), true)
	if err != nil {
		return nil, err
	}
	for i := range l.set.policies {
		if p := &l.set.policies[i]; p.Custom {
			p.ReadsObject, p.ReadsUser = reads(*p, compiler)
		}
	}
	l.set.checked = compiler
	l.set.compile = func(_ []Policy, steps bool) (*ast.Compiler, error) {
		if steps {
			return compiler, nil
		}
		return l.compile(false, false)
	}
	slices.SortFunc(l.set.policies, func(a, b Policy) int { return strings.Compare(a.ID, b.ID) })
	return l.set, nil
}

func (l *loader) compile(checks, steps bool) (*ast.Compiler, error) {
	if len(l.errs) > 0 {
		return nil, errors.Join(l.errs...)
	}
	modules := l.modules
	if !steps {
		modules = map[string]*ast.Module{}
		for file, module := range l.modules {
			modules[file] = withoutSteps(module)
		}
	}
	// Without steps, their helpers are unused.
	compiler := ast.NewCompiler().WithCapabilities(Capabilities()).WithStrict(steps)
	if checks {
		schemas, err := schemaSet(func(schema any) any { return schema })
		if err != nil {
			return nil, err
		}
		compiler = compiler.WithSchemas(schemas).WithUseTypeCheckAnnotations(true)
	} else {
		compiler = compiler.WithSkipStages(
			ast.StageCheckTypes, ast.StageCheckUnusedImports, ast.StageCheckRecursion, ast.StageCheckDuplicateImports,
			ast.StageCheckKeywordOverrides, ast.StageCheckVoidCalls, ast.StageCheckRuleConflicts, ast.StageCheckUndefinedFuncs,
			ast.StageCheckSafetyRuleHeads, ast.StageCheckUnsafeBuiltins, ast.StageCheckDeprecatedBuiltins, ast.StageBuildRequiredCapabilities,
			// No policy reads its own METADATA.
			ast.StageParseMetadataBlocks, ast.StageSetAnnotationSet, ast.StageRewriteRegoMetadataCalls,
		)
	}
	if compiler.Compile(modules); compiler.Failed() {
		for _, err := range compiler.Errors {
			l.errs = append(l.errs, explained(err))
		}
	} else if checks {
		l.references(compiler)
		if err := l.checkFields(); err != nil {
			l.errs = append(l.errs, err)
		}
	}
	return compiler, errors.Join(l.errs...)
}

// withoutSteps empties "steps", which are most of a finding's cost.
func withoutSteps(module *ast.Module) *ast.Module {
	key := ast.StringTerm("steps")
	brief, err := ast.Transform(ast.NewGenericTransformer(func(x any) (any, error) {
		o, isObject := x.(ast.Object)
		if !isObject || o.Get(key) == nil {
			return x, nil
		}
		return o.Map(func(k, v *ast.Term) (*ast.Term, *ast.Term, error) {
			if k.Equal(key) {
				v = ast.ArrayTerm()
			}
			return k, v, nil
		})
	}), module.Copy())
	if err != nil {
		return module // it works with steps, too
	}
	return brief.(*ast.Module)
}

type loader struct {
	everything bool
	described  bool // METADATA is known

	set     *Set
	modules map[string]*ast.Module // by file
	files   map[string]string      // by the policy's ID
	errs    []error
}

func newLoader(everything bool) *loader {
	return &loader{everything: everything, set: &Set{}, modules: map[string]*ast.Module{}, files: map[string]string{}}
}

func (l *loader) checks(fsys fs.FS) bool { return l.everything || fsys != Embedded() }

func (l *loader) fail(file string, line int, format string, args ...any) {
	l.errs = append(l.errs, fmt.Errorf("%s:%d: %w", file, line, fmt.Errorf(format, args...)))
}

func isTest(file string) bool { return strings.HasSuffix(file, "_test.rego") }

// parse leaves out tests, and uses all processors.
func (l *loader) parse(fsys fs.FS, patterns ...string) {
	var files []string
	for _, pattern := range patterns {
		matches, err := fs.Glob(fsys, pattern)
		if err != nil {
			l.errs = append(l.errs, fmt.Errorf("read policies %s: %w", pattern, err))
		}
		files = append(files, slices.DeleteFunc(matches, isTest)...)
	}
	modules, errs := make([]*ast.Module, len(files)), make([]error, len(files))
	var wait sync.WaitGroup
	for i, file := range files {
		wait.Go(func() { modules[i], errs[i] = l.read(fsys, file) })
	}
	wait.Wait()
	for i, file := range files {
		file, folder := path.Join(nameOf(fsys), file), path.Dir(file)
		if errs[i] != nil {
			l.errs = append(l.errs, errs[i])
			continue
		}
		if modules[i] == nil {
			l.fail(file, 1, "the file is empty")
			continue
		}
		declared := modules[i].Package
		if want := "data.termguard." + strings.ReplaceAll(folder, "/", "."); folder != "." && declared.Path.String() != want {
			l.fail(file, declared.Location.Row, "package %s should be %s, like its folder", strings.TrimPrefix(declared.Path.String(), "data."), strings.TrimPrefix(want, "data."))
			continue
		}
		l.modules[file] = modules[i]
	}
}

func (l *loader) read(fsys fs.FS, file string) (*ast.Module, error) {
	text, err := fs.ReadFile(fsys, file)
	if err != nil {
		return nil, fmt.Errorf("read policy: %w", err)
	}
	return ast.ParseModuleWithOpts(path.Join(nameOf(fsys), file), string(text), ast.ParserOptions{ProcessAnnotation: !l.described, RegoVersion: ast.RegoV1})
}

var library = ast.Ref{ast.DefaultRootDocument, ast.StringTerm("termguard"), ast.StringTerm(libFolder)}

func policyFolders(fsys fs.FS) ([]string, error) {
	entries, err := fs.ReadDir(fsys, ".")
	var folders []string
	for _, entry := range entries {
		name := entry.Name()
		if entry.IsDir() && !strings.HasPrefix(name, ".") && !slices.Contains([]string{libFolder, schemaFolder, "testdata"}, name) {
			folders = append(folders, name)
		}
	}
	return folders, err
}

func (l *loader) load(fsys fs.FS) {
	folders, err := policyFolders(fsys)
	if err != nil {
		l.errs = append(l.errs, fmt.Errorf("read policies: %w", err))
	}
	patterns := make([]string, len(folders))
	for i, folder := range folders {
		patterns[i] = folder + "/*.rego"
	}
	l.parse(fsys, patterns...)
	for _, folder := range folders {
		l.policy(fsys, folder)
	}
	if fsys != Embedded() {
		l.compareLibrary(fsys)
	}
}

// compareLibrary rejects a library for other tools, beside policies, that differs from the embedded one.
func (l *loader) compareLibrary(fsys fs.FS) {
	for _, pattern := range []string{libFolder + "/*.rego", libFolder + "/*/*.rego"} {
		files, _ := fs.Glob(fsys, pattern)
		for _, name := range slices.DeleteFunc(files, isTest) {
			file := path.Join(nameOf(fsys), name)
			text, err := fs.ReadFile(fsys, name)
			used, missing := embedded.ReadFile(name)
			switch {
			case err != nil:
				l.errs = append(l.errs, fmt.Errorf("read policies: %w", err))
			case missing != nil:
				l.fail(file, 1, "the folder name %q is taken by the library that every policy can use; rename it", libFolder)
			case !bytes.Equal(text, used):
				l.fail(file, 1, "it differs from the library in this binary, which is in force: copy the one of this version (termguard version)")
			}
		}
	}
}

func (l *loader) policy(fsys fs.FS, folder string) {
	place := path.Join(nameOf(fsys), folder)
	main := path.Join(place, folder+".rego")
	parsed := maps.Clone(l.modules)
	maps.DeleteFunc(parsed, func(file string, _ *ast.Module) bool { return path.Dir(file) != place })
	if len(parsed) == 0 {
		return // no Rego in it, or none that parses
	}
	module, exists := parsed[main]
	if !exists {
		if _, err := fs.Stat(fsys, path.Join(folder, folder+".rego")); err != nil {
			l.fail(place, 1, "no policy: %s.rego is missing; name the policy's file like its folder", folder)
		}
		return
	}
	policy, err := metadata(main, module, l.checks(fsys))
	if err != nil {
		l.errs = append(l.errs, err)
		return
	}
	policy.Folder, policy.File, policy.Custom = folder, main, fsys != Embedded()
	if want := strings.ReplaceAll(folder, "_", "-"); policy.ID != want {
		l.fail(main, module.Package.Location.Row, "METADATA custom.id is %q, but the folder %s asks for %q", policy.ID, folder, want)
		return
	}
	if other, taken := l.files[policy.ID]; taken {
		l.fail(main, module.Package.Location.Row, "policy %q is already defined in %s; rename one", policy.ID, other)
		return
	}
	l.files[policy.ID] = main
	l.set.policies = append(l.set.policies, policy)
	finds := false
	for file, module := range parsed {
		for _, rule := range module.Rules {
			name := rule.Head.Ref()[0].Value.String()
			if name != "deny" && name != "warn" {
				continue
			}
			if rule.Head.RuleKind() != ast.MultiValue || len(rule.Head.Ref()) != 1 {
				l.fail(file, rule.Location.Row, "%s is not a set of findings; write: %s contains finding if { … }", name, name)
			}
			finds = true
		}
	}
	if !finds {
		l.fail(main, module.Package.Location.Row, "the policy finds nothing: it has neither deny nor warn")
	}
}

// references rejects references to nothing: OPA takes a misspelt rule for missing data, and finds nothing.
func (l *loader) references(compiler *ast.Compiler) {
	for _, file := range slices.Sorted(maps.Keys(compiler.Modules)) {
		ast.WalkTerms(compiler.Modules[file], func(term *ast.Term) bool {
			ref, ok := term.Value.(ast.Ref)
			if field := metadataField(ref); field != "" && !slices.Contains(metadataFields, field) {
				l.fail(file, rowOf(term), "undefined ref: %s: metadata has no such field%s", ref, nearest.Hint(field, metadataFields))
			}
			if !ok || len(ref) < 2 || !ref[0].Equal(ast.DefaultRootDocument) || !ref[1].IsGround() {
				return false
			}
			switch root, _ := ref[1].Value.(ast.String); root {
			case "cluster", "params":
			case "termguard":
				if prefix := ref.GroundPrefix(); len(compiler.GetRules(prefix)) == 0 {
					l.fail(file, rowOf(term), "undefined ref: %s: no policy or library has such a rule", prefix)
				}
			default:
				l.fail(file, rowOf(term), "undefined ref: %s: policies see input, data.cluster, data.params and data.termguard", ref)
			}
			return false
		})
	}
}

// rowOf also looks at parts: the compiler makes terms without a line.
func rowOf(term *ast.Term) int {
	ref, _ := term.Value.(ast.Ref)
	for _, part := range append([]*ast.Term{term}, ref...) {
		if part.Location != nil {
			return part.Location.Row
		}
	}
	return 1
}

// metadataFields are ObjectMeta's (k8s.io/apimachinery).
var metadataFields = []string{
	"annotations", "creationTimestamp", "deletionGracePeriodSeconds", "deletionTimestamp", "finalizers", "generateName", "generation",
	"labels", "managedFields", "name", "namespace", "ownerReferences", "resourceVersion", "selfLink", "uid",
}

// Other fields depend on the kind.
func metadataField(ref ast.Ref) string {
	if len(ref) < 5 || !ref[0].Equal(ast.InputRootDocument) || !ref[1].Equal(ast.InternedTerm("request")) || !ref[3].Equal(ast.InternedTerm("metadata")) ||
		!ref[2].Equal(ast.InternedTerm("object")) && !ref[2].Equal(ast.InternedTerm("oldObject")) {
		return ""
	}
	field, _ := ref[4].Value.(ast.String)
	return string(field)
}

func nameOf(fsys fs.FS) string {
	if n, ok := fsys.(namedFS); ok {
		return n.name
	}
	return ""
}

func schemaSet(shape func(schema any) any) (*ast.SchemaSet, error) {
	set := ast.NewSchemaSet()
	for _, name := range []string{"input.schema", "cluster.schema"} {
		var schema any
		if err := readSchema(name, &schema); err != nil {
			return nil, err
		}
		set.Put(ast.SchemaRootRef.Append(ast.StringTerm(name)), shape(schema))
	}
	return set, nil
}

func readSchema(name string, into *any) error {
	text, err := embedded.ReadFile(schemaFolder + "/" + name + ".json")
	if err != nil {
		return err
	}
	if err := json.Unmarshal(text, into); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	return nil
}

func explained(err *ast.Error) error {
	name, undefined := strings.CutPrefix(err.Message, "undefined function ")
	if _, exists := ast.BuiltinMap[name]; !undefined || !exists {
		return err
	}
	return &ast.Error{Code: err.Code, Location: err.Location, Message: name + " is not available: " + whyRefused(name)}
}
