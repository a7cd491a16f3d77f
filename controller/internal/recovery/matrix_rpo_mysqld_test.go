//go:build mysqld && bench

package recovery_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"testing"
	"time"

	v1 "github.com/crossplane-mysql/crossplane-mysql/apis/v1"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/binlog"
)

// TestRPO prints how many seconds of acknowledged writes are lost if the volume of a server and the archiver are lost
// at a random moment under load. Only the content of the store remains. It checks that the remaining transactions are
// the first ones of the server's log, without a hole. TRIES is the number of tries. Some of them recover completely.
func TestRPO(t *testing.T) { measureRPO(t, false) }

// TestRPODurable is like TestRPO for durability Store. No acknowledged write may be lost.
func TestRPODurable(t *testing.T) { measureRPO(t, true) }

func measureRPO(t *testing.T, isDurable bool) {
	t.Helper()
	tries := 100
	if n, err := strconv.Atoi(os.Getenv("TRIES")); err == nil {
		tries = n
	}
	seed := uint64(time.Now().UnixNano()) //nolint:gosec // A seed.
	t.Logf("seed %d", seed)
	options := []string{}
	if isDurable { // The first statements of the history run without an archiver.
		options = append(options, "--plugin-load-add=semisync_source.so", "--rpl-semi-sync-source-timeout="+v1.CommitTimeout)
	}
	h := newHistory(t, rand.New(rand.NewPCG(seed, 0)), false, options...) //nolint:gosec // A test.
	if isDurable {
		h.box.exec(t, "SET GLOBAL rpl_semi_sync_source_enabled = ON")
		h.box.options = append(h.box.options, "--rpl-semi-sync-source-enabled=ON")
	}
	load := startClients(t, h.box, 100, 8, 20*time.Millisecond) // With shorter pauses, the copies of the data fill the disk.
	var lost []time.Duration
	var rows []int
	file := ""
	recovered := 0
	for n := range tries {
		number := h.archiver.state().Number
		h.await("progress", func() bool { return h.archiver.state().Number > number })
		h.rest(0, 4*time.Second)
		h.store.fail(isReset)
		moment := time.Now()
		h.box.Kill()
		h.archiver.kill()
		stored := h.storedSet(t.Context())
		h.box.start(t)
		var all []txn
		all, file = h.box.readLog(t, file)
		h.last().add(all)
		last := lastStored(h.last(), stored)
		latest, count := time.Time{}, 0
		for i, one := range h.last().txns {
			if hasGTID(stored, one.gtid) != (i <= last) {
				t.Fatalf("try %d: the archive has a hole at %s", n, one.gtid)
			}
			acknowledged := h.clients.noteOf(one.id).acknowledged
			if acknowledged.IsZero() {
				acknowledged = load.noteOf(one.id).acknowledged
			}
			switch {
			case acknowledged.IsZero() || acknowledged.After(moment):
			case i > last:
				count++
			case acknowledged.After(latest):
				latest = acknowledged
			}
		}
		if isDurable && count > 0 {
			t.Errorf("try %d: %d acknowledged transactions were lost", n, count)
		}
		lost, rows = append(lost, moment.Sub(latest)), append(rows, count)
		fmt.Fprintf(os.Stderr, "try %d: %.1f s and %d of %d transactions were lost\n", n, lost[n].Seconds(), count, len(h.last().txns))
		h.archiver.start() // With durability Store, the clients wait for it.
		if n == 0 || n == tries-1 {
			h.recoverAll(t, last)
			recovered++
		}
	}
	slices.Sort(lost)
	slices.Sort(rows)
	rank := func(part float64) int { return min(int(part*float64(len(lost))), len(lost)-1) }
	fmt.Println("| tries | transactions | lost, median | 99th percentile | maximum | lost transactions, median | maximum | " +
		"complete recoveries |")
	fmt.Printf("| %d | %d | %.1f s | %.1f s | %.1f s | %d | %d | %d |\n", tries, len(h.last().txns), lost[rank(0.5)].Seconds(),
		lost[rank(0.99)].Seconds(), lost[len(lost)-1].Seconds(), rows[rank(0.5)], rows[len(rows)-1], recovered)
	if _, err := os.Stat(filepath.Join(h.box.root.Path, "usr", "bin", "mysqlbinlog")); err != nil {
		fmt.Println("A loop of mysqlbinlog was not measured, because the image of the server does not contain this program.")
	}
}

// storedSet returns the GTIDs of all transactions up to the end of the archive, as read from the store.
func (h *history) storedSet(ctx context.Context) binlog.Set {
	h.Helper()
	s, err := h.cluster.Open(ctx, storeName)
	must(h.T, err)
	log, line := s.LogOf(h.prefix()), h.archiver.state().Timeline
	last, err := log.Last(ctx, line)
	must(h.T, err)
	last, err = log.PromoteTail(ctx, line, last)
	must(h.T, err)
	out, err := binlog.ParseSet(last.Until)
	must(h.T, err)
	return out
}

// recoverAll recovers to the last transaction in the archive, compares the rows, and takes another backup.
func (h *history) recoverAll(t *testing.T, last int) {
	t.Helper()
	h.clients.pause.Lock()
	defer h.clients.pause.Unlock()
	all := h.last()
	p := &prepared{history: h, fault: &faults[0]}
	goal := target{text: all.txns[last].gtid, epoch: all, index: last}
	d := destination{"new name", h.cluster, h.allRecords()}
	if err := p.check(h.recoverTo(d, h.find(d, goal.text)), goal); err != nil {
		t.Errorf("%s: %v", all.txns[last].gtid, err)
	}
	must(t, h.clone("20261122-0300"))
}
