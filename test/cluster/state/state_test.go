package state

import (
	"context"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

func TestNew(t *testing.T) {
	root := t.TempDir()
	for name, ok := range map[string]bool{
		"dev": true, "e2e": true, "a": true, "a-2": true, "twenty-characters-ab": true,
		"": false, "Dev": false, "2": false, "a-": false, "a/b": false, "..": false, "twenty-one-characters": false,
	} {
		if _, err := New(root, name); (err == nil) != ok {
			t.Errorf("%q: want ok %t, got %v", name, ok, err)
		}
	}
}

// TestNamesKeepClustersApart checks that two clusters share no port, directory or cgroup.
func TestNamesKeepClustersApart(t *testing.T) {
	a, b := Cluster{Name: "dev", Root: "/r"}, Cluster{Name: "e2e", Root: "/r"}
	clone := Cluster{Name: "dev", Root: "/other"}
	aAPI, _ := a.Ports()
	for _, other := range []Cluster{b, clone} {
		api, registry := other.Ports()
		if api == aAPI || registry != api+1 || a.Dir() == other.Dir() || a.Cgroup() == other.Cgroup() {
			t.Errorf("%+v shares something with %+v", other, a)
		}
	}
	if second, _ := a.Ports(); second != aAPI {
		t.Errorf("want the same port each time, got %d and %d", aAPI, second)
	}
}

func TestProcess(t *testing.T) {
	c, err := New(t.TempDir(), "test")
	if err != nil {
		t.Fatal(err)
	}
	if _, running := c.Running(); running || c.Used() {
		t.Fatal("want a new cluster not to run")
	}
	cmd := exec.Command("sleep", "60") //nolint:noctx // It is killed below.
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	exited := make(chan struct{})
	go func() { _ = cmd.Wait(); close(exited) }()
	if err := c.Save(Process{PID: cmd.Process.Pid, API: 1}); err != nil {
		t.Fatal(err)
	}
	if p, running := c.Running(); !running || p.PID != cmd.Process.Pid || p.API != 1 {
		t.Errorf("want it to run, got %+v, %t", p, running)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	if err := c.Kill(ctx); err != nil {
		t.Fatal(err)
	}
	<-exited
	if _, running := c.Running(); running || !c.Used() {
		t.Error("want it not to run, but to be remembered")
	}
}

// thread is an environment variable. If it is set, the test binary becomes a process whose first thread has exited,
// while another thread keeps its files open.
const thread = "STATE_TEST_THREAD"

func init() { //nolint:gochecknoinits // Only an init function is guaranteed to run in the first thread.
	if os.Getenv(thread) == "" {
		return
	}
	runtime.LockOSThread()
	go func() {
		time.Sleep(time.Minute)
		os.Exit(1)
	}()
	if _, _, err := unix.RawSyscall(unix.SYS_EXIT, 0, 0, 0); err != 0 {
		os.Exit(1)
	}
}

// TestFirstThreadEnded checks that a process is considered running until its last thread has exited.
func TestFirstThreadEnded(t *testing.T) {
	c, err := New(t.TempDir(), "test")
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(os.Args[0]) //nolint:noctx // This is the test program itself, and it is killed below.
	cmd.Env = append(os.Environ(), thread+"=1")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	var stat procStat
	for range 1000 {
		if stat, err = readStat(cmd.Process.Pid); err != nil {
			t.Fatal(err)
		}
		if stat.state == "Z" {
			break
		}
		time.Sleep(10 * time.Millisecond)
	}
	if stat.state != "Z" || stat.threads == "1" {
		t.Fatalf("want a process whose first thread alone has ended, got %+v", stat)
	}
	if err := c.Save(Process{PID: cmd.Process.Pid}); err != nil {
		t.Fatal(err)
	}
	if _, running := c.Running(); !running {
		t.Error("want it to run as long as one of its threads does")
	}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	if err := c.Kill(ctx); err != nil {
		t.Fatal(err)
	}
	if _, running := c.Running(); running {
		t.Error("want it not to run")
	}
}

// TestOtherProcess checks that a process is not mistaken for the cluster's first process if only its process ID is
// the same. A reused ID is detected by the start time.
func TestOtherProcess(t *testing.T) {
	c, err := New(t.TempDir(), "test")
	if err != nil {
		t.Fatal(err)
	}
	if err := WriteFile(c.File(processFile), []byte(`{"pid":`+strconv.Itoa(os.Getpid())+`,"started":"1"}`)); err != nil {
		t.Fatal(err)
	}
	if _, running := c.Running(); running {
		t.Fatal("want another process not to be taken for the cluster")
	}
	if err := c.Kill(t.Context()); err != nil {
		t.Fatal(err)
	}
}

func TestLock(t *testing.T) {
	c, err := New(t.TempDir(), "test")
	if err != nil {
		t.Fatal(err)
	}
	unlock, err := c.Lock()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.Lock(); err == nil {
		t.Error("want a second command to be refused")
	}
	unlock()
	unlockAgain, err := c.Lock()
	if err != nil {
		t.Fatalf("want it to be free again: %v", err)
	}
	unlockAgain()
}
