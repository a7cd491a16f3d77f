package lifecycle

import (
	"slices"

	"k8s.io/apimachinery/pkg/types"

	v1 "github.com/crossplane-mysql/crossplane-mysql/apis/v1"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/instance"
)

// States of an object in the model: it does not exist, it exists, or it is being deleted.
const (
	none int8 = iota
	alive1
	dying1
)

// Locations of PVCs and Jobs in the model. atHome is the namespace of the instance, under the usual names.
const (
	atHome int8 = iota
	// besideHome is the namespace of the instance, under names that contain the instance's UID.
	besideHome
	atRecovery
)

// States of the claimRef of a data volume: reserved for a PVC, bound to a PVC, or bound to a PVC that was deleted.
const (
	refFree int8 = iota
	refBound
	refStale
)

// Phases of a BackupRecord.
const (
	recordNone int8 = iota
	recordPending
	recordRunning
	recordFailed
	recordVerified
	// recordNew is a BackupRecord without a status.
	recordNew
)

// Results of the restore test of a verified backup. verdictNone means that there is no result yet.
const (
	verdictNone int8 = iota
	verdictUnknown
	verdictFalse
	verdictTrue
)

// The catalog entry that another cluster has written to the store under the same name: no entry, an entry with a
// different BackupRecord, or an entry with this cluster's BackupRecord and a different checksum.
const (
	foreignNone int8 = iota
	foreignRecord
	foreignSum
)

// States of a restore test in its BackupRecord: not started, running, and running with the name of its Job.
const (
	turnNone int8 = iota
	turnTaken
	turnNamed
)

// A modelInstance is the state of one instance. The model counts the rows instead of storing them, which is enough to
// detect a missing row.
type modelInstance struct { //nolint:recvcheck // Methods that apply an event change the value. All others get a copy.
	// own is true if the instance has no claim, because a user creates the XR. It is set from the start.
	own                             bool
	cascade                         int8 // How a user deleted such an XR: one of the constants cascadeBackground, and so on.
	xr                              int8
	born                            int8 // The number of the instance's namespace. The first one has number 1.
	ours, cross                     bool
	claimMarked                     bool // The PVC has AnnotationNothingToLose, because there is no XR.
	started, fenced, marked, volume bool
	looked                          bool
	previous, restore               int8 // The numbers of the instances whose backup was found and chosen. 0 means none.
	restored                        bool
	deployment                      int8 // 0 means no Deployment, 1 means no replica, 2 means one.
	service                         bool
	pod                             bool
	pv, held, retain, labelled      bool
	refPlace, ref                   int8
	rows                            int8
	record                          int8
	archived                        int8 // The number of rows plus 1, or 0 if there is no archive.
	archivedOn                      int8 // The index in model.volumes of the volume with the archive.
	job, jobPlace                   int8
	jobDone, jobFailed              bool
	jobMoved                        bool // The Job was created for a previous backup PVC.
	restoreJob                      bool // The Job of a completed restore still exists, with its pod.
	ran                             bool // A restore test has started a server from this instance's backup.
	verdict                         int8
	turn                            int8 // The state of the restore test in its BackupRecord.
	heard                           bool // The BackupRecord contains the result of the restore test.
	// recordNo is the generation of the BackupRecord. It begins with 1 and increases each time the BackupRecord is
	// created again. noted is the generation in the catalog entry, or 0 if there is no entry. forgotten is the
	// generation in a user's annotation that allows later instances to start without this backup.
	recordNo, noted, forgotten    int8
	recordDying, markedForRemoval bool
	recordHeld                    bool
	wanted                        bool // A user has requested this BackupRecord with an annotation on the volume.
	erase                         int8 // The state of the Job that removes the archive.
	erased                        bool
	handle, handlePlace           int8
	handleBlocked                 bool
	toStore                       bool // The backup of this instance is written to a store, and not to a volume.
	// Generations of the BackupRecord that the annotation AnnotationPublished of the XR, the volume and the PVC
	// names.
	xrMark, pvMark, claimMark int8
	// foreign is the catalog entry that another cluster with identical names and UIDs has published under the name of
	// this backup. It is one of the constants whose names begin with foreign.
	foreign int8
	image   modelImage
}

