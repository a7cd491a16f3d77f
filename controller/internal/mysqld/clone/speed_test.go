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
	// speedRounds is the number of measurements per method. The median is reported.
	speedRounds = 3
	// speedRows is the number of rows. A row is about one kilobyte long, and half of it can be compressed.
	speedRows = 600_000
	// speedClients is the number of clients, each of which repeatedly changes one row and reads ten.
	speedClients = 4
	// speedLimit is the CPU limit of the backup, like that of a Job (jobResources).
	speedLimit = 0.5
	// speedQuiet is the duration of the measurement without a backup.
	speedQuiet = 15 * time.Second
)

// A loadMeter contains the latencies of the transactions that clients have run on the donor during one measurement.
type loadMeter struct {
	mu    sync.Mutex
	took  []time.Duration
	begun time.Time
	lasts time.Duration
}

func (m *loadMeter) rate() float64 { return float64(len(m.took)) / m.lasts.Seconds() }

// late returns the 99th percentile of the clients' latencies.
func (m *loadMeter) late() time.Duration {
	slices.Sort(m.took)
	return m.took[len(m.took)*99/100]
}

// A way contains the measurements of one backup method, such as a clone or a dump.
type way struct {
	name       string
	run        func()
	rates      []float64
	late, long []float64
}

func (w *way) add(m *loadMeter) {
	w.rates, w.late, w.long = append(w.rates, m.rate()), append(w.late, m.late().Seconds()*1000), append(w.long,
		m.lasts.Seconds())
}

func middle(values []float64) float64 {
	slices.Sort(values)
	return values[len(values)/2]
}

// TestSpeed measures the duration of a backup and its effect on clients. It compares an archived clone with a dump of
// the same data, both with all CPUs and with half of one. It asserts nothing, because the load of the machine affects
// all results.
func TestSpeed(t *testing.T) {
	d := newDonor(t)
	d.exec(t, "SET GLOBAL innodb_buffer_pool_size = 536870912; SET GLOBAL max_binlog_size = 67108864")
	d.fill(t)
	limited := newLimit(t, speedLimit)
	online, dump, kept := "Online: clone, archive, proof", "mysqldump --single-transaction | zstd -1", fmt.Sprintf(
		", %.0fm", 1000*speedLimit)
	quiet := &way{name: "no backup", run: func() { time.Sleep(speedQuiet) }}
	ways := []*way{
		quiet,
		{name: online, run: func() { d.runPart(t, nil, "TestPartOnline") }},
		{name: dump, run: func() { d.runPart(t, nil, "TestPartDump") }},
		{name: online + kept, run: func() { d.runPart(t, limited, "TestPartOnline") }},
		{name: dump + kept, run: func() { d.runPart(t, limited, "TestPartDump") }},
	}
	for range speedRounds {
		for _, w := range ways {
			w.add(d.underLoad(t, w.run))
		}
	}
	gib := float64(d.size(t)) / (1 << 30)
	fmt.Printf("\n%-44s %12s %10s %10s\n", fmt.Sprintf("%.2f GiB, %d clients", gib, speedClients), "changes/s", "p99 ms",
		"s/GiB")
	for _, w := range ways {
		per := "-"
		if w != quiet {
			per = fmt.Sprintf("%.1f", middle(w.long)/gib)
		}
		fmt.Printf("%-44s %5.0f (%3.0f%%) %10.1f %10s\n", w.name, middle(w.rates), 100*middle(w.rates)/middle(quiet.rates),
			middle(w.late), per)
	}
}

// fill creates a table with speedRows rows in the donor.
func (d *donor) fill(t *testing.T) {
	t.Helper()
	d.exec(t, "CREATE TABLE shop.load_of (id INT PRIMARY KEY AUTO_INCREMENT, n INT NOT NULL DEFAULT 0, a "+
		"VARBINARY(512), b VARCHAR(512)); SET SESSION cte_max_recursion_depth = 1000000")
	for row := 0; row < speedRows; row += 20_000 {
		d.exec(t, "SET SESSION sql_log_bin = 0, cte_max_recursion_depth = 1000000; INSERT INTO shop.load_of (a, b) WITH "+
			"RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 20000) SELECT RANDOM_BYTES(512), "+
			"REPEAT('the same again, ', 32) FROM n")
	}
}

