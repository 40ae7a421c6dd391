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

// Folders without a policy.
const (
	libFolder    = "lib" // a folder for each package of shared rules: lib/pods is termguard.lib.pods
	schemaFolder = "schema"
)

// sharedFile, beside the embedded folders, applies to all policies.
const sharedFile = "termguard.rego"

// namedFS is a file system with a path for error messages.
type namedFS struct {
	fs.FS
	name string
}

// Dir returns the policies below a folder, for Load. Errors name its files by path.
func Dir(name string) fs.FS { return Named(os.DirFS(name), name) }

// Named returns a file system with a name for errors.
func Named(fsys fs.FS, name string) fs.FS { return namedFS{fsys, name} }

// Set is an immutable set of compiled policies.
type Set struct {
	policies []Policy // sorted by ID
	// checked is a compiler of all, with types; nil if all are built in.
	checked *ast.Compiler
	// compile returns a compiler with at least the rules of some policies, with or without the steps of their
	// findings.
	compile func(of []Policy, steps bool) (*ast.Compiler, error)
}

// Policies returns the policies of the set, sorted by ID.
func (s *Set) Policies() []Policy { return slices.Clone(s.policies) }

// IDs returns the ids of the policies, sorted.
func (s *Set) IDs() []string {
	ids := make([]string, len(s.policies))
	for i, p := range s.policies {
		ids[i] = p.ID
	}
	return ids
}

// Load finds and compiles the policies in the folders of each file system. Policies may import the packages
// of the embedded library, data.termguard.lib.NAME. Errors name file and line, and are joined.
//
// Built-in policies were checked by TestEmbedded, and are not checked again. Without others, only their
// METADATA is read; an Engine compiles them when it evaluates them.
func Load(fsyses ...fs.FS) (*Set, error) {
	if len(fsyses) == 1 && fsyses[0] == Embedded() {
		return loadEmbedded()
	}
	return load(false, fsyses...)
}