// A modelVolume is a backup volume. made, owner and from are the numbers of namespaces that have used the volume. The
// first namespace has number 1. If it is created again, it gets the next number.
type modelVolume struct {
	made, owner, from int8
	namespace         int8
	free              bool
	retained          bool // The volume is kept if its PVC is deleted.
	asked             int8 // The number of the instance whose BackupRecord a user requests, or 0.
}

// A modelTrial is the Job of a restore test, which starts a server from the backup of an instance.
type modelTrial struct {
	job, backup int8
	says        int8 // The result of the restore test. It is verdictNone while the Job runs.
}

// A model is the state of a cluster in which an instance is created, deleted and created again.
type model struct { //nolint:recvcheck // Methods that apply an event change the value. All others get a copy.
	claim          int8
	claimOurs      bool
	claimXR        int8
	namespace      int8
	current        int8 // The number of the current namespace with this name, from 1.
	allow          bool
	pvc            int8
	pvcHeld        bool
	pvcMarked      bool
	pvcInstance    int8
	backup         int8
	backupRetained bool
	backupAt       int8
	backupOn       int8 // The volume to which the PVC is or will be bound.
	// backupPending is true until a pod mounts the backup PVC, if its volume is provisioned only then. late is true
	// if all backup PVCs are provisioned this way.
	backupPending, late bool
	volumes             [2]modelVolume
	// store is true if backups are written to a store, and down is true while the store does not respond.
	store, down bool
	truth       int8
	born        int8
	instances   [2]modelInstance

	// testsRestores is true if backups are restore-tested. required is true if the data is deleted only after a
	// successful restore test.
	testsRestores, required bool
	trial                   modelTrial

	// These fields contain how many times a user may still cause each event. failures is the number of failing Jobs.
	writes, creates, deletes, strips, claims, namespaces, remakes, failures, relents int8
	// How many BackupRecords may still be deleted, and how many annotations may still restore or forget a backup.
	drops, words int8
	// How many times a user may still delete the backup PVC.
	backupDeletes int8
	// How many times a user may still delete an XR without a claim in the foreground, and so that its objects are kept.
	foregrounds, orphanings int8
	// How many times the store may still become unavailable.
	outages int8
	// How many backups another cluster with identical names and UIDs may still publish in the store.
	copies int8
	// How many times the image may still change to another release series, and change back to the previous image.
	imageChanges, imageReverts int8
	// How many backups may still be requested. online is true if the server runs during these backups.
	requests int8
	online   bool
	// planned is true if these backups are scheduled instead of on-demand.
	planned bool

	broken string
}

// A move is an event and the state of the model after it. If user is true, a user causes the event. An operation must
// be able to complete without such an event, because it may never happen.
type move struct {
	name string
	user bool
	next model
}

func (m model) with(change func(*model)) model {
	change(&m)
	return m
}

var uids = []string{"uid-1", "uid-2"}

func uidOf(n int) string { return uids[n] }

// numberOf returns the index of the instance with a UID, or -1 if there is none.
func numberOf(uid types.UID) int { return slices.Index(uids, string(uid)) }

// numberWith returns the index of the instance for which a function returns the given name, or -1. The name may be of
// an instance with or without a claim.
func numberWith(name string, nameOf func(v1.Instance) string) int {
	return slices.IndexFunc(uids, func(uid string) bool {
		return name == nameOf(key().Instance(uidType(uid))) || name == nameOf(ownKey().Instance(uidType(uid)))
	})
}

// key returns the key of the instance's claim, or of the instance's XR if it has no claim.
func (l modelInstance) key() instance.Key {
	if l.own {
		return ownKey()
	}
	return key()
}

func (m model) key() instance.Key { return m.instances[0].key() }

func (l modelInstance) instanceOf(n int) v1.Instance { return l.key().Instance(uidType(uidOf(n))) }

func (m model) instanceOf(n int) v1.Instance { return m.instances[n].instanceOf(n) }

// moves returns the possible events that users, Kubernetes, Crossplane, the function and Jobs cause. The events of
// the controller come from Next.
func (m model) moves() []move {
	var out []move
	add := func(name string, user, possible bool, change func(*model)) {
		if possible {
			out = append(out, move{name, user, m.with(change)})
		}
	}
	m.users(add)
	m.crossplane(add)
	for n := range m.instances {
		m.function(n, add)
		m.kubernetes(n, add)
		m.jobs(n, add)
		m.images(n, add)
	}
	m.restoreTest(add)
	m.garbage(add)
	m.records(add)
	return out
}

