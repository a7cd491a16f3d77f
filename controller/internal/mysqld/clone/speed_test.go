//go:build mysqld && bench

package clone

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	v1 "github.com/crossplane-mysql/crossplane-mysql/apis/v1"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/archive"
	"github.com/crossplane-mysql/crossplane-mysql/test/double/rootfs"
)

const (
	// speedRounds is how often each way is tried; the middle one counts.
	speedRounds = 3
	// speedRows of a kilobyte each, half of which compresses.
	speedRows = 600_000
	// speedClients change a row and read ten, again and again.
	speedClients = 4
	// speedLimit of what backs up, in processors: a Job's, as a platform sets it (jobResources).
	speedLimit = 0.5
	// speedQuiet is how long they are looked at without a backup.
	speedQuiet = 15 * time.Second
)

// A loadMeter has what clients got done.
type loadMeter struct {
	mu    sync.Mutex
	took  []time.Duration
	begun time.Time
	lasts time.Duration
}

func (m *loadMeter) rate() float64 { return float64(len(m.took)) / m.lasts.Seconds() }

// late is the time that one of a hundred took longer than.
func (m *loadMeter) late() time.Duration {
	slices.Sort(m.took)
	return m.took[len(m.took)*99/100]
}

// A way to back up, as it was measured.
type way struct {
	name       string
	do         func()
	rates      []float64
	late, long []float64
}

func (w *way) add(m *loadMeter) {
	w.rates, w.late, w.long = append(w.rates, m.rate()), append(w.late, m.late().Seconds()*1000), append(w.long, m.lasts.Seconds())
}

func middle(of []float64) float64 {
	slices.Sort(of)
	return of[len(of)/2]
}

// TestSpeed measures what clients of a server notice of a backup of it, and how long that takes: of a clone and its archive, and of a dump,
// in turn, on the same data of the same server, with all processors and with a part of one. It asserts nothing: the machine's load is
// in all of it.
func TestSpeed(t *testing.T) {
	d := newDonor(t)
	d.exec(t, "SET GLOBAL innodb_buffer_pool_size = 536870912; SET GLOBAL max_binlog_size = 67108864")
	d.fill(t)
	limited := newLimit(t, speedLimit)
	online, dump, kept := "Online: clone, archive, proof", "mysqldump --single-transaction | zstd -1", fmt.Sprintf(", %.0fm", 1000*speedLimit)
	quiet := &way{name: "no backup", do: func() { time.Sleep(speedQuiet) }}
	ways := []*way{
		quiet,
		{name: online, do: func() { d.runPart(t, nil, "TestPartOnline") }}, {name: dump, do: func() { d.runPart(t, nil, "TestPartDump") }},
		{name: online + kept, do: func() { d.runPart(t, limited, "TestPartOnline") }}, {name: dump + kept, do: func() { d.runPart(t, limited, "TestPartDump") }},
	}
	for range speedRounds {
		for _, w := range ways {
			w.add(d.underLoad(t, w.do))
		}
	}
	gib := float64(d.size(t)) / (1 << 30)
	fmt.Printf("\n%-44s %12s %10s %10s\n", fmt.Sprintf("%.2f GiB, %d clients", gib, speedClients), "changes/s", "p99 ms", "s/GiB")
	for _, w := range ways {
		per := "-"
		if w != quiet {
			per = fmt.Sprintf("%.1f", middle(w.long)/gib)
		}
		fmt.Printf("%-44s %5.0f (%3.0f%%) %10.1f %10s\n", w.name, middle(w.rates), 100*middle(w.rates)/middle(quiet.rates), middle(w.late), per)
	}
}

// fill a table.
func (d *donor) fill(t *testing.T) {
	t.Helper()
	d.exec(t, "CREATE TABLE shop.load_of (id INT PRIMARY KEY AUTO_INCREMENT, n INT NOT NULL DEFAULT 0, a VARBINARY(512), b VARCHAR(512)); SET SESSION cte_max_recursion_depth = 1000000")
	for at := 0; at < speedRows; at += 20_000 {
		d.exec(t, "SET SESSION sql_log_bin = 0, cte_max_recursion_depth = 1000000; INSERT INTO shop.load_of (a, b) WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 20000) SELECT RANDOM_BYTES(512), REPEAT('the same again, ', 32) FROM n")
	}
}

