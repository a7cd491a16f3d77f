package archive

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"github.com/crossplane-mysql/crossplane-mysql/apis/agent"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/exit"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/mysqld/foreign"
)

// openSource opens the data directory to import. It returns an error if the path is not a data directory, or if the
// directory contains another data directory.
func (i *Import) openSource() (*os.Root, error) {
	volume, err := os.OpenRoot(i.From)
	if err != nil {
		return nil, explainForeign(nil, err)
	}
	defer volume.Close() //nolint:errcheck // Nothing was written.
	within := cmp.Or(i.Within, ".")
	if err := checkPath(volume, within); err != nil {
		return nil, explainForeign(volume, err)
	}
	isData, err := foreign.IsDataDirectory(volume, within)
	if err == nil && !isData {
		err = suggestDirectory(volume, i.Within)
	}
	if err != nil {
		return nil, explainForeign(volume, err)
	}
	dir, err := volume.OpenRoot(within)
	if err != nil {
		return nil, explainForeign(volume, err)
	}
	if err := explainForeign(dir, checkNested(dir, i.Within)); err != nil {
		_ = dir.Close() // Nothing was written.
		return nil, err
	}
	return dir, nil
}

// checkPath returns an error if a path in the volume is not a directory, or contains a symbolic link. os.Root only
// refuses links that lead out of the volume. A link in the volume is refused as well, because another process could
// change its target during the copy.
func checkPath(volume *os.Root, name string) error {
	place := "."
	for part := range strings.SplitSeq(name, "/") {
		place = path.Join(place, part)
		info, err := volume.Lstat(place)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			return exit.With(agent.ExitMissing, "the volume to import has no directory %q. Set directory to the data "+
				"directory", name)
		case err != nil:
			return err
		case info.Mode().Type() == fs.ModeSymlink:
			return exit.With(agent.ExitSource, "%q on the volume to import is a symbolic link. Set directory to the "+
				"directory that it refers to, if that is on the same volume", place)
		case !info.IsDir():
			return exit.With(agent.ExitSource, "%q on the volume to import is not a directory. Set directory to the data "+
				"directory", place)
		}
	}
	return nil
}

// suggestDirectory returns an error for a directory that is not a data directory. The error names the data directories
// below it.
func suggestDirectory(volume *os.Root, within string) error {
	subject := "the root of the volume to import"
	if within != "" {
		subject = fmt.Sprintf("the directory %q of the volume to import", within)
	}
	subject += " is not a data directory, because it contains no ibdata1 with system tables"
	found, err := foreign.Find(volume, cmp.Or(within, "."))
	switch {
	case errors.Is(err, foreign.ErrTooMany):
		return exit.With(agent.ExitSource, "%s. It has too many directories to search. Create the claim again with "+
			"spec.restore.import.volume.directory set to the data directory", subject)
	case err != nil:
		return err
	case len(found) == 0:
		if dump := foreign.FindDump(volume, cmp.Or(within, ".")); dump != "" {
			return exit.With(agent.ExitSource, "%s. It contains the dump %.200q. To import a dump, upload it to a BackupStore, "+
				"and create the claim again with spec.restore.import.dump", subject, dump)
		}
		return exit.With(agent.ExitSource, "%s, and no directory below it is one. Create the claim again with pvcRef set to "+
			"the volume of a MySQL server", subject)
	case len(found) == 1:
		return exit.With(agent.ExitSource, "%s, but its directory %q is one. Create the claim again with "+
			"spec.restore.import.volume.directory: %[2]s", subject, found[0])
	}
	return exit.With(agent.ExitSource, "%s. It contains several data directories: %s. Create the claim again with "+
		"spec.restore.import.volume.directory set to one of them", subject, quoteNames(found))
}

// checkNested refuses a data directory that contains another one, because it is unknown which of them the user means.
func checkNested(dir *os.Root, within string) error {
	found, err := foreign.Nested(dir)
	if err != nil || len(found) == 0 {
		return err
	}
	place := "the root"
	if within != "" {
		place = fmt.Sprintf("the directory %q", within)
		for n, name := range found {
			found[n] = path.Join(within, name)
		}
	}
	return exit.With(agent.ExitSource, "the volume to import contains several data directories: %s, and in it %s. To import "+
		"an inner one, create the claim again with spec.restore.import.volume.directory set to it. To import the outer one, "+
		"move the inner ones out of it on a copy of the volume", place, quoteNames(found))
}

// maxNamed is the maximum number of data directories in a message.
const maxNamed = 5

func quoteNames(names []string) string {
	quoted := make([]string, 0, maxNamed)
	for _, name := range names[:min(len(names), maxNamed)] {
		quoted = append(quoted, fmt.Sprintf("%.100q", name))
	}
	text := strings.Join(quoted, ", ")
	if more := len(names) - maxNamed; more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return text
}

// explainForeign adds an exit code to the reason why data is unusable. It adds advice to a permission error, because
// the import may only read files that all users, its own user or one of its groups may read.
func explainForeign(dir *os.Root, err error) error {
	if unusable := new(foreign.UnusableError); errors.As(err, &unusable) {
		return exit.With(agent.ExitSource, "nothing is imported: %w", err)
	}
	if !errors.Is(err, fs.ErrPermission) { // The error may be nil.
		return err
	}
	return exit.With(agent.ExitFailed,
		"%w%s: except for hostPath volumes, the import reads files as user %d and as a member of the groups %s. Change "+
			"their owner (chown -R %[3]d:%[3]d). If their server still runs, do this on a copy of the volume",
		err, ownerOf(dir, err), agent.ServerUID, joinNumbers(append([]int64{agent.ServerUID}, agent.ImportGroups(false)...)))
}

// ownerOf returns who owns the file of an error, or the innermost directory above it that is accessible. It returns ""
// if this is unknown.
func ownerOf(dir *os.Root, err error) string {
	failed := new(fs.PathError)
	if dir == nil || !errors.As(err, &failed) {
		return ""
	}
	name := path.Clean(cmp.Or(strings.TrimPrefix(strings.TrimPrefix(failed.Path, dir.Name()), "/"), "."))
	info, err := dir.Lstat(name)
	for err != nil && name != "." {
		name = path.Dir(name)
		info, err = dir.Lstat(name)
	}
	if err != nil {
		return ""
	}
	stat, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return ""
	}
	return fmt.Sprintf(" (%.100q has owner %d, group %d and mode %04o)", name, stat.Uid, stat.Gid, info.Mode().Perm())
}

func joinNumbers(numbers []int64) string {
	slices.Sort(numbers)
	texts := make([]string, 0, len(numbers))
	for _, n := range numbers {
		texts = append(texts, strconv.FormatInt(n, 10))
	}
	return strings.Join(texts, ", ")
}
