//go:build mysqld && bench && store

package archive

import (
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"filippo.io/age"
	"github.com/minio/minio-go/v7"
	"github.com/minio/minio-go/v7/pkg/credentials"
	"golang.org/x/sys/unix"

	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/gateway"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/store"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/test/storetest"
	"github.com/crossplane-mysql/crossplane-mysql/test/double/freeport"
)

// A storeSpeed measures backups to a store. It runs a store, and a backup gateway as a process of its own.
type storeSpeed struct {
	*speedTest

	settings store.Settings
	identity *age.X25519Identity
	signer   gateway.Signer
	gateway  *exec.Cmd
	url      string
	ca       []byte
}

// newStoreSpeed returns a storeSpeed with a running store.
func newStoreSpeed(t *testing.T) *storeSpeed {
	t.Helper()
	s := &storeSpeed{speedTest: newSpeedTest(t)}
	_, s.settings = storetest.Start(t)
	s.startGateway()
	return s
}

// TestSpeedStore measures an encrypted and verified backup to a store. It compares the backup with tar and mysqldump,
// which use the same data, store, encryption and upload libraries in the test's process.
func TestSpeedStore(t *testing.T) {
	s := newStoreSpeed(t)
	s.backup.name = "backup to a store, encrypted, proved"
	s.tar.name = "tar | zstd -1 -T0 | age | put, get, compare"
	s.dump.name = "mysqldump | zstd -1 | age | put"
	s.restore.name = "restore from a store; server start"
	s.prepare()
	for n := range speedRounds {
		s.start(t)
		s.send(&s.dump, fmt.Sprintf("dump-%d", n), s.mysqldump(), exec.CommandContext(t.Context(), "zstd", "-1"))
		s.stop(t)
		s.cold()
		s.tarToStore(fmt.Sprintf("tar-%d", n))
		s.cold()
		s.toStore(n)
		s.fromStore(n)
	}
	used := s.endGateway()
	fmt.Printf("%d MiB of InnoDB data of MySQL %s; the middle of %d; the gateway's memory at its largest %s MiB\n",
		s.size(t)>>20, s.version, speedRounds, mebis(used))
	fmt.Printf("%-46s %8s %8s %10s %12s\n", "", "seconds", "ratio", "size MiB", "memory MiB")
	for _, w := range []way{s.backup, s.tar, s.dump, s.restore} {
		fmt.Printf("%-46s %8.2f %8.2f %10s %12s  %.2f\n", w.name, w.middle(), w.middle()/s.backup.middle(), mebis(w.bytes),
			mebis(w.resident), w.seconds)
	}
}

// TestMemoryOfStore backs up and restores a data directory of 20 GiB, most of which is a sparse file. It prints the
// maximum memory of the agent and of the gateway.
func TestMemoryOfStore(t *testing.T) {
	s := newStoreSpeed(t)
	s.initialise(t)
	s.start(t)
	s.stop(t)
	f, err := os.Create(filepath.Join(s.volume, "data", "holes.ibd"))
	must(t, err)
	block := make([]byte, 1<<20)
	for gib := range int64(20) { // Each GiB contains one MiB that does not compress.
		_, _ = rand.Read(block) // It never fails.
		_, err := f.WriteAt(block, gib<<30)
		must(t, err)
	}
	must(t, f.Truncate(20<<30))
	must(t, f.Chown(unix.Getuid(), unix.Getgid()))
	must(t, f.Close())
	s.toStore(0)
	s.fromStoreTo(0, t.TempDir(), &s.restore)
	used := s.endGateway()
	fmt.Printf("20 GiB, sparse: backup %.0f s and %s MiB at its largest, restore %.0f s and %s MiB, gateway %s MiB\n",
		s.backup.middle(), mebis(s.backup.resident), s.restore.middle(), mebis(s.restore.resident), mebis(used))
}

// startGateway starts the gateway with the settings of its Deployment.
func (s *storeSpeed) startGateway() {
	var err error
	s.identity, err = age.GenerateX25519Identity()
	must(s.T, err)
	public, private, err := ed25519.GenerateKey(nil)
	must(s.T, err)
	s.signer = gateway.Signer(private)
	pattern := httptest.NewUnstartedServer(nil) // Its certificate is for this address.
	pattern.StartTLS()
	certificate := pattern.TLS.Certificates[0]
	pattern.Close()
	key, err := x509.MarshalPKCS8PrivateKey(certificate.PrivateKey)
	must(s.T, err)
	s.ca = pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: certificate.Certificate[0]})
	file, err := json.Marshal(gateway.File{
		Signers: []ed25519.PublicKey{public},
		Stores:  map[string]gateway.StoreFile{"offsite": {Settings: s.settings, Identity: s.identity.String()}},
	})
	must(s.T, err)
	dir := s.TempDir()
	for name, raw := range map[string][]byte{"stores.json": file, "tls.crt": s.ca,
		"tls.key": pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: key})} {
		must(s.T, os.WriteFile(filepath.Join(dir, name), raw, 0o600))
	}
	address := freeport.Address(freeport.Find(s.T))
	s.url = "https://" + address
	s.gateway = exec.CommandContext(s.Context(), s.agent, "gateway", "--settings", dir, "--address", address)
	s.gateway.Env = append(os.Environ(), "GOMEMLIMIT=90MiB") // The Deployment has the same value.
	must(s.T, s.gateway.Start())
	s.Cleanup(func() { _ = s.gateway.Process.Kill() })
	for range 100 {
		if c, err := tls.Dial("tcp", address, &tls.Config{InsecureSkipVerify: true}); err == nil { //nolint:gosec // It only checks whether the gateway listens.
			must(s.T, c.Close())
			return
		}
		time.Sleep(50 * time.Millisecond)
	}
	s.Fatal("the gateway does not listen")
}

