// Package autogrow checks the rule by which a data volume grows, and calculates the size of the volume.
package autogrow

import (
	"fmt"

	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/validation/field"

	v1 "github.com/crossplane-mysql/crossplane-mysql/apis/v1"
)

// Check checks spec.storageAutogrow. size is the size in the spec, and sizeField is the name of its field. The size is
// zero if it is invalid or if the instance has no volume.
func Check(g *v1.StorageAutogrow, size resource.Quantity, sizeField string, path *field.Path) field.ErrorList {
	if g == nil {
		return nil
	}
	var errs field.ErrorList
	if _, err := g.ParseBelow(); err != nil {
		errs = append(errs, field.Forbidden(path.Child("below"), err.Error()))
	}
	if _, _, err := g.ParseBy(); err != nil {
		errs = append(errs, field.Forbidden(path.Child("by"), err.Error()))
	}
	limitPath := path.Child("to")
	if g.To == "" {
		return append(errs, field.Required(limitPath, "set it to the size up to which the volume grows, such as 100Gi"))
	}
	limit, err := v1.ParseSize(g.To)
	switch {
	case err != nil:
		errs = append(errs, field.Forbidden(limitPath, err.Error()))
	case size.Cmp(limit) > 0:
		errs = append(errs, field.Invalid(limitPath, g.To, fmt.Sprintf("is smaller than %s, which is %s. Set it to %s or more",
			sizeField, size.String(), size.String())))
	}
	return errs
}

// CheckLimit checks the size in the spec and the limit in spec.storageAutogrow against maxStorageSize of the Platform.
// It returns an error for each field that exceeds it.
func CheckLimit(p *v1.PlatformSpec, g *v1.StorageAutogrow, size resource.Quantity, sizeField string,
	spec *field.Path) (large, grows *field.Error, err error) {
	most, ok, err := p.LimitStorage()
	if !ok || err != nil {
		return nil, nil, err
	}
	refuse := func(path *field.Path, q resource.Quantity) *field.Error {
		return field.Forbidden(path, fmt.Sprintf("%s is more than the platform allows. Set it to at most %s (maxStorageSize of "+
			"%s %s)", q.String(), most.String(), v1.KindPlatform, v1.PlatformName))
	}
	if size.Cmp(most) > 0 {
		large = refuse(spec.Child(sizeField), size)
	}
	if g == nil {
		return large, nil, nil
	}
	if limit, err := v1.ParseSize(g.To); err == nil && limit.Cmp(most) > 0 {
		grows = refuse(spec.Child("storageAutogrow", "to"), limit)
	}
	return large, grows, nil
}

// Size returns the size of the data volume: the size in the spec, or the size to which the controller has grown the
// volume if that is larger. If the claim is deleted and created again, its manifest may still have the size from before
// the growth. With spec.storageAutogrow, a restored volume is therefore at least as large as the volume of its backup.
func Size(spec, grown, backup resource.Quantity, g *v1.StorageAutogrow, p *v1.PlatformSpec) resource.Quantity {
	size := spec
	if grown.Cmp(size) > 0 {
		size = grown
	}
	if g == nil || backup.Cmp(size) <= 0 {
		return size
	}
	limit, err := v1.ParseSize(g.To)
	if err != nil || backup.Cmp(limit) > 0 {
		return size
	}
	if most, ok, err := p.LimitStorage(); err != nil || ok && backup.Cmp(most) > 0 {
		return size
	}
	return backup
}
