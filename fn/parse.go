package main

import (
	"path"
	"slices"

	"github.com/crossplane/function-sdk-go/errors"
	fnv1 "github.com/crossplane/function-sdk-go/proto/v1"
	"google.golang.org/protobuf/types/known/structpb"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"

	v1 "github.com/crossplane-mysql/crossplane-mysql/apis/v1"
	"github.com/crossplane-mysql/crossplane-mysql/fn/compose"
)

// parseRequest into what an instance depends on.
func parseRequest(req *fnv1.RunFunctionRequest) (*compose.Input, error) {
	settings, err := parseSettings(req.GetInput())
	if err != nil {
		return nil, err
	}
	xr, kind, err := parseXR(req.GetObserved().GetComposite().GetResource())
	if err != nil {
		return nil, err
	}
	in := &compose.Input{XR: xr, Type: kind, Settings: *settings, Published: req.GetObserved().GetComposite().GetConnectionDetails(), Unsynced: unsyncedMessage(req)}
	if err := parseObserved(req.GetObserved().GetResources(), &in.Observed); err != nil {
		return nil, err
	}
	return in, parseRequired(req, &in.Required)
}

// unsyncedMessage returns the message of Crossplane's condition Synced if that is False, or "".
func unsyncedMessage(req *fnv1.RunFunctionRequest) string {
	for _, c := range conditionsOf(req) {
		if c["type"].GetStringValue() == "Synced" && c["status"].GetStringValue() == "False" {
			return c["message"].GetStringValue()
		}
	}
	return ""
}

// parseSettings strictly: a typing error in a Composition must not pass for a
// default.
func parseSettings(s *structpb.Struct) (*v1.Settings, error) {
	out := &v1.Settings{}
	if s == nil {
		return nil, invalid("the Composition's pipeline step has no input: give it one of kind %s", v1.KindSettings)
	}
	if err := decodeObject(s, out, true); err != nil {
		return nil, invalid("the Composition's input: %v", err)
	}
	return out, checkSettings(out)
}

// checkSettings and fill in their defaults.
func checkSettings(s *v1.Settings) error {
	hostPath := s.Volumes == v1.VolumesHostPath
	if s.Volumes == "" {
		s.Volumes = v1.VolumesStorageClass
	}
	if s.DefaultImage == "" {
		s.DefaultImage = v1.DefaultImage
	}
	if s.DefaultMongoImage == "" {
		s.DefaultMongoImage = v1.DefaultMongoImage
	}
	if s.Maintenance == "" {
		s.Maintenance = v1.MaintenanceWait
	}
	if hostPath && s.HostPathRoot == "" {
		s.HostPathRoot = v1.DefaultHostPathRoot
	}
	switch {
	case s.APIVersion != v1.GroupVersion.String() || s.Kind != v1.KindSettings:
		return invalid("the Composition's input is %s %s, not %s %s", s.APIVersion, s.Kind, v1.GroupVersion, v1.KindSettings)
	case s.Volumes != v1.VolumesStorageClass && !hostPath:
		return invalid("the Composition's input: volumes is %q: use %s or %s", s.Volumes, v1.VolumesStorageClass, v1.VolumesHostPath)
	case s.Maintenance != v1.MaintenanceWait && s.Maintenance != v1.MaintenanceNow:
		return invalid("the Composition's input: maintenance is %q: use %s or %s", s.Maintenance, v1.MaintenanceWait, v1.MaintenanceNow)
	case !hostPath && s.HostPathRoot != "":
		return invalid("the Composition's input: hostPathRoot is only for volumes: %s", v1.VolumesHostPath)
	case !hostPath && s.HostPathNode != "":
		return invalid("the Composition's input: hostPathNode is only for volumes: %s", v1.VolumesHostPath)
	case len(validation.IsValidLabelValue(s.HostPathNode)) > 0:
		return invalid("the Composition's input: hostPathNode %q is not the name of a node", s.HostPathNode)
	case hostPath && (!path.IsAbs(s.HostPathRoot) || path.Clean(s.HostPathRoot) != s.HostPathRoot || s.HostPathRoot == "/"):
		return invalid("the Composition's input: hostPathRoot %q must be an absolute path below /, without '..'", s.HostPathRoot)
	case hostPath && s.DefaultStorageClassName != nil:
		return invalid("the Composition's input: defaultStorageClassName is only for volumes: %s", v1.VolumesStorageClass)
	}
	return nil
}

