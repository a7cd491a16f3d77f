package instance

import (
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/yaml"

	v1 "github.com/crossplane-mysql/crossplane-mysql/apis/v1"
)

// sectioned nests the settings in spec.config below a section name, as in my.cnf.
func sectioned(u *unstructured.Unstructured) *unstructured.Unstructured {
	spec, _ := u.Object["spec"].(map[string]any)
	spec["config"] = map[string]any{"mysqld": map[string]any{"max_connections": int64(200)}}
	return u
}

// TestUnreadableConfigStaysLocal checks that the controller can read an instance and its neighbors even if a config
// is unreadable.
func TestUnreadableConfigStaysLocal(t *testing.T) {
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "default", UID: "ns"}}
	own := record(instanceID.RecordName(), "db", 2)
	own.Spec.Instance.XR = instanceID.XR
	neighbor := xr("other-x", "uid-9", "other", false)
	neighbor.SetLabels(map[string]string{labelClaimNamespace: "default", labelClaimName: "other"})
	for name, tc := range map[string]struct {
		objects []client.Object
		reason  string
	}{
		"Own": {objects: []client.Object{ns, sectioned(xr("x", "uid-1", "db", true))},
			reason: "XMySQL x: spec.config.mysqld cannot be read"},
		"Claim": {objects: []client.Object{ns, sectioned(boundClaim("x")), xr("x", "uid-1", "db", true)},
			reason: "MySQL db: spec.config.mysqld cannot be read"},
		"Neighbor": {objects: []client.Object{ns, xr("x", "uid-1", "db", true), own, record("old", "db", 1),
			sectioned(neighbor)}},
	} {
		t.Run(name, func(t *testing.T) {
			g := &Gatherer{Reader: fake.NewClientBuilder().WithScheme(scheme(t)).WithObjects(tc.objects...).Build(),
				Clock: time.Now}
			instances, err := g.Gather(t.Context(), key)
			if err != nil || len(instances) != 1 || !instances[0].IsDeleting() {
				t.Fatalf("want the instance, being deleted, got %d, %v", len(instances), err)
			}
			if reason := instances[0].WhyUnreadable(); tc.reason == "" && reason != "" || !strings.Contains(reason, tc.reason) {
				t.Errorf("want %q, got %q", tc.reason, reason)
			}
		})
	}
}

// TestUnreadableKeepsData checks that unreadable fields get a value that does not lead to data loss.
func TestUnreadableKeepsData(t *testing.T) {
	odd := map[string]any{"a": "b"}
	for name, tc := range map[string]struct {
		spec, status any
		holds        func(*State) bool
	}{
		"Spec": {spec: "text", holds: func(s *State) bool {
			return s.DeletionIntent().Policy() == v1.DeletionBackup && s.DeletionIntent().RequiresRestorable()
		}},
		"DeletionPolicy": {spec: map[string]any{"deletionPolicy": odd},
			holds: func(s *State) bool { return s.DeletionIntent().Policy() == v1.DeletionBackup }},
		"Backup": {spec: map[string]any{"backup": "text"},
			holds: func(s *State) bool {
				return s.DeletionIntent().RequiresRestorable() && *s.XR.Spec.Backup.Retention.Count >= 100
			}},
		"RequireRestorable": {spec: map[string]any{"backup": map[string]any{"finalBackup": map[string]any{"requireRestoreTest": "false"}}},
			holds: func(s *State) bool { return s.DeletionIntent().RequiresRestorable() }},
		"Keep": {spec: map[string]any{"backup": map[string]any{"retention": map[string]any{"count": 1e300}}},
			holds: func(s *State) bool { return *s.XR.Spec.Backup.Retention.Count >= 100 }},
		"KeepFor": {spec: map[string]any{"backup": map[string]any{"retention": map[string]any{"minAge": odd}}},
			holds: func(s *State) bool { return v1.ParseMinAge(s.XR.Spec.Backup.Retention.MinAge) > 100*365*24*time.Hour }},
		"KeepOfBackup": {spec: map[string]any{"backup": map[string]any{"retention": map[string]any{"minAge": odd, "count": int64(7)}}},
			holds: func(s *State) bool { return *s.XR.Spec.Backup.Retention.Count == 7 }},
		"Started": {status: internal("started", odd),
			holds: func(s *State) bool { return s.XR.Status.Started && s.XR.Status.Initialized == false }},
		"Internal": {status: map[string]any{"internal": "text"}, holds: func(s *State) bool {
			return s.XR.Status.Started && s.XR.Status.Initialized
		}},
		"Status": {status: "text", holds: func(s *State) bool {
			return s.XR.Status.Started && s.XR.Status.Initialized
		}},
		"Readable": {spec: map[string]any{"deletionPolicy": "Discard"},
			holds: func(s *State) bool {
				return s.DeletionIntent().Policy() == v1.DeletionDiscard && s.WhyUnreadable() == ""
			}},
	} {
		t.Run(name, func(t *testing.T) {
			u := xr("x", "uid-1", "db", false)
			if spec, ok := tc.spec.(map[string]any); ok {
				maps.Copy(u.Object["spec"].(map[string]any), spec)
			} else if tc.spec != nil {
				u.Object["spec"] = tc.spec
			}
			if tc.status != nil {
				u.Object["status"] = tc.status
			}
			s := NewState(Subject{Instance: instanceID, XR: Decode(u)})
			if !tc.holds(s) {
				t.Errorf("it does not hold: spec %+v, status %+v, unreadable %s", s.XR.Spec, s.XR.Status, s.XR.Unreadable)
			}
			if k, ok := s.XR.Key(); !ok || k != key {
				t.Errorf("want an instance of %s, got %s", key, k)
			}
		})
	}
}

