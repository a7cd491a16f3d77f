package lifecycle

import (
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/crossplane-mysql/crossplane-mysql/apis/agent"
	v1 "github.com/crossplane-mysql/crossplane-mysql/apis/v1"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/backup"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/catalog"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/change"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/instance"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/restoretest"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/steps"
)

// A decision is the function Next, or a variant of it with a bug that the model must detect.
type decision func(*instance.State) steps.Step

// A second is the function restoretest.Next, or a variant of it with a bug that the model must detect.
type second func(*restoretest.State) restoretest.Step

// controller returns the possible events of the controller: one step of each instance. A crash and restart of the
// controller need no event, because they only delay a step.
func (m model) controller(t *testing.T, next decision, decideTest second, decide third) (out []move, held bool) {
	t.Helper()
	instances, err := m.gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range instances {
		step := next(s)
		held = held || step.Phase == v1.DeletionBlocked && step.Message != ""
		if !idle(step) {
			out = append(out, m.written("the controller does "+string(step.Action), step.Changes)...)
		}
	}
	subject, tests, err := m.restoreTestChanges(decideTest)
	if err != nil {
		t.Fatal(err)
	}
	archived, err := m.archived(decide)
	if err != nil {
		t.Fatal(err)
	}
	return slices.Concat(out, m.written(subject, tests), archived), held
}

// idle reports whether a step writes nothing that the model contains.
func idle(step steps.Step) bool {
	return step.Action == steps.Wait || step.Action == steps.NoOp || step.Action == steps.ReportPodFailure
}

// restoreTestChanges returns the next changes for a restore test. It returns none if the model runs no restore tests.
func (m model) restoreTestChanges(decideTest second) (subject string, changes []change.Change, err error) {
	if !m.testsRestores {
		return "", nil, nil
	}
	s, err := m.restoreTestState()
	if err != nil {
		return "", nil, err
	}
	step := decideTest(s)
	return "the controller does " + string(step.Action), step.Changes, nil
}

// explore tries all sequences of events until an invariant is violated. The returned trace is one of the shortest
// sequences that lead to the violation.
func explore(t *testing.T, next decision, decideTest second, decide third, start model) (states, held int,
	trace []string) {
	t.Helper()
	type way struct {
		from model
		name string
	}
	seen := map[model]way{start: {}}
	queue := []model{start}
	told := func(m model, reason string) []string {
		out := []string{reason}
		for ; seen[m].name != ""; m = seen[m].from {
			out = append(out, seen[m].name)
		}
		slices.Reverse(out)
		return out
	}
	for len(queue) > 0 {
		m := queue[0]
		queue = queue[1:]
		if reason := m.check(); reason != "" {
			return len(seen), held, told(m, reason)
		}
		ours, waits := m.controller(t, next, decideTest, decide)
		moves := slices.DeleteFunc(append(m.moves(), ours...), func(x move) bool { return x.next == m })
		if reason := m.stuck(); reason != "" && !slices.ContainsFunc(moves, func(x move) bool { return !x.user }) {
			if !waits {
				return len(seen), held, told(m, reason)
			}
			held++
		}
		for _, x := range moves {
			if _, ok := seen[x.next]; !ok {
				seen[x.next] = way{m, x.name}
				queue = append(queue, x.next)
			}
		}
	}
	return len(seen), held, nil
}

