package stores

import (
	"fmt"
	"io"
	"net/http"
	"runtime"
	"strconv"
	"strings"
	"testing"

	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/test/s3memory"
)

// TestForeignKeysCostNoMemory checks that many long keys in the bucket do not use much memory. They are skipped page
// by page, and the number of keys that look like catalog entries is limited.
func TestForeignKeysCostNoMemory(t *testing.T) {
	const pages = 30
	m := s3memory.New(t)
	key := func(int) string { return "" }
	m.Seen = func(w http.ResponseWriter, r *http.Request) bool {
		from, _ := strconv.Atoi(r.URL.Query().Get("continuation-token"))
		_, _ = fmt.Fprintf(w,
			`<ListBucketResult><IsTruncated>%t</IsTruncated><NextContinuationToken>%d</NextContinuationToken>`, from+1 < pages,
			from+1)
		for i := range 1000 {
			_, _ = fmt.Fprintf(w,
				`<Contents><Key>%s</Key><LastModified>2026-01-01T00:00:00.000Z</LastModified><ETag>"x"</ETag><Size>34</Size></Contents>`,
				key(1000*from+i))
		}
		_, _ = io.WriteString(w, `</ListBucketResult>`)
		return true
	}
	c := newHoldingCluster(t, m)
	heap := func() int64 {
		runtime.GC()
		var after runtime.MemStats
		runtime.ReadMemStats(&after)
		return int64(after.HeapAlloc) //nolint:gosec // The value fits.
	}
	long := strings.Repeat("x", 440)
	key = func(n int) string { return fmt.Sprintf("v1/ns/%s%06d/%s/manifest.json", long, n, long) }
	before := heap()
	found, err := c.open.BackupsIn(t.Context(), "ns", func(string) bool { return false })
	if grown := heap() - before; err != nil || len(found) != 0 || grown > 4<<20 {
		t.Errorf("want none of them, and no memory for them, got %d, %v, %d KiB", len(found), err, grown>>10)
	}
	key = func(n int) string {
		return fmt.Sprintf("v1/ns/xr/%06d%s/manifest.json", n, strings.Repeat("x", maxRecord-6))
	}
	if _, err := c.open.BackupsIn(t.Context(), "ns", func(string) bool { return false }); err == nil ||
		!strings.Contains(err.Error(), strconv.Itoa(maxOfNamespace)) {
		t.Errorf("want a bound, got %v", err)
	}
	if found, err := c.open.BackupsIn(t.Context(), "ns", func(string) bool { return true }); err != nil ||
		len(found) != 0 {
		t.Errorf("those that are known do not count, got %d, %v", len(found), err)
	}
	runtime.KeepAlive(found)
}