// TestDoubtIsNotEphemeral checks that a Database is not treated as ephemeral if its size is unreadable, because it
// may have data.
func TestDoubtIsNotEphemeral(t *testing.T) {
	databases, _ := kindOf(v1.KindDatabase)
	for _, size := range []any{nil, map[string]any{}} {
		u := newObject(databases.XR)
		u.Object["spec"] = map[string]any{"type": "mysql", "storageSize": size}
		s := NewState(Subject{Instance: v1.Instance{Kind: v1.KindDatabase}, XR: Decode(u)})
		if s.Ephemeral() != (size == nil) {
			t.Errorf("size %v: ephemeral is %t", size, s.Ephemeral())
		}
	}
}

// TestUnreadableClaimReference checks that an XR with an unreadable reference is treated as an instance, and that a
// claim with an unreadable reference is treated as bound to it.
func TestUnreadableClaimReference(t *testing.T) {
	dying := xr("x", "uid-1", "db", true)
	dying.SetLabels(nil) // The controller can find the XR only through the reference in the claim.
	claim := boundClaim("x")
	claim.Object["spec"] = map[string]any{"resourceRef": []any{}, "deletionPolicy": "Backup"}
	g := &Gatherer{Reader: fake.NewClientBuilder().WithScheme(scheme(t)).WithObjects(dying, claim).Build(),
		Clock: time.Now}
	instances, err := g.Gather(t.Context(), key)
	if err != nil || len(instances) != 1 || instances[0].XR == nil || instances[0].Claim == nil {
		t.Fatalf("want the XR and its claim, got %+v, %v", instances, err)
	}
	nobodys := xr("x", "uid-1", "db", true)
	nobodys.SetLabels(nil)
	nobodys.Object["spec"] = "text"
	g.Reader = fake.NewClientBuilder().WithScheme(scheme(t)).WithObjects(nobodys, boundClaim("x")).Build()
	if instances, err := g.Gather(t.Context(), key); err == nil {
		t.Errorf("want nothing decided about a claim whose XR does not say whose it is, got %d", len(instances))
	}
}

