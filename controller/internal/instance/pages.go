package instance

import (
	"context"
	"fmt"

	kerrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// pageSize of lists, as kubectl has it.
const pageSize = 500

// A PagedReader reads lists in pages. The API server then keeps no more than a page of a list in memory for us.
type PagedReader struct{ client.Reader }

// List all pages. They are of one resourceVersion, so that no object is missed between two of them. Where the API server does not keep
// that version for as long as it takes, the list is read whole: a part of it must not be taken for all.
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

// A pagedClient reads lists in pages.
type pagedClient struct{ client.Client }

func (c pagedClient) List(ctx context.Context, list client.ObjectList, opts ...client.ListOption) error {
	return PagedReader{c.Client}.List(ctx, list, opts...)
}
