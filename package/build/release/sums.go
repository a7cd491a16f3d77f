package main

import (
	"bufio"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// sumsFile is a file with one line for each file of a release, in the format of sha256sum --check.
const sumsFile = "SHA256SUMS"

func writeSums(dir string) error {
	files, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	var out strings.Builder
	for _, f := range files {
		content, err := os.ReadFile(filepath.Join(dir, f.Name()))
		if err != nil {
			return err
		}
		fmt.Fprintf(&out, "%s  %s\n", sumOf(content), f.Name())
	}
	return os.WriteFile(filepath.Join(dir, sumsFile), []byte(out.String()), 0o644)
}

func sumOf(content []byte) string {
	sum := sha256.Sum256(content)
	return hex.EncodeToString(sum[:])
}

// checkSums checks that a directory contains exactly the files of the release, and that each file has its checksum.
func checkSums(dir string) error {
	f, err := os.Open(filepath.Join(dir, sumsFile))
	if err != nil {
		return fmt.Errorf("the directory is not a release: %w", err)
	}
	defer f.Close() //nolint:errcheck // The file was only read.
	listed := map[string]bool{sumsFile: true}
	lines := bufio.NewScanner(f)
	for lines.Scan() {
		sum, file, ok := strings.Cut(lines.Text(), "  ")
		if !ok {
			return fmt.Errorf("%s contains a line without a file name: %q", sumsFile, lines.Text())
		}
		content, err := os.ReadFile(filepath.Join(dir, filepath.FromSlash(file)))
		if err != nil {
			return err
		}
		if sumOf(content) != sum {
			return fmt.Errorf("%s differs from the released file", file)
		}
		listed[file] = true
	}
	if err := lines.Err(); err != nil {
		return err
	}
	existing, err := os.ReadDir(dir)
	for _, d := range existing {
		if !listed[d.Name()] {
			return fmt.Errorf("%s is not part of the release", d.Name())
		}
	}
	return err
}