// TestMayBeRestoring checks that a backup is not deleted if an XR may have chosen it.
func TestMayBeRestoring(t *testing.T) {
	backups := []v1.BackupRecord{*record("a", "db", 1), *record("b", "db", 2)}
	for name, tc := range map[string]struct {
		status map[string]any
		want   []string
	}{
		"None": {status: map[string]any{}},
		"Chosen": {status: map[string]any{"restore": map[string]any{"backup": "a", "phase": "Running"}},
			want: []string{"a"}},
		"Started": {status: map[string]any{"internal": map[string]any{"started": true}, "restore": map[string]any{"backup": "a"}}},
		"Doubt":   {status: map[string]any{"restore": map[string]any{"backup": int64(1)}}, want: []string{"a", "b"}},
		"Unclear": {status: map[string]any{"internal": map[string]any{"started": "maybe"}, "restore": map[string]any{"backup": "a"}},
			want: []string{"a"}},
	} {
		u := xr("x", "uid-1", "db", false)
		u.Object["status"] = tc.status
		if got := Decode(u).mayBeRestoring(backups); !slices.Equal(got, tc.want) {
			t.Errorf("%s: want %v, got %v", name, tc.want, got)
		}
	}
}

// An apiServer is a fake API server. It stores objects as JSON, even if the Go types cannot represent them.
type apiServer struct{ objects []map[string]any }

// newAPI returns a client for the fake API server.
func newAPI(tb testing.TB, api *apiServer) client.Client {
	tb.Helper()
	server := httptest.NewServer(api)
	tb.Cleanup(server.Close)
	scheme, err := NewScheme()
	if err != nil {
		tb.Fatal(err)
	}
	mapper := meta.NewDefaultRESTMapper(nil)
	for kind := range clientgoscheme.Scheme.AllKnownTypes() {
		mapper.Add(kind, meta.RESTScopeNamespace)
	}
	for _, kind := range []string{"PersistentVolume", "Namespace", "Node"} {
		mapper.Add(corev1.SchemeGroupVersion.WithKind(kind), meta.RESTScopeRoot)
	}
	for _, kind := range []string{v1.KindBackupRecord, v1.KindBackupStore, v1.KindPlatform} {
		mapper.Add(v1.GroupVersion.WithKind(kind), meta.RESTScopeRoot)
	}
	for _, kind := range Kinds() {
		mapper.Add(kind.Object, meta.RESTScopeNamespace)
		mapper.Add(kind.XR, meta.RESTScopeRoot)
	}
	mapper.Add(xrdKind, meta.RESTScopeRoot)
	config := &rest.Config{Host: server.URL, QPS: -1, ContentConfig: rest.ContentConfig{ContentType: "application/json"}}
	c, err := client.New(config, client.Options{Scheme: scheme, Mapper: mapper})
	if err != nil {
		tb.Fatal(err)
	}
	return c
}

// ServeHTTP serves the get and list requests of the client.
func (s *apiServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	steps := strings.Split(strings.Trim(r.URL.Path, "/"), "/")
	version := steps[1]
	if steps = steps[2:]; strings.HasPrefix(r.URL.Path, "/apis/") {
		version, steps = version+"/"+steps[0], steps[1:]
	}
	namespace := ""
	if steps[0] == "namespaces" && len(steps) > 2 {
		namespace, steps = steps[1], steps[2:]
	}
	selector, _ := labels.Parse(r.URL.Query().Get("labelSelector"))
	items := []any{}
	for _, m := range s.objects {
		u := &unstructured.Unstructured{Object: m}
		plural, _ := meta.UnsafeGuessKindToResource(u.GroupVersionKind())
		if u.GetAPIVersion() != version || plural.Resource != steps[0] || namespace != "" && u.GetNamespace() != namespace ||
			len(steps) > 1 && u.GetName() != steps[1] || !selector.Matches(labels.Set(u.GetLabels())) {
			continue
		}
		if strings.Contains(r.Header.Get("Accept"), "PartialObjectMetadata") {
			m = map[string]any{"apiVersion": "meta.k8s.io/v1", "kind": "PartialObjectMetadata", "metadata": m["metadata"]}
		}
		items = append(items, m)
	}
	w.Header().Set("Content-Type", "application/json")
	var out any = map[string]any{"apiVersion": version, "kind": "List", "metadata": map[string]any{}, "items": items}
	switch {
	case strings.Contains(r.Header.Get("Accept"), "PartialObjectMetadata") && len(steps) == 1:
		out = map[string]any{"apiVersion": "meta.k8s.io/v1", "kind": "PartialObjectMetadataList",
			"metadata": map[string]any{}, "items": items}
	case len(steps) == 1:
		out.(map[string]any)["kind"] = kindOfList(version, steps[0])
	case len(items) == 0:
		w.WriteHeader(http.StatusNotFound)
		out = metav1.Status{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}, Status: "Failure",
			Reason: metav1.StatusReasonNotFound, Code: http.StatusNotFound}
	default:
		out = items[0]
	}
	_ = json.NewEncoder(w).Encode(out) //nolint:errchkjson // The value is a Status or was decoded from JSON.
}

