# The version that a build reports: the nearest tag, or the commit.
VERSION ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo dev)
COMMIT ?= $(shell git rev-parse HEAD 2>/dev/null)
# Without folders in its output, a build is shared between checkouts.
# Programs are linked without debug information: to compile without it takes a seventh less time.
export GOFLAGS := $(shell go env GOFLAGS 2>/dev/null) -trimpath -gcflags=all=-dwarf=false
# As components are, so that they share the standard library; the race detector needs a C compiler.
export CGO_ENABLED := 0
LDFLAGS := -s -w -X main.version=$(VERSION) -X main.commit=$(COMMIT)
# Scenarios start real control planes: the Go tests of test/ run one package at a time, or two.
E2E_TIMEOUT ?= 60m
FLAGS := -count=1 -vet=off -parallel 64 -timeout $(E2E_TIMEOUT)
E2E := go test $(FLAGS)
# Tests come in three tiers (CONTRIBUTING.md): a long one checks testing.Short(), which is set in make
# test; a rare one calls lab.Nightly(); and one of a single goroutine skips the race detector (race.Skip).
# The packages that start goroutines. TestRaces holds that these are all.
RACES := ./answer ./certs ./cluster ./cluster/live ./cmd/termguard ./lint ./lint/runner ./lint/sets ./policies ./probe ./watch ./webhook ./webhook/serve
# Those with a stress test, which alone the race detector watches in make test.
STRESS := ./cluster ./webhook
# Those with tests that make test leaves out. TestTiers holds that these are all.
LONG := ./answer ./cluster ./cluster/snapshots ./lint ./policies
# Packages of test/ that only make nightly runs, and packages with tests that it runs in full. TestTiers
# holds that these are all.
RARE := ./hostile ./rotation
MORE := ./chart ./node ./operators ./scenario
OBJECTS ?= 10000
REGISTRY ?= ghcr.io/termguard

OPA := go tool -modfile=test/tools/opa/go.mod opa
REGAL := go tool -modfile=test/tools/regal/go.mod regal
STATICCHECK := go tool -modfile=test/tools/staticcheck/go.mod staticcheck

.DEFAULT_GOAL := help
.PHONY: help build programs render control-plane components software demo lab test test-go test-scenarios rest long races rego e2e-scenarios e2e-others e2e-release e2e-delete e2e-beside operators test-node test-nfs nightly check quick fmt vet staticcheck regal dockerfile chart monitoring generated fuzz docs golden harmlessness conformance versions certificates vulnerabilities probe-cost bench bench-scale bench-lint gatekeeper report release publish release-twice new-policy hooks man clean field-test field-test-page catalog-sources screenshot headlamp

help: ## Show this help
	@awk 'BEGIN {FS = ":.*## "} /^[a-z0-9-]+:.*## / {printf "  %-14s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

# What they compile, they compile once, and a compiler lives for seconds: it collects garbage seldom.
programs demo: export GOGC ?= 400
build: programs render ## Build termguard, termguard-probe and termguard-render into bin/ (minutes at first)

programs: # enough for everything that is not rendered
	@mkdir -p bin
	go build -ldflags "$(LDFLAGS)" -o bin/ ./cmd/termguard ./cmd/termguard-probe

render: ## Build bin/termguard-render, which lint and check -k run (minutes at first)
	cd cmd/termguard-render && go build -ldflags "-s -w" -o ../../bin/termguard-render .

control-plane: # all that the demo and make test run of Kubernetes
	cd test && go run ./cmd/lab build

components: ## Build the Kubernetes components that tests run (5 to 10 minutes once, then cached)
	cd test && go run ./cmd/lab build all

software: ## Build the software of other projects that scenarios run (5 to 15 minutes once, then cached)
	cd test && go run ./cmd/lab build software

demo: ## Play the main cases on a real control plane on this machine
	@echo "demo: it builds termguard (part 1 of 3), then etcd, kube-apiserver, kube-controller-manager and kubectl (2), and plays (3)."
	@echo "demo: With nothing cached, that took 6.6 minutes on two fast cores, and 18 on two slow ones; later it builds nothing, and takes 2 or 3."
	@echo "demo: part 1 of 3: building termguard"
	@$(MAKE) --no-print-directory programs
	@echo "demo: part 2 of 3: building the control plane"
	@$(MAKE) --no-print-directory control-plane
	@echo "demo: part 3 of 3: playing"
	cd test && go run ./cmd/demo -termguard ../bin/termguard

lab: programs ## Bring up a cluster to play on, with termguard in it, until Ctrl-C
	cd test && go run ./cmd/lab termguard