// size returns the size of all tablespaces in bytes.
func (d *donor) size(t *testing.T) (bytes int64) {
	t.Helper()
	must(t, d.db.QueryRowContext(t.Context(), "SELECT SUM(file_size) FROM information_schema.innodb_tablespaces").
		Scan(&bytes))
	return bytes
}

// underLoad runs a function while speedClients clients run transactions on the donor. It returns their latencies.
func (d *donor) underLoad(t *testing.T, run func()) *loadMeter {
	t.Helper()
	m := &loadMeter{begun: time.Now()}
	ctx, stop := context.WithCancel(t.Context())
	var all sync.WaitGroup
	for range speedClients {
		all.Go(func() {
			for ctx.Err() == nil {
				id, start := 1+rand.IntN(speedRows-10), time.Now()
				statement := fmt.Sprintf("BEGIN; UPDATE shop.load_of SET n = n + 1 WHERE id = %d; SELECT COUNT(b) FROM "+
					"shop.load_of WHERE id BETWEEN %d AND %d; COMMIT", id, id, id+9)
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
	run()
	m.lasts = time.Since(m.begun)
	stop()
	all.Wait()
	return m
}

// donorVariable is the environment variable with the directory, port and layout of the donor, for a test in another
// process.
const donorVariable = "SPEED_DONOR"

// runPart runs a test of this program in another process, within the CPU limit.
func (d *donor) runPart(t *testing.T, rate *limit, name string) {
	t.Helper()
	self, err := os.Executable()
	must(t, err)
	cmd := exec.CommandContext(t.Context(), self, "-test.run", "^"+name+"$", "-test.count=1")
	if rate != nil {
		rate.keep(cmd)
	}
	cmd.Env = append(os.Environ(),
		fmt.Sprintf("%s=%s %d %d %d", donorVariable, d.dir, d.port, d.layout.PageSize, d.layout.LowerCase))
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
}

// theDonor returns the donor that donorVariable describes.
func theDonor(t *testing.T) *donor {
	t.Helper()
	d := &donor{root: rootfs.Find(t)}
	if _, err := fmt.Sscan(os.Getenv(donorVariable), &d.dir, &d.port, &d.layout.PageSize,
		&d.layout.LowerCase); err != nil {
		t.Fatal("it is a part of TestSpeed")
	}
	return d
}

// TestPartOnline takes a backup as a Job does.
func TestPartOnline(t *testing.T) { theDonor(t).backUp(t) }

// TestPartDump takes a dump, as most users do.
func TestPartDump(t *testing.T) { theDonor(t).dump(t) }

// backUp clones and archives the data as a Job does.
func (d *donor) backUp(t *testing.T) {
	t.Helper()
	var out bytes.Buffer
	c := d.clone(t, &out)
	if _, err := c.run(t.Context(), ""); err != nil {
		t.Fatalf("%v\n%s", err, out.String())
	}
	target := newDir(t)
	b := archive.Backup{
		Identity: archive.Identity{Record: "r",
			Instance: v1.BackedUpInstance{Kind: v1.KindMySQL, Namespace: "team", NamespaceUID: "ns", Name: "shop", XR: "xr"}},
		Volume: c.Dir, Directory: v1.DataDirectory, Archive: filepath.Join(target, "r", "data.tar.zst"), Image: "mysql",
		Output: io.Discard,
	}
	if r, err := b.Run(t.Context()); err != nil || !r.OK || !r.CleanShutdown {
		t.Fatalf("%v, %+v", err, r)
	}
	must(t, os.RemoveAll(target))
	must(t, os.RemoveAll(c.Dir))
}

func (d *donor) dump(t *testing.T) {
	t.Helper()
	target := filepath.Join(newDir(t), "dump.zst")
	f, err := os.Create(target)
	must(t, err)
	from := d.root.Command("usr/bin/mysqldump", "--socket="+filepath.Join(d.dir, "s"), "--user=root",
		"--single-transaction", "--databases", "shop")
	pipe, err := from.StdoutPipe()
	must(t, err)
	compress := exec.CommandContext(t.Context(), "zstd", "-1")
	compress.Stdin, compress.Stdout = pipe, f
	must(t, compress.Start())
	must(t, from.Run())
	must(t, compress.Wait())
	must(t, f.Sync())
	must(t, f.Close())
	must(t, os.Remove(target))
}
