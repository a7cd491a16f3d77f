//go:build mysqld

package recovery_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/binlog"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/logarchive"
	"github.com/crossplane-mysql/crossplane-mysql/test/double/rootfs"
)

// A fault is a failure that is injected while clients write to a server and the archiver stores its binary log.
type fault struct {
	name string
	// inject injects the fault, and returns when the fault is over.
	inject func(h *history)
	// makesGap is true if the fault makes the archiver begin another timeline. isLast is true if the server is lost
	// and does not start again.
	makesGap, isLast bool
	// damages is true if objects of the archive are changed. hidesTimes is true if it is unknown when the transactions of the
	// damaged segment were committed. forges is true if manifests were signed again, so that it is unknown which ones.
	damages, hidesTimes, forges bool
	// stepsClock is true if the clock of the server is set back.
	stepsClock bool
	// options are mysqld options of the server.
	options []string
	// isQuick is true if the fault can be in the sample of make mysqld-test. Other faults have not run often enough
	// yet.
	isQuick bool
}

// faults lists all faults. A new one is appended, because the position decides which targets are tried.
var faults = []fault{
	{name: "none", inject: func(*history) {}, isQuick: true},
	{name: "archiver killed at each step", inject: killAtEachStep},
	{name: "archiver killed and absent for a while", inject: func(h *history) {
		h.archiver.kill()
		h.pass(80)
		h.archiver.start()
	}, isQuick: true},
	{name: "server killed", inject: func(h *history) {
		for range 3 {
			h.killServer()
			h.box.start(h.T)
			h.rest(200*time.Millisecond, 900*time.Millisecond)
		}
	}},
	{name: "node unavailable for a while", inject: func(h *history) {
		h.killServer()
		h.archiver.kill()
		h.rest(time.Second, 2*time.Second)
		h.box.start(h.T)
		h.archiver.start()
	}},
	{name: "node and volume lost", isLast: true, inject: func(h *history) {
		h.killServer()
		h.archiver.kill()
	}},
	{name: "store down for minutes", inject: func(h *history) { h.storeFails(isReset, longOutage()) }},
	{name: "store busy", inject: func(h *history) { h.storeFails(isBusy, 6*time.Second) }},
	{name: "responses of the store lost", inject: loseResponses},
	{name: "credentials of the store revoked", inject: func(h *history) { h.storeFails(isDenied, 6*time.Second) }},
	{name: "credentials of the archiver revoked", inject: func(h *history) {
		must(h.T, h.box.tryUnlogged(h.Context(), "ALTER USER archive IDENTIFIED BY 'other'"))
		h.network.cut()
		h.rest(time.Second, 2*time.Second)
		h.network.restore()
	}},
	{name: "network cut", inject: func(h *history) {
		for range 3 {
			h.network.cut()
			h.rest(500*time.Millisecond, 2*time.Second)
			h.network.restore()
			h.rest(500*time.Millisecond, 2*time.Second)
		}
	}},
	{name: "clock an hour back", stepsClock: true, inject: func(h *history) { h.clock.step(h.T, -time.Hour) }},
	{name: "segment lost", damages: true, inject: func(h *history) { h.damage(loseSegment) }},
	{name: "segment damaged", damages: true, inject: func(h *history) { h.damage(flipByte) }},
	{name: "segments exchanged", damages: true, inject: func(h *history) { h.damage(exchangeSegments) }},
	{name: "segments and manifests exchanged", damages: true, hidesTimes: true,
		inject: func(h *history) { h.damage(exchangeAll) }},
	{name: "manifest lost", damages: true, hidesTimes: true, inject: func(h *history) { h.damage(loseManifest) }},
	{name: "segment of a forged sum", damages: true, forges: true, inject: func(h *history) { h.damage(forgeManifest) }},
	{name: "server_id of the recovery", options: []string{"--server-id=4294967293"}, inject: func(*history) {}},
	{name: "server_id of the archiver", inject: useArchiverID},
	{name: "log reset", makesGap: true, inject: (*history).reset},
	{name: "log reset and overtaken", makesGap: true, inject: resetAndOvertake},
	{name: "log purged", makesGap: true, inject: purge},
	{name: "disk of the server full", inject: fillDisk},
	{name: "restore in the midst", makesGap: true, inject: restoreServer},
	{name: "password changed in the midst", inject: changePasswords},
	{name: "image upgraded in the midst", inject: upgradeImage},
}

