//go:build mysqld && bench

package recovery

import (
	"fmt"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// TestSpeedOfReplay prints how long a recovery of 100,000 transactions takes.
func TestSpeedOfReplay(t *testing.T) {
	const writers, each = 4, 25_000
	i := newInstance(t, "--sync-binlog=0", "--innodb-flush-log-at-trx-commit=0")
	i.exec(t, "CREATE TABLE shop.t (id INT PRIMARY KEY AUTO_INCREMENT, w INT, text VARCHAR(300))")
	i.exec(t, `CREATE PROCEDURE shop.fill(IN w INT, IN n INT) BEGIN DECLARE k INT DEFAULT 0; WHILE k < n DO
		INSERT INTO shop.t (w, text) VALUES (w, REPEAT('x', 200)); SET k = k + 1; END WHILE; END`)
	a := i.archive(t, nil)
	copied := i.copy(t)
	begun := time.Now()
	var all sync.WaitGroup
	for w := range writers {
		all.Go(func() {
			if _, err := i.db.ExecContext(t.Context(), fmt.Sprintf("CALL shop.fill(%d, %d)", w, each)); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	written := time.Since(begun)
	a.await(t, i)
	archived := time.Since(begun)
	a.end(t)
	order := i.order(t)
	target, err := ParseTarget(order[len(order)-1])
	must(t, err)
	r := a.recovery(t, i, copied, target, nil)
	begun = time.Now()
	result, err := r.runWith(t.Context(), "")
	if err != nil {
		t.Fatalf("%v\n%s", err, r.Output)
	}
	fmt.Println("| transactions | written in | archived in | archived MB | recovered in | transactions per s |")
	fmt.Printf("| %d | %.1f s | %.1f s | %d | %.1f s | %.0f |\n", result.Transactions, written.Seconds(), archived.Seconds(),
		a.manifestBytes(t)>>20, time.Since(begun).Seconds(), float64(result.Transactions)/time.Since(begun).Seconds())
}

// TestSpeedOfDurability prints how many transactions per second concurrent clients commit: without an archive, with one, and
// with durability Store. Each request to the store takes 20 ms longer. Several rounds alternate, and the median counts.
func TestSpeedOfDurability(t *testing.T) {
	const clients, rounds, period, latency = 16, 3, 10 * time.Second, 20 * time.Millisecond
	i := newInstance(t)
	i.exec(t, "CREATE TABLE shop.t (id INT PRIMARY KEY AUTO_INCREMENT, text VARCHAR(300))")
	must(t, i.Stop())
	<-i.Done
	i.start(t, durable...)
	i.exec(t, "SET GLOBAL rpl_semi_sync_source_enabled = OFF")
	i.db.SetMaxIdleConns(clients)
	perSecond := func() float64 {
		var all sync.WaitGroup
		var commits atomic.Int64
		end := time.Now().Add(period)
		for range clients {
			all.Go(func() {
				for time.Now().Before(end) {
					if _, err := i.db.ExecContext(t.Context(), "INSERT INTO shop.t (text) VALUES (REPEAT('x', 200))"); err != nil {
						t.Error(err)
						return
					}
					commits.Add(1)
				}
			})
		}
		all.Wait()
		return float64(commits.Load()) / period.Seconds()
	}
	var without, archived, stored []float64
	for range rounds {
		without = append(without, perSecond())
		a := i.archive(t, nil)
		a.server.Seen = func(http.ResponseWriter, *http.Request) bool {
			time.Sleep(latency)
			return false
		}
		archived = append(archived, perSecond())
		i.exec(t, "SET GLOBAL rpl_semi_sync_source_enabled = ON")
		stored = append(stored, perSecond())
		i.exec(t, "SET GLOBAL rpl_semi_sync_source_enabled = OFF")
		a.end(t)
	}
	median := func(all []float64) float64 {
		slices.Sort(all)
		return all[len(all)/2]
	}
	base := median(without)
	fmt.Println("| clients | without an archive | archived | durability Store |")
	fmt.Printf("| %d | %.0f per s | %.0f per s (%.0f %%) | %.0f per s (%.0f %%) |\n", clients, base, median(archived),
		100*median(archived)/base, median(stored), 100*median(stored)/base)
}

// manifestBytes returns the size of all transactions in the archive.
func (a *archiving) manifestBytes(t *testing.T) int64 {
	t.Helper()
	all, err := a.Timelines(t.Context())
	must(t, err)
	last, err := a.Last(t.Context(), all[len(all)-1])
	must(t, err)
	return last.TotalBytes
}
