//go:build linux

package main

import (
	"context"
	"runtime"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/mutate"

	"github.com/crossplane-mysql/crossplane-mysql/test/cluster/image"
)

// mongo is the recipe of an image with FerretDB under the names of MongoDB, because there is no Debian package of
// MongoDB.
func (r recipes) mongo(context.Context) (image.Recipe, error) {
	mongod, err := r.Tool("mongod")
	if err != nil {
		return image.Recipe{}, err
	}
	sum, err := image.FileSum(mongod)
	if err != nil {
		return image.Recipe{}, err
	}
	return image.Recipe{
		Names:  []string{image.DockerHub + "mongo:8.0", image.DockerHub + "mongo:latest"},
		Inputs: []string{sum},
		Build: func(_ context.Context, dir string) (mutate.Appendable, error) {
			return mongoImage(dir, mongod)
		},
	}, nil
}

func mongoImage(dir, mongod string) (v1.Image, error) {
	w := image.NewLayer(dir)
	for _, d := range []string{"usr", "usr/local", "usr/local/bin", "data"} {
		w.Dir(d, 0o755, 0)
	}
	// A container may run with any user ID.
	for _, open := range []string{"tmp", "data/db"} {
		w.Dir(open, 0o1777, mysqlID)
	}
	w.Program("usr/local/bin/mongod", mongod)
	l, err := w.Close()
	if err != nil {
		return nil, err
	}
	return image.NewImage(runtime.GOARCH, v1.Config{
		Entrypoint:   []string{"mongod"},
		Env:          []string{image.SearchPath},
		ExposedPorts: map[string]struct{}{"27017/tcp": {}},
		Volumes:      map[string]struct{}{"/data/db": {}},
	}, l)
}