// parseXR of either API. An XDatabase is an XMySQL of that kind from here on.
func parseXR(s *structpb.Struct) (*v1.XMySQL, v1.DatabaseType, error) {
	kind, apiVersion := s.GetFields()["kind"].GetStringValue(), s.GetFields()["apiVersion"].GetStringValue()
	switch {
	case kind == v1.KindXMySQL && apiVersion == v1.GroupVersion.String():
		xr := &v1.XMySQL{}
		if err := decodeObject(s, xr, false); err != nil {
			return nil, "", invalid("%v", err)
		}
		return xr, v1.TypeMySQL, nil
	case kind == v1.KindXDatabase && apiVersion == v1.GroupVersionDatabase.String():
		xr := &v1.XDatabase{}
		if err := decodeObject(s, xr, false); err != nil {
			return nil, "", invalid("%v", err)
		}
		return xr.AsMySQL(), xr.Spec.Type, nil
	}
	return nil, "", &compose.Refusal{Reason: v1.ReasonNotSupported, Err: errors.Errorf("this function composes %s of %s and %s of %s, not %q of %q: fix the Composition's compositeTypeRef",
		v1.KindXMySQL, v1.GroupVersion, v1.KindXDatabase, v1.GroupVersionDatabase, kind, apiVersion)}
}

// parseObserved resources, and of each only what a decision reads. One of
// another kind than we made is a reason to touch nothing.
func parseObserved(rs map[string]*fnv1.Resource, into *compose.Observed) error {
	into.Template = parseTemplate(rs[v1.ResourceDeployment].GetResource())
	return errors.Join(
		observed(rs, v1.ResourceDataPV, "PersistentVolume", &into.DataPV, "spec.claimRef", "spec.hostPath", "status.phase"),
		observed(rs, v1.ResourceDataPVC, "PersistentVolumeClaim", &into.DataPVC, "metadata.deletionTimestamp", "spec.volumeName", "spec.storageClassName", "spec.resources", "status.phase"),
		observed(rs, v1.ResourceRootPassword, "Secret", &into.RootPassword, "data."+v1.PasswordKey),
		observed(rs, v1.ResourceConfig, "ConfigMap", &into.Config, "data"),
		observed(rs, v1.ResourceDeployment, "Deployment", &into.Deployment, "metadata.generation", "metadata.annotations", "spec.replicas", "status.observedGeneration", "status.updatedReplicas", "status.readyReplicas", "status.availableReplicas", "status.conditions"),
		observed(rs, v1.ResourceService, "Service", &into.Service, "metadata.annotations", "spec.type", "spec.clusterIP", "spec.ports", "status.loadBalancer"),
		observed(rs, v1.ResourceJobPolicy, "NetworkPolicy", &into.JobPolicy),
		observed(rs, v1.ResourceServerPolicy, "NetworkPolicy", &into.ServerPolicy),
		observed(rs, v1.ResourceSettingsCheck, "Job", &into.SettingsCheck, "metadata.annotations", "status.conditions"),
		observed(rs, v1.ResourceRestore, "Job", &into.Restore, "metadata.uid", "metadata.annotations", "status.conditions"),
	)
}

