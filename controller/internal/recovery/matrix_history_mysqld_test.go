//go:build mysqld

package recovery_test

import (
	"cmp"
	"context"
	"fmt"
	"math/rand/v2"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"filippo.io/age"
	"github.com/google/uuid"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	v1 "github.com/crossplane-mysql/crossplane-mysql/apis/v1"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/binlog"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/logarchive"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/recovery"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/store"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/stores"
	"github.com/crossplane-mysql/crossplane-mysql/test/double/rootfs"
)

// An epoch is a period of a history in which the server lost none of its transactions. A reset of the binary log, and
// a restore of the server, begin another epoch.
type epoch struct {
	// txns are the transactions of the server in the order of its log. inherited is the number of those at the
	// beginning that the server already had when the epoch began.
	inherited int
	txns      []txn
	seen      map[string]bool
}

// add appends the transactions that the epoch does not contain yet.
func (e *epoch) add(all []txn) {
	for _, one := range all {
		if !e.seen[one.gtid] {
			e.seen[one.gtid] = true
			e.txns = append(e.txns, one)
		}
	}
}

// index returns the position of a transaction of this epoch, or -1.
func (e *epoch) index(gtid string) int {
	for i := len(e.txns) - 1; i >= e.inherited; i-- {
		if e.txns[i].gtid == gtid {
			return i
		}
	}
	return -1
}

// A history is a test run of one server: clients write to it, an archiver stores its log, and one fault is injected.
type history struct {
	*testing.T

	random   *rand.Rand
	store    *faultyStore
	network  *network
	clock    *serverClock
	box      *box
	clients  *clients
	identity *age.X25519Identity
	key      store.SigningKey
	cluster  stores.Cluster
	origin   v1.BackedUpInstance

	epochs []*epoch
	// damaged contains the GTIDs of the first damaged segment. begun and over are the times at which the fault began
	// and ended.
	damaged     binlog.Set
	begun, over time.Time

	mu      *sync.Mutex
	records []v1.BackupRecord
	// copies contains the data directory of each backup, by the name of the BackupRecord.
	copies map[string]string

	archiver *supervisor
}

// newHistory starts a server with clients and an archiver, and waits for the first backup.
func newHistory(t *testing.T, random *rand.Rand, hasClock bool, options ...string) *history {
	t.Helper()
	h := &history{T: t, random: random, store: newFaultyStore(t), network: &network{}, key: store.NewSigningKey(), mu: &sync.Mutex{},
		copies: map[string]string{}, epochs: []*epoch{{seen: map[string]bool{}}}}
	var err error
	h.identity, err = age.GenerateX25519Identity()
	must(t, err)
	if hasClock {
		if h.clock = newServerClock(t); h.clock == nil {
			t.Skip("there is no C compiler for a library that changes the clock of the server")
		}
	}
	h.cluster = newCluster(h.store.settings, h.key, h.identity)
	h.origin = v1.BackedUpInstance{Kind: v1.KindMySQL, Namespace: "team", NamespaceUID: types.UID(uuid.NewString()),
		Name: "db", XR: types.UID(uuid.NewString())}
	h.box = newBox(t, options, h.clock.env())
	must(t, h.box.tryUnlogged(t.Context(), "INSTALL PLUGIN clone SONAME 'mysql_clone.so'"))
	h.box.exec(t, definitions)
	h.clients = startClients(t, h.box, 0, 3, 20*time.Millisecond)
	h.archiver = &supervisor{history: h}
	h.archiver.start()
	h.awaitBase()
	return h
}

// prefix returns the prefix of the archived log.
func (h *history) prefix() string { return v1.StoreLogPrefix(h.origin) }

func (h *history) last() *epoch { return h.epochs[len(h.epochs)-1] }

// noteLog adds the transactions in the server's binary log to the last epoch.
func (h *history) noteLog() {
	h.Helper()
	all, _ := h.box.readLog(h.T, "")
	h.last().add(all)
}

// beginEpoch begins an epoch. It inherits the transactions of the last epoch for which isKept returns true.
func (h *history) beginEpoch(isKept func(gtid string) bool) {
	e := &epoch{seen: map[string]bool{}}
	for _, one := range h.last().txns {
		if isKept(one.gtid) {
			e.txns = append(e.txns, one)
		}
	}
	e.inherited = len(e.txns)
	h.epochs = append(h.epochs, e)
}

// waitTime is the maximum time for each step. It is long, because the machine can be busy.
const waitTime = 10 * time.Minute

// pass waits until the server has acknowledged count more transactions of the clients.
func (h *history) pass(count int) {
	h.Helper()
	want := h.clients.count() + count
	for end := time.Now().Add(waitTime); h.clients.count() < want; time.Sleep(20 * time.Millisecond) {
		if time.Now().After(end) {
			h.Fatalf("the clients have only %d of %d transactions", h.clients.count(), want)
		}
	}
}