// load compiles everything, and with everything set also checks the built-in policies.
func load(everything bool, fsyses ...fs.FS) (*Set, error) {
	l := newLoader(everything)
	l.start(Embedded(), libFolder+"/*")
	for _, fsys := range fsyses {
		l.start(fsys, "*")
	}
	l.shared()
	for _, fsys := range fsyses {
		l.load(fsys)
	}
	compiler, err := l.compile(slices.ContainsFunc(fsyses, l.checks), true)
	if err != nil {
		return nil, err
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

// compile compiles the parsed modules, and checks them against the schemas if checks is set. Without steps,
// findings have none.
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

// withoutSteps returns a module without the values of "steps": they are most of the cost of a finding.
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
	described  bool                                   // the METADATA is known, and not parsed again
	parsed     map[string]func() (*ast.Module, error) // parsing in the background, by file name

	set     *Set
	modules map[string]*ast.Module
	files   map[string]string // of each policy, by ID
	errs    []error
}

func newLoader(everything bool) *loader {
	return &loader{
		everything: everything,
		parsed:     map[string]func() (*ast.Module, error){},
		set:        &Set{},
		modules:    map[string]*ast.Module{},
		files:      map[string]string{},
	}
}

// checks reports whether the content of a file system is checked.
func (l *loader) checks(fsys fs.FS) bool { return l.everything || fsys != Embedded() }

func (l *loader) fail(file string, line int, format string, args ...any) {
	l.errs = append(l.errs, fmt.Errorf("%s:%d: %w", file, line, fmt.Errorf(format, args...)))
}

// start begins to parse the Rego in the matching folders, on all processors.
func (l *loader) start(fsys fs.FS, folders string) {
	files, _ := fs.Glob(fsys, folders+"/*.rego") // reading the files returns the error again
	for _, file := range files {
		known := path.Join(nameOf(fsys), file)
		if isTest(file) || l.parsed[known] != nil {
			continue
		}
		parse := sync.OnceValues(func() (*ast.Module, error) { return l.read(fsys, file) })
		l.parsed[known] = parse
		go func() { _, _ = parse() }()
	}
}

func isTest(file string) bool { return strings.HasSuffix(file, "_test.rego") }

func (l *loader) read(fsys fs.FS, file string) (*ast.Module, error) {
	text, err := fs.ReadFile(fsys, file)
	if err != nil {
		return nil, fmt.Errorf("read policy: %w", err)
	}
	return ast.ParseModuleWithOpts(path.Join(nameOf(fsys), file), string(text), ast.ParserOptions{ProcessAnnotation: !l.described, RegoVersion: ast.RegoV1})
}

// shared loads the embedded library, whether or not its policies are used.
func (l *loader) shared() {
	l.parse(Embedded(), sharedFile)
	packages, _ := embedded.ReadDir(libFolder) // it is embedded
	for _, p := range packages {
		l.parseFolder(Embedded(), path.Join(libFolder, p.Name()))
	}
}

// imports loads the library packages that the loaded modules import.
func (l *loader) imports() {
	l.parse(Embedded(), sharedFile)
	loaded := map[string]bool{}
	for {
		var wanted []string
		for _, module := range l.modules {
			for _, i := range module.Imports {
				ref, _ := i.Path.Value.(ast.Ref)
				if len(ref) < 4 || !ref[:3].Equal(library) {
					continue
				}
				if name, _ := ref[3].Value.(ast.String); !loaded[string(name)] {
					loaded[string(name)] = true
					wanted = append(wanted, path.Join(libFolder, string(name)))
				}
			}
		}
		if len(wanted) == 0 {
			return
		}
		for _, folder := range wanted {
			l.start(Embedded(), folder)
		}
		for _, folder := range wanted {
			l.parseFolder(Embedded(), folder)
		}
	}
}

// library is the path of the library's packages.
var library = ast.Ref{ast.DefaultRootDocument, ast.StringTerm("termguard"), ast.StringTerm(libFolder)}

func (l *loader) load(fsys fs.FS) {
	entries, err := fs.ReadDir(fsys, ".")
	if err != nil {
		l.errs = append(l.errs, fmt.Errorf("read policies: %w", err))
		return
	}
	for _, entry := range entries {
		folder := entry.Name()
		switch {
		case !entry.IsDir(), strings.HasPrefix(folder, "."), folder == schemaFolder, folder == "testdata":
		case folder == libFolder:
			if fsys != Embedded() {
				l.copied(fsys)
			}
		default:
			l.policy(fsys, folder)
		}
	}
}

// copied compares a library beside policies, which only serves editors and other tools, to the embedded one,
// which is used.
func (l *loader) copied(fsys fs.FS) {
	err := fs.WalkDir(fsys, libFolder, func(file string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || !strings.HasSuffix(file, ".rego") || isTest(file) {
			return err
		}
		text, err := fs.ReadFile(fsys, file)
		if err != nil {
			return err
		}
		ours, err := embedded.ReadFile(file)
		switch known := path.Join(nameOf(fsys), file); {
		case errors.Is(err, fs.ErrNotExist):
			l.fail(known, 1, "the folder name %q is taken by the library that every policy can use; rename it", libFolder)
		case err != nil:
			return err
		case !bytes.Equal(text, ours):
			l.fail(known, 1, "it differs from the library in this binary, which is the one that counts: copy the one of this version (termguard version)")
		}
		return nil
	})
	if err != nil {
		l.errs = append(l.errs, fmt.Errorf("read policies: %w", err))
	}
}

// policy loads one folder.
func (l *loader) policy(fsys fs.FS, folder string) {
	parsed := l.parseFolder(fsys, folder)
	if len(parsed) == 0 {
		return // no Rego in it, or none that parses
	}
	main := path.Join(nameOf(fsys), folder, folder+".rego")
	module, found := parsed[main]
	if !found {
		if _, err := fs.Stat(fsys, path.Join(folder, folder+".rego")); err != nil {
			l.fail(path.Join(nameOf(fsys), folder), 1, "no policy: %s.rego is missing; name the policy's file like its folder", folder)
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
	if policy.Custom {
		policy.ReadsObject, policy.ReadsUser = l.reads(parsed)
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

// parseFolder parses the Rego of a folder without tests, by file name.
func (l *loader) parseFolder(fsys fs.FS, folder string) map[string]*ast.Module {
	files, err := fs.Glob(fsys, folder+"/*.rego")
	if err != nil {
		l.errs = append(l.errs, fmt.Errorf("read policy %s: %w", folder, err))
	}
	parsed := map[string]*ast.Module{}
	for _, file := range files {
		if isTest(file) {
			continue
		}
		module := l.parse(fsys, file)
		if module == nil {
			continue
		}
		known := path.Join(nameOf(fsys), file)
		if want := "data.termguard." + strings.ReplaceAll(folder, "/", "."); module.Package.Path.String() != want {
			l.fail(known, module.Package.Location.Row, "package %s should be %s, like its folder", strings.TrimPrefix(module.Package.Path.String(), "data."), strings.TrimPrefix(want, "data."))
			continue
		}
		parsed[known] = module
	}
	return parsed
}

func (l *loader) parse(fsys fs.FS, file string) *ast.Module {
	known := path.Join(nameOf(fsys), file)
	if other, loaded := l.modules[known]; loaded {
		return other
	}
	wait := l.parsed[known]
	if wait == nil {
		wait = func() (*ast.Module, error) { return l.read(fsys, file) }
	}
	module, err := wait()
	if err != nil {
		l.errs = append(l.errs, err)
		return nil
	}
	if module == nil {
		l.fail(known, 1, "the file is empty")
		return nil
	}
	l.modules[known] = module
	return module
}

// references rejects references to nothing: OPA takes a misspelt rule for missing data, and the rule that
// reads it silently finds nothing.
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

// rowOf is the line of a reference: the compiler makes terms that have none, of parts that do.
func rowOf(term *ast.Term) int {
	ref, _ := term.Value.(ast.Ref)
	for _, part := range append([]*ast.Term{term}, ref...) {
		if part.Location != nil {
			return part.Location.Row
		}
	}
	return 1
}

// metadataFields are the fields of any object's metadata (k8s.io/apimachinery, ObjectMeta).
var metadataFields = []string{
	"annotations", "creationTimestamp", "deletionGracePeriodSeconds", "deletionTimestamp", "finalizers", "generateName", "generation",
	"labels", "managedFields", "name", "namespace", "ownerReferences", "resourceVersion", "selfLink", "uid",
}

// metadataField returns the metadata field of the object under review that a reference reads, or "" if there
// is none or a variable names it. The other fields depend on the object's kind.
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

// schemaSet returns the schemas for the type checker, each transformed by shape.
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

// explained adds the reason and the alternative to an error about a forbidden built-in function.
func explained(err *ast.Error) error {
	name, undefined := strings.CutPrefix(err.Message, "undefined function ")
	if _, exists := ast.BuiltinMap[name]; !undefined || !exists {
		return err
	}
	return &ast.Error{Code: err.Code, Location: err.Location, Message: name + " is not available: " + whyRefused(name)}
}
