package image

import "context"

// MySQL is the name of the image with the real server.
const MySQL = DockerHub + "mysql:9.7"

// Rootfs lays the files of the MySQL server's image out in a new folder, for tests that run mysqld without a cluster.
func (b *Builder) Rootfs(ctx context.Context, dir string) error {
	if _, err := b.Ensure(ctx, b.mysql); err != nil {
		return err
	}
	return b.Unpack(ctx, MySQL, dir)
}
