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

// parseRequest returns the Input of an instance from a request.
func parseRequest(req *fnv1.RunFunctionRequest) (*compose.Input, error) {
	settings, err := parseSettings(req.GetInput())
	if err != nil {
		return nil, err
	}
	xr, kind, err := parseXR(req.GetObserved().GetComposite().GetResource())
	if err != nil {
		return nil, err
	}
	in := &compose.Input{XR: xr, Type: kind, Settings: *settings,
		Published: req.GetObserved().GetComposite().GetConnectionDetails(), Unsynced: unsyncedMessage(req),
		Watched: !hasFetched(req)}
	if err := parseObserved(req.GetObserved().GetResources(), &in.Observed); err != nil {
		return nil, err
	}
	return in, parseRequired(req, &in.Required)
}

// unsyncedMessage returns the message of Crossplane's condition Synced if the condition is False, or "".
func unsyncedMessage(req *fnv1.RunFunctionRequest) string {
	for _, c := range conditionsOf(req) {
		if c["type"].GetStringValue() == "Synced" && c["status"].GetStringValue() == "False" {
			return c["message"].GetStringValue()
		}
	}
	return ""
}

// parseSettings decodes the settings in strict mode, so that a misspelled field in a Composition is refused.
func parseSettings(s *structpb.Struct) (*v1.Settings, error) {
	out := &v1.Settings{}
	if s == nil {
		return nil, invalid("the Composition's pipeline step has no input. Add an input of kind %s", v1.KindSettings)
	}
	if err := decodeObject(s, out, true); err != nil {
		return nil, invalid("the Composition's input: %v", err)
	}
	return out, checkSettings(out)
}

// checkSettings validates the settings and sets their defaults.
func checkSettings(s *v1.Settings) error {
	hostPath := s.Volumes == v1.VolumesHostPath
	if s.Volumes == "" {
		s.Volumes = v1.VolumesStorageClass
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
		return invalid("the Composition's input is %s "+
			"%s, but must be %s %s", s.APIVersion, s.Kind, v1.GroupVersion, v1.KindSettings)
	case s.Volumes != v1.VolumesStorageClass && !hostPath:
		return invalid("the Composition's input: volumes is %q. Use %s or %s", s.Volumes, v1.VolumesStorageClass,
			v1.VolumesHostPath)
	case s.Maintenance != v1.MaintenanceWait && s.Maintenance != v1.MaintenanceNow:
		return invalid("the Composition's input: maintenance is %q. Use %s or %s", s.Maintenance, v1.MaintenanceWait,
			v1.MaintenanceNow)
	case !hostPath && s.HostPathRoot != "":
		return invalid("the Composition's input: hostPathRoot is supported only with volumes: %s", v1.VolumesHostPath)
	case !hostPath && s.HostPathNode != "":
		return invalid("the Composition's input: hostPathNode is supported only with volumes: %s", v1.VolumesHostPath)
	case len(validation.IsValidLabelValue(s.HostPathNode)) > 0:
		return invalid("the Composition's input: hostPathNode %q is not a valid node name", s.HostPathNode)
	case hostPath && (!path.IsAbs(s.HostPathRoot) || path.Clean(s.HostPathRoot) != s.HostPathRoot ||
		s.HostPathRoot == "/"):
		return invalid("the Composition's input: hostPathRoot %q must be an absolute path below /, without '..'",
			s.HostPathRoot)
	case hostPath && s.DefaultStorageClassName != nil:
		return invalid("the Composition's input: defaultStorageClassName is supported "+
			"only with volumes: %s", v1.VolumesStorageClass)
	}
	return nil
}