// modelStarts returns the start states of the model. Each has at most two instances and one or two faults.
func modelStarts() map[string]model {
	base := model{namespace: alive1, current: 1, creates: 2, deletes: 1, writes: 1}
	out := map[string]model{
		"delete":                   base,
		"failed backup":            base.with(func(m *model) { m.failures = 1 }),
		"backup PVC":               base.with(func(m *model) { m.backupDeletes = 1 }),
		"late":                     base.with(func(m *model) { m.late, m.failures = true, 1 }),
		"late, backup PVC":         base.with(func(m *model) { m.late, m.backupDeletes = true, 1 }),
		"data PVC":                 base.with(func(m *model) { m.claims = 1 }),
		"namespace":                base.with(func(m *model) { m.namespaces = 1; m.creates = 1 }),
		"namespace again, refused": base.with(func(m *model) { m.namespaces, m.remakes, m.deletes = 1, 1, 0 }),
		"namespace again, allowed": base.with(func(m *model) { m.namespaces, m.remakes, m.deletes, m.allow = 1, 1, 0, true }),
		"finalizers":               base.with(func(m *model) { m.strips = 1 }),
		"tested":                   base.with(func(m *model) { m.testsRestores, m.failures = true, 1 }),
		"required": base.with(func(m *model) {
			m.testsRestores, m.required, m.failures, m.relents, m.creates = true, true, 1, 1, 1
		}),
		"required, namespace": base.with(func(m *model) {
			m.testsRestores, m.required, m.relents, m.namespaces, m.deletes, m.creates = true, true, 1, 1, 0, 1
		}),
		"store":           base.with(func(m *model) { m.store, m.outages = true, 1 }),
		"store, failed":   base.with(func(m *model) { m.store, m.failures = true, 1 }),
		"store, copied":   base.with(func(m *model) { m.store, m.copies, m.creates = true, 1, 1 }),
		"store, data PVC": base.with(func(m *model) { m.store, m.claims, m.outages, m.creates = true, 1, 1, 1 }),
		"store, namespace again": base.with(func(m *model) {
			m.store, m.namespaces, m.remakes, m.deletes, m.allow = true, 1, 1, 0, true
		}),
		"image": base.with(func(m *model) { m.imageChanges, m.imageReverts, m.creates = 1, 1, 1 }),
		"image, late": base.with(func(m *model) {
			m.imageChanges, m.late, m.creates, m.failures, m.deletes = 1, true, 1, 1, 0
		}),
		"image, backup PVC": base.with(func(m *model) {
			m.imageChanges, m.backupDeletes, m.creates, m.deletes = 1, 1, 1, 0
		}),
		"image, data PVC": base.with(func(m *model) { m.imageChanges, m.claims, m.creates, m.deletes = 1, 1, 1, 0 }),
		"request":         base.with(func(m *model) { m.requests, m.failures, m.creates = 1, 1, 1 }),
		"request, late":   base.with(func(m *model) { m.requests, m.late, m.creates = 1, true, 1 }),
		"request, backup PVC": base.with(func(m *model) {
			m.requests, m.backupDeletes, m.creates, m.deletes = 1, 1, 1, 0
		}),
		"request, online": base.with(func(m *model) { m.requests, m.online, m.failures, m.creates = 1, true, 1, 1 }),
		"planned":         base.with(func(m *model) { m.requests, m.planned, m.failures, m.creates = 1, true, 1, 1 }),
		"request, online, late": base.with(func(m *model) {
			m.requests, m.online, m.late, m.backupDeletes, m.creates, m.deletes = 1, true, true, 1, 1, 0
		}),
		"request, data PVC": base.with(func(m *model) { m.requests, m.claims, m.creates, m.deletes = 1, 1, 1, 0 }),
		"claim and more":    base.with(func(m *model) { m.claims, m.strips = 1, 1; m.creates = 1 }),
	}
	if os.Getenv("ALL") != "" { // Combinations of the faults above, which take some minutes.
		out["store, namespace"] = base.with(func(m *model) { m.store, m.namespaces, m.outages, m.creates = true, 1, 1, 1 })
		out["store, finalizers"] = base.with(func(m *model) { m.store, m.strips = true, 1 })
		out["two deletes"] = base.with(func(m *model) { m.deletes, m.writes = 2, 2 })
		out["finalizers, namespace"] = base.with(func(m *model) { m.strips, m.namespaces, m.creates = 1, 1, 1 })
		out["image, failed"] = base.with(func(m *model) {
			m.imageChanges, m.imageReverts, m.failures, m.creates = 1, 1, 1, 1
		})
		out["image, finalizers"] = base.with(func(m *model) { m.imageChanges, m.strips, m.creates = 1, 1, 1 })
		out["image, namespace"] = base.with(func(m *model) { m.imageChanges, m.namespaces, m.creates = 1, 1, 1 })
		out["request, online, namespace"] = base.with(func(m *model) {
			m.requests, m.online, m.namespaces, m.creates, m.deletes, m.writes = 1, true, 1, 1, 0, 0
		})
		out["request, online, data PVC"] = base.with(func(m *model) {
			m.requests, m.online, m.claims, m.creates, m.deletes = 1, true, 1, 1, 1
		})
		out["planned, online"] = base.with(func(m *model) {
			m.requests, m.planned, m.online, m.failures, m.creates = 1, true, true, 1, 1
		})
		out["request, finalizers"] = base.with(func(m *model) { m.requests, m.strips, m.creates = 1, 1, 1 })
		out["request, namespace"] = base.with(func(m *model) { m.requests, m.namespaces, m.creates = 1, 1, 1 })
		out["late, data PVC"] = base.with(func(m *model) { m.late, m.claims = true, 1 })
		out["late, namespace"] = base.with(func(m *model) { m.late, m.namespaces, m.creates = true, 1, 1 })
		out["late, finalizers"] = base.with(func(m *model) { m.late, m.strips = true, 1 })
	}
	return out
}