type adder func(name string, user, possible bool, change func(*model))

func (m model) users(add adder) {
	add("a claim is created", true, !m.isOwn() && m.creates > 0 && m.claim == none &&
		m.namespace == alive1, func(w *model) {
		w.creates--
		w.claim, w.claimOurs, w.claimXR = alive1, false, 0
	})
	add("the claim is deleted", true, m.deletes > 0 && m.claim == alive1, func(w *model) { w.deletes--; w.claim = dying1 })
	add("the claim's finalizers are taken off", true, m.strips > 0 && m.claim == dying1, func(w *model) {
		w.strips--
		w.claim, w.claimOurs, w.claimXR = none, false, 0
	})
	add("the data PVC is deleted", true, m.claims > 0 && m.pvc == alive1, func(w *model) { w.claims--; w.pvc = dying1 })
	add("the backup PVC is deleted", true, m.backupDeletes > 0 && m.backup == alive1,
		func(w *model) { w.backupDeletes--; w.backup = dying1 })
	add("the namespace is deleted", true, m.namespaces > 0 && m.namespace == alive1,
		func(w *model) { w.namespaces--; w.namespace = dying1 })
	add("the namespace is made again", true, m.remakes > 0 && m.namespace == none && m.cleared(), func(w *model) {
		w.remakes--
		w.namespace = alive1
		w.current++
	})
	add("the store is down", true, m.outages > 0 && !m.down, func(w *model) {
		w.outages--
		w.down = true
	})
	add("the store is back", false, m.down, func(w *model) { w.down = false })
	add("the claim no longer requires a restorable backup", true, m.relents > 0 && m.required, func(w *model) {
		w.relents--
		w.required = false
	})
	m.ownUsers(add)
	for n := range m.instances {
		l := m.instances[n]
		copied := m.copies > 0 && l.toStore && l.xr == dying1 && l.noted == 0 && l.foreign == foreignNone
		add("another cluster publishes its backup", true, copied, func(w *model) {
			w.copies--
			w.instances[n].foreign = foreignRecord
		})
		add("another cluster publishes its backup under the same record", true, copied && l.record != recordNone,
			func(w *model) {
				w.copies--
				w.instances[n].foreign = foreignSum
			})
		add("a person moves the other cluster's backup away", false, l.foreign != foreignNone,
			func(w *model) { w.instances[n].foreign = foreignNone })
		add("a row is written", true, m.writes > 0 && l.pod, func(w *model) {
			w.writes--
			w.instances[n].rows++
			w.truth++
		})
		add("the finalizers are taken off", true, m.strips > 0 && l.xr == dying1 && l.ours, func(w *model) {
			w.strips--
			w.instances[n].loseFinalizers()
			w.claimOurs = false
		})
	}
}

// cleared reports whether all objects of the deleted namespace have been deleted.
func (m model) cleared() bool {
	return !slices.ContainsFunc(m.instances[:], func(l modelInstance) bool {
		return m.trial.job != none || l.deployment != none || l.service || l.pod || l.job != none && l.jobPlace != atRecovery
	})
}

func (m model) crossplane(add adder) {
	bound := int(m.claimXR) - 1
	add("Crossplane makes an XR", false, m.claim == alive1 && m.claimXR == 0 && int(m.born) < len(m.instances),
		func(w *model) {
			w.instances[w.born] = modelInstance{xr: alive1, cross: true, born: m.current, toStore: m.store}
			w.born++
			w.claimXR = w.born
		})
	add("Crossplane deletes the XR", false, m.claim == dying1 && bound >= 0 && m.instances[max(bound, 0)].xr == alive1,
		func(w *model) { w.instances[bound].xr = dying1 })
	add("the claim is gone", false, m.claim == dying1 && !m.claimOurs &&
		(bound < 0 || m.instances[max(bound, 0)].xr != alive1), func(w *model) { w.claim, w.claimXR = none, 0 })
	for n := range m.instances {
		l := m.instances[n]
		// In the API with claims, Crossplane adds its finalizer when it creates the XR.
		add("Crossplane adds its finalizer", false, l.own && l.xr == alive1 && !l.cross,
			func(w *model) { w.instances[n].cross = true })
		add("Crossplane lets the XR go", false, l.xr == dying1 && l.cross, func(w *model) { w.instances[n].cross = false })
		add("the XR is gone", false, l.xr == dying1 && !l.cross && !l.ours && !m.waitsForDependents(n),
			func(w *model) { w.instances[n].xr, w.instances[n].xrMark = none, 0 })
	}
}