// rest waits for a random time while the clients run. The seed of the test determines the time.
func (h *history) rest(least, most time.Duration) {
	time.Sleep(least + time.Duration(h.random.Int64N(int64(most-least)+1)))
}

// awaitArchive waits until the newest timeline has all transactions that the server has now.
func (h *history) awaitArchive() {
	h.Helper()
	want := h.box.executed(h.T)
	h.await("an archive with "+want.String(), func() bool {
		got, err := binlog.ParseSet(h.archiver.state().GTIDs)
		must(h.T, err)
		return got.Contains(want)
	})
}

// awaitBase waits until a backup exists from which a recovery with the newest timeline can begin.
func (h *history) awaitBase() {
	h.Helper()
	h.await("a backup of the newest timeline", func() bool {
		p := h.archiver.state()
		_, ok := h.earliest(p.Timeline)
		return ok
	})
}

func (h *history) await(name string, isDone func() bool) {
	h.Helper()
	for end := time.Now().Add(waitTime); !isDone(); time.Sleep(50 * time.Millisecond) {
		if time.Now().After(end) {
			h.Fatalf("no %.300s: %v, %+v", name, h.archiver.lastError(), h.archiver.state())
		}
	}
}

// earliest returns the earliest time to which a timeline can recover, as the controller computes it.
func (h *history) earliest(line logarchive.Timeline) (time.Time, bool) {
	if line.Prefix == "" {
		return time.Time{}, false
	}
	begun, err := line.Begun()
	must(h.T, err)
	bases, _ := stores.BasesOf(h.allRecords())
	return recovery.Earliest(bases, line, begun)
}

// allRecords returns the BackupRecords, the newest first.
func (h *history) allRecords() []v1.BackupRecord {
	h.mu.Lock()
	defer h.mu.Unlock()
	out := slices.Clone(h.records)
	slices.Reverse(out)
	return out
}

// backup takes a backup: it copies the data with take, and writes the entry to the catalog in the store.
func (h *history) backup(request string, take func(dir string) error) error {
	h.mu.Lock()
	number := int64(len(h.records) + 1)
	h.mu.Unlock()
	name := fmt.Sprintf("db-%d-%.8s", number, uuid.NewString())
	r := v1.BackupRecord{ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID(uuid.NewString()),
		CreationTimestamp: metav1.NewTime(time.Now().Truncate(time.Second))},
		Spec: v1.BackupRecordSpec{Instance: h.origin, Image: "mysql:9.7", Version: "9.7.4", CleanShutdown: true, Number: number,
			Origin: v1.OriginRequest, Method: v1.MethodOnline, Request: request,
			Archive: &v1.Archive{Store: storeName, Path: path.Join(v1.StorePrefix(h.origin, name), "x.tar.zst"),
				SHA256: strings.Repeat("a", 64), Size: "1"}}}
	dir := recovery.NewServerDir(h.T)
	if err := take(dir); err != nil {
		return err
	}
	s, err := h.cluster.Open(h.Context(), storeName)
	if err != nil {
		return err
	}
	// The archive itself is not in the store. The tests of package archive cover it.
	if err := s.Put(h.Context(), r.Spec.Archive.Path, []byte("x")); err != nil {
		return err
	}
	completed := &metav1.Time{Time: time.Now().Truncate(time.Second)}
	r.Spec.CompletedAt = completed
	n := &v1.StoreEntry{BackupEntry: r.Entry(), Name: r.Name, Manifest: []byte(`{"format":1}`)}
	if err := h.cluster.Publish(h.Context(), storeName, n); err != nil {
		return err
	}
	r.Status.Phase, r.Status.CompletionTime = v1.BackupVerified, completed
	h.mu.Lock()
	defer h.mu.Unlock()
	h.records, h.copies[name] = append(h.records, r), dir
	return nil
}

// clone takes an online backup.
func (h *history) clone(request string) error {
	return h.backup(request, func(dir string) error {
		_, err := h.box.db.ExecContext(h.Context(), "CLONE LOCAL DATA DIRECTORY = '"+filepath.Join(dir, "data")+"'")
		return err
	})
}

// copyStopped takes a cold backup: it copies the data directory of the stopped server.
func (h *history) copyStopped() {
	h.Helper()
	must(h.T, h.backup("", func(dir string) error { return copyDir(h.box.data(), filepath.Join(dir, "data")) }))
}

func copyDir(from, target string) error {
	out, err := exec.Command("cp", "-a", "-H", "--reflink=auto", from, target).CombinedOutput() //nolint:noctx // It is short.
	if err != nil {
		return fmt.Errorf("%w: %s", err, out)
	}
	return nil
}