# Compilers and tests make garbage fast, and hold little.
test test-go long races: export GOGC ?= 400
test: programs control-plane ## Five minutes: Go tests, fixtures with their findings and coverage, parity, races of the stress tests, a dozen scenarios on one control plane
	@$(MAKE) --no-print-directory --jobs 2 test-go test-scenarios

test-go:
	go test -short -vet=off -timeout 30m ./...
	CGO_ENABLED=1 go test -short -race -vet=off -timeout 30m $(STRESS) # it needs a C compiler

test-scenarios: # most of their time they wait
	cd test && $(E2E) -short ./scenario

# The other suites wait for most of their time, which Go tests fill at the lowest priority.
rest: quick e2e-scenarios ## What make check runs after make test
	@nice -n 19 $(MAKE) --no-print-directory long races & $(MAKE) --no-print-directory e2e-others test-node demo; status=$$?; wait $$! && exit $$status

long: ## Go tests that make test leaves out, and those of the renderer of lint
	go test -vet=off -timeout 60m $(LONG)
	cd cmd/termguard-render && go test -vet=off -timeout 30m ./...

races: export CGO_ENABLED := 1
races: ## Go tests of what starts goroutines, under the race detector (which needs a C compiler)
	go test -race -vet=off -timeout 60m $(RACES)

rego: ## Strict type check of the Rego (fixtures, their findings and what they reach are Go tests of ./policies)
	$(OPA) check --strict --schema policies/schema policies

e2e-scenarios: programs components software
	cd test && $(E2E) ./scenario

e2e-others: programs components software
	cd test && $(E2E) -p 2 $$(go list ./... | grep -vE '/test/(node|scenario)$$' $(patsubst ./%,| grep -v '/test/%$$',$(RARE)))

nightly: export TIER := nightly
nightly: programs components software ## What is long and rare, an hour: the plugin for Headlamp, a release that a real node pulls, 110 pods on one, NFS on a node with a kernel of its own, fuzzing (TIME=20s each), hostile tenants, certificates and versions that change, upgrades by Helm, worlds that nobody wrote down (COMPOSE_FOR=10m), estimates in seconds, scenarios under the race detector; then hours of all operators of other projects (OPERATORS=none leaves them out)
	@$(MAKE) --no-print-directory headlamp e2e-release test-nfs
	./test/fuzz.sh $(or $(TIME),20s)
	cd test && $(E2E) -v -p 1 $(RARE) $(filter-out ./operators,$(MORE))
	cd test && TIER= CGO_ENABLED=1 $(E2E) -race ./scenario # it evaluates dozens of objects at once
	cd test && OPERATORS=$(or $(OPERATORS),all) go test -v -count=1 -parallel 64 -timeout 8h ./operators

e2e-delete: programs components software ## Have termguard delete finish the worlds in which kubectl delete hangs (some 10 minutes; MATRIX=FILE writes what came of it)
	cd test && for how in fresh stuck; do DELETE=$$how MATRIX=$(if $(MATRIX),$(abspath $(MATRIX)).$$how) $(E2E) -run TestScenarios/side ./scenario || exit 1; done

e2e-beside: programs components software ## Run termguard delete with each flag in every world, hold it to changing nothing else, and write the counts into test/results/delete-security.md (an hour)
	cd test && DELETE=beside PAGE=$(CURDIR)/test/results/delete-security.md $(E2E) -v -timeout 120m -run TestScenarios ./scenario

# With -v, to print skipped tests and the reason.
operators: programs components software ## Play operators of other projects (as root; OPERATORS=kro,cert-manager for some), and write test/results/operators.md (some 10 minutes for each, and once to build it)
	cd test && OPERATORS=$(or $(OPERATORS),all) RESULTS=$(CURDIR)/test/operators/results go test -v -count=1 -parallel 64 -timeout 8h -run TestOperators ./operators; status=$$?; UPDATE_GOLDEN=1 go test -count=1 -run TestPage ./operators && exit $$status

# Verbose, to print skipped tests and the reason.
test-node: programs components ## Scenarios on a real node: kubelet, containerd, runc (as root; TABLES=FILE writes what was found)
	cd test && $(E2E) -v ./node

test-nfs: programs components ## Scenarios of NFS on a real node with a kernel of its own, User Mode Linux, one by one (as root; 8 minutes)
	cd test && NFS=1 go test -v -count=1 -parallel 1 -timeout 20m -run TestScenarios/faults/nfs- ./node

e2e-release: programs components ## Make a release, publish it to a registry on loopback, and run on a real node what Helm installs from there (as root; minutes)
	cd test && RELEASE=1 go test -v -count=1 -timeout 20m -run TestRelease ./node

