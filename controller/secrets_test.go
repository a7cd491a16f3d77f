package main

import (
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"go/types"
	"log/slog"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unsafe"

	"github.com/go-logr/logr/funcr"
	"golang.org/x/tools/go/packages"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/log/zap"

	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/certificate"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/gateway"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/mysqld/clone"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/mysqld/initialize"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/mysqld/sql"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/rotate"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/servercert"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/store"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/stores"
)

// secretField matches names of fields that contain a secret. A byte slice is also a secret if its name matches
// secretBytes. This does not apply to strings, because a string named key is the key of an object in a store.
var (
	secretField = regexp.MustCompile(`(?i)(secret|password|token|identity|credential|(access|private|seal|secret)key)s?$`)
	secretBytes = regexp.MustCompile(`(?i)key$`)
)

// TestSecretsAreRedacted checks every type that may hold a secret. It sets all fields that contain secrets, and then
// prints, logs and marshals the value. TestNoSecretIsPrinted checks that no type is missing here.
func TestSecretsAreRedacted(t *testing.T) {
	for _, tc := range []struct {
		given  any
		stored bool // The value is stored as JSON with its secrets.
	}{
		{given: new(sql.Password)},
		{given: new(store.SigningKey)},
		{given: new(certificate.PrivateKey)},
		{given: new(gateway.Signer)},
		{given: &store.Settings{}, stored: true},
		{given: &gateway.StoreFile{}, stored: true},
		{given: &gateway.File{}, stored: true},
		{given: &certificate.Pair{}},
		{given: &clone.Clone{}},
		{given: &initialize.Initialization{}},
		{given: &rotate.Input{}},
		{given: &rotate.Rotator{}},
		{given: &servercert.Plan{}},
		{given: &servercert.State{}},
		{given: &sql.Server{}},
		{given: &sql.Session{}},
		{given: &stores.GatewayState{}},
		{given: &stores.Secrets{}},
		{given: &stores.Store{}},
	} {
		v := reflect.ValueOf(tc.given)
		t.Run(v.Type().Elem().String(), func(t *testing.T) {
			if n := fill(v.Elem(), false); n == 0 {
				t.Fatal("no field of it holds a secret: remove it from the table")
			}
			value := v.Elem().Interface()
			nested := reflect.New(reflect.StructOf([]reflect.StructField{{Name: "X", Type: v.Type().Elem()}})).Elem()
			nested.Field(0).Set(v.Elem())
			for name, it := range map[string]any{"a value": value, "a pointer": tc.given, "a field": nested.Interface(),
				"a slice": []any{value}, "a map": map[string]any{"x": value}} {
				for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%d"} {
					checkRedacted(t, name+" with "+verb, fmt.Sprintf(verb, it))
				}
			}
			raw, err := json.Marshal(value)
			if err != nil && !errors.As(err, new(*json.UnsupportedTypeError)) {
				t.Fatal(err)
			}
			if tc.stored != hasMarker(string(raw)) {
				t.Errorf("its JSON is stored: %t, and is %s", tc.stored, raw)
			}
			var log bytes.Buffer
			for _, development := range []bool{false, true} {
				zap.New(zap.WriteTo(&log), zap.UseDevMode(development)).Info("A line", "value", value, "pointer", tc.given)
			}
			for _, h := range []slog.Handler{slog.NewJSONHandler(&log, nil), slog.NewTextHandler(&log, nil)} {
				slog.New(h).LogAttrs(t.Context(), slog.LevelInfo, "A line", slog.Any("value", value), slog.Any("pointer", tc.given))
			}
			funcr.NewJSON(func(line string) { log.WriteString(line) }, funcr.Options{}).
				Info("A line", "value", value, "pointer", tc.given)
			if n := strings.Count(log.String(), "A line"); n != 5 {
				t.Errorf("want a line of each logger, got %d", n)
			}
			checkRedacted(t, "in a log", log.String())
		})
	}
}

// marker is 32 bytes long, like a signing key.
const marker = "Marker-Of-A-Secret-Of-32-Bytes!!"

// hasMarker reports whether a string contains the beginning of the marker: as text, as decimal or hexadecimal bytes,
// or in Base64.
func hasMarker(text string) bool {
	begin := []byte(marker[:6])
	decimal := strings.Trim(fmt.Sprintf("%d", begin), "[]")
	hexadecimal := strings.TrimSuffix(strings.TrimPrefix(fmt.Sprintf("%#v", begin), "[]byte{"), "}")
	return slices.ContainsFunc([]string{
		string(begin), decimal, strings.ReplaceAll(decimal, " ", ","), hexadecimal, hex.EncodeToString(begin),
		base64.StdEncoding.EncodeToString(begin),
	}, func(form string) bool { return strings.Contains(text, form) })
}

func checkRedacted(t *testing.T, form, text string) {
	t.Helper()
	if hasMarker(text) {
		t.Errorf("%s, a secret is printed: %.500s", form, text)
	}
}

