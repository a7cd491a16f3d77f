package main

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	v1 "github.com/crossplane-mysql/crossplane-mysql/apis/v1"
)

// defaultNamespace is the namespace that kubectl uses by default.
const defaultNamespace = "default"

// choose selects a namespace that contains neither an object nor a backup with the demo's name.
func (d *demo) choose(ctx context.Context) error {
	home, err := d.kube.ask(ctx, "config", "view", "--minify", "--output=jsonpath={..namespace}")
	if err != nil {
		return err
	}
	if home = strings.TrimSpace(home); home == "" {
		home = defaultNamespace
	}
	for n := 1; ; n++ {
		d.namespace = candidate(d.asked, n)
		d.kube.namespace = ""
		if d.namespace != home {
			d.kube.namespace = d.namespace
		}
		taken, err := d.taken(ctx)
		if err != nil {
			return err
		}
		if taken == "" {
			return d.makeNamespace(ctx)
		}
		if d.asked != "" {
			return fmt.Errorf("namespace %s has %s already, and this must not touch it: say another --namespace", d.asked, taken)
		}
		d.screen.sayf("Namespace %s has %s already, which stays as it is.", d.namespace, taken)
	}
}

// candidate returns the nth namespace to try: the one that the user asked for, or default, demo-2, demo-3 and so on.
func candidate(asked string, n int) string {
	switch {
	case asked != "":
		return asked
	case n == 1:
		return defaultNamespace
	}
	return fmt.Sprintf("demo-%d", n)
}

// taken returns an object or a backup that already has the demo's name, or "".
func (d *demo) taken(ctx context.Context) (string, error) {
	instance := v1.Instance{Kind: d.api.instanceKind, Namespace: d.namespace, Name: d.name}
	out, err := d.kube.ask(ctx, "get", d.api.resource+"/"+d.name, "pvc/"+instance.BackupPVCName(), "--ignore-not-found",
		"--output=name")
	if err != nil {
		return "", err
	}
	if found := strings.Fields(out); len(found) > 0 {
		return found[0], nil
	}
	records, err := d.records(ctx)
	if err != nil || len(records) == 0 {
		return "", err
	}
	return "backup " + records[0].Name, nil
}

func (d *demo) makeNamespace(ctx context.Context) error {
	out, err := d.kube.ask(ctx, "get", "namespace", d.namespace, "--ignore-not-found", "--output=name")
	if err != nil || strings.TrimSpace(out) != "" {
		return err
	}
	typed := *d.kube
	typed.namespace = ""
	d.stays("kubectl delete namespace " + d.namespace)
	return typed.enter(ctx, "create", "namespace", d.namespace)
}

// records returns the BackupRecords of the demo's instance.
func (d *demo) records(ctx context.Context) ([]v1.BackupRecord, error) {
	out, err := d.kube.ask(ctx, "get", "backuprecord", "--output=json")
	if err != nil {
		return nil, err
	}
	var all v1.BackupRecordList
	if err := json.Unmarshal([]byte(out), &all); err != nil {
		return nil, fmt.Errorf("cannot read the backups: %w", err)
	}
	var mine []v1.BackupRecord
	for _, r := range all.Items {
		if r.Spec.Instance.Kind == d.api.instanceKind && r.Spec.Instance.Namespace == d.namespace &&
			r.Spec.Instance.Name == d.name {
			mine = append(mine, r)
		}
	}
	return mine, nil
}