probe-cost: programs ## Print what the probe costs a node, and what is left of the work of others beside it, for docs/probe.md (ten minutes; an idle machine)
	cd test && go run ./cmd/probe-cost && go run ./cmd/probe-cost -beside

check: test rest ## Everything that CI runs, some 23 minutes: make test, all scenarios and other suites, races, a real node, linters, the demo

quick: fmt vet rego staticcheck regal dockerfile chart ## The part of check that takes seconds

fmt: ## Fail on unformatted Go or Rego
	@unformatted=$$(gofmt -l $$(git ls-files '*.go')); if [ -n "$$unformatted" ]; then echo "not formatted, run gofmt -w on:" $$unformatted; exit 1; fi
	$(OPA) fmt --fail --diff policies

vet: ## go vet
	go vet ./...
	cd cmd/termguard-render && go vet ./...
	cd test && go vet ./...

staticcheck: ## staticcheck
	$(STATICCHECK) ./...
	cd cmd/termguard-render && go tool -modfile=../../test/tools/staticcheck/go.mod staticcheck ./...
	cd test && go tool -modfile=tools/staticcheck/go.mod staticcheck ./...

dockerfile: ## Try what packs a release, and lint the Dockerfile, which cannot be built everywhere
	cd test/tools/release && go test -timeout 20m . # it builds Helm at first
	cd test/tools/dockerfile && go test . && go run . ../../../Dockerfile

chart: ## Lint the Helm chart, and try values that it must refuse
	cd test && go test -short -count=1 ./chart

monitoring: ## Play when alerts fire, and what the dashboard shows of what a lab said (compiles Prometheus at first)
	cd test/tools/monitoring && go vet . && go test .

screenshot: programs components ## Play deletions for Prometheus and take docs/dashboard.png, drawn by Grafana's libraries (needs npm and Chromium; 20 minutes; DATA=folder keeps what was scraped, and shows it again)
	@for needed in npm chromium; do command -v $$needed >/dev/null || { echo "make screenshot needs $$needed (Debian: apt-get install npm chromium)"; exit 1; }; done
	cd test/tools/dashboard && npm ci && npm run build
	cd test/tools/monitoring && go build -tags remove_all_sd -o ../../../bin/prometheus github.com/prometheus/prometheus/cmd/prometheus
	cd test && go run ./tools/dashboard -prometheus ../bin/prometheus -out ../docs/dashboard.png $(if $(DATA),-data $(abspath $(DATA)))

regal: ## Lint the Rego
	$(REGAL) lint --config-file .regal/config.yaml policies
	$(REGAL) lint deploy/policies # by the settings that people copy

fuzz: ## Run each fuzz test for a few seconds (TIME=1m for longer)
	nice -n 19 ./test/fuzz.sh $(or $(TIME),3s)

docs golden: ## Write the generated files anew
	UPDATE_GOLDEN=1 go test ./policies/... ./answer/... ./doctor ./lint/... ./cmd/...
	UPDATE_GOLDEN=1 go test -count=1 -run TestChartKnowsThePolicies ./deploy
	cd test && UPDATE_GOLDEN=1 go test -count=1 -run 'TestRenders|TestSchemas' ./chart ./schemas

generated: docs ## Fail if a generated file is not current
	@git diff --exit-code -- cluster policies check doctor lint cmd docs deploy || { echo "generated files are not current: run 'make docs' and commit"; exit 1; }

harmlessness: programs components ## Play what can go wrong with termguard against what deletes, and write test/results/harmlessness.md (as root)
	cd test && go run ./cmd/harmlessness -out $(CURDIR)/test/results/harmlessness.md

conformance: programs components ## Run Kubernetes' own tests about what deletes with termguard and without, and write test/results/conformance.md (an hour; FOCUS=REGEXP)
	cd test && go run ./cmd/conformance -out $(CURDIR)/test/results/conformance.md $(if $(FOCUS),-focus '$(FOCUS)')

versions: programs components software ## Play the scenarios on one version (KUBERNETES=1.30), and write the table in README.md
	cd test && VERSIONS=$(CURDIR)/test/scenario/versions.json $(E2E) -run TestScenarios ./scenario; UPDATE_GOLDEN=1 go test -count=1 -run TestVersions ./scenario

certificates: programs components software ## Change certificates in every way while 1,000 deletes are under way at once, and write test/results/certificates.md
	cd test && DELETES=1000 PAGE=$(CURDIR)/test/results/certificates.md go test -v -count=1 -parallel 1 -timeout 60m ./rotation

vulnerabilities: ## Known vulnerabilities in what is shipped (asks vuln.go.dev)
	go tool -modfile=test/tools/govulncheck/go.mod govulncheck ./...
	cd cmd/termguard-render && go tool -modfile=../../test/tools/govulncheck/go.mod govulncheck ./...