// parseXR decodes an XR of any supported API. It converts an XDatabase to an XMySQL, which keeps the kind.
func parseXR(s *structpb.Struct) (*v1.XMySQL, v1.DatabaseType, error) {
	kind, apiVersion := s.GetFields()["kind"].GetStringValue(), s.GetFields()["apiVersion"].GetStringValue()
	switch {
	case kind == v1.KindXMySQL && apiVersion == v1.GroupVersionClaims.String(), kind == v1.KindMySQL &&
		apiVersion == v1.GroupVersion.String():
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
	return nil, "", &compose.Refusal{Reason: v1.ReasonNotSupported,
		Err: errors.Errorf("this function composes %s (%s), %s (%s) and %s (%s), but not %q (%q). Fix the Composition's "+
			"compositeTypeRef",
			v1.KindXMySQL, v1.GroupVersionClaims, v1.KindXDatabase, v1.GroupVersionDatabase, v1.KindMySQL, v1.GroupVersion,
			kind, apiVersion)}
}

// parseObserved decodes the fields of observed resources that decisions depend on. It returns an error for a resource
// of an unexpected kind, so that nothing is changed.
func parseObserved(rs map[string]*fnv1.Resource, target *compose.Observed) error {
	target.Template = parseTemplate(rs[v1.ResourceDeployment].GetResource())
	return errors.Join(
		observed(rs, v1.ResourceDataPV, "PersistentVolume", &target.DataPV, "spec.claimRef", "spec.hostPath", "status.phase"),
		observed(rs, v1.ResourceDataPVC, "PersistentVolumeClaim", &target.DataPVC, "metadata.deletionTimestamp",
			"spec.volumeName", "spec.storageClassName", "spec.resources", "status.phase"),
		observed(rs, v1.ResourceRootPassword, "Secret", &target.RootPassword, "data."+v1.PasswordKey),
		observed(rs, v1.ResourceConfig, "ConfigMap", &target.Config, "data"),
		observed(rs, v1.ResourceDeployment, "Deployment", &target.Deployment, "metadata.generation", "metadata.annotations",
			"spec.replicas", "status.observedGeneration", "status.updatedReplicas", "status.readyReplicas",
			"status.availableReplicas", "status.conditions"),
		observed(rs, v1.ResourceService, "Service", &target.Service, "metadata.annotations", "spec.type", "spec.clusterIP",
			"spec.ports", "status.loadBalancer"),
		observed(rs, v1.ResourceJobPolicy, "NetworkPolicy", &target.JobPolicy),
		observed(rs, v1.ResourceServerPolicy, "NetworkPolicy", &target.ServerPolicy),
		observed(rs, v1.ResourceSettingsCheck, "Job", &target.SettingsCheck, "metadata.annotations", "status.conditions"),
		observed(rs, v1.ResourceRestore, "Job", &target.Restore, "metadata.uid", "metadata.annotations", "status.conditions"),
	)
}

// parseTemplate decodes the pod template of a Deployment, if it has one.
func parseTemplate(deployment *structpb.Struct) *compose.Template {
	t, ok := deployment.GetFields()["spec"].GetStructValue().GetFields()["template"]
	if !ok {
		return nil
	}
	images, pod := map[string]string{}, t.GetStructValue().GetFields()["spec"].GetStructValue().GetFields()
	for _, c := range pod["containers"].GetListValue().GetValues() {
		images[c.GetStructValue().GetFields()["name"].GetStringValue()] = c.GetStructValue().
			GetFields()["image"].GetStringValue()
	}
	certified := slices.ContainsFunc(pod["volumes"].GetListValue().GetValues(), func(v *structpb.Value) bool {
		return v.GetStructValue().GetFields()["name"].GetStringValue() == compose.TLSVolume
	})
	annotations := t.GetStructValue().GetFields()["metadata"].GetStructValue().GetFields()["annotations"].GetStructValue()
	return &compose.Template{Digest: digest(t), Images: images, Certified: certified,
		ConfigHash: annotations.GetFields()[v1.AnnotationConfigHash].GetStringValue()}
}

func observed[T any](rs map[string]*fnv1.Resource, name, kind string, target **T, names ...string) error {
	r, ok := rs[name]
	if !ok {
		return nil
	}
	if k := r.GetResource().GetFields()["kind"].GetStringValue(); k != kind {
		return &compose.Refusal{Reason: v1.ReasonNotSupported,
			Err: errors.Errorf("the composed resource %q is a %q, but must be a %s. Rename the resource that another "+
				"function of the Composition creates", name, k, kind)}
	}
	*target = new(T)
	return errors.Wrapf(decodeOnly(r.GetResource(), *target, names), "cannot read the composed resource %q", name)
}

// parseRequired decodes the required resources, from the field of the request that the caller supports.
func parseRequired(req *fnv1.RunFunctionRequest, target *compose.RequiredResources) error {
	get := func(key string) (*fnv1.Resources, bool) {
		if r, ok := req.GetRequiredResources()[key]; ok {
			return r, true
		}
		r, ok := req.GetExtraResources()[key] //nolint:staticcheck // It is deprecated, but Crossplane 1 sends nothing else.
		return r, ok
	}
	target.Existing = map[string]compose.Required[metav1.PartialObjectMetadata]{}
	for _, name := range compose.ResourceNames() {
		a := compose.Required[metav1.PartialObjectMetadata]{}
		if err := readRequired(get, compose.RequiredExisting+name, &a, "metadata.ownerReferences"); err != nil {
			return err
		}
		target.Existing[name] = a
	}
	return errors.Join(
		readRequired(get, compose.RequiredPlatform, &target.Platform, "spec"),
		readRequired(get, compose.RequiredRecords, &target.Records, recordFields()...),
		readRequired(get, compose.RequiredNamed, &target.Named, recordFields()...),
		readRequired(get, compose.RequiredConnection, &target.Connection, "metadata.labels", "data"),
		readRequired(get, compose.RequiredPassword, &target.Password, "metadata.labels", "metadata.resourceVersion", "data"),
		readRequired(get, compose.RequiredImport, &target.Import, "metadata.labels"),
		readRequired(get, compose.RequiredNamespace, &target.Namespace, "metadata.uid"),
		readRequired(get, compose.RequiredPolicy, &target.Policy, "metadata.labels", "metadata.deletionTimestamp"),
		readRequired(get, compose.RequiredBinding, &target.Binding, "metadata.deletionTimestamp", "spec"),
		readRequired(get, compose.RequiredClass, &target.Class, "allowVolumeExpansion"),
		readRequired(get, compose.RequiredVolume, &target.Volume, "spec.claimRef", "spec.storageClassName", "spec.capacity"),
	)
}

// recordFields returns the fields of a BackupRecord to decode, including its whole spec.
func recordFields() []string {
	return []string{"metadata.creationTimestamp", "metadata.deletionTimestamp", "status.phase", "spec"}
}

func readRequired[T any](get func(string) (*fnv1.Resources, bool), key string, target *compose.Required[T],
	names ...string) error {
	rs, ok := get(key)
	if !ok {
		return nil
	}
	target.Known = true
	target.Items = make([]T, len(rs.GetItems()))
	for i, r := range rs.GetItems() {
		if err := decodeOnly(r.GetResource(), &target.Items[i], names); err != nil {
			return errors.Wrapf(err, "cannot read the required resource %q", key)
		}
	}
	return nil
}

func invalid(format string, args ...any) error {
	return &compose.Refusal{Reason: v1.ReasonInvalid, Err: errors.Errorf(format, args...)}
}
