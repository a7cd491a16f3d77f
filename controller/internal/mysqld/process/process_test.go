package process

import (
	"bufio"
	"io"
	"os/exec"
	"testing"
)

// TestStop checks that a program can handle the SIGTERM of Stop before it exits. Stop must return no error if the
// program has already exited.
func TestStop(t *testing.T) {
	lines, out := io.Pipe()
	p, err := Start(exec.CommandContext(t.Context(), "sh", "-c",
		"trap 'echo stops; exit 7' TERM; echo begins; while :; do sleep 0.01; done"), &Log{Out: out, All: true})
	if err != nil {
		t.Fatal(err)
	}
	defer p.Kill()
	output := bufio.NewReader(lines)
	if line, err := output.ReadString('\n'); err != nil || line != "begins\n" {
		t.Fatalf("It says %q, %v", line, err)
	}
	if err := p.Stop(); err != nil {
		t.Fatal(err)
	}
	if line, err := output.ReadString('\n'); err != nil || line != "stops\n" {
		t.Errorf("It says %q, %v", line, err)
	}
	<-p.Done
	if code := p.ProcessState.ExitCode(); code != 7 {
		t.Errorf("want it to end by itself with 7, got %d", code)
	}
	if err := p.Stop(); err != nil {
		t.Errorf("It has ended: %v", err)
	}
}
