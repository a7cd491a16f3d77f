//go:build linux

package main

import (
	"context"
	"runtime"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/mutate"

	"github.com/crossplane-mysql/crossplane-mysql/test/cluster/image"
)

// exporter is the recipe of an image with mysqld_exporter, which servers with metrics run.
func (r recipes) exporter(context.Context) (image.Recipe, error) {
	program, err := r.Tool("exporter")
	if err != nil {
		return image.Recipe{}, err
	}
	sum, err := image.FileSum(program)
	if err != nil {
		return image.Recipe{}, err
	}
	return image.Recipe{
		Names:  []string{"docker.io/prom/mysqld-exporter:v0.19.0"},
		Inputs: []string{sum},
		Build: func(_ context.Context, dir string) (mutate.Appendable, error) {
			return exporterImage(dir, program)
		},
	}, nil
}

// exporterImage returns an image with the program at the path that it has in the official image.
func exporterImage(dir, program string) (v1.Image, error) {
	w := image.NewLayer(dir)
	w.Dir("bin", 0o755, 0)
	w.Program("bin/mysqld_exporter", program)
	l, err := w.Close()
	if err != nil {
		return nil, err
	}
	return image.NewImage(runtime.GOARCH, v1.Config{Entrypoint: []string{"/bin/mysqld_exporter"},
		Env: []string{image.SearchPath}, User: "65534"}, l)
}
