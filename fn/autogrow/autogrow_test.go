package autogrow

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/validation/field"

	v1 "github.com/crossplane-mysql/crossplane-mysql/apis/v1"
)

// sizeOf parses a quantity. An empty text is zero.
func sizeOf(text string) resource.Quantity {
	if text == "" {
		return resource.Quantity{}
	}
	return resource.MustParse(text)
}

func TestCheck(t *testing.T) {
	for name, tc := range map[string]struct {
		spec *v1.StorageAutogrow
		size string
		want []string
	}{
		"Unset":     {size: "1Gi"},
		"Defaults":  {spec: &v1.StorageAutogrow{To: "2Gi"}, size: "1Gi"},
		"Equal":     {spec: &v1.StorageAutogrow{To: "1024Mi"}, size: "1Gi"},
		"NoSize":    {spec: &v1.StorageAutogrow{To: "2Gi"}},
		"NoTo":      {spec: &v1.StorageAutogrow{}, size: "1Gi", want: []string{"spec.storageAutogrow.to", "Required", "100Gi"}},
		"Smaller":   {spec: &v1.StorageAutogrow{To: "1Gi"}, size: "2Gi", want: []string{"to", "smaller than storageSize", "2Gi"}},
		"BadTo":     {spec: &v1.StorageAutogrow{To: "1e99999"}, size: "2Gi", want: []string{"to", "not a quantity"}},
		"BelowZero": {spec: &v1.StorageAutogrow{Below: "0%", To: "2Gi"}, size: "1Gi", want: []string{"below", "1% to 90%"}},
		"BelowAll":  {spec: &v1.StorageAutogrow{Below: "100%", To: "2Gi"}, size: "1Gi", want: []string{"below", "1% to 90%"}},
		"ByZero":    {spec: &v1.StorageAutogrow{By: "0", To: "2Gi"}, size: "1Gi", want: []string{"by", "1% to 100%", "10Gi"}},
		"All":       {spec: &v1.StorageAutogrow{Below: "x", By: "y", To: "z"}, size: "1Gi", want: []string{".below", ".by", ".to"}},
	} {
		t.Run(name, func(t *testing.T) {
			errs := Check(tc.spec, sizeOf(tc.size), "storageSize", field.NewPath("spec", "storageAutogrow"))
			if len(tc.want) == 0 && len(errs) > 0 || len(tc.want) > 0 && len(errs) == 0 {
				t.Fatalf("got %v", errs)
			}
			for _, want := range tc.want {
				if !strings.Contains(errs.ToAggregate().Error(), want) {
					t.Errorf("want %q in %v", want, errs)
				}
			}
		})
	}
}

func TestCheckLimit(t *testing.T) {
	for name, tc := range map[string]struct {
		most, size   string
		grow         *v1.StorageAutogrow
		large, grows bool
		invalid      bool
	}{
		"NoLimit":    {size: "1Ei", grow: &v1.StorageAutogrow{To: "1Ei"}},
		"Equal":      {most: "1Gi", size: "1024Mi", grow: &v1.StorageAutogrow{To: "1Gi"}},
		"Large":      {most: "1Gi", size: "2Gi", large: true},
		"GrowsLarge": {most: "1Gi", size: "1Gi", grow: &v1.StorageAutogrow{To: "2Gi"}, grows: true},
		"Both":       {most: "1Gi", size: "2Gi", grow: &v1.StorageAutogrow{To: "2Gi"}, large: true, grows: true},
		"BadTo":      {most: "1Gi", size: "1Gi", grow: &v1.StorageAutogrow{To: "x"}},
		"BadLimit":   {most: "much", size: "1Gi", invalid: true},
	} {
		t.Run(name, func(t *testing.T) {
			large, grows, err := CheckLimit(&v1.PlatformSpec{MaxStorageSize: tc.most}, tc.grow, sizeOf(tc.size), "storageSize",
				field.NewPath("spec"))
			if (large != nil) != tc.large || (grows != nil) != tc.grows || (err != nil) != tc.invalid {
				t.Errorf("got %v, %v and %v", large, grows, err)
			}
		})
	}
}

func TestSize(t *testing.T) {
	for name, tc := range map[string]struct {
		spec, grown, backup, most string
		grow                      *v1.StorageAutogrow
		want                      string
	}{
		"Spec":           {spec: "1Gi", want: "1Gi"},
		"Grown":          {spec: "1Gi", grown: "3Gi", want: "3Gi"},
		"SpecIsLarger":   {spec: "4Gi", grown: "3Gi", want: "4Gi"},
		"Backup":         {spec: "1Gi", backup: "3Gi", grow: &v1.StorageAutogrow{To: "5Gi"}, want: "3Gi"},
		"BackupAndGrown": {spec: "1Gi", grown: "4Gi", backup: "3Gi", grow: &v1.StorageAutogrow{To: "5Gi"}, want: "4Gi"},
		"ByHandOnly":     {spec: "1Gi", backup: "3Gi", want: "1Gi"},
		"BackupTooLarge": {spec: "1Gi", backup: "6Gi", grow: &v1.StorageAutogrow{To: "5Gi"}, want: "1Gi"},
		"PlatformLimit":  {spec: "1Gi", backup: "3Gi", most: "2Gi", grow: &v1.StorageAutogrow{To: "5Gi"}, want: "1Gi"},
		"BadLimit":       {spec: "1Gi", backup: "3Gi", most: "x", grow: &v1.StorageAutogrow{To: "5Gi"}, want: "1Gi"},
		"BadTo":          {spec: "1Gi", backup: "3Gi", grow: &v1.StorageAutogrow{To: "x"}, want: "1Gi"},
	} {
		t.Run(name, func(t *testing.T) {
			got := Size(sizeOf(tc.spec), sizeOf(tc.grown), sizeOf(tc.backup), tc.grow, &v1.PlatformSpec{MaxStorageSize: tc.most})
			if got.Cmp(resource.MustParse(tc.want)) != 0 {
				t.Errorf("want %s, got %s", tc.want, got.String())
			}
		})
	}
}
