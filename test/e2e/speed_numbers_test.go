//go:build bench

package e2e

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/crossplane-mysql/crossplane-mysql/test/e2e/framework"
)

// numberRounds is the number of times that each request is sent. The median of the times is printed.
const numberRounds = 20

// TestSpeedNumbers measures how long the API server takes to refuse a quantity, compared with accepting a valid one.
// It asserts only that the quantities are refused, because the times depend on the load of the machine.
func TestSpeedNumbers(t *testing.T) {
	s := framework.NewServer(t, framework.ClassComposition)
	s.Create(t)
	fmt.Printf("\n%-32s %-14s %10s %10s\n", "quantity, ms of the API server", "", "create", "patch")
	for _, path := range quantitiesOf(s) {
		for _, text := range []string{"2Gi", "1e-999", "1e-999999", "1e-9999999", "1e-999999999", "1e999999999"} {
			create := middleOf(func() error { return tryNewQuantity(t.Context(), s, path, text, client.DryRunAll) })
			patch := middleOf(func() error { return tryQuantity(t.Context(), s, path, text, client.DryRunAll) })
			if refused := text != "2Gi"; (create.err != nil) != refused || (patch.err != nil) != refused {
				t.Fatalf("%s: refused must be %t, got %v, %v", text, refused, create.err, patch.err)
			}
			fmt.Printf("%-32s %-14s %10.1f %10.1f\n", path[len(path)-1]+" in "+path[0], text, create.milliseconds,
				patch.milliseconds)
		}
	}
}

// A measured contains the median time of a request and its last error.
type measured struct {
	milliseconds float64
	err          error
}

func middleOf(request func() error) measured {
	times := make([]float64, numberRounds)
	var err error
	for i := range times {
		started := time.Now()
		err = request()
		times[i] = float64(time.Since(started).Microseconds()) / 1000
	}
	slices.Sort(times)
	return measured{milliseconds: times[len(times)/2], err: err}
}