// mayWait reports whether an instance may wait for manual action. It may do so after a user deleted a PVC with data.
// It may also do so if a required restore test cannot run because the namespace is being deleted.
func (m model) mayWait() bool { return m.claims > 0 || m.required && m.namespaces > 0 }

// TestModel checks all orders of events. No acknowledged row is lost, and no server starts without its rows. Each
// operation completes or reports what a user must do.
func TestModel(t *testing.T) {
	t.Parallel()
	for name, start := range modelStarts() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			states, held, trace := explore(t, Next, restoretest.Next, catalog.NextOfArchives, start)
			if trace != nil {
				t.Errorf("after %d states:\n%s", states, strings.Join(trace, "\n"))
			}
			if held > 0 && !start.mayWait() {
				t.Errorf("%d states wait for a person, who has done nothing wrong", held)
			}
			t.Logf("%d states, of which %d wait for a person", states, held)
		})
	}
}

// A bug is a deliberate error in the function Next or restoretest.Next. The model must detect it.
type bug struct {
	reason     string
	start      string
	next       decision
	decideTest second
}

// bugsOfRestoreTest returns deliberate errors in the decisions about restore tests, which the model must detect.
func bugsOfRestoreTest() map[string]bug {
	return map[string]bug{
		"doubt": {reason: "The controller treats a restore test without a result as passed.", start: "required",
			decideTest: func(s *restoretest.State) restoretest.Step {
				for container, r := range s.Reports {
					if r.ExitCode == 1 {
						s.Reports[container] = agent.Report{OK: true}
					}
				}
				return restoretest.Next(s)
			}},
		"no other try": {reason: "A single failed restore test keeps the data forever.", start: "required",
			decideTest: func(s *restoretest.State) restoretest.Step {
				if s.Record != nil && len(s.Record.Status.Conditions) > 0 && s.Job == nil {
					return restoretest.Step{Action: restoretest.NoOp}
				}
				return restoretest.Next(s)
			}},
		"restore test first": {reason: "A restore test blocks the backup volume of an instance that is to be restored.",
			start: "tested",
			decideTest: func(s *restoretest.State) restoretest.Step {
				if step := restoretest.Next(s); s.Home != nil || step.Action == restoretest.Start {
					return step
				}
				return restoretest.Step{Action: restoretest.NoOp}
			}},
		"Job left": {reason: "The finished Job of a restore test is never deleted.", start: "tested",
			decideTest: func(s *restoretest.State) restoretest.Step {
				if step := restoretest.Next(s); step.Action != restoretest.Remove {
					return step
				}
				return restoretest.Step{Action: restoretest.NoOp}
			}},
	}
}

// bugsOfBlockedClaims returns bugs that leave a PVC in use by a terminated pod.
func bugsOfBlockedClaims() map[string]bug {
	return map[string]bug{
		"held by a pod": {reason: "The pod of a finished backup blocks the deletion of the backup PVC forever.",
			start: "backup PVC", next: func(s *instance.State) steps.Step {
				if step := Next(s); step.Action != steps.DeleteObjects || !steps.IsGoing(s.BackupPVC) || s.BackupJob == nil {
					return step
				}
				return steps.Step{Action: steps.Wait}
			}},
		"held by a restore": {reason: "The pod of a finished restore blocks the deletion of the data PVC forever.",
			start: "data PVC", next: func(s *instance.State) steps.Step {
				if s.XR != nil && !s.XR.IsDeleting() {
					s.RestoreJob = nil
				}
				return Next(s)
			}},
	}
}