// longOutage returns how long the store is unavailable. The time exceeds a minute only if the variable ALL is set.
func longOutage() time.Duration {
	if os.Getenv("ALL") != "" {
		return 130 * time.Second
	}
	return 12 * time.Second
}

// killServer kills the server, and does not wait for it to exit cleanly.
func (h *history) killServer() { h.box.Kill() }

func (h *history) storeFails(f requestFault, d time.Duration) {
	h.store.fail(f)
	time.Sleep(d)
	h.store.failBy(nil)
}

// killAtEachStep kills the archiver repeatedly: before and after the store has performed each of its first requests.
func killAtEachStep(h *history) {
	for n := range int32(14) {
		var seen atomic.Int32
		isDead := make(chan struct{}, 1)
		last := isReset
		if n%2 == 1 {
			last = isLost
		}
		h.store.failBy(func(*http.Request) requestFault {
			switch k := seen.Add(1); {
			case k == n+1:
				isDead <- struct{}{}
				return last
			case k > n+1:
				return isReset
			}
			return noFault
		})
		select {
		case <-isDead:
		case <-time.After(10 * time.Second):
		}
		h.archiver.kill()
		h.archiver.start()
	}
}

// loseResponses drops every third response of the store, after the store has performed the request.
func loseResponses(h *history) {
	var seen atomic.Int32
	h.store.failBy(func(*http.Request) requestFault {
		if seen.Add(1)%3 == 0 {
			return isLost
		}
		return noFault
	})
	h.pass(150)
	h.store.failBy(nil)
}

// damage waits until the archive has more segments, and calls change to damage a segment in its middle. The archiver
// is stopped meanwhile.
func (h *history) damage(change func(h *history, line logarchive.Timeline, number int64)) {
	h.Helper()
	h.pass(120)
	h.awaitArchive()
	last := h.archiver.state()
	h.await("enough segments", func() bool { return h.archiver.state().Number >= last.Number+3 })
	h.archiver.stop()
	var err error
	h.damaged, err = binlog.ParseSet(h.segment(last.Timeline, last.Number).GTIDs)
	must(h.T, err)
	change(h, last.Timeline, last.Number)
	h.archiver.start()
}

func (h *history) segment(line logarchive.Timeline, number int64) *logarchive.Last {
	h.Helper()
	s, err := h.cluster.Open(h.Context(), storeName)
	must(h.T, err)
	out, err := s.LogOf(h.prefix()).Segment(h.Context(), line, number)
	must(h.T, err)
	return out
}

func (h *history) replace(change func(all map[string][]byte) map[string][]byte, line logarchive.Timeline) {
	h.Helper()
	s, err := h.cluster.Open(h.Context(), storeName)
	must(h.T, err)
	for name, raw := range change(objects(h.T, s, line.Prefix)) {
		key := filepath.Join(line.Prefix, name)
		must(h.T, s.Delete(h.Context(), key))
		if raw != nil {
			must(h.T, s.Put(h.Context(), key, raw))
		}
	}
}

func loseSegment(h *history, line logarchive.Timeline, number int64) {
	m := h.segment(line, number)
	h.replace(func(map[string][]byte) map[string][]byte { return map[string][]byte{m.Segment: nil} }, line)
}

func loseManifest(h *history, line logarchive.Timeline, number int64) {
	h.replace(func(map[string][]byte) map[string][]byte {
		return map[string][]byte{filepath.Base(line.ManifestKey(number)): nil}
	}, line)
}

