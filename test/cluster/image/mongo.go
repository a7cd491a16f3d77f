package image

import (
	"context"
	"runtime"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
)

// mongo is FerretDB under the names of MongoDB, of which there is no package.
func (b *Builder) mongo(context.Context) (recipe, error) {
	mongod, err := b.tool("mongod")
	if err != nil {
		return recipe{}, err
	}
	sum, err := fileSum(mongod)
	if err != nil {
		return recipe{}, err
	}
	return recipe{
		names:  []string{dockerHub + "mongo:8.0", dockerHub + "mongo:latest"},
		inputs: []string{sum},
		build: func(_ context.Context, dir string) (mutate.Appendable, error) {
			return mongoImage(dir, mongod)
		},
	}, nil
}

func mongoImage(dir, mongod string) (v1.Image, error) {
	w := newLayer(dir)
	for _, d := range []string{"usr", "usr/local", "usr/local/bin", "data"} {
		w.dir(d, 0o755, 0)
	}
	// Containers may run as any account.
	for _, open := range []string{"tmp", "data/db"} {
		w.dir(open, 0o1777, mysqlID)
	}
	w.program("usr/local/bin/mongod", mongod)
	l, err := w.close()
	if err != nil {
		return nil, err
	}
	return newImage(runtime.GOARCH, v1.Config{
		Entrypoint:   []string{"mongod"},
		Env:          []string{searchPath},
		ExposedPorts: map[string]struct{}{"27017/tcp": {}},
		Volumes:      map[string]struct{}{"/data/db": {}},
	}, l)
}
