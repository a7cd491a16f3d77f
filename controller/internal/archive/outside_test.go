package archive

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/crossplane-mysql/crossplane-mysql/apis/agent"
	v1 "github.com/crossplane-mysql/crossplane-mysql/apis/v1"
)

// TestDataOutsideFailsBackup checks that the backup fails if a file refers to table rows outside of the data
// directory. The error must contain the location, and the statement that moves the rows back. If a user allows it,
// the backup contains all other data.
func TestDataOutsideFailsBackup(t *testing.T) {
	p := newPlace(t)
	shop := filepath.Join(p.data, v1.DataDirectory, "shop")
	must(t, os.MkdirAll(shop, 0o750))
	must(t, os.WriteFile(filepath.Join(shop, "orders.isl"), []byte("/tmp/shop/orders.ibd\n"), 0o600))
	for name, tc := range map[string]struct {
		link string
		want []string
	}{
		"Pointer": {want: []string{"/tmp/shop/orders.ibd", "shop/orders.isl", "ALGORITHM = COPY"}},
		"Link":    {link: filepath.Join(shop, "a.MYD"), want: []string{"/tmp/shop/a.MYD", "shop/a.MYD", "ALGORITHM = COPY"}},
		"Schema":  {link: filepath.Join(p.data, v1.DataDirectory, "elsewhere"), want: []string{"elsewhere"}},
	} {
		t.Run(name, func(t *testing.T) {
			if tc.link != "" {
				must(t, os.Symlink("/tmp/shop/"+filepath.Base(tc.link), tc.link))
				defer func() { must(t, os.Remove(tc.link)) }()
			}
			_, err := p.newBackup().Run(t.Context())
			if agent.CodeOf(err) != agent.ExitOutside ||
				slices.ContainsFunc(tc.want, func(w string) bool { return !strings.Contains(err.Error(), w) }) {
				t.Errorf("want %q, got %v", tc.want, err)
			}
			if got := names(t, filepath.Dir(p.archive())); len(got) > 0 {
				t.Errorf("it left %q", got)
			}
		})
	}
	must(t, os.Symlink("/tmp/shop/a.MYD", filepath.Join(shop, "a.MYD")))
	b := p.newBackup()
	b.WithoutOutside = true
	_, err := b.Run(t.Context())
	must(t, err)
	r := p.newRestore(t)
	_, err = r.Run(t.Context())
	must(t, err)
	if got := names(t, filepath.Join(r.Volume, v1.DataDirectory, "shop")); !slices.Contains(got, "orders.isl") ||
		slices.Contains(got, "a.MYD") {
		t.Errorf("the restored schema has %q", got)
	}
}