func flipByte(h *history, line logarchive.Timeline, number int64) {
	m := h.segment(line, number)
	h.replace(func(all map[string][]byte) map[string][]byte {
		raw := slices.Clone(all[m.Segment])
		raw[h.random.IntN(len(raw))] ^= 1 << h.random.IntN(8)
		return map[string][]byte{m.Segment: raw}
	}, line)
}

func exchangeSegments(h *history, line logarchive.Timeline, number int64) {
	one, two := h.segment(line, number), h.segment(line, number+1)
	h.replace(func(all map[string][]byte) map[string][]byte {
		return map[string][]byte{one.Segment: all[two.Segment], two.Segment: all[one.Segment]}
	}, line)
}

// exchangeAll exchanges two segments with their manifests, so that the sum of the transactions is the same.
func exchangeAll(h *history, line logarchive.Timeline, number int64) {
	exchangeSegments(h, line, number)
	one, two := filepath.Base(line.ManifestKey(number)), filepath.Base(line.ManifestKey(number+1))
	h.replace(func(all map[string][]byte) map[string][]byte {
		return map[string][]byte{one: all[two], two: all[one]}
	}, line)
}

// forgeManifest exchanges two segments, and signs manifests with the right key whose sets add up to the same sum. Only
// the checksums of the chain reveal it.
func forgeManifest(h *history, line logarchive.Timeline, number int64) {
	one, two := h.segment(line, number), h.segment(line, number+1)
	before, err := one.BeforeSegment()
	must(h.T, err)
	set, err := binlog.ParseSet(two.GTIDs)
	must(h.T, err)
	until := before.Clone()
	until.AddAll(set)
	first, second := *two.Manifest, *one.Manifest
	first.Number, first.Previous, first.Until, first.Segment = number, one.Previous, until.String(),
		strings.Replace(two.Segment, fmt.Sprintf("%010d", number+1), fmt.Sprintf("%010d", number), 1)
	raw, err := h.key.Sign(line.ManifestKey(number), &first)
	must(h.T, err)
	second.Number, second.Previous, second.Until, second.Segment = number+1, logarchive.Digest(raw), two.Until,
		strings.Replace(one.Segment, fmt.Sprintf("%010d", number), fmt.Sprintf("%010d", number+1), 1)
	raw2, err := h.key.Sign(line.ManifestKey(number+1), &second)
	must(h.T, err)
	h.replace(func(all map[string][]byte) map[string][]byte {
		return map[string][]byte{
			first.Segment: all[two.Segment], second.Segment: all[one.Segment],
			filepath.Base(line.ManifestKey(number)): raw, filepath.Base(line.ManifestKey(number + 1)): raw2}
	}, line)
	if !json.Valid(raw) {
		h.Fatal("the manifest is not valid")
	}
}

// useArchiverID restarts the server with the server_id of the archiver for a while.
func useArchiverID(h *history) {
	options := h.box.options
	h.box.options = append(slices.Clone(options), "--server-id=4294967294")
	h.box.restart(h.T)
	h.await("an error of the archiver", func() bool {
		err := h.archiver.lastError()
		return err != nil && strings.Contains(err.Error(), "server_id")
	})
	h.pass(50)
	h.box.options = options
	h.box.restart(h.T)
}

// reset executes RESET BINARY LOGS AND GTIDS on the server, which begins an epoch.
func (h *history) reset() {
	h.Helper()
	h.clients.pause.Lock()
	defer h.clients.pause.Unlock()
	h.noteLog()
	h.box.exec(h.T, "RESET BINARY LOGS AND GTIDS")
	h.beginEpoch(func(string) bool { return true })
}