// fill sets all fields of a value that may contain a secret, including unexported ones. It returns the number of
// these fields.
func fill(v reflect.Value, isSecret bool) (n int) {
	if isFormatter := v.Type().Implements(reflect.TypeFor[fmt.Formatter]()); isFormatter && v.Kind() != reflect.Struct {
		isSecret = true
	}
	if s, ok := v.Addr().Interface().(*corev1.Secret); ok {
		s.Data = map[string][]byte{"x": []byte(marker)}
		return 1
	}
	switch v.Kind() { //nolint:exhaustive // Other kinds cannot contain a secret.
	case reflect.String:
		if isSecret {
			v.SetString(marker)
			return 1
		}
	case reflect.Array:
		if isSecret {
			return reflect.Copy(v, reflect.ValueOf([]byte(marker)))
		}
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 1, 1))
		if isSecret && v.Type().Elem().Kind() == reflect.Uint8 {
			v.SetBytes([]byte(marker))
			return 1
		}
		return fill(v.Index(0), isSecret)
	case reflect.Map:
		key, element := reflect.New(v.Type().Key()).Elem(), reflect.New(v.Type().Elem()).Elem()
		n = fill(key, false) + fill(element, isSecret)
		v.Set(reflect.MakeMap(v.Type()))
		v.SetMapIndex(key, element)
	case reflect.Pointer:
		if v.Type().Elem() == reflect.TypeFor[corev1.Secret]() || isOurs(v.Type().Elem().PkgPath()) {
			v.Set(reflect.New(v.Type().Elem()))
			return fill(v.Elem(), isSecret)
		}
	case reflect.Struct:
		if isOurs(v.Type().PkgPath()) {
			return fillFields(v)
		}
	}
	return n
}

func fillFields(v reflect.Value) (n int) {
	for i := range v.NumField() {
		f := v.Type().Field(i)
		field := reflect.NewAt(f.Type, unsafe.Pointer(v.Field(i).UnsafeAddr())).Elem() //nolint:gosec // This gives access to an unexported field.
		isBytes := f.Type.Kind() == reflect.Slice && f.Type.Elem().Kind() == reflect.Uint8
		n += fill(field, secretField.MatchString(f.Name) || isBytes && secretBytes.MatchString(f.Name))
	}
	return n
}

const module = "github.com/crossplane-mysql/crossplane-mysql/"

func isOurs(path string) bool {
	return strings.HasPrefix(path, module+"controller") || strings.HasPrefix(path, module+"fn")
}

// harmless contains fields that contain no secret although their names match secretField.
var harmless = map[string]string{
	"controller.initializeCommand.Secret":            "the path of a directory",
	"controller/internal/test/s3memory.Server.Token": "a token for the next page of a list, in a fake of the tests",
}

// TestNoSecretIsPrinted looks for types, including unexported ones, whose secrets package fmt would print. Package
// fmt calls Format only for exported fields. It prints a pointer inside a value as an address.
func TestNoSecretIsPrinted(t *testing.T) {
	all, err := packages.Load(&packages.Config{Mode: packages.LoadSyntax, Dir: ".."}, "./controller/...", "./fn/...")
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for _, p := range all {
		for _, name := range p.Types.Scope().Names() {
			typeName, ok := p.Types.Scope().Lookup(name).(*types.TypeName)
			if !ok || typeName.IsAlias() || types.IsInterface(typeName.Type()) {
				continue
			}
			n++
			if path := printed(typeName.Type(), true, map[types.Type]bool{}); path != "" {
				t.Errorf("%s.%s%s would be printed: embed redact.All in it, or redact.Logs if its JSON is stored", p.PkgPath, name,
					path)
			}
		}
	}
	if n < 300 {
		t.Errorf("want all types, got %d", n)
	}
}

// printed returns the path to a secret field that fmt would print with a value of this type, or "".
func printed(typ types.Type, isExported bool, above map[types.Type]bool) string {
	typ = types.Unalias(typ)
	name := typ.String()
	isSecret := strings.HasSuffix(name, "k8s.io/api/core/v1.Secret") || strings.HasSuffix(name, "age.Identity")
	if above[typ] {
		return ""
	}
	above[typ] = true
	defer delete(above, typ)
	if named, ok := typ.(*types.Named); ok && !isSecret {
		if named.Obj().Pkg() == nil || !isOurs(named.Obj().Pkg().Path()) {
			return ""
		}
		formats := types.NewMethodSet(typ).Lookup(nil, "Format") != nil
		if formats && isExported {
			return ""
		}
		_, isStruct := typ.Underlying().(*types.Struct)
		isSecret = formats && !isStruct
	}
	if isSecret {
		return " (" + name + ")"
	}
	switch u := typ.Underlying().(type) {
	case *types.Pointer: // With %s, fmt prints its target (badVerb of package fmt).
		return printed(u.Elem(), isExported, above)
	case *types.Slice:
		return printed(u.Elem(), isExported, above)
	case *types.Array:
		return printed(u.Elem(), isExported, above)
	case *types.Map:
		if path := printed(u.Key(), isExported, above); path != "" {
			return path
		}
		return printed(u.Elem(), isExported, above)
	case *types.Struct:
		for f := range u.Fields() {
			if harmless[strings.TrimPrefix(name, module)+"."+f.Name()] != "" {
				continue
			}
			switch text, raw := kindOf(f.Type()); {
			case (text || raw) && secretField.MatchString(f.Name()), raw && secretBytes.MatchString(f.Name()):
				if !isExported || !f.Exported() || types.NewMethodSet(f.Type()).Lookup(nil, "Format") == nil {
					return "." + f.Name()
				}
			}
			if path := printed(f.Type(), isExported && f.Exported(), above); path != "" {
				return "." + f.Name() + path
			}
		}
	}
	return ""
}

// kindOf reports whether a type can be a secret: a string, or bytes.
func kindOf(typ types.Type) (text, raw bool) {
	switch u := typ.Underlying().(type) {
	case *types.Basic:
		return u.Info()&types.IsString != 0, false
	case *types.Slice:
		text, _ = kindOf(u.Elem())
		return text, types.Identical(u.Elem(), types.Typ[types.Byte])
	case *types.Array:
		return false, types.Identical(u.Elem(), types.Typ[types.Byte])
	case *types.Map:
		return kindOf(u.Elem())
	}
	return false, false
}
