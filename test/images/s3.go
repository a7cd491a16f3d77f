//go:build linux

package main

import (
	"context"
	"runtime"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/mutate"

	"github.com/crossplane-mysql/crossplane-mysql/test/cluster/image"
)

// s3 is the recipe of versitygw, which the tests use as an S3 server.
func (r recipes) s3(context.Context) (image.Recipe, error) {
	program, err := r.Tool("versitygw")
	if err != nil {
		return image.Recipe{}, err
	}
	sum, err := image.FileSum(program)
	if err != nil {
		return image.Recipe{}, err
	}
	return image.Recipe{
		Names:  []string{image.DockerHub + "versitygw:v1.8.0"},
		Inputs: []string{sum},
		Build: func(_ context.Context, dir string) (mutate.Appendable, error) {
			return s3Image(dir, program)
		},
	}, nil
}

func s3Image(dir, program string) (v1.Image, error) {
	w := image.NewLayer(dir)
	for _, d := range []string{"usr", "usr/local", "usr/local/bin"} {
		w.Dir(d, 0o755, 0)
	}
	w.Dir("tmp", 0o1777, 0)
	w.Program("usr/local/bin/versitygw", program)
	l, err := w.Close()
	if err != nil {
		return nil, err
	}
	return image.NewImage(runtime.GOARCH, v1.Config{Entrypoint: []string{"versitygw"}, Env: []string{image.SearchPath}}, l)
}
