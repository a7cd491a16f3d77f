package main

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	fnv1 "github.com/crossplane/function-sdk-go/proto/v1"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/protobuf/proto"
)

// BenchmarkRunFunction measures one call for a running instance without changes.
func BenchmarkRunFunction(b *testing.B) {
	for _, example := range []string{"running", "restore-during", "hostpath"} {
		b.Run(example, func(b *testing.B) {
			req, _ := load(b, example).run(b)
			f := newFunction()
			b.ReportAllocs()
			for b.Loop() {
				if rsp, err := f.RunFunction(context.Background(), req); err != nil || fatal(rsp) != "" {
					b.Fatal(err, fatal(rsp))
				}
			}
		})
	}
}

// BenchmarkServer runs the function as a process and calls it over gRPC. It measures one caller, 64 concurrent
// callers, and the memory of the process after 100,000 calls.
func BenchmarkServer(b *testing.B) {
	const many, calls = 64, 100_000
	pid, conn := startServer(b)
	req, rsp := load(b, "running").run(b)
	message, err := proto.Marshal(req)
	if err != nil {
		b.Fatal(err)
	}
	b.Logf("a request of %d bytes, an answer of %d", len(message), proto.Size(rsp))
	callAll(b, conn, message, many, 2000) // Warm up.
	took, single := callAll(b, conn, message, 1, 3000)
	b.Logf("1 caller: %.0f calls/s, p50 %v, p99 %v", float64(len(single))/took.Seconds(), quantile(single, 50),
		quantile(single, 99))
	b.Logf("resident memory after %d calls: %d KiB", 5000, resident(b, pid))
	took, all := callAll(b, conn, message, many, calls-5000)
	b.Logf("%d callers: %.0f calls/s, p50 %v, p99 %v", many, float64(len(all))/took.Seconds(), quantile(all, 50),
		quantile(all, 99))
	b.Logf("resident memory after %d calls: %d KiB, at most %d KiB", calls, resident(b, pid), peak(b, pid))
}

// startServer builds the function and starts it on a free loopback port. The process is stopped when the benchmark
// ends.
func startServer(b *testing.B) (int, *grpc.ClientConn) {
	b.Helper()
	bin := filepath.Join(b.TempDir(), "function")
	if out, err := exec.CommandContext(b.Context(), "go", "build", "-o", bin, ".").CombinedOutput(); err != nil {
		b.Fatalf("cannot build the function: %v\n%s", err, out)
	}
	l, err := (&net.ListenConfig{}).Listen(b.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	address := l.Addr().String()
	_ = l.Close()
	cmd := exec.CommandContext(b.Context(), bin, "--insecure", "--address="+address)
	if err := cmd.Start(); err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	conn, err := grpc.NewClient(address, grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithDefaultCallOptions(grpc.WaitForReady(true), grpc.ForceCodec(wire{})))
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = conn.Close() })
	return cmd.Process.Pid, conn
}

// wire is a gRPC codec that passes encoded messages through unchanged, so that the load generator uses little CPU
// itself.
type wire struct{}

func (wire) Marshal(v any) ([]byte, error) { return *v.(*[]byte), nil }

func (wire) Unmarshal(data []byte, v any) error {
	*v.(*[]byte) = slices.Clone(data)
	return nil
}

func (wire) Name() string { return "proto" }

// call sends a message to the function and checks that the response is at least atLeast bytes long. A refusal is much
// shorter than a normal response.
func call(ctx context.Context, conn *grpc.ClientConn, message []byte, atLeast int) error {
	var answer []byte
	if err := conn.Invoke(ctx, fnv1.FunctionRunnerService_RunFunction_FullMethodName, &message, &answer); err != nil {
		return err
	}
	if len(answer) < atLeast {
		return fmt.Errorf("an answer of %d bytes, not of %d", len(answer), atLeast)
	}
	return nil
}

// callAll distributes the calls over concurrent callers. It returns the total time and the time of each call.
func callAll(b *testing.B, conn *grpc.ClientConn, message []byte, callers, calls int) (time.Duration, []time.Duration) {
	b.Helper()
	times := make([][]time.Duration, callers)
	begin := time.Now()
	wg := sync.WaitGroup{}
	for c := range callers {
		wg.Go(func() {
			for range calls / callers {
				t := time.Now()
				if err := call(b.Context(), conn, message, len(message)/2); err != nil {
					b.Error(err)
					return
				}
				times[c] = append(times[c], time.Since(t))
			}
		})
	}
	wg.Wait()
	took := time.Since(begin)
	all := slices.Concat(times...)
	slices.Sort(all)
	return took, all
}

func quantile(times []time.Duration, percent int) time.Duration {
	return times[min(len(times)*percent/100, len(times)-1)].Round(10 * time.Microsecond)
}

// resident returns the resident memory of a process, in KiB.
func resident(b *testing.B, pid int) int {
	b.Helper()
	return status(b, pid, "VmRSS:")
}

// peak returns the peak resident memory of a process, in KiB.
func peak(b *testing.B, pid int) int {
	b.Helper()
	return status(b, pid, "VmHWM:")
}

func status(b *testing.B, pid int, field string) int {
	b.Helper()
	text, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "status"))
	if err != nil {
		b.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		if f := strings.Fields(line); len(f) > 1 && f[0] == field {
			n, _ := strconv.Atoi(f[1])
			return n
		}
	}
	b.Fatal("no", field)
	return 0
}
