module github.com/crossplane-mysql/crossplane-mysql/test/install

go 1.26.0

require (
	github.com/alecthomas/kong v1.17.0
	github.com/crossplane-mysql/crossplane-mysql/test/cluster v0.0.0
	github.com/google/go-cmp v0.7.0
	github.com/google/go-containerregistry v0.21.9
)

require (
	github.com/docker/cli v29.6.2+incompatible // indirect
	github.com/docker/docker-credential-helpers v0.9.3 // indirect
	github.com/klauspost/compress v1.20.3 // indirect
	github.com/opencontainers/go-digest v1.0.0 // indirect
	github.com/opencontainers/image-spec v1.1.1 // indirect
	github.com/sirupsen/logrus v1.9.4 // indirect
	github.com/stretchr/testify v1.11.1 // indirect
	golang.org/x/sync v0.23.0 // indirect
	golang.org/x/sys v0.48.0 // indirect
)

replace github.com/crossplane-mysql/crossplane-mysql/test/cluster => ../cluster
