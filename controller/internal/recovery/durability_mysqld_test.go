//go:build mysqld

package recovery

import (
	"context"
	"crypto/tls"
	"errors"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"filippo.io/age"

	v1 "github.com/crossplane-mysql/crossplane-mysql/apis/v1"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/binlog"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/logarchive"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/store"
	"github.com/crossplane-mysql/crossplane-mysql/test/double/freeport"
)

// durable are the arguments of a server with durability Store. fn/durability has the same.
var durable = []string{"--plugin-load-add=semisync_source.so", "--rpl-semi-sync-source-enabled=ON",
	"--rpl-semi-sync-source-timeout=" + v1.CommitTimeout, "--rpl-semi-sync-source-wait-for-replica-count=1",
	"--rpl-semi-sync-source-wait-no-replica=ON", "--rpl-semi-sync-source-wait-point=AFTER_SYNC"}

// TestRealDurability checks durability Store with a real server: commits wait while no archiver is connected, and each commit
// that a client has seen is in the store. Large transactions, transactions of several clients and a new connection of the
// archiver are among them.
func TestRealDurability(t *testing.T) {
	i := newInstance(t)
	i.exec(t, "CREATE TABLE shop.a (id INT AUTO_INCREMENT PRIMARY KEY, b LONGBLOB); CREATE USER archive@'%' IDENTIFIED BY 'x' "+
		"REQUIRE SSL; GRANT REPLICATION SLAVE ON *.* TO archive@'%'")
	must(t, i.Stop())
	<-i.Done
	port := freeport.Find(t)
	i.start(t, append([]string{"--skip-networking=OFF", "--bind-address=127.0.0.1", "--port=" + strconv.Itoa(port)}, durable...)...)
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
	defer cancel()
	if _, err := i.db.ExecContext(ctx, "INSERT INTO shop.a (b) VALUES ('waits')"); !errors.Is(err, context.DeadlineExceeded) {
		t.Fatalf("a commit did not wait: %v", err)
	}
	identity, err := age.GenerateX25519Identity()
	must(t, err)
	a := i.archiveFrom(t, identity, binlog.Source{Address: freeport.Address(port), User: "archive",
		Password: "x", ServerID: 77, TLS: &tls.Config{InsecureSkipVerify: true}}) //nolint:gosec // The test's own server.
	i.exec(t, "INSERT INTO shop.a (b) VALUES ('first')")

	var wait sync.WaitGroup
	var commits atomic.Int64
	end := time.Now().Add(6 * time.Second)
	for client := range 8 {
		wait.Go(func() {
			for n := 0; time.Now().Before(end); n++ {
				size := 10
				if client == 0 && n%10 == 0 {
					size = 3 << 20 // It is stored as a segment of its own.
				}
				if _, err := i.db.Exec("INSERT INTO shop.a (b) VALUES (REPEAT('x', ?))", size); err != nil {
					t.Errorf("a commit failed: %v", err)
					return
				}
				commits.Add(1)
			}
		})
	}
	for time.Now().Before(end) {
		time.Sleep(500 * time.Millisecond)
		checkStored(t, a, i)
	}
	a.end(t)
	a.run(t) // The clients still write.
	wait.Wait()
	checkStored(t, a, i)
	t.Logf("%d commits", commits.Load())
	a.end(t)
}

// checkStored checks that all transactions that a client sees now are in the store. The archiver continues meanwhile, so the
// tail is promoted in a copy of the archive.
func checkStored(t *testing.T, a *archiving, i *instance) {
	t.Helper()
	want := i.executed(t) // A transaction is visible only after it was acknowledged.
	copied, err := store.Open(a.server.Clone(t).Settings())
	must(t, err)
	r := logarchive.Reader{Bucket: copied, Key: a.Key, Log: a.Log}
	line := a.progress().Timeline
	last, err := r.Last(t.Context(), line)
	must(t, err)
	last, err = r.PromoteTail(t.Context(), line, last)
	must(t, err)
	got, err := binlog.ParseSet(last.Until)
	must(t, err)
	if !got.Contains(want) {
		t.Errorf("the store lacks %s", want.Without(got))
	}
}