// bugsOfImages returns bugs that start another image without a backup, or leave objects behind after an image change.
func bugsOfImages() map[string]bug {
	return map[string]bug{
		"image without proof": {reason: "A server of another release series starts on data that has no backup.",
			start: "image", next: func(s *instance.State) steps.Step {
				if step := Next(s); step.Action != steps.CreateBackupJob || s.IsDeleting() {
					return step
				}
				return withChanges(s, steps.Step{Action: steps.AllowImage})
			}},
		"image beside a server": {reason: "The data is copied although the Deployment may still start a server.",
			start: "image, data PVC",
			next: func(s *instance.State) steps.Step {
				if s.Attempt().Origin == v1.OriginImageChange {
					s.Deployment = nil
				}
				return Next(s)
			}},
		"image kept": {reason: "The controller never ends an image change, not even a canceled one.", start: "image",
			next: func(s *instance.State) steps.Step {
				if s.Attempt().Origin == v1.OriginImageChange && s.XR.Status.PendingImage == "" {
					return steps.Step{Action: steps.NoOp}
				}
				return Next(s)
			}},
		"image overtaken": {reason: "A deletion leaves an unfinished backup that is never completed.", start: "image",
			next: func(s *instance.State) steps.Step {
				if step := Next(s); step.Action != steps.DeleteUnprovenBackup || !s.IsDeleting() {
					return step
				}
				s.Records = slices.DeleteFunc(s.Records, func(r v1.BackupRecord) bool {
					return r.Spec.Origin == v1.OriginImageChange
				})
				return Next(s)
			}},
		"image's Job": {reason: "A deletion treats the Job of an image change as its own.", start: "image",
			next: func(s *instance.State) steps.Step {
				if !s.IsDeleting() || len(s.MisplacedJobs) == 0 {
					return Next(s)
				}
				s.MisplacedJobs = nil
				return Next(s)
			}},
	}
}

// bugsOfRequests returns bugs that keep a server stopped, or copy the data while the server runs.
func bugsOfRequests() map[string]bug {
	return map[string]bug{
		"request beside a server": {reason: "The data is copied for a requested backup while a server may run.",
			start: "request",
			next: func(s *instance.State) steps.Step {
				if a := s.Attempt(); a.IsAnswer() {
					s.Deployment, s.Pods = nil, nil
				}
				return Next(s)
			}},
		"request for ever": {reason: "A backup that cannot be taken keeps the server stopped forever.", start: "request",
			next: func(s *instance.State) steps.Step {
				if step := Next(s); step.Action != steps.GiveUpBackup {
					return step
				}
				return steps.Step{Action: steps.Wait}
			}},
		"planned, and not taken": {reason: "A scheduled backup that is due is never started.", start: "planned",
			next: func(s *instance.State) steps.Step {
				if step := Next(s); step.Action != steps.BeginBackup {
					return step
				}
				return withChanges(s, steps.Step{Action: steps.PlanBackups})
			}},
		"clone for ever": {reason: "The account for a clone is never removed from the server.", start: "request, online",
			next: func(s *instance.State) steps.Step {
				step := Next(s)
				step.Changes = slices.DeleteFunc(step.Changes, func(c change.Change) bool { return c.Verb == change.WithdrawClone })
				return step
			}},
		"request overtaken": {reason: "A deletion leaves the Job of a requested backup.", start: "request",
			next: func(s *instance.State) steps.Step {
				if s.IsDeleting() {
					s.MisplacedJobs = nil
				}
				return Next(s)
			}},
	}
}

// bugsOfFinalizers returns bugs that remove finalizers of other controllers.
func bugsOfFinalizers() map[string]bug {
	return map[string]bug{
		"not ours": {reason: "The controller removes the finalizer of Crossplane.",
			start: "delete", next: func(s *instance.State) steps.Step {
				step := Next(s)
				if s.XR != nil && s.XR.IsDeleting() && s.XR.IsComposing() {
					step.Changes = []change.Change{
						change.PatchObject(s.XR.Unstructured, func(u *unstructured.Unstructured) {
							u.SetFinalizers([]string{v1.Finalizer})
						})}
				}
				return step
			}},
	}
}