report: ## Open the page of a scan in Chromium: use, accessibility, 360 pixels, pictures in dist/report (needs chromium and npm)
	@command -v chromium >/dev/null || { echo "no chromium: apt-get install chromium"; exit 1; }
	mkdir -p dist/report
	cd test/report && npm ci --no-audit --no-fund --loglevel=error
	cd test && SCREENSHOTS=$(CURDIR)/dist/report go test -count=1 -v ./report

headlamp: ## Check, test and build the plugin for Headlamp (needs npm; HEADLAMP=folder of a built checkout also opens it there, on a lab, and takes deploy/headlamp/headlamp.png)
	@command -v npm >/dev/null || { echo "no npm: apt-get install npm"; exit 1; }
	cd deploy/headlamp && npm ci --loglevel=error && npm run tsc && npm run lint && CI=1 npm test </dev/null && npm run build
	$(if $(HEADLAMP),@$(MAKE) --no-print-directory programs components && cd test && HEADLAMP=$(abspath $(HEADLAMP)) SCREENSHOT=$(CURDIR)/deploy/headlamp/headlamp.png go test -count=1 -v ./headlamp)

man: ## Write the man pages into dist/man, of what --help prints
	@mkdir -p dist/man
	MAN=$(CURDIR)/dist/man go test -count=1 -run '^TestMan$$' ./cmd/termguard

bench: programs components ## Print benchmarks: beside a no-op webhook, and by size of the cluster (OBJECTS=10000)
	go test -run '^$$' -bench . ./policies ./webhook ./answer ./scan
	cd test && go run ./cmd/bench -objects $(OBJECTS)

bench-scale: programs components ## Print what clusters of three sizes cost termguard and their API server (10 minutes)
	cd test && go run ./cmd/bench -scale

field-test: build ## Lint a sample of public repositories, and compare with what was judged (CLONES=folder or REMOTE=URL, SEED=1, SAMPLE=20)
	cd test && go run ./cmd/field-test -termguard $(CURDIR)/bin/termguard $(if $(CLONES),-clones $(abspath $(CLONES))) $(if $(REMOTE),-remote $(REMOTE)) -seed $(or $(SEED),1) -sample $(or $(SAMPLE),20)

field-test-page: ## Write the tables of test/results/lint-field-test.md anew
	cd test && go run ./cmd/field-test -page $(CURDIR)/test/results/lint-field-test.md

bench-lint: programs ## Print lint beside conftest, kube-score and gator (CORPUS=archive or folder of manifests; KUBE_LINTER=binary)
	cd test && go run ./cmd/bench-lint -termguard $(CURDIR)/bin/termguard $(if $(CORPUS),-corpus $(abspath $(CORPUS))) $(if $(KUBE_LINTER),-kube-linter $(abspath $(KUBE_LINTER)))

gatekeeper: ## Ask Gatekeeper's engine about worlds in which namespaces hang (compiles gator at first)
	cd test/tools/gator && go tool gator verify -v namespaces/suite.yaml

release: ## Write a release into dist/: archives, image, chart, krew, Homebrew, SBOM, checksums (the same bytes for the same commit; PLATFORMS=linux/amd64 for some: minutes each at first)
	rm -rf dist
	cd test/tools/release && go run . -root ../../.. -out ../../../dist $(if $(PLATFORMS),-platforms $(PLATFORMS))

publish: ## Push the image and the chart of dist/ (REGISTRY=ghcr.io/termguard; docker login first), and print the image by its digest, and how to install it
	@cd test/tools/release && go run . -root ../../.. -out ../../../dist -publish $(REGISTRY)/termguard
	@cd test && go tool -modfile=tools/helm/go.mod helm push ../dist/termguard-chart-*.tgz oci://$(REGISTRY)/charts >&2
	@version=$$(basename dist/termguard-chart-*.tgz .tgz); printf 'to install it:\n  helm install termguard oci://%s/charts/termguard --version %s \\\n    --namespace termguard-system --create-namespace --set image.repository=%s/termguard\n' $(REGISTRY) $${version#termguard-chart-} $(REGISTRY) >&2

release-twice: ## Make a release twice, of clones in two folders, and compare (PLATFORMS=linux/amd64,windows/arm64)
	./test/release-twice.sh $(PLATFORMS)

new-policy: ## Scaffold a policy that passes at once: make new-policy ID=some-id
	go run ./cmd/termguard policy new $(ID) --in policies

hooks: ## Let git run the quick checks before a push
	git config core.hooksPath .githooks

clean: ## Remove what make built here (components stay cached)
	rm -rf bin dist