// A supervisor runs archivers like the controller does: it starts another one after an error, and takes a backup for
// each new timeline.
type supervisor struct {
	*history

	mu       sync.Mutex
	progress logarchive.Progress
	failure  error
	// lines contains the last progress that the archiver has reported for each timeline, the oldest timeline first.
	lines []logarchive.Progress
	// began is the number of archivers that were started.
	began int

	cancel context.CancelFunc
	all    sync.WaitGroup
}

func (s *supervisor) start() {
	ctx, cancel := context.WithCancel(context.Background())
	s.cancel = cancel
	s.Cleanup(s.stop)
	s.all.Go(func() { s.run(ctx) })
	s.all.Go(func() { s.takeBases(ctx) })
}

// stop stops the archiver, which stores all that it has received.
func (s *supervisor) stop() {
	s.cancel()
	s.all.Wait()
}

// kill ends the archiver like a killed process. It stores nothing more.
func (s *supervisor) kill() {
	s.store.fail(isReset)
	s.network.cut()
	s.stop()
	s.network.restore()
	s.store.failBy(nil)
}

func (s *supervisor) state() logarchive.Progress {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.progress
}

func (s *supervisor) lastError() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.failure
}

func (s *supervisor) report(p logarchive.Progress) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.progress = p
	if n := len(s.lines); n > 0 && s.lines[n-1].Timeline == p.Timeline {
		p.Gap = cmp.Or(p.Gap, s.lines[n-1].Gap)
		s.lines[n-1] = p
		return
	}
	s.lines = append(s.lines, p)
}

func (s *supervisor) allLines() []logarchive.Progress {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.lines)
}

func (s *supervisor) run(ctx context.Context) {
	password := ""
	for ctx.Err() == nil {
		err := s.archive(ctx, &password)
		if binlog.IsServerError(err) {
			password = ""
		}
		s.mu.Lock()
		s.failure = err
		s.mu.Unlock()
		select {
		case <-ctx.Done():
		case <-time.After(300 * time.Millisecond):
		}
	}
}

// archive runs one archiver until it fails. It corresponds to the function archive in package reconciler.
func (s *supervisor) archive(ctx context.Context, password *string) error {
	opened, err := s.cluster.Open(ctx, storeName)
	if err != nil {
		return err
	}
	if *password == "" {
		text := uuid.NewString()
		if err := s.box.tryUnlogged(ctx, "DROP USER IF EXISTS archive; CREATE USER archive IDENTIFIED BY '"+text+
			"'; GRANT REPLICATION SLAVE ON *.* TO archive"); err != nil {
			return err
		}
		*password = text
	}
	source := binlog.Source{Address: filepath.Join(s.box.dir, "s"), Dial: s.network.dial, ServerID: 4294967294, User: "archive",
		Password: *password}
	watch := &binlog.Watcher{Source: source}
	defer watch.Close()
	s.mu.Lock()
	s.began++
	s.mu.Unlock()
	return (&logarchive.Archiver{
		Reader: opened.LogOf(s.prefix()), Recipients: opened.AgeRecipients(), Now: time.Now,
		Connect: func(ctx context.Context) (logarchive.Stream, binlog.State, error) {
			c, err := binlog.Connect(ctx, source)
			if err != nil {
				return nil, binlog.State{}, err
			}
			return c, c.State, nil
		},
		State: watch.ReadState, Report: s.report,
	}).Run(ctx)
}

// takeBases takes a backup for each timeline that has none, like the controller does.
func (s *supervisor) takeBases(ctx context.Context) {
	for ctx.Err() == nil {
		p := s.state()
		if _, ok := s.earliest(p.Timeline); !ok && p.Timeline.Prefix != "" {
			if err := s.clone("db" + recovery.RequestMark(p.Timeline) + "-12"); err != nil && ctx.Err() == nil {
				s.Logf("backup: %v", err)
			}
		}
		select {
		case <-ctx.Done():
		case <-time.After(200 * time.Millisecond):
		}
	}
}

// A destination is a place to recover an instance to: another name, the same name, or another cluster. Its
// BackupRecords and its store determine which backups and which log are found.
type destination struct {
	name    string
	cluster stores.Cluster
	records []v1.BackupRecord
}

// destinations returns all three destinations. The server and the archiver must have stopped. hasData is true if the
// server's data still exists for a final backup.
func (h *history) destinations(hasData bool) []destination {
	h.Helper()
	running := h.allRecords()
	if hasData {
		h.copyStopped() // A deletion takes a final backup.
	}
	return []destination{
		{"new name", h.cluster, running},
		{"in place", h.cluster, h.allRecords()},
		h.importAll(),
	}
}

