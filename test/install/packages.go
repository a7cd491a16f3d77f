//go:build linux

package main

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// A pkg is a Crossplane package of the product that is installed in the cluster.
type pkg struct{ kind, name, repository string }

// installed lists the packages of the product, with the names that Crossplane gives to dependencies. If a package
// that is also a dependency had another name, it would be installed twice, and neither would become Healthy.
var installed = []pkg{
	{"Function", "crossplane-mysql-function-mysql", "function-mysql"},
	{"Configuration", "crossplane-mysql-configuration-mysql", "configuration-mysql"},
	{"Configuration", "crossplane-mysql-configuration-mysql-namespaced", "configuration-mysql-namespaced"},
	{"Configuration", "crossplane-mysql-configuration-mysql-hostpath", "configuration-mysql-hostpath"},
	{"Configuration", "crossplane-mysql-configuration-database", "configuration-database"},
}

const packageObject = `---
apiVersion: pkg.crossplane.io/v1
kind: %s
metadata:
  name: %s
  annotations: {cluster/loaded: %q}
spec:
  package: %s/%s/%s:%s
  packagePullPolicy: Always
`

// runtimeReference refers to the DeploymentRuntimeConfig of a Function in package/install.yaml.
const runtimeReference = `  runtimeConfigRef:
    name: %s
`

// runtimeObjects returns the objects in package/install.yaml that are not packages.
func runtimeObjects(path string) (string, error) {
	raw, err := os.ReadFile(path)
	if err != nil {
		return "", err
	}
	var out strings.Builder
	for document := range strings.SplitSeq(string(raw), "\n---\n") {
		if strings.Contains(document, "\nkind: DeploymentRuntimeConfig\n") ||
			strings.Contains(document, "\nkind: NetworkPolicy\n") {
			out.WriteString("---\n" + document + "\n")
		}
	}
	return out.String(), nil
}

// install installs the packages with Crossplane, and waits until exactly the pushed packages are healthy.
func (l *loader) install(ctx context.Context) error {
	l.Out.Sayf("installing the packages")
	var objects strings.Builder
	beside, err := runtimeObjects(filepath.Join(l.Cluster.Root, "package", "install.yaml"))
	if err != nil {
		return err
	}
	objects.WriteString(beside)
	// The changed annotation makes Crossplane check the tag immediately.
	stamp := time.Now().UTC().Format(time.RFC3339Nano)
	for _, p := range installed {
		fmt.Fprintf(&objects, packageObject, p.kind, p.name, stamp, publicHost, organization, p.repository, productVersion)
		if p.kind == "Function" {
			fmt.Fprintf(&objects, runtimeReference, p.name)
		}
	}
	if _, err := l.Kubectl(ctx, objects.String(), "apply", "--server-side", "--force-conflicts", "-f", "-"); err != nil {
		return fmt.Errorf("cannot install the packages: %w", err)
	}
	for _, p := range installed {
		if err := l.healthy(ctx, p); err != nil {
			return err
		}
		l.Out.Sayf("%s %s is Healthy", p.kind, p.name)
	}
	return nil
}

func (l *loader) healthy(ctx context.Context, p pkg) error {
	digest, err := l.pushed(ctx, p.repository)
	if err != nil {
		return err
	}
	for {
		s, err := l.look(ctx, p)
		if err != nil {
			return fmt.Errorf("cannot look at %s %s: %w", p.kind, p.name, err)
		}
		if s.has(p.name, digest.Hex) {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%s %s does not become Healthy: %s", p.kind, p.name, s.complaint())
		case <-time.After(200 * time.Millisecond):
		}
	}
}

// packageState contains the status of an installed package, as Crossplane reports it.
type packageState struct {
	Metadata struct {
		Generation int64 `json:"generation"`
	} `json:"metadata"`
	Status struct {
		CurrentRevision string `json:"currentRevision"`
		Conditions      []struct {
			Type    string `json:"type"`
			Status  string `json:"status"`
			Reason  string `json:"reason"`
			Message string `json:"message"`
		} `json:"conditions"`
	} `json:"status"`
}

func (l *loader) look(ctx context.Context, p pkg) (packageState, error) {
	var s packageState
	out, err := l.Kubectl(ctx, "", "get", strings.ToLower(p.kind)+".pkg.crossplane.io", p.name, "--output=json")
	if ctx.Err() != nil {
		return s, context.Cause(ctx)
	}
	if err != nil {
		return s, err
	}
	return s, json.Unmarshal([]byte(out), &s)
}

// has reports whether the package with the given digest is installed and healthy. Crossplane derives the name of a
// revision from the package's name, its digest and its generation (packageRevisionID in Crossplane's
// internal/controller/pkg/manager/reconciler.go).
func (s packageState) has(name, digest string) bool {
	sum := sha256.Sum256([]byte(digest + "|" + strconv.FormatInt(s.Metadata.Generation, 10)))
	if s.Status.CurrentRevision != name+"-"+hex.EncodeToString(sum[:])[:12] {
		return false
	}
	healthy := 0
	for _, c := range s.Status.Conditions {
		if (c.Type == "Healthy" || c.Type == "Installed") && c.Status == "True" {
			healthy++
		}
	}
	return healthy == 2
}

func (s packageState) complaint() string {
	var messages []string
	for _, c := range s.Status.Conditions {
		if c.Status != "True" {
			messages = append(messages, fmt.Sprintf("%s is %s (%s) %s", c.Type, c.Status, c.Reason, c.Message))
		}
	}
	return strings.Join(append(messages, "revision "+s.Status.CurrentRevision), "; ")
}