// kindOfList returns the list kind of a resource, such as SecretList for secrets.
func kindOfList(version, resource string) string {
	for kind := range clientgoscheme.Scheme.AllKnownTypes() {
		if plural, _ := meta.UnsafeGuessKindToResource(kind); kind.GroupVersion().String() == version &&
			plural.Resource == resource {
			return kind.Kind + "List"
		}
	}
	for _, kind := range []string{v1.KindBackupRecord, v1.KindBackupStore, v1.KindPlatform, v1.KindMySQL,
		v1.KindXMySQL, v1.KindDatabase, v1.KindXDatabase} {
		if plural, _ := meta.UnsafeGuessKindToResource(v1.GroupVersion.WithKind(kind)); plural.Resource == resource {
			return kind + "List"
		}
	}
	return "List"
}

// stored returns an object as the fake API server stores it.
func stored(tb testing.TB, o client.Object) map[string]any {
	tb.Helper()
	m, err := runtime.DefaultUnstructuredConverter.ToUnstructured(o)
	if err != nil {
		tb.Fatal(err)
	}
	return m
}

// crowd returns an instance that is being deleted, followed by one object of each kind that its neighbors have.
func crowd(tb testing.TB) (all []map[string]any, odd int) {
	tb.Helper()
	kinded := func(o client.Object, kind string) client.Object {
		o.GetObjectKind().SetGroupVersionKind(v1.GroupVersion.WithKind(kind))
		return o
	}
	neighbor := xr("other-x", "uid-9", "other", false)
	neighbor.SetLabels(map[string]string{labelClaimNamespace: "default", labelClaimName: "other"})
	neighborsClaim := boundClaim("other-x")
	neighborsClaim.SetName("other")
	own, older := record(instanceID.RecordName(), "db", 2), record("old", "db", 1)
	own.Spec.Instance.XR = instanceID.XR
	others := record("others", "other", 1)
	pvc, pv := protected(dataPVC(key.Instance("uid-9").Labels())), heldVolume("uid-9", "default")
	pvc.Name, pvc.TypeMeta = "other-pvc", metav1.TypeMeta{APIVersion: "v1", Kind: "PersistentVolumeClaim"}
	pv.Name, pv.TypeMeta = "other-pv", metav1.TypeMeta{APIVersion: "v1", Kind: "PersistentVolume"}
	backups := backupsAt("backups", "ns", nil)
	backups.TypeMeta = pv.TypeMeta
	ns := &corev1.Namespace{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Namespace"},
		ObjectMeta: metav1.ObjectMeta{Name: "default", UID: "ns"}}
	for _, o := range []client.Object{
		ns, xr("x", "uid-1", "db", true), boundClaim("x"), kinded(own, v1.KindBackupRecord), kinded(older, v1.KindBackupRecord),
		neighbor, neighborsClaim, kinded(others, v1.KindBackupRecord), pvc, pv, backups,
		kinded(&v1.BackupStore{ObjectMeta: metav1.ObjectMeta{Name: "store"}}, v1.KindBackupStore),
		kinded(&v1.Platform{ObjectMeta: metav1.ObjectMeta{Name: v1.PlatformName}}, v1.KindPlatform),
	} {
		all = append(all, stored(tb, o))
	}
	return all, 5
}

// oddities returns the unexpected values that are put into each field.
func oddities() []any {
	return []any{
		map[string]any{}, map[string]any{"a": map[string]any{"b": int64(1)}}, []any{},
		[]any{"a", nil, map[string]any{}, int64(1)}, nil, "", "\x00odd",
		"2026-01-01t00:00:00z", int64(math.MinInt64), int64(math.MaxInt64), 1.5, 1e300, true, json.Number("1e-9999999"),
	}
}

