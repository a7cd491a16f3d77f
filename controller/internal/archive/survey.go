package archive

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/crossplane-mysql/crossplane-mysql/apis/agent"
	v1 "github.com/crossplane-mysql/crossplane-mysql/apis/v1"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/datavolume"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/exit"
)

// maxSurveyed is the maximum number of directories that a survey reads on a volume.
const maxSurveyed = 1000

// A Survey reads the archives on a backup volume and changes nothing.
type Survey struct {
	// Volume is the mount path of the backup volume.
	Volume string
	// Output receives a line for each archive, in the format of agent.ParseFound.
	Output io.Writer
}

// Run runs the survey. The report contains the number of archives.
func (s *Survey) Run(ctx context.Context) (agent.Report, error) {
	return exit.Report(ctx, "survey", s.surveyDirs)
}

func (s *Survey) surveyDirs(ctx context.Context, r *agent.Report) error {
	dirs, err := os.ReadDir(s.Volume)
	if err != nil {
		return err
	}
	for _, d := range dirs {
		if !d.IsDir() || d.Name() == v1.RestoreTestDir || d.Name() == datavolume.LostAndFound {
			continue
		}
		if in, err := os.ReadDir(filepath.Join(s.Volume, d.Name())); err == nil && len(in) == 0 {
			continue // A backup failed before it wrote anything.
		}
		if r.Entries++; r.Entries > maxSurveyed {
			return fmt.Errorf("the volume has more than %d directories. Check that it is a backup volume", maxSurveyed)
		}
		found, err := s.lookAt(ctx, d.Name())
		if err != nil {
			return err
		}
		line, err := found.Line()
		if err != nil {
			return err
		}
		if _, err := fmt.Fprintln(s.Output, line); err != nil {
			return err
		}
	}
	return ctx.Err()
}

// lookAt examines one directory. It reports a fault of the directory as the Problem of the result. An error stops the
// survey.
func (s *Survey) lookAt(ctx context.Context, dir string) (*agent.Found, error) {
	out := &agent.Found{Dir: dir}
	m, err := s.readAll(ctx, filepath.Join(s.Volume, dir))
	if m != nil {
		size := resource.NewQuantity(m.Size, resource.DecimalSI)
		out.Record, out.FinishedAt = m.Record, m.FinishedAt
		out.Spec = v1.BackupRecordSpec{
			Instance: m.Instance, Image: m.Image, Version: m.Version, CleanShutdown: m.CleanShutdown, StorageSize: m.StorageSize,
			Number:  m.Number,
			Archive: &v1.Archive{Path: dir + "/" + m.Archive, SHA256: m.SHA256, Size: size.String(), DataBytes: m.DataBytes},
		}
	}
	switch {
	case ctx.Err() != nil:
		return nil, ctx.Err()
	case errors.Is(err, errNoManifest):
		out.Problem = errNoManifest.Error() + " in it"
	case err != nil:
		out.Problem = v1.PrintableText(err.Error(), v1.MaxForeignText)
	}
	return out, nil
}

// readAll verifies the archive in a directory. It gets the archive's name from the manifest.
func (s *Survey) readAll(ctx context.Context, dir string) (*archiveManifest, error) {
	m, err := readManifestIn(dir)
	if err != nil {
		return nil, err
	}
	err = verifyArchive(ctx, filepath.Join(dir, m.Archive), m.writtenArchive(), s.Output)
	if errors.Is(err, fs.ErrNotExist) {
		err = fmt.Errorf("its archive %s does not exist", m.Archive)
	}
	return m, err
}