// function adds the events of the composition function for one instance.
func (m model) function(n int, add adder) { //nolint:gocyclo // One line for each possible event.
	l := m.instances[n]
	if l.xr == none || !l.cross || m.namespace != alive1 || l.born != m.current {
		return
	}
	mine := m.pvc != none && int(m.pvcInstance) == n+1
	add("the function makes the data PVC", false, m.pvc == none && (!l.volume || l.pv), func(w *model) {
		w.pvc, w.pvcHeld, w.pvcMarked, w.pvcInstance = alive1, true, false, int8(n+1) //nolint:gosec // There are two.
	})
	add("the function sees the volume", false, mine && l.pv && !l.volume, func(w *model) { w.instances[n].volume = true })
	taken := slices.ContainsFunc(m.instances[:], func(l modelInstance) bool { return l.deployment != none }) ||
		m.instances[1-n].service
	add("the function makes the Deployment and the Service", false, !taken,
		func(w *model) { w.instances[n].deployment, w.instances[n].service = 1, true })
	add("the function stops the server", false, l.deployment == 2 && l.fenced,
		func(w *model) { w.instances[n].deployment = 1 })
	add("the function starts the server", false, l.deployment == 1 && !l.fenced && !l.image.stops() &&
		(l.started || l.restored || l.looked && l.restore == 0 && l.previous == 0 && m.settled(n) && m.newest(n) == 0),
		func(w *model) {
			w.instances[n].deployment, w.instances[n].started = 2, true
			if !l.image.waits() {
				w.instances[n].image.composed = l.image.wanted
			}
			if !l.started && !l.restored && m.beside(n) {
				w.broken = "a server starts empty beside an archive of its name"
			}
		})
	add("the function chooses a backup", false, l.looked && !l.started && l.restore == 0 && m.settled(n) &&
		l.previous > 0 && m.newest(n) == l.previous && !m.instances[max(l.previous, 1)-1].recordDying && m.allowed(n),
		func(w *model) {
			w.instances[n].restore = l.previous
		})
}

// settled reports whether no BackupRecord of another instance is unfinished or failed.
func (m model) settled(n int) bool {
	for i := range m.instances {
		if r := m.instances[i].record; i != n && r != recordNone && r != recordVerified {
			return false
		}
	}
	return true
}

// newest returns the number of the instance with the newest verified BackupRecord, except for instance n. The numbers
// begin with 1, and 0 means that there is none.
func (m model) newest(n int) int8 {
	newest := int8(0)
	for i := range m.instances {
		if i != n && m.instances[i].record == recordVerified {
			newest = int8(i + 1)
		}
	}
	return newest
}

// allowed reports whether the instance may be restored from the newest backup. The backup must be from the same
// namespace, unless the platform allows backups of a previous namespace.
func (m model) allowed(n int) bool {
	r := m.newest(n)
	return r == 0 || m.allow || m.instances[r-1].born == m.instances[n].born
}

