package instance

import (
	"context"
	"fmt"

	kerrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// pageSize is the page size of lists. kubectl uses the same value.
const pageSize = 500

// A PagedReader reads lists in pages, so that the API server keeps at most one page in memory for a request.
type PagedReader struct{ client.Reader }

// List reads all pages. They have the same resourceVersion, so that no object is missed between two pages. If the API
// server compacts this version too early, List reads the whole list at once. An incomplete list must not be treated
// as complete.
func (r PagedReader) List(ctx context.Context, list client.ObjectList, opts ...client.ListOption) error {
	if asked := (&client.ListOptions{}).ApplyOptions(opts); asked.Limit > 0 || asked.Continue != "" {
		return r.Reader.List(ctx, list, opts...)
	}
	var all []runtime.Object
	for token := ""; ; token = list.GetContinue() {
		page, ok := list.DeepCopyObject().(client.ObjectList)
		if !ok {
			return fmt.Errorf("cannot copy a %T", list)
		}
		page.SetContinue("")
		err := r.Reader.List(ctx, page, append(opts[:len(opts):len(opts)], client.Limit(pageSize), client.Continue(token))...)
		if kerrors.IsResourceExpired(err) && token != "" {
			return r.Reader.List(ctx, list, opts...)
		}
		if err != nil {
			return err
		}
		items, err := meta.ExtractList(page)
		if err != nil {
			return err
		}
		all = append(all, items...)
		list.SetResourceVersion(page.GetResourceVersion())
		if list.SetContinue(page.GetContinue()); page.GetContinue() == "" {
			return meta.SetList(list, all)
		}
	}
}

// A pagedClient is a client that reads lists in pages.
type pagedClient struct{ client.Client }

func (c pagedClient) List(ctx context.Context, list client.ObjectList, opts ...client.ListOption) error {
	return PagedReader{c.Client}.List(ctx, list, opts...)
}