// parseTemplate of a Deployment's pods, if it has one.
func parseTemplate(deployment *structpb.Struct) *compose.Template {
	t, ok := deployment.GetFields()["spec"].GetStructValue().GetFields()["template"]
	if !ok {
		return nil
	}
	images, pod := map[string]string{}, t.GetStructValue().GetFields()["spec"].GetStructValue().GetFields()
	for _, c := range pod["containers"].GetListValue().GetValues() {
		images[c.GetStructValue().GetFields()["name"].GetStringValue()] = c.GetStructValue().GetFields()["image"].GetStringValue()
	}
	certified := slices.ContainsFunc(pod["volumes"].GetListValue().GetValues(), func(v *structpb.Value) bool {
		return v.GetStructValue().GetFields()["name"].GetStringValue() == compose.TLSVolume
	})
	annotations := t.GetStructValue().GetFields()["metadata"].GetStructValue().GetFields()["annotations"].GetStructValue()
	return &compose.Template{Digest: digest(t), Images: images, Certified: certified, ConfigHash: annotations.GetFields()[v1.AnnotationConfigHash].GetStringValue()}
}

func observed[T any](rs map[string]*fnv1.Resource, name, kind string, into **T, names ...string) error {
	r, ok := rs[name]
	if !ok {
		return nil
	}
	if k := r.GetResource().GetFields()["kind"].GetStringValue(); k != kind {
		return &compose.Refusal{Reason: v1.ReasonNotSupported, Err: errors.Errorf("the composed resource %q is a %q and should be a %s: rename the one that another function of the Composition makes", name, k, kind)}
	}
	*into = new(T)
	return errors.Wrapf(decodeOnly(r.GetResource(), *into, names), "cannot read the composed resource %q", name)
}

// parseRequired of the cluster, in the field that the caller knows.
func parseRequired(req *fnv1.RunFunctionRequest, into *compose.RequiredResources) error {
	get := func(key string) (*fnv1.Resources, bool) {
		if r, ok := req.GetRequiredResources()[key]; ok {
			return r, true
		}
		r, ok := req.GetExtraResources()[key] //nolint:staticcheck // Deprecated, and all that Crossplane 1 sends.
		return r, ok
	}
	into.Existing = map[string]compose.Required[metav1.PartialObjectMetadata]{}
	for _, name := range compose.ResourceNames() {
		a := compose.Required[metav1.PartialObjectMetadata]{}
		if err := readRequired(get, compose.RequiredExisting+name, &a, "metadata.ownerReferences"); err != nil {
			return err
		}
		into.Existing[name] = a
	}
	return errors.Join(
		readRequired(get, compose.RequiredPlatform, &into.Platform, "spec"),
		readRequired(get, compose.RequiredRecords, &into.Records, recordFields()...),
		readRequired(get, compose.RequiredNamed, &into.Named, recordFields()...),
		readRequired(get, compose.RequiredConnection, &into.Connection, "metadata.labels", "data"),
		readRequired(get, compose.RequiredPassword, &into.Password, "metadata.labels", "metadata.resourceVersion", "data"),
		readRequired(get, compose.RequiredImport, &into.Import, "metadata.labels"),
		readRequired(get, compose.RequiredNamespace, &into.Namespace, "metadata.uid"),
		readRequired(get, compose.RequiredClass, &into.Class, "allowVolumeExpansion"),
		readRequired(get, compose.RequiredVolume, &into.Volume, "spec.claimRef", "spec.storageClassName", "spec.capacity"),
	)
}

// recordFields of a MySQLBackup: its spec is read whole.
func recordFields() []string {
	return []string{"metadata.creationTimestamp", "metadata.deletionTimestamp", "status.phase", "spec"}
}

func readRequired[T any](get func(string) (*fnv1.Resources, bool), key string, into *compose.Required[T], names ...string) error {
	rs, ok := get(key)
	if !ok {
		return nil
	}
	into.Known = true
	into.Items = make([]T, len(rs.GetItems()))
	for i, r := range rs.GetItems() {
		if err := decodeOnly(r.GetResource(), &into.Items[i], names); err != nil {
			return errors.Wrapf(err, "cannot read the required resource %q", key)
		}
	}
	return nil
}

func invalid(format string, args ...any) error {
	return &compose.Refusal{Reason: v1.ReasonInvalid, Err: errors.Errorf(format, args...)}
}
