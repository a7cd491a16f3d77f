package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"

	"sigs.k8s.io/yaml"

	v1 "github.com/crossplane-mysql/crossplane-mysql/apis/v1"
)

// Values of the environment variable DEMO_API, which selects the API that the demo uses.
const (
	apiClaim      = "claim"
	apiNamespaced = "namespaced"
)

// An api describes an API with which users create a MySQL server: the claim, or the namespaced MySQL.
type api struct {
	// file is the manifest that the demo applies, and image is the image in the manifest.
	file, image string
	// resource is the name of the API's kind in kubectl commands. noun is the word for one of its objects in the demo's
	// output.
	resource, noun string
	// instanceKind is the kind of the API's instances, as it appears in the names of volumes and in BackupRecords.
	instanceKind string
	// configuration is the package that contains the API. xrd is its XRD, and offered is the condition of the XRD that
	// is true once users can create objects.
	configuration, xrd, offered string
	// base is a package that package/install.yaml installs. If the cluster does not have this package, the demo applies
	// package/install.yaml.
	base string
	// stated is true if the manifest contains the password. Otherwise the controller generates the password.
	stated bool
}

// apis returns the two APIs of the product. The key of each API is the value of the environment variable DEMO_API that
// selects it.
func apis() map[string]*api {
	namespaced := v1.API{Object: v1.GroupVersion.WithKind(v1.KindMySQL), XR: v1.GroupVersion.WithKind(v1.KindMySQL)}
	return map[string]*api{
		apiClaim: {
			file: claimFile, image: "mysql:5.7", resource: "mysql", noun: "claim", instanceKind: v1.KindMySQL, stated: true,
			configuration: configurationName, base: configurationName, xrd: "xrd/xmysqls.otus.homework", offered: "Offered",
		},
		apiNamespaced: {
			file: "examples/namespaced/mysql.yaml", image: "mysql:8.4", resource: "mysqlinstance", noun: "MySQL",
			instanceKind: namespaced.InstanceKind(), configuration: configurationName + "-namespaced",
			base: functionName, xrd: "xrd/" + v1.ResourceOf(namespaced.XR).GroupResource().String(), offered: "Established",
		},
	}
}

// apiOf returns the API with the given key. If the key is empty, it returns the API with claims.
func apiOf(name string) (*api, error) {
	if name == "" {
		name = apiClaim
	}
	a, found := apis()[name]
	if !found {
		return nil, fmt.Errorf("DEMO_API=%s is not an API: set it to %q or %q", name, apiClaim, apiNamespaced)
	}
	return a, nil
}

// read reads the manifest of the API, which the demo applies, and returns its claim.
func (a *api) read() (claim, error) {
	var c claim
	b, err := os.ReadFile(a.file)
	if err != nil {
		return c, err
	}
	if err := yaml.UnmarshalStrict(b, &c); err != nil {
		return c, fmt.Errorf("cannot read %s: %w", a.file, err)
	}
	if c.Spec.Image == nil || *c.Spec.Image != a.image {
		return c, fmt.Errorf("%s has another image than %s", a.file, a.image)
	}
	if (c.Spec.Password != nil) != a.stated {
		return c, fmt.Errorf("%s has another source of the password than the demo expects", a.file)
	}
	return c, nil
}

// passwordKey is the key of the password in Secrets.
const passwordKey = v1.PasswordKey

// passwordSecret returns the name of the Secret in which a user specifies the password. It is used if the manifest
// does not contain a password.
func (d *demo) passwordSecret() string { return d.name + "-password" }

// connectionSecret returns the name of the Secret with the password that the server accepts.
func (d *demo) connectionSecret() string {
	return v1.Instance{Kind: d.api.instanceKind, Namespace: d.namespace, Name: d.name}.ConnectionSecretName()
}

// passwordCommand returns a kubectl command that prints the password that the server accepts.
func (d *demo) passwordCommand() command {
	return command{args: []string{"get", "secret", d.connectionSecret(),
		"--output=go-template={{.data." + passwordKey + " | base64decode}}"}}
}

// learnPassword reads the generated password into the shell variable that the demo's SQL commands use.
func (d *demo) learnPassword(ctx context.Context) error {
	if d.api.stated {
		return nil
	}
	c := d.passwordCommand()
	d.screen.show("$ password=$(" + d.kube.shell(c) + ")\n")
	return d.poll(ctx, func(ctx context.Context) error {
		password, err := d.kube.answer(ctx, c)
		if err == nil && password == "" {
			err = errors.New("the connection Secret has no password")
		}
		d.originalPassword, d.password = password, password
		return err
	})
}

// shownPassword returns the password as it appears in the commands that the demo shows. A generated password appears as
// a shell variable.
func (d *demo) shownPassword(password string) string {
	if !d.api.stated && password == d.originalPassword {
		return `"$password"`
	}
	return quote(password)
}

// changeCommands returns the commands that change the password, in the manifest or in a Secret.
func (d *demo) changeCommands() []command {
	if d.api.stated {
		return []command{d.patchCommand(fmt.Sprintf(`{"spec":{"password":%q}}`, newPassword))}
	}
	return []command{
		{args: []string{"create", "secret", "generic", d.passwordSecret(), "--from-literal=" + passwordKey + "=" + newPassword}},
		d.patchCommand(fmt.Sprintf(`{"spec":{"passwordSecretRef":{"name":%q,"key":%q}}}`, d.passwordSecret(), passwordKey)),
	}
}

func (d *demo) patchCommand(patch string) command {
	c := command{args: []string{"patch", d.api.resource, d.name, "--type=merge", "--patch-file=/dev/stdin"}, stdin: patch}
	c.text = d.kube.shell(c) + " <<<" + quote(patch)
	return c
}

// configurationObject returns the manifest of the API's package. In package/install.yaml, it is commented out,
// because not every platform needs it.
func (a *api) configurationObject() (string, error) {
	raw, err := os.ReadFile(packagesFile)
	if err != nil {
		return "", err
	}
	_, name, _ := strings.Cut(a.configuration, "/")
	plain := strings.ReplaceAll("\n"+string(raw), "\n# ", "\n")
	for document := range strings.SplitSeq(plain, "\n---\n") {
		// Remove the comment about the next document.
		document, _, _ = strings.Cut(document, "\nOnly ")
		if strings.Contains(document, "\n  name: "+name+"\n") {
			return strings.TrimSpace(document) + "\n", nil
		}
	}
	return "", fmt.Errorf("%s has no %s", packagesFile, a.configuration)
}

// installCommand returns the command that installs the API's package.
func (d *demo) installCommand() (command, error) {
	object, err := d.api.configurationObject()
	c := command{args: []string{"apply", "--server-side", "-f", "-"}, stdin: object}
	c.text = d.kube.shell(c) + " <<'END'\n" + object + "END"
	return c, err
}