// resetAndOvertake resets the binary log while the archiver is down. The archiver is started when the GTIDs have
// higher numbers than the archived ones.
func resetAndOvertake(h *history) {
	h.archiver.kill()
	archived, err := binlog.ParseSet(h.archiver.state().GTIDs)
	must(h.T, err)
	h.reset()
	h.pass(int(archived.Count()) + 20)
	h.archiver.start()
}

// purge deletes log files that were not archived.
func purge(h *history) {
	h.archiver.kill()
	h.pass(40)
	h.box.exec(h.T, "FLUSH BINARY LOGS")
	h.pass(40)
	h.noteLog()
	files := []string{}
	all, err := os.ReadDir(h.box.data())
	must(h.T, err)
	for _, f := range all {
		if strings.HasPrefix(f.Name(), "binlog.0") {
			files = append(files, f.Name())
		}
	}
	h.box.exec(h.T, "FLUSH BINARY LOGS; PURGE BINARY LOGS TO '"+files[len(files)-1]+"'")
	h.archiver.start()
}

// fillDisk fills the file system of the server, and frees the space later. The kubelet restarts a server that does not
// continue.
func fillDisk(h *history) {
	h.killServer()
	disk := filepath.Join(h.box.dir, "disk")
	must(h.T, os.Mkdir(disk, 0o755))                                                                 //nolint:gosec // The server reads it.
	out, err := exec.Command("mount", "-t", "tmpfs", "-o", "size=1G", "none", disk).CombinedOutput() //nolint:noctx // It is short.
	if err != nil {
		h.Skipf("cannot mount a small file system: %v: %s", err, out)
	}
	h.Cleanup(func() {
		h.box.Kill()
		_ = exec.Command("umount", disk).Run() //nolint:noctx // It is short.
	})
	must(h.T, copyDir(h.box.data(), filepath.Join(disk, "d")))
	rootfs.Own(h.T, disk)
	must(h.T, os.RemoveAll(h.box.data()))
	must(h.T, os.Symlink(filepath.Join(disk, "d"), h.box.data()))
	h.box.start(h.T)
	h.pass(30)
	filler := filepath.Join(disk, "filler")
	_ = exec.Command("dd", "if=/dev/zero", "of="+filler, "bs=1M").Run() //nolint:noctx // It fails when the disk is full.
	h.rest(6*time.Second, 8*time.Second)
	must(h.T, os.Remove(filler))
	time.Sleep(2 * time.Second)
	h.box.restart(h.T)
}

// restoreServer replaces the data of the server with its first backup.
func restoreServer(h *history) {
	h.clients.pause.Lock()
	defer h.clients.pause.Unlock()
	h.noteLog()
	h.killServer()
	first := h.allRecords()
	data := filepath.Join(h.copies[first[len(first)-1].Name], "data")
	must(h.T, os.RemoveAll(h.box.data()))
	must(h.T, copyDir(data, h.box.data()))
	removeIdentity(h.T, h.box.data())
	rootfs.Own(h.T, h.box.dir)
	h.box.start(h.T)
	set := h.box.executed(h.T)
	h.beginEpoch(func(gtid string) bool {
		g, err := binlog.ParseGTID(gtid)
		return err == nil && set.Has(g)
	})
}

// changePasswords changes the password of a client and of the archiver.
func changePasswords(h *history) {
	h.box.exec(h.T, "ALTER USER 'app'@'%' IDENTIFIED BY 'second'")
	must(h.T, h.box.tryUnlogged(h.Context(), "ALTER USER archive IDENTIFIED BY 'other'"))
	h.box.restart(h.T)
}

// upgradeImage stops the server cleanly, and starts it with --upgrade=FORCE, as an upgrade to a newer image would.
func upgradeImage(h *history) {
	h.box.stop(h.T)
	options := h.box.options
	h.box.options = append(slices.Clone(options), "--upgrade=FORCE")
	h.box.start(h.T)
	h.pass(20)
	h.box.stop(h.T)
	h.box.options = options
	h.box.start(h.T)
}