// schemaPaths returns the fields of spec and status of a kind, from its CRD or XRD.
func schemaPaths(tb testing.TB, kind string) [][]string {
	tb.Helper()
	file := map[string]string{
		v1.KindXMySQL: "xrd-xmysqls", v1.KindMySQL: "xrd-xmysqls", v1.KindBackupRecord: "crd-backuprecords",
		v1.KindBackupStore: "crd-backupstores", v1.KindPlatform: "crd-platforms",
	}[kind]
	if file == "" {
		return nil
	}
	raw, err := os.ReadFile("../../../apis/" + file + ".yaml")
	if err != nil {
		tb.Fatal(err)
	}
	m := map[string]any{}
	if err := yaml.Unmarshal(raw, &m); err != nil {
		tb.Fatal(err)
	}
	versions, _, _ := unstructured.NestedSlice(m, "spec", "versions")
	root, _, _ := unstructured.NestedMap(versions[0].(map[string]any), "schema", "openAPIV3Schema")
	var out [][]string
	for _, part := range []string{"spec", "status"} {
		if below, ok, _ := unstructured.NestedMap(root, "properties", part); ok {
			out = append(out, pathsBelow(below, []string{part})...)
		}
	}
	if kind == v1.KindXMySQL || kind == v1.KindMySQL { // Fields of Crossplane that the controller reads.
		for _, field := range []string{"claimRef", "resourceRef", "claimRef.name", "resourceRef.name", "claimRef.namespace",
			"writeConnectionSecretToRef"} {
			out = append(out, append([]string{"spec"}, strings.Split(field, ".")...))
		}
		out = append(out, []string{"status", "conditions"}, []string{"status", "conditions", "[]", "lastTransitionTime"},
			[]string{"status", "conditions", "[]"})
	}
	return out
}

func pathsBelow(schema map[string]any, path []string) [][]string {
	out := [][]string{path}
	properties, _, _ := unstructured.NestedMap(schema, "properties")
	for name, p := range properties {
		if p, ok := p.(map[string]any); ok {
			out = append(out, pathsBelow(p, append(slices.Clone(path), name))...)
		}
	}
	if items, ok, _ := unstructured.NestedMap(schema, "items"); ok {
		out = append(out, pathsBelow(items, append(slices.Clone(path), "[]"))...)
	}
	if extra, ok, _ := unstructured.NestedMap(schema, "additionalProperties"); ok {
		out = append(out, pathsBelow(extra, append(slices.Clone(path), "odd"))...)
	}
	return out
}

// putAt sets a value at a path, and creates the missing maps and lists.
func putAt(o map[string]any, path []string, value any) {
	for i := len(path) - 1; i > 0; i-- {
		if path[i] == "[]" {
			value = []any{value}
			continue
		}
		if parent, ok, err := unstructured.NestedFieldNoCopy(o, path[:i]...); ok && err == nil {
			if parent, ok := parent.(map[string]any); ok {
				parent[path[i]] = value
				return
			}
		}
		value = map[string]any{path[i]: value}
	}
	o[path[0]] = value
}

// seesNeighbor fails if the objects of a neighbor prevent the controller from reading an instance that is being
// deleted.
func seesNeighbor(tb testing.TB, kube client.Client, subject string) {
	tb.Helper()
	g := &Gatherer{Reader: kube, Clock: time.Now}
	instances, err := g.Gather(tb.Context(), key)
	if err != nil || len(instances) != 1 || instances[0].XR == nil || instances[0].Claim == nil || instances[0].Record() == nil ||
		len(instances[0].Records) != 2 {
		tb.Fatalf("%s: the neighbor is not gathered: %d lives, %v", subject, len(instances), err)
	}
	if _, err := g.Archives(tb.Context(), key); err != nil {
		tb.Fatalf("%s: the neighbor's archives are not gathered: %v", subject, err)
	}
	if _, err := g.Gather(tb.Context(), Key{Kind: v1.KindMySQL, Namespace: "default", Name: "other"}); err != nil {
		tb.Fatalf("%s: the object itself is not gathered: %v", subject, err)
	}
	for _, list := range []client.ObjectList{&v1.BackupRecordList{}, &v1.BackupStoreList{}} {
		if err := g.Reader.List(tb.Context(), list); err != nil {
			tb.Fatalf("%s: %v", subject, err)
		}
	}
}