// TestModelFindsBugs checks that the model detects bugs in Next and in restoretest.Next.
func TestModelFindsBugs(t *testing.T) {
	t.Parallel()
	bugs := map[string]bug{
		"foreign note": {reason: "The controller accepts the catalog entry of another cluster with the same objects.",
			start: "store, copied", next: func(s *instance.State) steps.Step {
				if n := s.ForeignEntry(); n != nil && s.XR != nil {
					s.XR.SetAnnotations(map[string]string{v1.AnnotationPublished: n.PublishedArchive()})
				}
				return Next(s)
			}},
		"no proof": {reason: "The controller releases data that has no verified backup.", start: "delete",
			next: func(s *instance.State) steps.Step {
				if r := s.Record(); r != nil && r.Status.Phase == v1.BackupPending {
					r.Status.Phase = v1.BackupVerified
				}
				return Next(s)
			}},
		"no fence": {reason: "The controller copies the data while a server is running.",
			start: "delete", next: func(s *instance.State) steps.Step {
				if s.IsDeleting() && s.Record() != nil {
					s.Deployment, s.Pods = nil, nil
				}
				return Next(s)
			}},
		"no announcement": {reason: "The next instance starts without the data of an instance that lost its XR.",
			start: "finalizers",
			next: func(s *instance.State) steps.Step {
				if s.Orphan != nil {
					return steps.Step{Action: steps.NoOp}
				}
				s.PredecessorTerminating = false
				return Next(s)
			}},
		"superseded": {reason: "The controller does not delete an orphaned XR, so the next instance waits forever.",
			start: "finalizers", next: func(s *instance.State) steps.Step {
				s.OrphanedFromClaim = false
				return Next(s)
			}},
		"name first": {reason: "The controller never removes the finalizer of the claim.",
			start: "delete", next: func(s *instance.State) steps.Step {
				if step := Next(s); step.Action != steps.RemoveClaimFinalizer {
					return step
				}
				return steps.Step{Action: steps.NoOp}
			}},
		"no word": {reason: "The controller adopts the backups of a previous namespace without permission.",
			start: "namespace again, refused",
			next: func(s *instance.State) steps.Step {
				step := Next(s)
				if s.XR != nil && !s.XR.IsDeleting() && s.BackupPVC == nil && isUndecided(s) {
					s.EarlierBackupPV = backupsOn(backupPVNames[0], "ns-1")
					step, _ = decideAdoption(s)
					return withChanges(s, step)
				}
				return step
			}},
		"in the way": {reason: "The backup PVC is created too early, so the restore does not find its archive.",
			start: "namespace again, allowed", next: func(s *instance.State) steps.Step {
				if step := Next(s); s.XR == nil || s.XR.IsDeleting() || s.DataPVC == nil || s.BackupPVC != nil || !isUndecided(s) {
					return step
				}
				return withChanges(s, steps.Step{Action: steps.CreateBackupPVC})
			}},
		"not required": {reason: "The controller releases data whose backup has not passed the required restore test.",
			start: "required",
			next: func(s *instance.State) steps.Step {
				if r := s.Record(); r != nil {
					r.Status.Conditions = []metav1.Condition{{Type: v1.ConditionRestorable, Status: metav1.ConditionTrue}}
				}
				return Next(s)
			}},
		"policy first": {reason: "The data volume gets its reclaim policy back before its backup is verified.",
			start: "delete",
			next: func(s *instance.State) steps.Step {
				step := Next(s)
				if step.Action == steps.RecordBackup && s.DataPV != nil {
					step.Changes = append(releaseDataPV(s, step), step.Changes...)
				}
				return step
			}},
		"volume not kept": {reason: "The controller releases a data PVC whose volume is then deleted with it.",
			start: "data PVC",
			next: func(s *instance.State) steps.Step {
				step := Next(s)
				if step.Action == steps.RetainDataPV && s.DataPVC != nil && s.DataPVC.DeletionTimestamp != nil {
					return withChanges(s, backup.DeletePVCStep(s.DataPVC, steps.Step{}))
				}
				return step
			}},
	}
	maps.Copy(bugs, bugsOfRestoreTest())
	maps.Copy(bugs, bugsOfBlockedClaims())
	maps.Copy(bugs, bugsOfImages())
	maps.Copy(bugs, bugsOfRequests())
	maps.Copy(bugs, bugsOfFinalizers())
	for name, bug := range bugs {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			leavesToAll(t)
			if bug.next == nil {
				bug.next = Next
			}
			if bug.decideTest == nil {
				bug.decideTest = restoretest.Next
			}
			start := modelStarts()[bug.start]
			states, held, trace := explore(t, bug.next, bug.decideTest, catalog.NextOfArchives, start)
			if trace == nil && (held == 0 || start.mayWait()) {
				t.Errorf("%s It is not found in %d states", bug.reason, states)
			}
		})
	}
}