// endGateway stops the gateway and returns its maximum memory.
func (s *storeSpeed) endGateway() int64 {
	must(s.T, s.gateway.Process.Signal(syscall.SIGTERM))
	_ = s.gateway.Wait() // Interrupted requests may cause an error.
	return s.gateway.ProcessState.SysUsage().(*syscall.Rusage).Maxrss << 10
}

// access returns a directory with the files of a Job's Secret.
func (s *storeSpeed) access(grant gateway.Grant, extra map[string][]byte) string {
	grant.Store = "offsite"
	token, err := s.signer.Sign(grant, time.Now().Add(time.Hour))
	must(s.T, err)
	dir := s.TempDir()
	files := map[string][]byte{gateway.URLFile: []byte(s.url), gateway.CAFile: s.ca, gateway.TokenFile: []byte(token)}
	for name, raw := range extra {
		files[name] = raw
	}
	for name, raw := range files {
		must(s.T, os.WriteFile(filepath.Join(dir, name), raw, 0o600))
	}
	return dir
}

func (s *storeSpeed) recordPrefix(n int) string { return fmt.Sprintf("v1/ns/xr/record-%d", n) }

func (s *storeSpeed) toStore(n int) {
	access := s.access(gateway.Grant{Prefix: s.recordPrefix(n)},
		map[string][]byte{RecipientsFile: []byte(s.identity.Recipient().String())})
	s.report = s.run(&s.backup, "backup", "--volume="+s.volume, "--object="+s.recordPrefix(n), "--access="+access,
		"--record=one", "--xr=uid", "--namespace=default", "--name=shop")
	s.backup.bytes = s.report.Size
}

// fromStore restores the backup from the store to a new volume, and starts a mysqld process on that volume.
func (s *storeSpeed) fromStore(n int) {
	next := defaultServer(s.T)
	w := way{}
	start := time.Now()
	s.fromStoreTo(n, next.volume, &w)
	next.start(s.T)
	next.must(s.T, firstQuery)
	s.restore.took(start)
	s.restore.resident = max(s.restore.resident, w.resident)
	next.stop(s.T)
	must(s.T, os.RemoveAll(next.volume))
}

func (s *storeSpeed) fromStoreTo(n int, volume string, w *way) {
	key := path.Join(s.recordPrefix(n), s.report.Archive)
	access := s.access(gateway.Grant{Object: key}, map[string][]byte{ManifestFile: s.report.Manifest})
	s.run(w, "restore", "--volume="+volume, "--object="+key, "--access="+access, "--sha256="+s.report.SHA256,
		"--source-version="+s.report.Version, "--source-clean", "--target-version="+targetVersion(s.T, s.version))
}

// s3 returns a plain S3 client for the store.
func (s *storeSpeed) s3() *minio.Client {
	u, err := url.Parse(s.settings.Endpoint)
	must(s.T, err)
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM([]byte(s.settings.CA))
	c, err := minio.New(u.Host, &minio.Options{
		Creds: credentials.NewStaticV4(s.settings.AccessKey, s.settings.SecretKey, ""), Secure: true, Region: "us-east-1",
		BucketLookup: minio.BucketLookupPath,
		Transport:    &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12}},
	})
	must(s.T, err)
	return c
}

// send encrypts and uploads the output of commands, and returns its checksum.
func (s *storeSpeed) send(w *way, key string, commands ...*exec.Cmd) [sha256.Size]byte {
	start := time.Now()
	sum := s.put(key, w, commands...)
	w.took(start)
	return sum
}

func (s *storeSpeed) put(key string, w *way, commands ...*exec.Cmd) [sha256.Size]byte {
	from, target := io.Pipe()
	hash := sha256.New()
	sent := make(chan error, 1)
	go func() {
		o, err := s.s3().PutObject(context.WithoutCancel(s.Context()), s.settings.Bucket, path.Join(s.settings.Prefix, key),
			io.TeeReader(from, hash), -1, minio.PutObjectOptions{PartSize: 16 << 20, NumThreads: 4})
		w.bytes = o.Size
		sent <- err
	}()
	encrypted, err := age.Encrypt(target, s.identity.Recipient())
	must(s.T, err)
	s.pipe(encrypted, commands...)
	must(s.T, encrypted.Close())
	must(s.T, target.Close())
	must(s.T, <-sent)
	return [sha256.Size]byte(hash.Sum(nil))
}

// tarToStore measures the same task with common tools: archive, upload, download, decrypt and unpack.
func (s *storeSpeed) tarToStore(key string) {
	start := time.Now()
	sum := s.put(key, &s.tar, s.tarCommand(), exec.CommandContext(s.Context(), "zstd", "-1", "-T0"))
	o, err := s.s3().GetObject(s.Context(), s.settings.Bucket, path.Join(s.settings.Prefix, key), minio.GetObjectOptions{})
	must(s.T, err)
	hash := sha256.New()
	clear, err := age.Decrypt(io.TeeReader(o, hash), s.identity)
	must(s.T, err)
	test := exec.CommandContext(s.Context(), "zstd", "-t")
	test.Stdin = clear
	if out, err := test.CombinedOutput(); err != nil {
		s.Fatalf("zstd -t: %v\n%s", err, out)
	}
	if [sha256.Size]byte(hash.Sum(nil)) != sum {
		s.Fatal("that is not what was sent")
	}
	must(s.T, o.Close())
	s.tar.took(start)
}
