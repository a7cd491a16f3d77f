package instance

import (
	"context"
	"strconv"
	"testing"

	corev1 "k8s.io/api/core/v1"
	kerrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// A bookOfPages serves a list of the given size in pages. Reads that continue at the item expired or later fail,
// because their continue token has expired.
type bookOfPages struct {
	client.Reader

	size, expired int
	asked         []int64
}

func (b *bookOfPages) List(_ context.Context, target client.ObjectList, opts ...client.ListOption) error {
	o := (&client.ListOptions{}).ApplyOptions(opts)
	b.asked = append(b.asked, o.Limit)
	from, _ := strconv.Atoi(o.Continue)
	if b.expired > 0 && from >= b.expired {
		return kerrors.NewResourceExpired("too old")
	}
	end := b.size
	if o.Limit > 0 {
		end = min(b.size, from+int(o.Limit))
	}
	for i := from; i < end; i++ {
		switch l := target.(type) {
		case *corev1.PodList:
			l.Items = append(l.Items, corev1.Pod{})
			l.Items[len(l.Items)-1].Name = strconv.Itoa(i)
		case *unstructured.UnstructuredList:
			u := unstructured.Unstructured{Object: map[string]any{}}
			u.SetName(strconv.Itoa(i))
			l.Items = append(l.Items, u)
		}
	}
	if end < b.size {
		target.SetContinue(strconv.Itoa(end))
	}
	return nil
}

// TestListsArePaged checks that all pages form one list, and that a list is read as a whole if its pages expire.
func TestListsArePaged(t *testing.T) {
	for name, tc := range map[string]struct{ size, expired, calls int }{
		"Empty":   {calls: 1},
		"One":     {size: pageSize, calls: 1},
		"Three":   {size: 2*pageSize + 1, calls: 3},
		"Expired": {size: 3 * pageSize, expired: pageSize, calls: 3},
	} {
		for _, list := range []client.ObjectList{&corev1.PodList{}, &unstructured.UnstructuredList{}} {
			b := &bookOfPages{size: tc.size, expired: tc.expired}
			if err := (PagedReader{b}).List(t.Context(), list); err != nil {
				t.Fatal(name, err)
			}
			seen := map[string]bool{}
			switch l := list.(type) {
			case *corev1.PodList:
				for i := range l.Items {
					seen[l.Items[i].Name] = true
				}
			case *unstructured.UnstructuredList:
				for i := range l.Items {
					seen[l.Items[i].GetName()] = true
				}
			}
			if len(seen) != tc.size || len(b.asked) != tc.calls || b.asked[0] != pageSize {
				t.Errorf("%s: want %d objects in %d calls, got %d, %v", name, tc.size, tc.calls, len(seen), b.asked)
			}
		}
	}
}