// size of the data, as the server says.
func (d *donor) size(t *testing.T) (bytes int64) {
	t.Helper()
	must(t, d.db.QueryRowContext(t.Context(), "SELECT SUM(file_size) FROM information_schema.innodb_tablespaces").Scan(&bytes))
	return bytes
}

// underLoad of the clients something is done.
func (d *donor) underLoad(t *testing.T, do func()) *loadMeter {
	t.Helper()
	m := &loadMeter{begun: time.Now()}
	ctx, stop := context.WithCancel(t.Context())
	var all sync.WaitGroup
	for range speedClients {
		all.Go(func() {
			for ctx.Err() == nil {
				id, start := 1+rand.IntN(speedRows-10), time.Now()
				statement := fmt.Sprintf("BEGIN; UPDATE shop.load_of SET n = n + 1 WHERE id = %d; SELECT COUNT(b) FROM shop.load_of WHERE id BETWEEN %d AND %d; COMMIT", id, id, id+9)
				if _, err := d.db.ExecContext(t.Context(), statement); err != nil {
					t.Error(err)
					return
				}
				m.mu.Lock()
				m.took = append(m.took, time.Since(start))
				m.mu.Unlock()
			}
		})
	}
	do()
	m.lasts = time.Since(m.begun)
	stop()
	all.Wait()
	return m
}

// donorVariable has the folder, port and layout of the server for a test that runs in a process of its own.
const donorVariable = "SPEED_DONOR"

// runPart of this program, which is kept to the limit with all that it starts.
func (d *donor) runPart(t *testing.T, to *limit, name string) {
	t.Helper()
	self, err := os.Executable()
	must(t, err)
	cmd := exec.CommandContext(t.Context(), self, "-test.run", "^"+name+"$", "-test.count=1")
	if to != nil {
		to.keep(cmd)
	}
	cmd.Env = append(os.Environ(), fmt.Sprintf("%s=%s %d %d %d", donorVariable, d.dir, d.port, d.layout.PageSize, d.layout.LowerCase))
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
}

// theDonor of a part.
func theDonor(t *testing.T) *donor {
	t.Helper()
	d := &donor{root: rootfs.Find(t)}
	if _, err := fmt.Sscan(os.Getenv(donorVariable), &d.dir, &d.port, &d.layout.PageSize, &d.layout.LowerCase); err != nil {
		t.Fatal("it is a part of TestSpeed")
	}
	return d
}

// TestPartOnline is a backup as a Job takes it.
func TestPartOnline(t *testing.T) { theDonor(t).backUp(t) }

// TestPartDump is what most people have.
func TestPartDump(t *testing.T) { theDonor(t).dump(t) }

// backUp as a Job does.
func (d *donor) backUp(t *testing.T) {
	t.Helper()
	var out bytes.Buffer
	c := d.clone(t, &out)
	if _, err := c.run(t.Context(), ""); err != nil {
		t.Fatalf("%v\n%s", err, out.String())
	}
	to := folder(t)
	b := archive.Backup{
		Identity: archive.Identity{Record: "r", Instance: v1.BackedUpInstance{Kind: v1.KindMySQL, Namespace: "team", NamespaceUID: "ns", Name: "shop", XR: "xr"}},
		Volume:   c.Folder, Directory: v1.DataDirectory, Archive: filepath.Join(to, "r", "data.tar.zst"), Image: "mysql", Output: io.Discard,
	}
	if r, err := b.Run(t.Context()); err != nil || !r.OK || !r.CleanShutdown {
		t.Fatalf("%v, %+v", err, r)
	}
	must(t, os.RemoveAll(to))
	must(t, os.RemoveAll(c.Folder))
}

func (d *donor) dump(t *testing.T) {
	t.Helper()
	to := filepath.Join(folder(t), "dump.zst")
	f, err := os.Create(to)
	must(t, err)
	from := d.root.Command("usr/bin/mysqldump", "--socket="+filepath.Join(d.dir, "s"), "--user=root", "--single-transaction", "--databases", "shop")
	pipe, err := from.StdoutPipe()
	must(t, err)
	compress := exec.CommandContext(t.Context(), "zstd", "-1")
	compress.Stdin, compress.Stdout = pipe, f
	must(t, compress.Start())
	must(t, from.Run())
	must(t, compress.Wait())
	must(t, f.Sync())
	must(t, f.Close())
	must(t, os.Remove(to))
}
