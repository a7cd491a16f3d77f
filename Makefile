# One-line aliases of what one would type. `make test` is what CI runs.
export CGO_ENABLED := 0

VERSION ?= v0.1.0
TOOLS = $$(go run ./test/tools cli core cli116)

.PHONY: help test unit lint render render-update show xpkg xpkg-test bench fuzz generate clean

help: ## Show this list.
	@sed -n 's/^\([a-z-]*\):.*## /\1\t/p' $(MAKEFILE_LIST) | expand -t 16

test: lint unit render xpkg-test ## Run everything: lint, unit tests, both CLIs on every example, packages.

unit: ## Run the tests that need nothing but Go.
	go test ./...

lint: ## Run golangci-lint, built from its module.
	lint=$$(go run ./test/tools lint) && $$lint run ./... && cd package/build && $$lint run --config ../../.golangci.yml ./...

render: ## Render every example with today's CLI and with v1.16, and compare.
	go run ./test/render $(TOOLS)

render-update: ## Write what both CLIs print as the new golden files.
	go run ./test/render -update $(TOOLS)

show: ## Print one example as today's CLI renders it: make show EXAMPLE=fresh-instance
	@go run ./test/render -print $(TOOLS) $(EXAMPLE)

xpkg: ## Build the packages into dist/.
	go run -C package/build . --version $(VERSION) --cli "$$(go run ./test/tools cli)"

xpkg-test: xpkg ## Push the packages to a registry on this machine, and pull them back.
	CROSSPLANE_CLI="$$(go run ./test/tools cli)" DIST="$(CURDIR)/dist" go test -C package/build -count=1 ./...

bench: ## Measure the function: one call, and its process under load.
	go test ./fn -run '^$$' -bench . -benchtime 2s -count 3

fuzz: ## Look for requests that break the function's promises, for five minutes.
	go test ./fn -run '^$$' -fuzz FuzzRunFunction -fuzztime 5m -fuzzminimizetime 10x

generate: ## Write the XRD, the Compositions, the CRD, deep copies and golden responses.
	go test ./apis/... -update && go test ./fn -update

clean: ## Remove built tools and packages.
	rm -rf .cache dist