// TestNeighborsAreGathered puts an unexpected value into every fifth field of spec and status of a neighbor's
// objects, in all objects at once. With ALL=1 it tests every field. FuzzNeighbors tests other values, also in
// annotations.
func TestNeighborsAreGathered(t *testing.T) {
	all, odd := crowd(t)
	api := &apiServer{objects: all}
	kube := newAPI(t, api)
	seesNeighbor(t, kube, "nothing is odd")
	paths := map[string][][]string{}
	most := 0
	for _, o := range all[odd:] {
		kind, _ := o["kind"].(string)
		paths[kind] = schemaPaths(t, kind)
		most = max(most, len(paths[kind]))
	}
	each := 5
	if os.Getenv("ALL") != "" {
		each = 1
	}
	for i := 0; i < most; i += each {
		api.objects = slices.Clone(all)
		var text strings.Builder
		for n := odd; n < len(all); n++ {
			kind, _ := all[n]["kind"].(string)
			if fields := paths[kind]; len(fields) > 0 {
				path, value := fields[i%len(fields)], oddities()[(i+i/len(fields)+n)%len(oddities())]
				api.objects[n] = withOdd(all, n, path, value)[n]
				fmt.Fprintf(&text, " %s.%s=%v", kind, strings.Join(path, "."), value)
			}
		}
		seesNeighbor(t, kube, text.String())
	}
}

// withOdd returns the objects with an unexpected value in a field of the nth object.
func withOdd(all []map[string]any, n int, path []string, value any) []map[string]any {
	out := slices.Clone(all)
	if number, ok := value.(json.Number); ok {
		value = number.String()
	}
	out[n] = runtime.DeepCopyJSON(all[n])
	putAt(out[n], path, value)
	return out
}

// FuzzNeighbors puts any JSON into any field of spec and status, or into an annotation, of a neighbor's object.
//
//	go test ./controller/internal/instance -fuzz FuzzNeighbors -fuzztime 5m
func FuzzNeighbors(f *testing.F) {
	all, odd := crowd(f)
	paths := map[string][][]string{}
	for _, o := range all[odd:] {
		kind, _ := o["kind"].(string)
		paths[kind] = schemaPaths(f, kind)
	}
	for i := range all[odd:] {
		for j, text := range []string{`{"mysqld":{"max_connections":200}}`, `[null,{}]`, `"text"`, `1e300`,
			`-9223372036854775808`, `"2026-01-01t00:00:00z"`, `{"a":[[]]}`} {
			f.Add(uint8(i), uint16(j*37), []byte(text))
		}
	}
	annotations := []string{
		v1.AnnotationPVCs, v1.AnnotationPruned, v1.AnnotationNodes, v1.AnnotationBackupNumber,
		v1.AnnotationBackupPrefix + "odd", v1.AnnotationRestore, v1.AnnotationAdopt,
		v1.AnnotationMakeRecord, v1.AnnotationMarkedUID, v1.AnnotationDeletionPolicy,
	}
	f.Fuzz(func(t *testing.T, kindIndex uint8, position uint16, raw []byte) {
		n := odd + int(kindIndex)%(len(all)-odd)
		var value any
		if json.Unmarshal(raw, &value) != nil {
			return
		}
		kind, _ := all[n]["kind"].(string)
		fields := paths[kind]
		path := []string{"metadata", "annotations", annotations[int(position)%len(annotations)]}
		if index := int(position) % (len(fields) + len(annotations)); index < len(fields) {
			path = fields[index]
		} else {
			value = string(raw)
		}
		seesNeighbor(t, newAPI(t, &apiServer{objects: withOdd(all, n, path, integral(value))}), strings.Join(path, "."))
	})
}

// integral converts whole numbers to integers, as the API server does with JSON.
func integral(value any) any {
	switch v := value.(type) {
	case map[string]any:
		for k := range v {
			v[k] = integral(v[k])
		}
	case []any:
		for i := range v {
			v[i] = integral(v[i])
		}
	case float64:
		if v == math.Trunc(v) && math.Abs(v) < 1<<53 {
			return int64(v)
		}
	}
	return value
}