func (m model) kubernetes(n int, add adder) { //nolint:gocyclo // One line for each possible event.
	l := m.instances[n]
	mine := m.pvc != none && int(m.pvcInstance) == n+1
	add("a volume is made", false, mine && m.pvc == alive1 && !l.pv && !l.volume, func(w *model) {
		w.instances[n].pv, w.instances[n].refPlace, w.instances[n].ref = true, atHome, refBound
	})
	add("the data PVC is bound", false, mine && l.pv && l.refPlace == atHome && l.ref == refFree,
		func(w *model) { w.instances[n].ref = refBound })
	add("the handle is bound", false, l.handle != none && l.pv && l.refPlace == l.handlePlace && l.ref == refFree,
		func(w *model) { w.instances[n].ref = refBound })
	add("the server starts", false, l.deployment == 2 && !l.pod && mine && m.pvc == alive1 && m.namespace == alive1 &&
		l.pv && l.refPlace == atHome && l.ref == refBound, func(w *model) {
		w.instances[n].pod = true
		w.startImage(&w.instances[n])
		if l.rows < m.truth {
			w.broken = "a server takes clients without rows that were acknowledged"
		}
	})
	add("the server stops", false,
		l.pod && (l.deployment != 2 || m.namespace != alive1 || l.image.running != l.image.composed),
		func(w *model) { w.instances[n].pod = false })
	add("the volume is removed", false, l.pv && !l.held && !l.retain && l.ref == refStale,
		func(w *model) { w.instances[n].pv, w.instances[n].rows, w.instances[n].pvMark = false, 0, 0 })
	idle := l.job == none || l.jobDone || l.jobPlace != l.handlePlace
	add("the handle is gone", false, l.handle == dying1 && !l.handleBlocked && idle, func(w *model) {
		w.instances[n].handle = none
		if l.refPlace == l.handlePlace && l.ref == refBound {
			w.instances[n].ref = refStale
		}
	})
}

func (m model) jobs(n int, add adder) { //nolint:gocyclo // One line for each possible event.
	l := m.instances[n]
	add("the restore is done", false, l.restore > 0 && !l.restored && !l.started && l.xr == alive1 && m.pvc == alive1 &&
		int(m.pvcInstance) == n+1 && l.ref == refBound && l.refPlace == atHome &&
		m.namespace == alive1 && m.restorable(m.instances[max(l.restore, 1)-1]), func(w *model) {
		w.instances[n].restored, w.instances[n].rows, w.instances[n].restoreJob = true, m.instances[l.restore-1].archived-1, true
	})
	mountable := l.jobPlace == atHome && m.pvc == alive1 && int(m.pvcInstance) == n+1 || l.jobPlace != atHome &&
		l.handle == alive1
	mountable = mountable && l.ref == refBound && l.refPlace == l.jobPlace
	if l.toStore {
		mountable = mountable && !m.down
	} else {
		mountable = mountable && m.backup == alive1 && (m.backupAt == atRecovery) == (l.jobPlace == atRecovery)
	}
	scheduled := l.job == alive1 && !l.jobDone && mountable && !m.tries() &&
		(l.jobPlace == atRecovery || m.namespace == alive1)
	add("the volume of the backups is made", false, scheduled && m.backupPending && !l.toStore, (*model).makeBackupVolume)
	runs := scheduled && (l.toStore || !m.backupPending)
	add("the backup is done", false, runs, func(w *model) {
		w.instances[n].jobDone, w.instances[n].archived, w.instances[n].archivedOn = true, l.rows+1, m.backupOn
		if l.pod {
			w.broken = "a backup is taken while the server runs"
		}
	})
	add("the backup fails", true, runs && m.failures > 0, func(w *model) {
		w.failures--
		w.instances[n].jobDone, w.instances[n].jobFailed = true, true
	})
	add("the Job is gone", false, l.job == dying1 || l.job != none && l.jobPlace != atRecovery && m.namespace == none,
		func(w *model) {
			w.instances[n].job, w.instances[n].jobDone, w.instances[n].jobFailed, w.instances[n].jobMoved = none, false, false, false
		})
	add("the restore's Job is gone", false, l.restoreJob && m.collects(l),
		func(w *model) { w.instances[n].restoreJob = false })
}

// restorable reports whether a restore can read the archive of an instance.
func (m model) restorable(l modelInstance) bool {
	if l.toStore {
		return !m.down
	}
	return m.backupIsHome() && !m.tries() && l.archivedOn == m.backupOn
}

// restoreTest adds the events of a restore test. The test may run for any length of time if no deletion waits for it.
// While it runs, the backup volume is mounted on its node.
func (m model) restoreTest(add adder) {
	runs := m.tries() && m.backupIsHome() && m.namespace == alive1
	n := max(m.trial.backup, 1) - 1
	says := func(verdict int8) func(*model) {
		return func(w *model) {
			w.trial.says, w.instances[n].ran = verdict, w.instances[n].ran || verdict == verdictTrue
		}
	}
	add("a server has run on the backup", !m.required, runs && m.instances[n].archivedOn == m.backupOn, says(verdictTrue))
	for _, end := range []struct {
		name    string
		verdict int8
	}{{"no server runs on the backup", verdictFalse}, {"the restore test comes to nothing", verdictUnknown}} {
		add(end.name, true, runs && m.failures > 0, func(w *model) {
			w.failures--
			says(end.verdict)(w)
		})
	}
	add("the restore test's Job is gone", false, m.trial.job == dying1 || m.trial.job != none && m.namespace == none,
		func(w *model) { w.trial = modelTrial{} })
	add("the restore test of the namespace goes", false, m.namespace == dying1 && m.trial.job == alive1,
		func(w *model) { w.trial.job = dying1 })
}