// importAll imports all backups into another cluster, which has only the bucket and the keys.
func (h *history) importAll() destination {
	h.Helper()
	out := destination{name: "new cluster", cluster: newCluster(h.store.settings, h.key, h.identity)}
	s, err := out.cluster.Open(h.Context(), storeName)
	must(h.T, err)
	all, err := s.Candidates(h.Context())
	must(h.T, err)
	target := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "other", UID: types.UID(uuid.NewString())}}
	now := time.Now()
	for _, c := range all {
		verdict, n := c.Judge(stores.Facts{To: target.Name, Target: target})
		if n == nil {
			h.Fatalf("%s cannot be imported: %+v", c.Record, verdict)
		}
		must(h.T, s.Publish(h.Context(), n))
		// The BackupRecord is created as catalog.MakeRecordAgain and catalog.VerifyAsRecorded do it.
		r := v1.BackupRecord{ObjectMeta: metav1.ObjectMeta{Name: n.Name, CreationTimestamp: metav1.NewTime(now)},
			Spec: *n.Spec.DeepCopy()}
		r.Spec.AnnouncedAt = n.AnnouncedAt.DeepCopy()
		r.Status.Phase, r.Status.CompletionTime = v1.BackupVerified, &metav1.Time{Time: now}
		out.records = append(out.records, r)
	}
	slices.SortFunc(out.records, func(a, b v1.BackupRecord) int { return cmp.Compare(b.Spec.Number, a.Spec.Number) })
	if len(out.records) != len(h.allRecords()) {
		h.Fatalf("the new cluster has %d backups, want %d", len(out.records), len(h.allRecords()))
	}
	return out
}

// An outcome is the result of a recovery, or the reason why the recovery was refused.
type outcome struct {
	// refusal is the reason why the recovery was refused, or "". isPlanned is true if it was refused before any backup
	// was restored.
	refusal   string
	isPlanned bool
	result    recovery.Result
	base      string
	// data is the recovered data directory.
	data string
}

// find returns the backup and the timeline for a recovery to the time or transaction in text.
func (h *history) find(d destination, text string) *v1.RecoverySource {
	h.Helper()
	found, err := d.cluster.FindRecovery(h.Context(), "", text, nil, d.records)
	if err != nil { // The controller shows it in the status of the instance, and retries.
		found = &v1.RecoverySource{Message: err.Error()}
	}
	if found.Recovery == nil {
		found.Recovery = &v1.Recovery{At: text}
	}
	return found
}

// recoverTo restores the found backup and applies the log to it, as the pod of a new instance does.
func (h *history) recoverTo(d destination, found *v1.RecoverySource) outcome {
	h.Helper()
	if found.Message != "" {
		return outcome{refusal: found.Message, isPlanned: true}
	}
	goal, err := recovery.ParseTarget(found.Recovery.At)
	must(h.T, err)
	k := slices.IndexFunc(d.records, func(r v1.BackupRecord) bool { return r.Name == found.Backup })
	if !v1.IsLogOf(found.Recovery, &d.records[k]) {
		h.Fatalf("%s is not the log of %s", found.Recovery.Timeline, found.Backup)
	}
	until, err := recovery.ParseTarget(found.Recovery.Until)
	must(h.T, err)
	opened, err := d.cluster.Open(h.Context(), storeName)
	must(h.T, err)
	dir := recovery.NewServerDir(h.T)
	out := outcome{base: found.Backup, data: filepath.Join(dir, "data")}
	must(h.T, copyDir(filepath.Join(h.copies[found.Backup], "data"), out.data))
	removeIdentity(h.T, out.data)
	r := &recovery.Recovery{Data: out.data, Scratch: recovery.NewServerDir(h.T), Target: goal, Output: &strings.Builder{},
		Source: plainSource{opened, h.identity},
		Log: recovery.Log{Timeline: logarchive.Timeline{Prefix: found.Recovery.Timeline}, Last: found.Recovery.Segment,
			Digest: found.Recovery.Digest, Until: until.Time}}
	out.result, err = r.RunCommand(h.Context(), func(_ string, args ...string) *exec.Cmd {
		rootfs.Own(h.T, r.Data)
		rootfs.Own(h.T, r.Scratch)
		return recovery.ServerCommand(rootfs.Find(h.T), args...)
	})
	if err != nil {
		out.refusal = err.Error()
	}
	return out
}

// serve starts a server on recovered data.
func (h *history) serve(data string) *box {
	h.Helper()
	b := &box{root: rootfs.Find(h.T), dir: filepath.Dir(data), options: []string{"--skip-log-bin"}}
	must(h.T, renameDir(data, b.data()))
	rootfs.Own(h.T, b.dir)
	b.start(h.T)
	return b
}