// tries reports whether a running restore test mounts the backup volume.
func (m model) tries() bool { return m.trial.job == alive1 && m.trial.says == verdictNone }

// garbage adds the events in which Kubernetes deletes an object on its own.
func (m model) garbage(add adder) { //nolint:gocyclo // One line for each possible event.
	for n := range m.instances {
		l := m.instances[n]
		collects := m.collects(l)
		add("the Deployment is collected", false, l.deployment != none && collects,
			func(w *model) { w.instances[n].deployment = none })
		add("the Service is collected", false, l.service && collects, func(w *model) { w.instances[n].service = false })
		add("the data PVC is collected", false, m.pvc == alive1 && int(m.pvcInstance) == n+1 && m.collects(l),
			func(w *model) { w.pvc = dying1 })
		// A terminated pod still blocks the deletion of its PVC.
		used := l.pod || l.restoreJob || l.image.job != none || l.job != none && l.jobPlace == atHome
		add("the data PVC is gone", false, m.pvc == dying1 && int(m.pvcInstance) == n+1 && !m.pvcHeld && !used, func(w *model) {
			w.pvc, w.pvcInstance, w.instances[n].claimMark = none, 0, 0
			if l.refPlace == atHome && l.ref == refBound {
				w.instances[n].ref = refStale
			}
		})
		dies := m.namespace == dying1
		add("the Jobs of the namespace go", false, dies && l.job == alive1 && l.jobPlace != atRecovery,
			func(w *model) { w.instances[n].job = dying1 })
		add("the handle of the namespace goes", false, dies && l.handle == alive1 && l.handlePlace == besideHome,
			func(w *model) { w.instances[n].handle = dying1 })
	}
	dies := m.namespace == dying1
	add("the claim of the namespace is deleted", false, dies && m.claim == alive1, func(w *model) { w.claim = dying1 })
	m.ownGarbage(add)
	add("the data PVC of the namespace is deleted", false, dies && m.pvc == alive1, func(w *model) { w.pvc = dying1 })
	add("the backup PVC of the namespace is gone", false, dies && m.backup != none && m.backupAt == atHome && !m.mounted(),
		(*model).loseBackupPVC)
	add("the backup PVC is gone", false, m.backup == dying1 && !m.mounted(), (*model).loseBackupPVC)
	add("the namespace is gone", false, dies && m.claim == none && !m.hasOwnXR() && m.pvc == none &&
		(m.backup == none || m.backupAt != atHome) && !m.handled(besideHome), func(w *model) { w.namespace = none })
}

func (m *model) loseBackupPVC() {
	pending := m.backupPending
	m.backup, m.backupRetained, m.backupPending = none, false, false
	for n := range m.instances {
		m.instances[n].jobMoved = m.instances[n].jobMoved || m.instances[n].job != none
		m.instances[n].image.losePVC(!pending && !m.volumes[m.backupOn].retained, m.backupOn)
	}
	if pending {
		return
	}
	if v := &m.volumes[m.backupOn]; v.retained {
		v.free = true
		return
	}
	for n := range m.instances {
		if l := &m.instances[n]; l.archivedOn == m.backupOn {
			l.archived, l.noted = 0, 0
		}
	}
	m.volumes[m.backupOn] = modelVolume{}
}

// backupIsHome reports whether the backup PVC is bound and in the instance's own namespace.
func (m model) backupIsHome() bool {
	return m.backup == alive1 && m.backupAt == atHome && !m.backupPending
}

// binds reports whether the PVC that an instance's data volume is bound to still exists. The volume must then not be
// reserved for another PVC, because the existing PVC would lose it permanently.
func (m model) binds(n int) bool {
	l := m.instances[n]
	if l.refPlace == atHome {
		return l.ref == refBound && m.pvc != none && int(m.pvcInstance) == n+1
	}
	return l.ref == refBound && l.handle != none && l.handlePlace == l.refPlace
}

// handled reports whether a PVC for the data of a deleted instance exists at this location.
func (m model) handled(place int8) bool {
	return slices.ContainsFunc(m.instances[:], func(l modelInstance) bool { return l.handle != none && l.handlePlace == place })
}

// mounted reports whether a pod of a Job prevents the deletion of the backup PVC. A terminated pod prevents it, too.
// A pod without a node does not, and the model does not contain such pods.
func (m model) mounted() bool {
	for _, l := range m.instances {
		if l.jobDone || l.image.done || l.restoreJob || l.erase == alive1 && !l.erased {
			return true
		}
	}
	return m.tries()
}

// check returns which invariant is violated, or "". Each acknowledged row must be on a retained volume or in a
// verified backup.
func (m model) check() string {
	for i, v := range m.volumes {
		bound := m.backup != none && int(m.backupOn) == i && m.backupAt == atHome && m.namespace == alive1
		if !m.allow && v.made > 0 && (v.owner != v.made || bound && v.made != m.current) {
			return "a later namespace has the backups of an earlier one, which nobody allowed"
		}
	}
	if m.broken != "" || m.truth == 0 {
		return m.broken
	}
	for _, l := range m.instances {
		if l.pv && l.rows == m.truth || (l.record == recordVerified || l.noted > 0) && l.archived > m.truth &&
			(l.toStore || m.volumes[l.archivedOn].made > 0) {
			return ""
		}
	}
	return "rows that were acknowledged are nowhere"
}

// leftOver returns which object of a deleted instance still exists, or "".
func (l modelInstance) leftOver() string {
	switch {
	case l.xr == none && l.held:
		return "volume's finalizer"
	case l.xr == none && l.service:
		return "Service"
	case l.xr == none && l.deployment != none:
		return "Deployment"
	case l.xr == none && l.restoreJob:
		return "Job of the restore"
	case l.handle != none:
		return "handle"
	case l.over() && l.image.record != recordNone && l.image.record != recordVerified:
		return "record of the image's backup"
	case l.xr == none && l.image.job != none:
		return "Job of the image's backup"
	}
	return ""
}

// stuck returns which operation is incomplete although no more events are possible, or "".
func (m model) stuck() string { //nolint:gocyclo // One line for each unfinished operation.
	if m.claim == dying1 {
		return "the claim is never gone"
	}
	if m.pvc != none && m.instances[m.pvcInstance-1].xr == none {
		return "the data PVC is never gone"
	}
	if m.namespace == dying1 {
		return "the namespace is never gone"
	}
	if m.trial.says != verdictNone {
		return "the restore test's Job is never gone"
	}
	for n, l := range m.instances {
		switch {
		case l.xr == dying1:
			return "the XR is never gone"
		case l.leftOver() != "":
			return "the " + l.leftOver() + " is never gone"
		case l.turn != turnNone && m.trial.job == none:
			return "the turn of a restore test is never over"
		case l.erase != none && l.record == recordNone:
			return "the erasing Job is never gone"
		case l.recordDying && l.over() && (!l.markedForRemoval || m.reaches(l)):
			return "the record is never gone"
		case l.xr == alive1 && m.namespace == alive1 && l.image.wanted && !l.image.served && l.pod:
			return "the image is never changed"
		case l.xr == alive1 && m.namespace == alive1 && l.image.asked && (l.image.answered == "" || l.image.isAnswering()) &&
			l.pod:
			return "the backup that is asked for comes to no end"
		case l.xr == alive1 && l.pod && (l.image.cloner || l.image.access):
			return "the account of a clone is never taken away"
		case l.wanted && l.noted > 0 && l.over():
			return "a person asked for a record, and it is never made"
		case l.record == recordVerified && l.noted != l.recordNo && !l.recordDying && !l.toStore:
			return "the volume does not know the backup"
		case l.xr == alive1 && (m.claim == alive1 || l.own) && !l.pod && m.namespace == alive1 && m.allowed(n) && l.previous >= 0 &&
			!m.waitsForRecord(n):
			return "the server never starts"
		}
	}
	return ""
}
